"""Which job is next: the queue tree with stored tops, and the comparison of sibling queues (spec 02 §3).

Every queue keeps a stored top (one of its children) and a dirty flag. A level is sifted before the levels below it, so
a branch is judged by the next job of the leaf that was served last: this is not an argmin over best jobs, and it
decides placements. Only the queues on the path of a popped job change, so a pop costs O(levels · children).
"""

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
from jax import Array, lax

from kai_jax.kernels.vector import after, element, first_true, put, smallest
from kai_jax.tensors import NONE, UNLIMITED, Jobs, Policy, Queues
from kai_jax.tensors.pytree import pytree

_LAST = 2**30


@pytree
class Standing:
    """Comparison keys per queue, smaller wins, in this order; the axis is Q plus a tail so that any window fits."""

    grade: Array  # i64[Q] over fair share, fits quota, priority and zero-share violation in one number
    share_with: Array  # f64[Q] dominant share with the head job
    share: Array  # f64[Q] dominant share without


@pytree
class Order:
    """The queue tree of an action."""

    top: Array  # i32[Q] stored top, -1 none
    dirty: Array  # bool[Q]
    present: Array  # bool[Q] holds a job below
    head_slot: Array  # i32[Q] best filled slot of a leaf, slot_end when none
    head_need: Array  # f64[4,Q] what the job that the stored tops lead to tries next, see Need
    filled: Array  # bool[S]
    standing: Standing


@pytree
class Ranking:
    """What does not change in a cycle."""

    allocatable: Array  # f64[3,Q + tail]
    created: Array  # i64[Q + tail]
    tie: Array  # i32[Q + tail] siblings that go before by smaller allocatable, then creation
    ranked: Array  # bool[Q] those numbers order every pair of its children; else pairs must be compared
    name: Array  # i32[Q + tail] rank of the name
    priority: Array  # i32[Q] smaller is higher
    fair_share: Array  # f64[3,Q]


Need = Callable[[Array], Array]  # job -> f64[4] cpu, memory, devices for the queue order, devices for the capacity gate


@dataclass(frozen=True)
class QueueTree:
    """What an action does not change: queues, the slots of their jobs, and how siblings compare."""

    queues: Queues
    jobs: Jobs
    ranking: Ranking
    children: int  # bound of the widest level
    capacity: bool  # siblings compare by their shares, not by age alone


def queue_tree(policy: Policy, queues: Queues, jobs: Jobs, fair_share: Array) -> QueueTree:
    """The tree of an action; fair_share is f64[3,Q]."""
    children, capacity = policy.bounds.children, policy.capacity
    return QueueTree(queues, jobs, rank_queues(queues, fair_share, children, capacity), children, capacity)


def rank_queues(queues: Queues, fair_share: Array, children: int, capacity: bool) -> Ranking:
    """Static part of the comparison; `children` is the widest level."""
    unlimited_quota = queues.quota == UNLIMITED
    unlimited_limit = queues.limit == UNLIMITED
    entitled = jnp.maximum(queues.quota, fair_share)
    allocatable = jnp.where(
        unlimited_quota,
        queues.limit,
        jnp.where(unlimited_limit, entitled, jnp.minimum(entitled, queues.limit)),
    )
    size = queues.parent.shape[0]
    start = queues.child_start[jnp.maximum(queues.parent, 0)]
    count = jnp.where(queues.parent >= 0, queues.child_count[jnp.maximum(queues.parent, 0)], 0)

    def before(i: Array) -> Array:
        """bool[Q] the i-th sibling goes before."""
        other = jnp.minimum(start + i, size - 1)
        if capacity:
            wins = _goes_before(allocatable[:, other], queues.created[other], allocatable, queues.created)
        else:
            older = queues.created[other] < queues.created
            wins = older | ((queues.created[other] == queues.created) & (queues.uid_rank[other] < queues.uid_rank))
        return wins & (i < count)

    def count_before(carry: Any) -> Any:
        i, rank = carry
        return i + 1, rank + before(i)

    def contradict(carry: Any) -> Any:
        i, wrong = carry
        other = jnp.minimum(start + i, size - 1)
        return i + 1, wrong | ((i < count) & (before(i) != (rank[other] < rank)))

    widest = jnp.minimum(jnp.max(queues.child_count), children)
    none = jnp.int32(0)
    rank = lax.while_loop(lambda c: c[0] < widest, count_before, (none, jnp.zeros(size, jnp.int32)))[1]
    wrong = lax.while_loop(lambda c: c[0] < widest, contradict, (none, jnp.zeros(size, bool)))[1]
    tail = (0, children)
    return Ranking(
        allocatable=jnp.pad(allocatable, ((0, 0), tail)),
        created=jnp.pad(queues.created, tail),
        tie=jnp.pad(rank, tail),
        ranked=~jnp.zeros(size, bool).at[jnp.maximum(queues.parent, 0)].max(wrong & (queues.parent >= 0)),
        name=jnp.pad(queues.uid_rank, tail),
        priority=-queues.priority,
        fair_share=fair_share,
    )


