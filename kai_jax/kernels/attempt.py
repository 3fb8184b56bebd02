"""One attempt to place what a job tries next: whole, or nothing.

Without topology constraints the tasks of a chunk are placed one after the other and the first failure ends the
attempt. With them, every constrained set or podset of the subgroup tree is a frame over an interval of the chunk: it
has candidate node sets in a fixed order, and a failure inside takes the innermost open frame to its next candidate,
from the books that it started with (spec 03 §2.3). Siblings already placed are not tried elsewhere.
"""

import dataclasses
from typing import Any

import jax.numpy as jnp
from jax import Array, lax

from kai_jax.kernels.books import Books
from kai_jax.kernels.place import Place, book, defer, place_of, request_of, unbook
from kai_jax.kernels.rank import NodeSet, Owner, all_nodes, causes, usage_of
from kai_jax.kernels.search import Memo, candidate_of, find_node, forget
from kai_jax.kernels.topology import Group, NoNodes, node_sets, nodes_of
from kai_jax.kernels.tree import Chunk
from kai_jax.kernels.vector import after, element, first_true, put, put_row, row, when
from kai_jax.tensors import ACTIVE, NONE, Attempts, Policy, Reason, Requests, Snapshot, Status
from kai_jax.tensors.pytree import pytree

_REASONS = {
    NoNodes.OK: 0,
    NoNodes.COMMON_DOMAIN: Reason.POD_SCHEDULING_ERRORS,
    NoNodes.NO_DOMAIN: Reason.POD_SCHEDULING_ERRORS | Reason.TOPOLOGY_NOT_ENOUGH,
    NoNodes.NONE_LEFT: Reason.POD_SCHEDULING_ERRORS,
    NoNodes.MISCONFIGURED: 0,
}


@pytree
class Job:
    """The job of an attempt and the chunk of its tasks."""

    index: Array  # i32[] -> J
    owner: Owner
    chunk: Chunk
    base: Array  # i32[window] first task of the chunk in each of its podsets


@pytree
class Frames:
    """Open topology constraints, outermost first; row 0 of the node sets is the whole cluster."""

    depth: Array  # i32[] open frames
    node: Array  # i32[F] local tree node
    turn: Array  # i32[F] candidate in use
    count: Array  # i32[F] candidates
    order: Array  # i32[F,D] candidate domains
    valid: Array  # bool[F,N] nodes that the frame was given
    inside: Array  # bool[F+1,N]
    score: Array  # f64[F+1,N]
    allocated: Array  # f64[F,2,3,levels] queue amounts of the path when the frame was opened


@pytree
class Run:
    """Progress of an attempt."""

    position: Array  # i32[] tasks placed
    alive: Array  # bool[]
    books: Books
    memo: Memo
    attempts: Attempts
    frames: Frames


def try_job(
    policy: Policy, snapshot: Snapshot, numbered: Array, books: Books, memo: Memo, attempts: Attempts, job: Job
) -> tuple[Books, Memo, Attempts, Array]:
    """(books, memo, notes, success); the books of a failed attempt are those it started with, bit for bit."""
    frames = _no_frames(policy, snapshot)
    before = _amounts(books, job.owner.path)
    run = Run(jnp.int32(0), jnp.bool_(True), books, memo, attempts, frames)

    def step(run: Run) -> Run:
        if not policy.features.topology:
            return _place_next(policy, snapshot, numbered, run, job)
        opening = _frame_to_open(snapshot, run, job)
        run = lax.cond(
            opening >= 0,
            lambda r: _open(policy, snapshot, r, job, opening),
            lambda r: _place_next(policy, snapshot, numbered, r, job),
            run,
        )
        run = lax.while_loop(
            lambda r: ~r.alive & (r.frames.depth > 0), lambda r: _next_candidate(policy, snapshot, r, job), run
        )
        return _close(run, job)

    run = lax.while_loop(lambda r: r.alive & (r.position < job.chunk.tasks), step, run)
    books = _roll_back(policy, snapshot, run.books, job, run.position, jnp.where(run.alive, run.position, 0))
    books = when(~run.alive, lambda b: _restore_amounts(b, job.owner.path, before), books)
    memo = forget(run.memo, ~run.alive & (run.position > 0))
    return books, memo, run.attempts, run.alive


