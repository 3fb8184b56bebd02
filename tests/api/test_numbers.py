"""Numbers as text: what is one, and what only looks like one."""

import pytest

from kai_jax.api.numbers import decimal, integer


@pytest.mark.parametrize(
    ("text", "number"),
    [("0", 0), ("-7", -7), ("+007", 7), (str(2**63 - 1), 2**63 - 1), (str(-(2**63)), -(2**63)), (str(2**63), None),
     ("", None), ("1.0", None), (" 1", None), ("1_0", None), ("٣", None), ("--1", None), ("9" * 5000, None)],
)  # fmt: skip
def test_integers(text: str, number: int | None) -> None:
    assert integer(text) == number


@pytest.mark.parametrize(
    ("text", "number"),
    [("0.5", 0.5), (".5", 0.5), ("5.", 5.0), ("-1e-2", -0.01), ("+3E2", 300.0), ("1", 1.0),
     ("", None), (".", None), ("nan", None), ("inf", None), ("1e999", None), (" 0.5 ", None), ("0.2_5", None),
     ("٠.٥", None), ("0,5", None)],
)  # fmt: skip
def test_decimals(text: str, number: float | None) -> None:
    assert decimal(text) == number
