"""Arithmetic that comes out bit for bit the same on every backend, and ranks from it."""

import jax
import jax.numpy as jnp
from jax import Array


def rounded(product: Array) -> Array:
    """A product rounded to float64 before it is added to or subtracted from something.

    XLA fuses a multiplication and an addition into one operation with one rounding, which an optimization barrier
    does not prevent; a selection between the two does.
    """
    return jnp.where(product == product, product, 0.0)


def descending_rank(amounts: Array) -> Array:
    """i64[...,D] number of larger amounts in the last axis; amounts are finite and >= 0, equal ones share a rank."""
    return ascending_rank(-jax.lax.bitcast_convert_type(jnp.abs(amounts), jnp.int64))


def ascending_rank(keys: Array) -> Array:
    """i64[...,D] number of smaller integer keys in the last axis; equal ones share a rank."""
    return positions(keys, keys)


def positions(keys: Array, wanted: Array) -> Array:
    """i64[...,W] number of integer keys [...,D] smaller than each wanted one [...,W]."""
    # sorting one integer operand is an order of magnitude faster than floats, or than carrying a payload
    search = jnp.vectorize(jnp.searchsorted, signature="(d),(w)->(w)")
    return search(jnp.sort(keys, axis=-1), wanted)


def quotient(dividend: Array, divisor: Array | float) -> Array:
    """float64 division by one number for many, correctly rounded.

    XLA turns a division by a broadcast number into a product with its reciprocal, which is not the same; a selection
    in between prevents it.
    """
    return dividend / jnp.where(dividend == dividend, divisor, 1.0)