def defer_job(policy: Policy, snapshot: Snapshot, books: Books, job: Job) -> Books:
    """All tasks that this attempt allocated become pipelined."""

    def step(carry: Any) -> Any:
        position, status, place, books = carry
        task = task_at(job, position)
        books = when(status == Status.ALLOCATED, lambda b: defer(policy, snapshot, b, task, place), books)
        return position + 1, *look(books, position + 1), books

    def look(books: Books, position: Array) -> tuple[Array, Place]:
        task = task_at(job, jnp.minimum(position, job.chunk.tasks - 1))
        return element(books.task_status, task), place_of(books, task)

    start = (jnp.int32(0), *look(books, jnp.int32(0)), books)
    return lax.while_loop(lambda c: c[0] < job.chunk.tasks, step, start)[-1]


def task_at(job: Job, position: Array) -> Array:
    """The task at a position of the chunk."""
    segment = first_true(job.chunk.end > position)
    return element(job.base, segment) + position - element(job.chunk.end, segment) + element(job.chunk.count, segment)


def _place_next(policy: Policy, snapshot: Snapshot, numbered: Array, run: Run, job: Job) -> Run:
    task = task_at(job, run.position)
    nodes = None
    if policy.features.topology:
        depth = run.frames.depth
        nodes = NodeSet(row(run.frames.inside, depth), row(run.frames.score, depth))
    placement, memo = find_node(policy, snapshot, numbered, run.books, run.memo, nodes, task, job.owner)
    attempts = when(
        ~placement.ok,
        lambda a: _note_failure(policy, snapshot, run.books, a, nodes, task, run.position, job),
        dataclasses.replace(run.attempts, overflow=run.attempts.overflow | placement.overflow),
    )
    placed = after(placement.ok, attempts.failed_task[0])
    books = when(placed, lambda b: book(policy, snapshot, b, task, placement, job.owner), run.books)
    return dataclasses.replace(
        run,
        position=run.position + placement.ok.astype(jnp.int32),
        alive=placement.ok,
        books=books,
        memo=memo,
        attempts=attempts,
    )


def _note_failure(
    policy: Policy,
    snapshot: Snapshot,
    books: Books,
    attempts: Attempts,
    nodes: NodeSet | None,
    task: Array,
    position: Array,
    job: Job,
) -> Attempts:
    segment = first_true(job.chunk.end > position)
    before = position - element(job.chunk.end, segment) + element(job.chunk.count, segment)
    candidate = candidate_of(snapshot, task, job.owner)
    lost = causes(policy, all_nodes(snapshot, books, nodes), usage_of(snapshot, books), candidate)
    attempts = note_reason(attempts, job.index, jnp.int32(Reason.POD_SCHEDULING_ERRORS))
    return dataclasses.replace(
        attempts,
        failed_task=put(attempts.failed_task, job.index, task),
        placed_before=put(attempts.placed_before, job.index, before),
        lost=put_row(attempts.lost, job.index, lost),
    )


def note_reason(attempts: Attempts, job: Array, bits: Array) -> Attempts:
    """Attempts with more reason bits on a job."""
    return dataclasses.replace(attempts, reasons=put(attempts.reasons, job, element(attempts.reasons, job) | bits))


def _frame_to_open(snapshot: Snapshot, run: Run, job: Job) -> Array:
    """Local index of the outermost constrained tree node that starts here and is not open yet, -1 none."""
    chunk, tree = job.chunk, snapshot.tree
    start = element(snapshot.jobs.node_start, job.index)
    window = chunk.first.shape[0]
    depth = lax.dynamic_slice(tree.depth, (start,), (window,))
    constrained = lax.dynamic_slice(tree.topology, (start,), (window,)) != NONE
    local = jnp.arange(window, dtype=jnp.int32)
    frames = run.frames
    open_depth = jnp.where(frames.depth > 0, depth[element(frames.node, jnp.maximum(frames.depth - 1, 0))], -1)
    starts = (chunk.first == run.position) & (chunk.last > chunk.first) & constrained & (depth > open_depth)
    starts = starts & (local < element(snapshot.jobs.node_count, job.index))
    key = jnp.where(starts, depth, 2**30)
    best = jnp.min(key)
    return jnp.where(best < 2**30, first_true(key == best), NONE)


