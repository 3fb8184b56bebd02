"""Reductions by lanes against numpy, at every length around the lane width and the buckets."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from kai_jax.kernels.vector import add, after, element, first_true, largest, put, smallest, when

LENGTHS = range(1, 97)
SOME = (1, 2, 7, 8, 9, 16, 31, 64, 65, 96)


def vectors(dtype, lengths) -> list[np.ndarray]:
    random = np.random.default_rng(7)
    extremes = [-np.inf, np.inf] if dtype == np.float64 else [np.iinfo(dtype).min, np.iinfo(dtype).max]
    drawn = [random.integers(-9, 9, length).astype(dtype) for length in lengths]
    for vector in drawn:  # the decisive element walks through all lanes
        vector[random.integers(vector.size)] = random.choice([-40, 40])
    return drawn + [np.full(length, extreme, dtype) for length in (1, 9, 16) for extreme in extremes]


@pytest.mark.parametrize(("dtype", "lengths"), [(np.float64, LENGTHS), (np.int32, SOME), (np.int64, SOME)])
def test_extremes(dtype, lengths):
    values = vectors(dtype, lengths)
    ends = jax.jit(lambda values: [(largest(v), smallest(v)) for v in values])(values)
    assert [(float(a), float(b)) for a, b in ends] == [(float(v.max()), float(v.min())) for v in values]
    assert all(a.dtype == b.dtype == dtype for a, b in ends)


def test_first_true_is_the_leftmost_or_the_length():
    random = np.random.default_rng(3)
    masks = [random.random(length) < 1.5 / length for length in LENGTHS]
    masks += [np.zeros(length, bool) for length in (1, 8, 17, 64)]
    masks += [np.arange(length) == length - 1 for length in (1, 8, 17, 64)]
    found = jax.jit(lambda masks: [first_true(mask) for mask in masks])(masks)
    assert [int(i) for i in found] == [int(mask.argmax()) if mask.any() else mask.size for mask in masks]


def test_rows_change_at_one_place():
    table = np.arange(12.0).reshape(3, 4)
    assert np.array_equal(element(table, 2), table[:, 2])
    assert np.array_equal(put(table, 1, np.array([7, 8, 9])), np.insert(np.delete(table, 1, 1), 1, [7, 8, 9], 1))
    assert np.array_equal(add(table, 3, -1.5), table - np.array([0, 0, 0, 1.5]))
    assert put(np.zeros(2, np.int8), 0, jnp.int32(3)).dtype == np.int8


def test_after_keeps_the_value_and_waits_for_the_reads():
    compiled = jax.jit(lambda value, a, b: after(value, a, b)).lower(np.int32(5), np.int64(0), np.bool_(0)).compile()
    for read in (0, -1, 2**31, -(2**62), 2**63 - 1, -(2**63)):
        assert int(compiled(np.int32(5), np.int64(read), np.bool_(read % 2))) == 5
    # only the comparison keeps an unused argument alive
    assert "s64[]" in compiled.as_text()


def test_when_changes_or_leaves():
    change = jax.jit(lambda flag, carry: when(flag, lambda c: (c[0] + 1, ~c[1]), carry))
    carry = (np.arange(3), np.array([True, False]))
    assert [a.tolist() for a in change(True, carry)] == [[1, 2, 3], [False, True]]
    assert [a.tolist() for a in change(False, carry)] == [[0, 1, 2], [True, False]]
