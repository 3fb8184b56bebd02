"""The backend's shortcuts stay out of numbers that decide."""

import jax
import numpy as np

from kai_jax.kernels.exact import ascending_rank, descending_rank, positions, quotient, rounded

random = np.random.default_rng(0)


def test_products_are_rounded_before_they_are_added():
    a, b, c = random.random((3, 4096))
    assert np.array_equal(jax.jit(lambda a, b, c: rounded(a * b) + c)(a, b, c), a * b + c)
    assert np.array_equal(jax.jit(lambda a, b, c: c - rounded(a * b))(a, b, c), c - a * b)


def test_division_by_one_number_is_no_product():
    amounts, rows = random.random((4, 512)), random.random((4, 1))
    assert np.array_equal(jax.jit(quotient)(amounts, 0.1), amounts / 0.1)
    assert np.array_equal(jax.jit(lambda a: quotient(a, 100.0))(amounts), amounts / 100.0)
    assert np.array_equal(jax.jit(quotient)(amounts, rows), amounts / rows)


def test_ranks_count_strictly_smaller_or_larger_values():
    assert ascending_rank(np.array([[5, -2, 5, 7], [1, 1, 1, 0]])).tolist() == [[1, 0, 1, 3], [1, 1, 1, 0]]
    assert descending_rank(np.array([0.5, 0.0, 1e300, 0.5, 1e-300])).tolist() == [1, 4, 0, 1, 3]
    assert positions(np.array([3, 1, 2]), np.array([0, 2, 9])).tolist() == [0, 1, 3]