def _open(policy: Policy, snapshot: Snapshot, run: Run, job: Job, local: Array) -> Run:
    """Push a frame before its first candidate; `_next_candidate` takes it from there."""
    frames, books = run.frames, run.books
    depth = frames.depth
    tree_node = element(snapshot.jobs.node_start, job.index) + local
    valid = row(frames.inside, depth)
    group = _group(snapshot, books, job, local, tree_node)
    sets = node_sets(snapshot.topology, group, valid, books, snapshot.nodes.gpu_memory)
    reasons = jnp.array([_REASONS[outcome] for outcome in NoNodes], jnp.int32)
    score = jnp.where(sets.scored, sets.score, row(frames.score, depth))
    frames = Frames(
        depth=depth + 1,
        node=put(frames.node, depth, local),
        turn=put(frames.turn, depth, jnp.int32(-1)),
        count=put(frames.count, depth, sets.count),
        order=put_row(frames.order, depth, sets.order),
        valid=put_row(frames.valid, depth, valid),
        inside=frames.inside,
        score=put_row(frames.score, depth + 1, score),
        allocated=put_row(frames.allocated, depth, _amounts(books, job.owner.path)),
    )
    return dataclasses.replace(
        run,
        alive=jnp.bool_(False),
        memo=forget(run.memo),
        attempts=note_reason(run.attempts, job.index, reasons[sets.outcome]),
        frames=frames,
    )


def _next_candidate(policy: Policy, snapshot: Snapshot, run: Run, job: Job) -> Run:
    """Take the innermost frame back to its start and on to its next node set, or drop it when it has none left."""
    frames = run.frames
    top = frames.depth - 1
    turn = element(frames.turn, top) + 1
    more = turn < element(frames.count, top)
    start = element(job.chunk.first, element(frames.node, top))
    books = _roll_back(policy, snapshot, run.books, job, run.position, jnp.where(more, start, run.position))
    moved = more & (run.position > start)
    books = when(moved, lambda b: _restore_amounts(b, job.owner.path, row(frames.allocated, top)), books)
    domain = element(row(frames.order, top), jnp.maximum(turn, 0))
    inside = nodes_of(snapshot.topology, jnp.maximum(domain, 0), row(frames.valid, top))
    frames = dataclasses.replace(
        frames,
        depth=jnp.where(more, frames.depth, top),
        turn=put(frames.turn, top, turn),
        inside=put_row(frames.inside, top + 1, inside),
    )
    return dataclasses.replace(
        run,
        position=jnp.where(more, start, run.position),
        alive=more,
        books=books,
        memo=forget(run.memo),
        frames=frames,
    )


def _close(run: Run, job: Job) -> Run:
    """Drop the frames that end at the position reached."""

    def ended(frames: Frames) -> Array:
        node = element(frames.node, jnp.maximum(frames.depth - 1, 0))
        return (frames.depth > 0) & (element(job.chunk.last, node) == run.position)

    frames = lax.while_loop(
        lambda f: run.alive & ended(f), lambda f: dataclasses.replace(f, depth=f.depth - 1), run.frames
    )
    return dataclasses.replace(run, frames=frames, memo=forget(run.memo, frames.depth != run.frames.depth))


def _group(snapshot: Snapshot, books: Books, job: Job, local: Array, tree_node: Array) -> Group:
    """What the tasks below a tree node ask for, and the domains that its podsets already live in."""
    first, last = element(job.chunk.first, local), element(job.chunk.last, local)
    tasks = last - first
    resources = books.idle.shape[0]

    def step(carry: Any) -> Any:
        position, most, total, users = carry
        vector = _request(snapshot, task_at(job, position)).vector
        return position + 1, jnp.maximum(most, vector), total + vector, users + (vector > 0)

    zero = jnp.zeros(resources)
    start = (first, zero, zero, jnp.zeros(resources, jnp.int32))
    _, most, total, users = lax.while_loop(lambda c: c[0] < last, step, start)
    uniform = (users == 0) | (users == tasks)
    constraint = element(snapshot.tree.topology, tree_node)
    required = element(snapshot.tree.required, tree_node)
    return Group(
        topology=constraint,
        required=required,
        preferred=element(snapshot.tree.preferred, tree_node),
        tasks=tasks,
        max_request=most,
        total_request=total,
        homogeneous=uniform[0] & jnp.all(uniform[3:]),
        pinned=_pinned(snapshot, books, job, first, last, constraint, required),
    )


