"""Numbers that labels, annotations and arguments hold as text: ASCII, without blanks, as Kubernetes reads them."""

import re

MAX_INT32 = 2**31 - 1
MAX_INT64 = 2**63 - 1

_INTEGER = re.compile(r"[+-]?[0-9]{1,63}")
_DECIMAL = re.compile(r"[+-]?(?:[0-9]{1,63}\.?[0-9]{0,63}|\.[0-9]{1,63})(?:[eE][+-]?[0-9]{1,2})?")


def integer(text: str) -> int | None:
    """A decimal integer of 64 bits, None for any other text."""
    number = int(text) if _INTEGER.fullmatch(text) else None
    return number if number is not None and -MAX_INT64 - 1 <= number <= MAX_INT64 else None


def decimal(text: str) -> float | None:
    """A finite decimal number, None for any other text."""
    return float(text) if _DECIMAL.fullmatch(text) else None
