"""allocate: attempt after attempt for every ready job with pending tasks, until nothing more fits (spec 03 §2)."""

import dataclasses
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array, lax

from kai_jax.kernels.attempt import Job, defer_job, note_reason, task_at, try_job
from kai_jax.kernels.books import Books, close_books, open_books
from kai_jax.kernels.gate import Verdict, check_capacity
from kai_jax.kernels.place import request_of
from kai_jax.kernels.queue_order import Need, Order, build_order, pop, queue_tree, settle_path
from kai_jax.kernels.rank import Owner
from kai_jax.kernels.search import Memo, forget, no_memo
from kai_jax.kernels.tree import Chunk, next_chunk
from kai_jax.kernels.vector import element, put, put_row, row, when
from kai_jax.tensors import CPU, MEMORY, NONE, Attempts, Cause, Elastic, Policy, Snapshot, State
from kai_jax.tensors.pytree import pytree


@pytree
class _Cycle:
    order: Order
    books: Books
    memo: Memo
    attempts: Attempts


@partial(jax.jit, static_argnums=0)
def allocate(policy: Policy, snapshot: Snapshot, fair_share: Array, state: State) -> tuple[State, Attempts]:
    """Place pending tasks: (state after, notes about failed attempts).

    fair_share is f64[3,Q]. Placed tasks are ALLOCATED or PIPELINED in the result.
    """
    bounds = policy.bounds
    snapshot = _with_windows(snapshot, bounds.window)
    tree = queue_tree(policy, snapshot.queues, snapshot.jobs, fair_share)
    books = open_books(snapshot, state, bounds.window)
    paths = _paths(policy, snapshot)

    def need_of(books: Books) -> Need:
        return lambda job: _need(snapshot, _plan(policy, snapshot, paths, books, job))

    order = build_order(tree, books.queue_allocated, need_of(books))

    def step(cycle: _Cycle) -> _Cycle:
        order, leaf, slot = pop(tree, cycle.order)
        job = _plan(policy, snapshot, paths, cycle.books, element(snapshot.jobs.slot_job, slot))
        need = element(order.head_need, leaf)
        books, memo, attempts, done = _attempt(policy, snapshot, state.device_numbered, cycle, job, need)
        returned = lax.cond(done, lambda: _slot_after(policy, snapshot, books, job.index), lambda: jnp.int32(NONE))
        order = settle_path(tree, order, books.queue_allocated, leaf, returned, need_of(books))
        return _Cycle(order, books, memo, attempts)

    cycle = _Cycle(order, books, no_memo(snapshot.nodes.exists.shape[0]), no_attempts(snapshot))
    cycle = lax.while_loop(lambda c: c.order.top[0] >= 0, step, cycle)
    return close_books(cycle.books, state), cycle.attempts


def _attempt(
    policy: Policy, snapshot: Snapshot, numbered: Array, cycle: _Cycle, job: Job, need: Array
) -> tuple[Books, Memo, Attempts, Array]:
    """Gate, placement, and the rule that a gang that waits waits whole: (books, memo, attempts, committed)."""
    passes, attempts = _gate(policy, snapshot, cycle, job, need)
    chunk = dataclasses.replace(job.chunk, tasks=jnp.where(passes, job.chunk.tasks, 0))
    job = dataclasses.replace(job, chunk=chunk)
    books, memo, attempts, success = try_job(policy, snapshot, numbered, cycle.books, cycle.memo, attempts, job)
    done = passes & success
    waits = done & _must_wait(policy, snapshot, books, job.index)
    books = when(waits, lambda b: defer_job(policy, snapshot, b, job), books)
    return books, forget(memo, waits), attempts, done


def _gate(policy: Policy, snapshot: Snapshot, cycle: _Cycle, job: Job, need: Array) -> tuple[Array, Attempts]:
    """(the job has something to try and its queues have room for it, attempts with the refusal)."""
    some = job.chunk.tasks > 0
    if not policy.capacity:
        return some, cycle.attempts
    books, owner = cycle.books, job.owner
    amount = jnp.stack([need[0], need[1], need[3]])
    verdict = check_capacity(
        snapshot.queues, books.queue_allocated, books.queue_fixed, owner.path, owner.preemptible, amount
    )
    refused = some & (verdict.reason != 0)
    return some & ~refused, when(refused, lambda a: _note_refusal(a, job.index, verdict), cycle.attempts)


def _plan(policy: Policy, snapshot: Snapshot, paths: Array, books: Books, index: Array) -> Job:
    """The chunk of tasks that a job tries next."""
    jobs, podsets = snapshot.jobs, snapshot.podsets
    leaf = element(jobs.queue, index)
    chunk = _chunk(policy, snapshot, books, index)
    podset = jnp.maximum(chunk.podset, 0)
    return Job(
        index=index,
        owner=Owner(row(paths, leaf), element(jobs.preemptible, index)),
        chunk=chunk,
        base=podsets.task_start[podset] + podsets.pending[podset] - books.remaining[podset],
    )


