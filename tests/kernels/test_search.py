"""The memo of the search changes nothing but the time it takes."""

from dataclasses import replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from kernels.snapshots import DEFAULT_TERMS, FALLBACK_TERMS, NODES, REQUESTS, policy, random_cluster

from kai_jax.kernels.books import open_books
from kai_jax.kernels.place import Owner, book
from kai_jax.kernels.rank import all_nodes, rank, usage_of
from kai_jax.kernels.search import candidate_of, find_node, no_memo

TASKS = 24
OWNER = Owner(np.array([2, 1], np.int32), np.bool_(True))
books_of = jax.jit(open_books, static_argnums=2)


@partial(jax.jit, static_argnums=0)
def both(rules, snapshot, numbered, books, memo, task):
    """(placement, memo, placement without a memo, first node of the best rank, books with the task booked)."""
    fresh, _ = find_node(rules, snapshot, numbered, books, no_memo(NODES), None, task, OWNER)
    placement, memo = find_node(rules, snapshot, numbered, books, memo, None, task, OWNER)
    candidate = candidate_of(snapshot, task, OWNER)
    ranks = rank(rules, all_nodes(snapshot, books, None), usage_of(snapshot, books), candidate)
    return placement, memo, fresh, jnp.argmax(ranks), book(rules, snapshot, books, task, placement, OWNER)


def backlog(random: np.random.Generator) -> list[int]:
    """Runs of equal requests."""
    classes: list[int] = []
    while len(classes) < TASKS:
        classes += [int(random.integers(len(REQUESTS)))] * int(random.integers(1, 7))
    return classes[:TASKS]


@pytest.mark.parametrize("terms", [DEFAULT_TERMS, FALLBACK_TERMS])
def test_a_carried_memo_finds_what_a_fresh_one_finds(terms):
    placed = waited = refused = shared = reused = 0
    for seed in range(25):
        random = np.random.default_rng(seed)
        snapshot, state = random_cluster(random, backlog(random), (TASKS,))
        if seed % 3:  # without a limit or quota on devices
            none = np.full((3, 3), -1.0)
            snapshot = replace(snapshot, queues=replace(snapshot.queues, limit=none, quota=none))
        books, memo = books_of(snapshot, state, 4), no_memo(NODES)
        for task in range(TASKS):
            before = memo
            found, memo, fresh, best, booked = both(
                policy(terms), snapshot, state.device_numbered, books, memo, np.int32(task)
            )
            assert bool(found.ok) == bool(fresh.ok), (seed, task)
            reused += int(before.request) == snapshot.tasks.request[task]
            if not found.ok:
                refused += 1
                continue
            got = (int(found.node), bool(found.waits), found.slots.tolist())
            assert got == (int(fresh.node), bool(fresh.waits), fresh.slots.tolist()), (seed, task)
            assert got[0] == int(best) or REQUESTS[snapshot.tasks.request[task]].devices, (seed, task)
            books = booked
            placed, waited, shared = placed + 1, waited + bool(found.waits), shared + bool(found.slots.any())
    assert min(placed, waited, refused, shared, reused) > 20, (placed, waited, refused, shared, reused)
