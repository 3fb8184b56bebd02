"""Host arrays padded to the size of their axis."""

from collections.abc import Iterable
from typing import Any

import numpy as np

Leaf = Any  # a numpy array, where the tensors have one of jax


def column(values: Iterable[Any] | np.ndarray, size: int, padding: Any, dtype: type) -> Leaf:
    """`values` at the start of an axis of `size` entries, `padding` in the others."""
    padded: np.ndarray = np.full(size, padding, dtype)
    entries = values if isinstance(values, np.ndarray) else list(values)
    padded[: len(entries)] = entries
    return padded


def corner(values: np.ndarray, shape: tuple[int, ...], padding: Any) -> Leaf:
    """`values` in the corner of an array of `shape`, `padding` in the rest."""
    padded = np.full(shape, padding, values.dtype)
    padded[tuple(slice(size) for size in values.shape)] = values
    return padded


def starts(counts: np.ndarray) -> np.ndarray:
    """Where each of several runs begins that follow each other."""
    return np.cumsum(counts) - counts
