"""Kubernetes quantities: "500m", 2, 0.5, "1.5Gi", "1e3" (the full grammar, exact).

As in Kubernetes, nothing is finer than a nano: a smaller part rounds up, away from zero.
"""

import math
import re
from functools import lru_cache

from kai_jax.api.numbers import MAX_INT64

_GRAMMAR = re.compile(r"([+-]?)([0-9]+\.?[0-9]*|\.[0-9]+)(?:([numkMGTPE]|[KMGTPE]i)|[eE]([+-]?[0-9]+))?")
_MAX_LENGTH = 64  # no quantity that fits into 64 bits needs more characters
_DECIMAL = {"n": -9, "u": -6, "m": -3, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_NANO = 9


class QuantityError(ValueError):
    """A text or number that is no Kubernetes quantity."""


def units(quantity: str | int | float) -> int:
    """`quantity` in whole units, rounded up away from zero: "1.5Ki" -> 1536, "100m" -> 1."""
    amount = nanos(quantity)
    whole = _ceil_div(abs(amount), 10**_NANO)
    if whole > MAX_INT64:
        raise QuantityError(f"quantity {_shown(quantity)} does not fit into 64 bits")
    return whole if amount >= 0 else -whole


@lru_cache(maxsize=1 << 16)
def nanos(quantity: str | int | float) -> int:
    """`quantity` in 10^-9, without bound: the caller scales it, rounds up, and checks the size."""
    if isinstance(quantity, int):
        return quantity * 10**_NANO
    if isinstance(quantity, float):
        if not math.isfinite(quantity):
            raise QuantityError(f"quantity {quantity} is not a finite number")
        quantity = repr(quantity)
    text = quantity.strip()
    match = _GRAMMAR.fullmatch(text) if len(text) <= _MAX_LENGTH else None
    if match is None:
        raise QuantityError(
            f"quantity {_shown(quantity)} is not a number with an optional suffix (500m, 2, 1.5Gi, 1e3)"
        )
    sign, number, suffix, exponent = match.groups()
    whole, _, fraction = number.partition(".")
    digits = int(whole + fraction)
    power = int(exponent or _DECIMAL.get(suffix, 0)) - len(fraction) + _NANO
    if digits and power > _MAX_LENGTH:
        raise QuantityError(f"quantity {_shown(quantity)} does not fit into 64 bits")
    digits <<= _BINARY.get(suffix, 0)
    if power >= 0:
        size = digits * 10**power if digits else 0
    else:
        size = _ceil_div(digits, 10 ** min(-power, 2 * _MAX_LENGTH))  # a larger divisor rounds up to 1 as well
    return -size if sign == "-" else size


def _ceil_div(amount: int, divisor: int) -> int:
    return -(-amount // divisor)


def _shown(quantity: str | int | float) -> str:
    text = repr(quantity) if isinstance(quantity, str) or abs(quantity) < 10**_MAX_LENGTH else "with too many digits"
    return text if len(text) <= _MAX_LENGTH + 2 else f"{text[:_MAX_LENGTH]}..."