def _chunk(policy: Policy, snapshot: Snapshot, books: Books, index: Array) -> Chunk:
    jobs = snapshot.jobs
    window = policy.bounds.window
    podset = element(jobs.podset_start, index)

    def flat() -> Chunk:
        missing = element(snapshot.podsets.minimum, podset) - element(books.active, podset)
        count = jnp.minimum(jnp.where(missing > 0, missing, 1), element(books.remaining, podset))
        nodes = jnp.arange(window) < 2
        return Chunk(
            podset=jnp.full(window, podset),
            count=jnp.full(window, count),
            end=jnp.full(window, count),
            segments=jnp.int32(1),
            tasks=count,
            first=jnp.zeros(window, jnp.int32),
            last=jnp.where(nodes, count, 0),
        )

    if not policy.features.trees:
        return flat()

    def by_tree() -> Chunk:
        start, count = element(jobs.node_start, index), element(jobs.node_count, index)
        return next_chunk(snapshot.tree, window, policy.subgroup_order, start, count, books.active, books.remaining)

    return lax.cond(element(jobs.flat, index), flat, by_tree)


def _need(snapshot: Snapshot, job: Job) -> Array:
    """f64[4] of a chunk, added in task order: cpu, memory, devices for queue order, devices for the capacity gate."""
    requests = snapshot.requests

    def step(carry: Any) -> Any:
        position, total = carry
        request = element(snapshot.tasks.request, task_at(job, position))
        vector = request_of(requests, request).vector
        devices = [element(requests.order_gpu, request), element(requests.gate_gpu, request)]
        return position + 1, total + jnp.stack([vector[CPU], vector[MEMORY], *devices])

    return lax.while_loop(lambda c: c[0] < job.chunk.tasks, step, (jnp.int32(0), jnp.zeros(4)))[1]


def _must_wait(policy: Policy, snapshot: Snapshot, books: Books, job: Array) -> Array:
    """Some podset has a pipelined task and fewer allocated ones than its minimum (spec 03 §2.4)."""
    allocated, active, minimum, mine = _podsets(policy, snapshot, books, job)
    return jnp.any(mine & (active > allocated) & (allocated < minimum))


def _slot_after(policy: Policy, snapshot: Snapshot, books: Books, job: Array) -> Array:
    """The slot in which a job waits for its next pass, -1 when it has no pending task left."""
    _, active, minimum, mine = _podsets(policy, snapshot, books, job)
    start = element(snapshot.jobs.podset_start, job)
    remaining = lax.dynamic_slice(books.remaining, (start,), (policy.bounds.window,))
    pending = jnp.any(mine & (remaining > 0))
    below, above = jnp.any(mine & (active < minimum)), jnp.any(mine & (active > minimum))
    standing = jnp.where(below, Elastic.BELOW, jnp.where(above, Elastic.ABOVE, Elastic.EXACT)).astype(jnp.int32)
    slots = lax.dynamic_slice(snapshot.jobs.slot, (job, standing), (1, 1))[0, 0]
    return jnp.where(pending, slots, NONE)


def _podsets(policy: Policy, snapshot: Snapshot, books: Books, job: Array) -> tuple[Array, Array, Array, Array]:
    """(allocated, active, minimum, belongs to the job), i32[window] each."""
    start = element(snapshot.jobs.podset_start, job)
    window = policy.bounds.window

    def cut(values: Array) -> Array:
        return lax.dynamic_slice(values, (start,), (window,))

    mine = jnp.arange(window) < element(snapshot.jobs.podset_count, job)
    return cut(books.allocated), cut(books.active), cut(snapshot.podsets.minimum), mine


def _paths(policy: Policy, snapshot: Snapshot) -> Array:
    """i32[Q,levels] queues from each queue to its top queue, -1 beyond."""
    parent = snapshot.queues.parent
    queue = jnp.arange(parent.shape[0], dtype=jnp.int32)
    path = []
    for _ in range(policy.bounds.queue_levels):
        path.append(jnp.where(queue > 0, queue, NONE))
        queue = jnp.where(queue > 0, parent[queue], 0)
    return jnp.stack(path, axis=1)


def _note_refusal(attempts: Attempts, job: Array, verdict: Verdict) -> Attempts:
    attempts = note_reason(attempts, job, verdict.reason)
    return dataclasses.replace(
        attempts,
        gate_queue=put(attempts.gate_queue, job, verdict.queue),
        gate_resource=put(attempts.gate_resource, job, verdict.resource),
        gate_amounts=put_row(attempts.gate_amounts, job, verdict.amounts),
    )


def no_attempts(snapshot: Snapshot) -> Attempts:
    """Notes before the first attempt."""
    jobs = snapshot.jobs.queue.shape[0]
    none = jnp.full(jobs, NONE, jnp.int32)
    return Attempts(
        reasons=jnp.zeros(jobs, jnp.int32),
        failed_task=none,
        placed_before=jnp.zeros(jobs, jnp.int32),
        lost=jnp.zeros((jobs, len(Cause)), jnp.int32),
        gate_queue=none,
        gate_resource=none,
        gate_amounts=jnp.zeros((jobs, 3)),
        overflow=jnp.bool_(False),
    )


def _with_windows(snapshot: Snapshot, window: int) -> Snapshot:
    """Tails on the podset and tree axes, so that the window of any job lies inside."""

    def tail(a: Array) -> Array:
        return jnp.pad(a, (0, window))

    return dataclasses.replace(
        snapshot, podsets=jax.tree.map(tail, snapshot.podsets), tree=jax.tree.map(tail, snapshot.tree)
    )