def build_order(tree: QueueTree, allocated: Array, need: Need) -> Order:
    """The order at the start of an action: tops set bottom-up, best job first, ties by name."""
    queues = tree.queues
    size = queues.parent.shape[0]
    tail = size + tree.children
    order = Order(
        top=jnp.full(size, -1, jnp.int32),
        dirty=jnp.zeros(size, bool),
        present=jnp.zeros(tail, bool),
        head_slot=queues.slot_start,
        head_need=jnp.zeros((4, size)),
        filled=tree.jobs.slot_filled,
        standing=Standing(grade=jnp.zeros(tail, jnp.int64), share_with=jnp.zeros(tail), share=jnp.zeros(tail)),
    )

    def settle(carry: Any) -> Any:
        queue, order = carry
        order, head = _advance(order, queues, queue)
        is_leaf = element(queues.child_count, queue) == 0
        filled = is_leaf & (head < element(queues.slot_end, queue))
        best = jnp.where(is_leaf, -1, _sift(tree, order, queue))
        order = dataclasses.replace(order, top=put(order.top, queue, best))
        order = _represent(tree, order, queue, filled, need)
        order = dataclasses.replace(order, present=put(order.present, queue, filled | (best >= 0)))
        return queue - 1, _judge(tree, order, allocated, queue)

    # children come after their parents, so a walk from the end meets every child first
    return lax.while_loop(lambda c: c[0] >= 0, settle, (jnp.int32(size - 1), order))[1]


def pop(tree: QueueTree, order: Order) -> tuple[Order, Array, Array]:
    """Take the next job: (order with the job's slot emptied, leaf queue, slot). The tree must not be empty."""

    def level(carry: Any) -> Any:
        order, queue = carry

        def resift(order: Order) -> Order:
            order = dataclasses.replace(order, dirty=put(order.dirty, element(order.top, queue), False))
            best = _sift(tree, order, queue)
            return dataclasses.replace(order, top=put(order.top, queue, best))

        order = lax.while_loop(lambda o: element(o.dirty, element(o.top, queue)), resift, order)
        return order, element(order.top, queue)

    order, leaf = lax.while_loop(lambda c: element(tree.queues.child_count, c[1]) > 0, level, (order, jnp.int32(0)))
    slot = element(order.head_slot, leaf)
    return dataclasses.replace(order, filled=put(order.filled, slot, False)), leaf, slot


def settle_path(tree: QueueTree, order: Order, allocated: Array, leaf: Array, returned: Array, need: Need) -> Order:
    """After a pop and its attempt: drop emptied queues, put the job back into slot `returned` (-1 not), judge anew."""
    queues = tree.queues
    order, head = _advance(order, queues, leaf)
    end = element(queues.slot_end, leaf)
    emptied = head >= end
    back = returned >= 0
    slot = jnp.maximum(after(returned, head), 0)
    order = dataclasses.replace(
        order,
        filled=put(order.filled, slot, element(order.filled, slot) | back),
        head_slot=put(order.head_slot, leaf, jnp.where(back, jnp.minimum(head, returned), head)),
        present=put(order.present, leaf, ~emptied | back),
    )

    def climb(carry: Any) -> Any:
        order, queue, removed = carry
        present = element(order.present, queue)
        order = _represent(tree, order, queue, present, need)
        order = _judge(tree, order, allocated, queue)
        parent = element(queues.parent, queue)

        def new_top() -> tuple[Array, Array]:
            rest = _sift(tree, order, parent, without=queue)
            wins = present & ((rest < 0) | _less(tree, order.standing, queue, jnp.maximum(rest, 0)))
            return jnp.where(wins, queue, rest), rest < 0

        # a queue that kept a job all along also keeps its place as top until the next sift
        top, alone = lax.cond(removed, new_top, lambda: (element(order.top, parent), jnp.bool_(False)))
        order = dataclasses.replace(
            order,
            dirty=put(order.dirty, queue, True),
            top=put(order.top, parent, top),
            present=put(order.present, parent, top >= 0),
        )
        return order, parent, removed & alone

    return lax.while_loop(lambda c: element(queues.parent, c[1]) >= 0, climb, (order, leaf, emptied))[0]


def _advance(order: Order, queues: Queues, leaf: Array) -> tuple[Order, Array]:
    """Move the head of a leaf to its next filled slot: (order, head)."""
    end = element(queues.slot_end, leaf)
    head = lax.while_loop(
        lambda s: (s < end) & ~element(order.filled, jnp.minimum(s, end - 1)),
        lambda s: s + 1,
        element(order.head_slot, leaf),
    )
    return dataclasses.replace(order, head_slot=put(order.head_slot, leaf, head)), head


def _represent(tree: QueueTree, order: Order, queue: Array, present: Array, need: Need) -> Order:
    """Store the request of the job that stands for a queue: its own best, or that of its stored top."""
    queues, jobs = tree.queues, tree.jobs
    top = element(order.top, queue)
    is_leaf = element(queues.child_count, queue) == 0
    slot = jnp.minimum(element(order.head_slot, queue), jobs.slot_job.shape[0] - 1)
    amount = lax.cond(
        is_leaf & present,
        lambda: need(element(jobs.slot_job, slot)),
        lambda: jnp.where(~is_leaf & (top >= 0), element(order.head_need, jnp.maximum(top, 0)), jnp.zeros(4)),
    )
    return dataclasses.replace(order, head_need=put(order.head_need, queue, amount))


