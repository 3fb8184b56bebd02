"""Past usage of queues, as a file gives it: per queue the part of the cluster that it had (spec 02 §8)."""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kai_jax.api.objects import Wire
from kai_jax.api.plain import InputError, read_yaml, typed

Usage = Mapping[str, tuple[float, float, float]]  # cpu, memory and gpu by name of queue, each normally in [0,1]

NO_USAGE: Usage = {}


class _Parts(Wire, frozen=True, forbid_unknown_fields=True):
    cpu: float = 0.0
    memory: float = 0.0
    gpu: float = 0.0


def read_usage(path: Path) -> Usage:
    """Usage in a YAML or JSON file such as `team-a: {gpu: 0.4, cpu: 0.1}`; what is absent is 0.

    Raises InputError for a file that cannot be read, another field, and a part that is not a number from 0 on.
    """
    try:
        return {name: _parts(name, written) for name, written in typed(read_yaml(path), dict[str, Any]).items()}
    except InputError as error:
        raise InputError(f"{path}: {error}") from error


def _parts(name: str, written: Any) -> tuple[float, float, float]:
    try:
        parts = typed(written, _Parts)
        for field in parts.__struct_fields__:
            value = getattr(parts, field)
            if not (math.isfinite(value) and value >= 0):
                raise InputError(f"{field}: expected a number from 0 on, found {value}")
    except InputError as error:
        raise InputError(f"queue {name}: {error}") from error
    return parts.cpu, parts.memory, parts.gpu
