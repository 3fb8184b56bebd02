"""An attempt places all of a chunk, or leaves no trace but its reasons."""

from dataclasses import replace
from functools import partial

import jax
import numpy as np
from kernels.snapshots import CPU, GPU, NODES, REQUESTS, Request, policy, random_cluster, same

from kai_jax.kernels.attempt import Job, defer_job, task_at, try_job
from kai_jax.kernels.books import open_books
from kai_jax.kernels.place import book
from kai_jax.kernels.rank import Owner
from kai_jax.kernels.search import find_node, no_memo
from kai_jax.kernels.tree import Chunk
from kai_jax.tensors import Attempts, Bounds, Cause, Features, Policy, Reason, Snapshot, State, Status

WINDOW = 4
OWNER = Owner(np.array([2, 1], np.int32), np.bool_(True))
PLAIN = replace(policy(topology=False), bounds=Bounds(4, WINDOW, 2, 1))
# only what the example needs is compiled
RACKS = replace(PLAIN, features=Features(shared=False, ports=False, nominated=False, releasing=False))
ONE, TWO, SMALL, PART = (
    REQUESTS.index(request)
    for request in (Request(gpus=1), Request(gpus=2), Request(cpu=500), Request(devices=1, portion=0.5))
)
books_of = jax.jit(open_books, static_argnums=2)


def with_windows(snapshot: Snapshot) -> Snapshot:
    def tail(values):
        return np.pad(values, (0, WINDOW))

    return replace(snapshot, podsets=jax.tree.map(tail, snapshot.podsets), tree=jax.tree.map(tail, snapshot.tree))


def no_attempts() -> Attempts:
    none = np.full(1, -1, np.int32)
    return Attempts(
        reasons=np.zeros(1, np.int32),
        failed_task=none,
        placed_before=np.zeros(1, np.int32),
        lost=np.zeros((1, len(Cause)), np.int32),
        gate_queue=none,
        gate_resource=none,
        gate_amounts=np.zeros((1, 3)),
        overflow=np.bool_(False),
    )


def job_of(tasks: int, first: int = 0) -> Job:
    """The chunk of `tasks` pending tasks of podset 0, beginning with task `first`."""
    each = np.full(WINDOW, tasks, np.int32)
    chunk = Chunk(
        podset=np.zeros(WINDOW, np.int32),
        count=each,
        end=each,
        segments=np.int32(1),
        tasks=np.int32(tasks),
        first=np.zeros(WINDOW, np.int32),
        last=np.where(np.arange(WINDOW) < 2, tasks, 0).astype(np.int32),
    )
    return Job(np.int32(0), OWNER, chunk, np.full(WINDOW, first, np.int32))


@partial(jax.jit, static_argnums=0)
def attempt(rules: Policy, snapshot, numbered, books, job):
    return try_job(rules, snapshot, numbered, books, no_memo(NODES), no_attempts(), job)


@jax.jit
def step(snapshot, numbered, books, task):
    placement, _ = find_node(PLAIN, snapshot, numbered, books, no_memo(NODES), None, task, OWNER)
    return placement.ok, book(PLAIN, snapshot, books, task, placement, OWNER)


defer = jax.jit(defer_job, static_argnums=0)


def cluster(seed: int, tasks: int) -> tuple[Snapshot, State]:
    random = np.random.default_rng(seed)
    classes = random.integers(len(REQUESTS), size=tasks).tolist()
    snapshot, state = random_cluster(random, classes, (tasks,))
    return with_windows(snapshot), state


def test_all_tasks_as_one_by_one_or_the_books_of_before():
    outcomes = []
    for seed in range(50):
        snapshot, state = cluster(seed, 9)
        before = books_of(snapshot, state, WINDOW)
        job = job_of(5, first=2)
        books, _, attempts, success = attempt(PLAIN, snapshot, state.device_numbered, before, job)
        want, ok, placed = before, True, 0
        while ok and placed < 5:
            ok, booked = step(snapshot, state.device_numbered, want, np.int32(2 + placed))
            if ok:
                want, placed = booked, placed + 1
        assert bool(success) == bool(ok), seed
        outcomes.append(placed)
        if ok:
            same(books, want)
            same(attempts, no_attempts())
            continue
        same(books, before)
        assert attempts.reasons.tolist() == [Reason.POD_SCHEDULING_ERRORS]
        assert attempts.failed_task.tolist() == [2 + placed]
        assert attempts.placed_before.tolist() == [placed]
        if not REQUESTS[snapshot.tasks.request[2 + placed]].devices:
            assert attempts.lost.sum() == snapshot.nodes.exists.sum()
    assert {1, 2, 3, 4, 5} <= set(outcomes), outcomes


