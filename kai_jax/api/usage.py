"""Past usage of queues, as a file gives it: per queue the part of the cluster that it had (spec 02 §8)."""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from kai_jax.api.objects import Wire
from kai_jax.api.plain import InputError, describe, load_yaml

Usage = Mapping[str, tuple[float, float, float]]  # cpu, memory and gpu by name of queue, each normally in [0,1]

NO_USAGE: Usage = {}

T = TypeVar("T")


class _Parts(Wire, frozen=True, forbid_unknown_fields=True):
    cpu: float = 0.0
    memory: float = 0.0
    gpu: float = 0.0


def read_usage(path: Path) -> Usage:
    """Usage in a YAML or JSON file such as `team-a: {gpu: 0.4, cpu: 0.1}`; what is absent is 0.

    Raises InputError for a file that cannot be read, another field, and a part that is not a number from 0 on.
    """
    try:
        documents = load_yaml(path.read_bytes())
        if len(documents) != 1:
            raise InputError(f"expected one YAML document, found {len(documents)}")
        return {name: _parts(name, written) for name, written in _convert(documents[0], dict[str, Any]).items()}
    except OSError as error:
        raise InputError(f"{path}: {error.strerror or error}") from error
    except InputError as error:
        raise InputError(f"{path}: {error}") from error


def _parts(name: str, written: Any) -> tuple[float, float, float]:
    try:
        parts = _convert(written, _Parts)
        for field in parts.__struct_fields__:
            value = getattr(parts, field)
            if not (math.isfinite(value) and value >= 0):
                raise InputError(f"{field}: expected a number from 0 on, found {value}")
    except InputError as error:
        raise InputError(f"queue {name}: {error}") from error
    return parts.cpu, parts.memory, parts.gpu


def _convert(values: object, kind: type[T]) -> T:
    try:
        return msgspec.convert(values, kind)
    except msgspec.ValidationError as error:
        raise InputError(describe(error)) from error
