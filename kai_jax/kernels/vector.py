"""Reductions and row updates in the forms that XLA compiles well inside loops."""

from collections.abc import Callable
from typing import Any, TypeVar

import jax.numpy as jnp
from jax import Array, lax

Carry = TypeVar("Carry")
_LANES = 8
_IMPOSSIBLE = -(2**62) - 1


def largest(values: Array) -> Array:
    """Greatest element of a float or int vector without NaN."""
    return _reduce(values, _limits(values)[0], lambda a, b: jnp.where(a > b, a, b))


def smallest(values: Array) -> Array:
    """Least element of a float or int vector without NaN."""
    return _reduce(values, _limits(values)[1], lambda a, b: jnp.where(a < b, a, b))


def first_true(mask: Array) -> Array:
    """i32 index of the first True, the length when there is none."""
    size = mask.shape[0]
    return smallest(jnp.where(mask, jnp.arange(size, dtype=jnp.int32), jnp.int32(size)))


def element(values: Array, index: Array) -> Array:
    """values[..., index] for a traced index in range."""
    return lax.dynamic_index_in_dim(values, index, axis=values.ndim - 1, keepdims=False)


def row(values: Array, index: Array) -> Array:
    """values[index, ...] for a traced index in range."""
    return lax.dynamic_index_in_dim(values, index, axis=0, keepdims=False)


def put_row(values: Array, index: Array, value: Array) -> Array:
    """values with [index, ...] replaced."""
    return lax.dynamic_update_index_in_dim(values, value, index, axis=0)


def put(values: Array, index: Array, value: Array | float) -> Array:
    """values with [..., index] replaced, in place inside loops."""
    return lax.dynamic_update_index_in_dim(values, jnp.asarray(value, values.dtype), index, axis=values.ndim - 1)


def add(values: Array, index: Array, amount: Array | float) -> Array:
    """values with [..., index] increased by amount."""
    return put(values, index, element(values, index) + amount)


def after(value: Array, *reads: Array) -> Array:
    """value, made to depend on integer or bool `reads`.

    The compiler writes an array in place only where every read of its former content is an input of the write; an
    optimization barrier is dissolved before it looks, a comparison with an impossible number is not.
    """
    for read in reads:
        value = jnp.where(read.astype(jnp.int64) != _IMPOSSIBLE, value, jnp.zeros_like(value))
    return value


def when(flag: Array, change: Callable[[Carry], Carry], carry: Carry) -> Carry:
    """change(carry) where flag holds, carry otherwise; a loop of at most one step, so that nothing is copied."""
    once: tuple[Any, Carry] = lax.while_loop(lambda c: c[0], lambda c: (jnp.bool_(False), change(c[1])), (flag, carry))
    return once[1]


def _reduce(values: Array, start: Array, better: Callable[[Array, Array], Array]) -> Array:
    """Eight lanes first, elementwise: the compiler's own reduction waits for each step of a single lane."""
    size = values.shape[0]
    if size % _LANES == 0:
        lanes = values.reshape(_LANES, size // _LANES)
        values = lanes[0]
        for lane in range(1, _LANES):
            values = better(values, lanes[lane])
    return lax.reduce(values, start, better, (0,))


def _limits(values: Array) -> tuple[Array, Array]:
    if jnp.issubdtype(values.dtype, jnp.floating):
        return jnp.array(-jnp.inf, values.dtype), jnp.array(jnp.inf, values.dtype)
    limits = jnp.iinfo(values.dtype)
    return jnp.array(limits.min, values.dtype), jnp.array(limits.max, values.dtype)
