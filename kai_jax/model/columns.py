"""Facts of all nodes by kind of fact, and the checks made of them."""

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np

V = TypeVar("V", bound=Hashable)


class Column(Generic[V]):
    """One value per row, kept once per distinct value, so that a rule is asked once per distinct value."""

    def __init__(self, rows: Iterable[V]) -> None:
        self._index: dict[V, int] = {}
        self._codes = np.array([self._index.setdefault(value, len(self._index)) for value in rows], dtype=np.int32)

    def where(self, rule: Callable[[V], bool]) -> np.ndarray:
        """bool[N] rows whose value satisfies the rule."""
        return np.array([rule(value) for value in self._index], dtype=bool)[self._codes]

    def among(self, values: Iterable[V]) -> np.ndarray:
        """bool[N] rows whose value is one of these."""
        wanted = np.zeros(len(self._index), dtype=bool)
        wanted[[self._index[value] for value in values if value in self._index]] = True
        return wanted[self._codes]

    def checks(self, reason_of: Callable[[V], str]) -> "tuple[Check, ...]":
        """One check per reason that a rule gives for some row; no reason ("") means that the row passes."""
        reasons = [reason_of(value) for value in self._index]
        return tuple(
            Check(reason, np.array([other != reason for other in reasons])[self._codes])
            for reason in dict.fromkeys(reasons)
            if reason
        )


@dataclass(frozen=True, eq=False)
class Check:
    """A filter: which nodes pass, and what the others are told."""

    reason: str
    passes: np.ndarray  # bool[N]


def passing(checks: Sequence[Check], nodes: int) -> np.ndarray:
    """bool[N] nodes that pass all checks."""
    allowed = np.ones(nodes, dtype=bool)
    for check in checks:
        allowed &= check.passes
    return allowed


def first_causes(checks: Sequence[Check], nodes: int) -> dict[str, int]:
    """Nodes lost to each reason; a node counts for the first check that it fails."""
    causes: dict[str, int] = {}
    left = np.ones(nodes, dtype=bool)
    for check in checks:
        lost = int(np.count_nonzero(left & ~check.passes))
        if lost:
            causes[check.reason] = causes.get(check.reason, 0) + lost
        left &= check.passes
    return causes