def test_a_deferred_job_waits_on_the_nodes_it_got():
    deferred = 0
    for seed in range(50):
        snapshot, state = cluster(seed, 3)
        before = books_of(snapshot, state, WINDOW)
        books, _, _, success = attempt(PLAIN, snapshot, state.device_numbered, before, job_of(3))
        if not success:
            continue
        deferred += int((np.asarray(books.task_status) == Status.ALLOCATED).sum())
        waiting = defer(PLAIN, snapshot, books, job_of(3))
        assert (waiting.task_status == Status.PIPELINED).all()
        same(waiting.idle, before.idle)  # shared devices give theirs back too
        same(waiting.free[CPU:], books.free[CPU:])
        for unchanged in ("task_node", "task_devices", "device_used", "device_holders", "queue_allocated", "active"):
            same(getattr(waiting, unchanged), getattr(books, unchanged))
        same(waiting.device_allocated, before.device_allocated)
        assert not waiting.allocated.any()
    assert deferred > 20


def test_tasks_of_a_chunk_of_several_podsets():
    """Two tasks from task 4 on, then three from task 9 on."""
    count, end = np.array([2, 3, 0, 0], np.int32), np.array([2, 5, 0, 0], np.int32)
    job = replace(job_of(5), base=np.array([4, 9, 0, 0], np.int32))
    job = replace(job, chunk=replace(job.chunk, count=count, end=end, segments=np.int32(2)))
    assert [int(task_at(job, np.int32(position))) for position in range(5)] == [4, 5, 9, 10, 11]


def racks(classes: list[int], idle: dict[int, float]) -> tuple[Snapshot, State]:
    """Nodes 0 to 15 are rack a, the others rack b; the podset must stay in one rack."""
    snapshot, state = random_cluster(np.random.default_rng(0), classes, (len(classes),))
    exists = snapshot.nodes.exists
    capacity = np.array([[8.0], [4000.0], [1e6], [110.0], [0.0]]) * exists
    free = capacity.copy()
    free[GPU] = [idle.get(n, 0) for n in range(NODES)]
    rack = np.where(np.arange(NODES) < 16, 1, 2)
    topology = replace(
        snapshot.topology,
        node_domain=np.where(exists, np.stack([np.zeros(NODES, int), rack]), -1).astype(np.int32)[None],
        parent=np.array([-1, 0, 0, -1], np.int32),
        level=np.array([0, 1, 1, -1], np.int32),
        id_rank=np.array([0, 0, 1, 0], np.int32),
    )
    at_podset = np.array([-1, 0], np.int32)
    snapshot = replace(
        snapshot,
        nodes=replace(snapshot.nodes, allocatable=capacity, gpu_count=np.where(exists, 8, 0)),
        constraints=replace(snapshot.constraints, allowed=np.tile(exists, (3, 1))),
        tree=replace(snapshot.tree, topology=at_podset, required=np.array([-1, 1], np.int32)),
        jobs=replace(snapshot.jobs, flat=np.array([False])),
        topology=topology,
        spread_gpu=np.bool_(False),
        spread_cpu=np.bool_(False),
    )
    state = jax.tree.map(np.zeros_like, state)
    placed_nowhere = np.full(len(classes), -1, np.int32)
    state = replace(state, idle=free, used_gpu=8.0 * exists - free[GPU], task_node=placed_nowhere)
    return with_windows(snapshot), state


def test_a_rack_that_fails_is_left_as_it_was():
    # rack a is the tighter one, and its sum suffices for the pair, but none of its nodes has two devices
    snapshot, state = racks([ONE, SMALL, TWO], {0: 1, 1: 1, 2: 1, 20: 2, 21: 2})
    before = books_of(snapshot, state, WINDOW)
    books, _, _, success = attempt(RACKS, snapshot, state.device_numbered, before, job_of(3))
    assert success
    assert (books.task_node[1:] >= 16).all()
    assert books.task_node.tolist()[::2] == [20, 21]
    same(books.free[:, :16], before.free[:, :16])
    assert books.queue_allocated[:, 2].tolist() == [700, 48, 3]
    assert books.remaining[0] == 0


def test_when_all_racks_fail_nothing_stays():
    snapshot, state = racks([ONE, SMALL, TWO], {0: 1, 1: 1, 2: 1, 20: 1, 21: 1, 22: 1, 23: 1})
    before = books_of(snapshot, state, WINDOW)
    books, _, attempts, success = attempt(RACKS, snapshot, state.device_numbered, before, job_of(3))
    assert not success
    same(books, before)
    assert attempts.failed_task.tolist() == [2]
    assert attempts.placed_before.tolist() == [2]
    assert attempts.lost[0, Cause.OUTSIDE] == 16  # of the last rack tried


def test_a_device_opened_in_vain_is_forgotten():
    snapshot, state = racks([PART, TWO], {0: 1})
    before = books_of(snapshot, state, WINDOW)
    books, _, attempts, success = attempt(PLAIN, snapshot, state.device_numbered, before, job_of(2))
    assert not success
    assert attempts.placed_before.tolist() == [1]
    same(books, before)
