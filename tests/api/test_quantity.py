from fractions import Fraction
from math import ceil

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kai_jax.api.numbers import MAX_INT64
from kai_jax.api.quantity import QuantityError, nanos, units

SUFFIXES = {
    "": 1,
    "n": Fraction(1, 10**9),
    "u": Fraction(1, 10**6),
    "m": Fraction(1, 1000),
    "k": 10**3,
    "M": 10**6,
    "G": 10**9,
    "T": 10**12,
    "P": 10**15,
    "E": 10**18,
    "Ki": 2**10,
    "Mi": 2**20,
    "Gi": 2**30,
    "Ti": 2**40,
    "Pi": 2**50,
    "Ei": 2**60,
}


@pytest.mark.parametrize(
    ("quantity", "in_nanos", "in_units"),
    [
        ("0", 0, 0),
        ("2", 2 * 10**9, 2),
        (2, 2 * 10**9, 2),
        (0.1, 10**8, 1),
        (1.5, 15 * 10**8, 2),
        (1e12, 10**21, 10**12),
        ("500m", 5 * 10**8, 1),
        ("1.0005", 1_000_500_000, 2),
        (".5", 5 * 10**8, 1),
        ("5.", 5 * 10**9, 5),
        ("+3", 3 * 10**9, 3),
        ("-1", -(10**9), -1),
        ("-1500m", -15 * 10**8, -2),  # away from zero
        ("1n", 1, 1),
        ("0.1n", 1, 1),
        ("1e-999999999", 1, 1),
        ("0e999999999", 0, 0),
        ("1.5Ki", 1536 * 10**9, 1536),
        ("0.1Ki", 102_400_000_000, 103),
        ("12e3", 12 * 10**12, 12_000),
        ("12E+3", 12 * 10**12, 12_000),
        ("5e-1", 5 * 10**8, 1),
        ("1E", 10**27, 10**18),
        (" 1Gi ", 2**30 * 10**9, 2**30),
    ],
)
def test_grammar(quantity: str | int | float, in_nanos: int, in_units: int) -> None:
    assert (nanos(quantity), units(quantity)) == (in_nanos, in_units)


@pytest.mark.parametrize(
    "quantity",
    ["", "Gi", "abc", "1e", "1_000", "1,5", "1 Gi", "1KI", "--1", ".", "1.2.3", "١", "NaN", "inf", "0x10", "1" * 65]
    + [float("nan"), float("inf"), float("-inf")],
)
def test_not_a_quantity(quantity: str | float) -> None:
    with pytest.raises(QuantityError, match="quantity"):
        units(quantity)


@pytest.mark.parametrize(
    "quantity", [str(MAX_INT64 + 1), MAX_INT64 + 1, 10**100, -(10**100), "8Ei", "-10E", "1e400", "1e999999999"]
)
def test_overflow_names_the_quantity(quantity: str | int) -> None:
    with pytest.raises(QuantityError, match="quantity .* does not fit into 64 bits"):
        units(quantity)
    assert units(str(MAX_INT64)) == MAX_INT64


@given(
    digits=st.integers(0, 10**9),
    decimals=st.integers(0, 9),
    negative=st.booleans(),
    suffix=st.sampled_from([*SUFFIXES]),
)
def test_equals_exact_arithmetic(digits: int, decimals: int, negative: bool, suffix: str) -> None:
    whole = f"{digits:0{decimals + 1}d}"
    number = f"{whole[: len(whole) - decimals]}.{whole[len(whole) - decimals :]}"
    exact = Fraction(digits, 10**decimals) * SUFFIXES[suffix]
    sign = -1 if negative else 1
    assert nanos(("-" if negative else "") + number + suffix) == sign * ceil(exact * 10**9)


@given(st.floats(min_value=1e-9, max_value=1e15))
def test_a_float_counts_as_its_shortest_decimal(value: float) -> None:
    assert nanos(value) == ceil(Fraction(repr(value)) * 10**9)


@given(st.text(max_size=12) | st.floats() | st.integers())
def test_anything_gives_a_number_or_a_quantity_error(quantity: str | int | float) -> None:
    try:
        result = units(quantity)
    except QuantityError:
        return
    assert abs(result) <= MAX_INT64
