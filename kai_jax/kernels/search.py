"""The search for a node, and the memo that makes a backlog of equal tasks cheap."""

import dataclasses
from typing import Any

import jax.numpy as jnp
from jax import Array, lax

from kai_jax.kernels.books import Books
from kai_jax.kernels.devices import Ask, choose_devices
from kai_jax.kernels.place import Placement, request_of
from kai_jax.kernels.rank import (
    Candidate,
    NodeSet,
    Owner,
    View,
    all_nodes,
    device_memory,
    fits_idle,
    is_local,
    rank,
    run_of_nodes,
    usage_of,
)
from kai_jax.kernels.vector import element, first_true, largest, put, when
from kai_jax.tensors import NONE, PODS, Policy, Snapshot
from kai_jax.tensors.pytree import pytree

RUN = 16  # nodes ranked anew after a placement on one of them; divides every bucket of nodes


@pytree
class Memo:
    """The ranks that the last task found; they hold for the next equal one but for the node that was taken since."""

    request: Array  # i32[] -> K, -1 when there is nothing to reuse
    constraint: Array  # i32[] -> C
    touched: Array  # i32[] node booked since, -1 none
    ranks: Array  # f64[N]
    best: Array  # f64[N/RUN] of each run of nodes


def no_memo(nodes: int) -> Memo:
    """A memo that nothing can be taken from."""
    none = jnp.int32(NONE)
    return Memo(none, none, none, jnp.zeros(nodes), jnp.zeros(nodes // RUN))


def forget(memo: Memo, changed: Array | bool = True) -> Memo:
    """The memo after books or node sets `changed` otherwise than by one more task."""
    return dataclasses.replace(memo, request=jnp.where(changed, NONE, memo.request))


def find_node(
    policy: Policy,
    snapshot: Snapshot,
    numbered: Array,
    books: Books,
    memo: Memo,
    within: NodeSet | None,
    task: Array,
    owner: Owner,
) -> tuple[Placement, Memo]:
    """The best node that takes the task, smallest name on ties; the caller books it."""
    candidate = candidate_of(snapshot, task, owner)
    view = all_nodes(snapshot, books, within)
    memo = _recall(policy, snapshot, books, memo, view, candidate, element(snapshot.tasks.request, task))
    best = largest(memo.best)
    run = first_true(memo.best == best)
    found = best > -jnp.inf
    start = jnp.where(found, run, 0) * RUN
    node = start + first_true(lax.dynamic_slice(memo.ranks, (start,), (RUN,)) == best)
    node = jnp.where(found, node, 0)
    idle = fits_idle(policy, run_of_nodes(view, node, 1), candidate)[0]
    placement = Placement(found, node, ~idle, jnp.zeros(books.device_used.shape[0], bool), jnp.bool_(False))
    if policy.features.shared:
        placement = _with_devices(policy, snapshot, numbered, books, view, memo.ranks, candidate, placement)
    return placement, dataclasses.replace(memo, touched=jnp.where(placement.ok, placement.node, NONE))


def candidate_of(snapshot: Snapshot, task: Array, owner: Owner) -> Candidate:
    """A task as ranking sees it."""
    return Candidate(
        constraint=element(snapshot.tasks.constraint, task),
        nominated=element(snapshot.tasks.nominated, task),
        request=request_of(snapshot.requests, element(snapshot.tasks.request, task)),
        owner=owner,
    )


def _recall(
    policy: Policy, snapshot: Snapshot, books: Books, memo: Memo, view: View, task: Candidate, request: Array
) -> Memo:
    """The memo for this task: the last one with the touched run of nodes ranked anew, or one made from all nodes."""
    usage = usage_of(snapshot, books)
    local = is_local(usage, task)
    same = local & (memo.request == request) & (memo.constraint == task.constraint)

    def refresh(memo: Memo) -> Memo:
        run = memo.touched // RUN
        ranks = rank(policy, run_of_nodes(view, run * RUN, RUN), usage, task)
        return dataclasses.replace(
            memo,
            ranks=lax.dynamic_update_slice(memo.ranks, ranks, (run * RUN,)),
            best=put(memo.best, run, largest(ranks)),
        )

    def remake(memo: Memo) -> Memo:
        ranks = rank(policy, view, usage, task)
        return Memo(
            request=jnp.where(local, request, NONE),
            constraint=task.constraint,
            touched=jnp.int32(NONE),
            ranks=ranks,
            best=jnp.max(ranks.reshape(-1, RUN), axis=1),
        )

    memo = when(same & (memo.touched >= 0), refresh, memo)
    return when(~same, remake, memo)


def _with_devices(
    policy: Policy,
    snapshot: Snapshot,
    numbered: Array,
    books: Books,
    view: View,
    ranks: Array,
    task: Candidate,
    placement: Placement,
) -> Placement:
    """For a task that shares devices: the best node whose devices and pod slots serve it."""
    request = task.request

    def choose(carry: Any) -> Any:
        ranks, placement, _ = carry
        node = placement.node
        one = run_of_nodes(view, node, 1)
        choice = choose_devices(
            books,
            snapshot.nodes,
            numbered,
            node,
            Ask(request.devices, device_memory(request, one.nodes.gpu_memory)[0]),
            fits_idle(policy, one, task)[0],
            policy.device_terms,
        )
        ok = choice.ok & (~choice.opens | (one.free[PODS, 0] >= 2))
        ranks = put(ranks, node, jnp.where(ok, element(ranks, node), -jnp.inf))
        best = largest(ranks)
        found = best > -jnp.inf
        following = jnp.where(ok, node, jnp.where(found, first_true(ranks == best), 0))
        overflow = placement.overflow | choice.overflow
        return ranks, Placement(found, following, choice.waits, choice.slots & ok, overflow), found & ~ok

    return lax.while_loop(lambda c: c[2], choose, (ranks, placement, request.shared & placement.ok))[1]