def _pinned(
    snapshot: Snapshot, books: Books, job: Job, first: Array, last: Array, constraint: Array, required: Array
) -> Array:
    """bool[D] required-level domains with active pods of the podsets in [first,last); all when there are none."""
    domains = snapshot.topology.parent.shape[0]
    levels = row(snapshot.topology.node_domain, jnp.maximum(constraint, 0))
    at_level = row(levels, jnp.maximum(required, 0))

    def segment(carry: Any) -> Any:
        index, found, hosts = carry
        end = element(job.chunk.end, index)
        podset = element(job.chunk.podset, index)
        inside = (end > first) & (end <= last)
        stop = element(snapshot.podsets.task_count, podset)
        some = inside & (element(books.active, podset) > 0)

        def task(carry: Any) -> Any:
            offset, found, hosts = carry
            index = element(snapshot.podsets.task_start, podset) + offset
            status = element(books.task_status, index)
            active = jnp.any(jnp.array(ACTIVE, status.dtype) == status)
            node = element(books.task_node, index)
            domain = jnp.where(node >= 0, element(at_level, jnp.maximum(node, 0)), NONE)
            hit = active & (domain >= 0)
            place = jnp.maximum(domain, 0)
            return offset + 1, found | active, put(hosts, place, element(hosts, place) | hit)

        start = (jnp.where(some, 0, stop), found, hosts)
        _, found, hosts = lax.while_loop(lambda c: c[0] < stop, task, start)
        return index + 1, found, hosts

    start = (jnp.int32(0), jnp.bool_(False), jnp.zeros(domains, bool))
    _, found, hosts = lax.while_loop(lambda c: c[0] < job.chunk.segments, segment, start)
    return hosts | ~found | (required < 0)


def _request(snapshot: Snapshot, task: Array) -> Requests:
    return request_of(snapshot.requests, element(snapshot.tasks.request, task))


def _roll_back(policy: Policy, snapshot: Snapshot, books: Books, job: Job, position: Array, start: Array) -> Books:
    """Books without the tasks at start .. position-1, newest first; queue amounts are left to the caller."""

    def look(books: Books, position: Array) -> Place:
        return place_of(books, task_at(job, jnp.maximum(position - 1, 0)))

    def step(carry: Any) -> Any:
        position, place, books = carry
        books = unbook(policy, snapshot, books, task_at(job, position - 1), place)
        return position - 1, look(books, position - 1), books

    # a task's place is read one step ahead, so that each step only writes its books
    return lax.while_loop(lambda c: c[0] > start, step, (position, look(books, position), books))[-1]


def _amounts(books: Books, path: Array) -> Array:
    """f64[2,3,levels] allocated and non-preemptible amounts of the queues of a path."""
    at = jnp.maximum(path, 0)
    return jnp.stack([books.queue_allocated[:, at], books.queue_fixed[:, at]])


def _restore_amounts(books: Books, path: Array, amounts: Array) -> Books:
    def step(carry: Any) -> Any:
        level, allocated, fixed = carry
        queue = element(path, level)
        values = element(amounts, level)
        return level + 1, put(allocated, queue, values[0]), put(fixed, queue, values[1])

    levels = path.shape[0]
    start = (jnp.int32(0), books.queue_allocated, books.queue_fixed)
    _, allocated, fixed = lax.while_loop(
        lambda c: (c[0] < levels) & (element(path, jnp.minimum(c[0], levels - 1)) >= 0), step, start
    )
    return dataclasses.replace(books, queue_allocated=allocated, queue_fixed=fixed)


def _no_frames(policy: Policy, snapshot: Snapshot) -> Frames:
    bounds = policy.bounds
    nodes = snapshot.nodes.exists.shape[0]
    domains = snapshot.topology.parent.shape[0]
    return Frames(
        depth=jnp.int32(0),
        node=jnp.zeros(bounds.frames, jnp.int32),
        turn=jnp.zeros(bounds.frames, jnp.int32),
        count=jnp.zeros(bounds.frames, jnp.int32),
        order=jnp.zeros((bounds.frames, domains), jnp.int32),
        valid=jnp.zeros((bounds.frames, nodes), bool),
        inside=jnp.ones((bounds.frames + 1, nodes), bool),
        score=jnp.zeros((bounds.frames + 1, nodes)),
        allocated=jnp.zeros((bounds.frames, 2, 3, bounds.queue_levels)),
    )
