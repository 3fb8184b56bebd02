"""Go durations and RFC3339 timestamps as seconds."""

import re
from datetime import datetime
from fractions import Fraction
from functools import lru_cache

_PART = re.compile(r"([0-9]+\.?[0-9]*|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h)")  # both code points of micro, as in Go
_NANOSECONDS = {
    "ns": 1,
    "us": 10**3,
    "µs": 10**3,
    "μs": 10**3,
    "ms": 10**6,
    "s": 10**9,
    "m": 60 * 10**9,
    "h": 3600 * 10**9,
}
_MAX_LENGTH = 64


class TimeError(ValueError):
    """A text that is no duration or no timestamp."""


@lru_cache(maxsize=1 << 12)
def seconds(duration: str | int) -> float:
    """Length of a Go duration ("1h30m", "-1.5s", "0") or of a number of nanoseconds [s]."""
    nanoseconds = duration if isinstance(duration, int) else _nanoseconds(duration)
    if not -(2**63) <= nanoseconds < 2**63:
        raise TimeError(f"duration {duration!r} does not fit into 64 bits of nanoseconds")
    return nanoseconds / 10**9


@lru_cache(maxsize=1 << 16)
def unix(timestamp: str) -> float:
    """Seconds since 1970 of an RFC3339 timestamp such as "2026-08-01T10:00:00Z" [s]."""
    try:
        moment = datetime.fromisoformat(timestamp)
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None or timestamp[10] not in "Tt":
        raise TimeError(f"timestamp {timestamp[:_MAX_LENGTH]!r} is not RFC3339, such as 2026-08-01T10:00:00Z")
    return moment.timestamp()


def _nanoseconds(text: str) -> int:
    unsigned = text[1:] if text[:1] in ("+", "-") else text
    parts = _PART.findall(unsigned)
    complete = "".join(number + unit for number, unit in parts) == unsigned
    if len(text) > _MAX_LENGTH or not (complete and parts or unsigned == "0"):
        raise TimeError(f"duration {text[:_MAX_LENGTH]!r} is not a Go duration, such as 1h30m or 60s")
    size = sum(int(Fraction(number) * _NANOSECONDS[unit]) for number, unit in parts)
    return -size if text.startswith("-") else size