def _judge(tree: QueueTree, order: Order, allocated: Array, queue: Array) -> Order:
    """Recompute the comparison keys of one queue (criteria 1 to 6)."""
    if not tree.capacity:
        return order
    queues, ranking = tree.queues, tree.ranking
    have = element(allocated, queue)
    need = element(order.head_need, queue)[:3]
    quota = element(queues.quota, queue)
    allocatable = element(ranking.allocatable, queue)
    over = jnp.all(element(ranking.fair_share, queue) < have)
    fits = jnp.all((quota == UNLIMITED) | (have + need <= quota))
    violates = jnp.any((allocatable == 0) & (have + need > 0))
    grade = over.astype(jnp.int64) * 2 + ~fits
    grade = (grade << 33) + element(ranking.priority, queue).astype(jnp.int64)
    grade = grade * 2 + violates
    bound = jnp.where(allocatable == UNLIMITED, queues.total, allocatable)
    standing = Standing(
        grade=put(order.standing.grade, queue, grade),
        share_with=put(order.standing.share_with, queue, _dominant_share(have + need, bound)),
        share=put(order.standing.share, queue, _dominant_share(have, bound)),
    )
    return dataclasses.replace(order, standing=standing)


def _dominant_share(amount: Array, bound: Array) -> Array:
    share = jnp.where(bound == 0, amount * 1000.0, amount / jnp.where(bound == 0, 1.0, bound))
    return jnp.maximum(jnp.max(share), 0.0)


def _sift(tree: QueueTree, order: Order, queue: Array, without: int | Array = NONE) -> Array:
    """The child of `queue` that no other is less than, -1 for none; a tie keeps the stored top, else goes by name."""
    queues, ranking, children = tree.queues, tree.ranking, tree.children
    start = element(queues.child_start, queue)
    place = jnp.arange(children, dtype=jnp.int32)

    def window(values: Array) -> Array:
        return lax.dynamic_slice(values, (start,), (children,))

    left = window(order.present) & (place < element(queues.child_count, queue)) & (start + place != without)
    any_left = jnp.any(left)
    standing = order.standing
    for key in (standing.grade, standing.share_with, standing.share):
        values = window(key)
        most = jnp.iinfo(jnp.int64).max if key.dtype == jnp.int64 else jnp.inf
        left = left & (values == smallest(jnp.where(left, values, most)))

    def by_rank() -> Array:
        ties = window(ranking.tie)
        return left & (ties == smallest(jnp.where(left, ties, _LAST)))

    def by_pairs() -> Array:
        allocatable = lax.dynamic_slice(ranking.allocatable, (jnp.int32(0), start), (3, children))
        created = window(ranking.created)
        wins = _goes_before(allocatable[:, :, None], created[:, None], allocatable[:, None, :], created[None, :])
        unbeaten = left & ~jnp.any(wins & left[:, None], axis=0)
        return jnp.where(jnp.any(unbeaten), unbeaten, left)

    left = lax.cond(element(ranking.ranked, queue), by_rank, by_pairs)
    names = jnp.where(start + place == element(order.top, queue), -1, window(ranking.name))
    names = jnp.where(left, names, _LAST)
    return jnp.where(any_left, start + first_true(names == smallest(names)), -1)


def _less(tree: QueueTree, standing: Standing, left: Array, right: Array) -> Array:
    """Queue `left` goes strictly before its sibling `right`."""
    queues, ranking = tree.queues, tree.ranking
    less, equal = jnp.bool_(False), jnp.bool_(True)
    for key in (standing.grade, standing.share_with, standing.share):
        a, b = element(key, left), element(key, right)
        less = less | (equal & (a < b))
        equal = equal & (a == b)
    by_rank = element(ranking.tie, left) < element(ranking.tie, right)
    by_pair = _goes_before(
        element(ranking.allocatable, left),
        element(ranking.created, left),
        element(ranking.allocatable, right),
        element(ranking.created, right),
    )
    return less | (equal & jnp.where(element(ranking.ranked, element(queues.parent, left)), by_rank, by_pair))


def _goes_before(allocatable: Array, created: Array, than_allocatable: Array, than_created: Array) -> Array:
    """Criteria 7 and 8: the smaller allocatable vector where one is smaller, else the older queue."""
    below = _at_most(allocatable, than_allocatable)
    above = _at_most(than_allocatable, allocatable)
    return jnp.where(below ^ above, below, created < than_created)


def _at_most(a: Array, b: Array) -> Array:
    """a ≤* b over the leading axis: unlimited is above every number."""
    return jnp.all(jnp.where(a == UNLIMITED, b == UNLIMITED, (b == UNLIMITED) | (a <= b)), axis=0)
