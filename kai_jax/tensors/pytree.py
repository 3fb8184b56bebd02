"""One decorator: a frozen dataclass that jax can carry."""

from dataclasses import dataclass
from typing import TypeVar, dataclass_transform

import jax

T = TypeVar("T")


@dataclass_transform(frozen_default=True)
def pytree(cls: type[T]) -> type[T]:
    """Frozen dataclass registered as a pytree; every field is a child."""
    return jax.tree_util.register_dataclass(dataclass(frozen=True)(cls))
