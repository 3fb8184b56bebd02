"""The order of jobs across a queue tree, against objects with stored tops and dirty flags."""

from dataclasses import dataclass, field
from random import Random

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from kai_jax.kernels.queue_order import QueueTree, build_order, pop, rank_queues, settle_path
from kai_jax.tensors import Jobs, Queues

SIZE, SLOTS, JOBS, CHILDREN = 16, 32, 32, 8
UNLIMITED = -1
NOTHING = (0.0, 0.0, 0.0)
Vector = tuple[float, float, float]


@dataclass(eq=False)
class Queue:
    """A queue as spec 02 §3 tells it; `waiting` are the filled slots of a leaf."""

    quota: Vector = (UNLIMITED,) * 3
    limit: Vector = (UNLIMITED,) * 3
    fair_share: Vector = NOTHING
    allocated: Vector = NOTHING
    priority: int = 100
    created: int = 0
    children: list["Queue"] = field(default_factory=list)
    waiting: list[int] = field(default_factory=list)
    slots: range = range(0)
    index: int = 0  # also the order of names
    parent: "Queue | None" = None
    present: list["Queue"] = field(default_factory=list)
    top: "Queue | None" = None
    dirty: bool = False


@dataclass
class Model:
    """The hierarchical job queue; `need` by job, `job` by slot."""

    root: Queue
    total: Vector
    need: list[Vector]
    job: list[int]

    def build(self, queue: Queue) -> None:
        for child in queue.children:
            self.build(child)
        queue.present = [child for child in queue.children if child.waiting or child.present]
        if queue.present:
            queue.top = self.best(queue)

    def request(self, queue: Queue) -> Vector:
        while queue.children:
            if queue.top is None:
                return NOTHING
            queue = queue.top
        return self.need[self.job[min(queue.waiting)]] if queue.waiting else NOTHING

    def allocatable(self, queue: Queue) -> Vector:
        def one(r: int) -> float:
            if queue.quota[r] == UNLIMITED:
                return queue.limit[r]
            entitled = max(queue.quota[r], queue.fair_share[r])
            return entitled if queue.limit[r] == UNLIMITED else min(entitled, queue.limit[r])

        return one(0), one(1), one(2)

    def share(self, queue: Queue, amount: Vector) -> float:
        bounds = self.allocatable(queue)
        parts = []
        for have, bound, total in zip(amount, bounds, self.total, strict=True):
            by = total if bound == UNLIMITED else bound
            parts.append(have * 1000 if by == 0 else have / by)
        return max(0.0, *parts)

    def keys(self, queue: Queue) -> tuple:
        need = self.request(queue)
        after = tuple(a + n for a, n in zip(queue.allocated, need, strict=True))
        bounds = self.allocatable(queue)
        over = all(f < a for f, a in zip(queue.fair_share, queue.allocated, strict=True))
        fits = all(q == UNLIMITED or a <= q for a, q in zip(after, queue.quota, strict=True))
        violates = any(b == 0 and a > 0 for a, b in zip(after, bounds, strict=True))
        return over, not fits, -queue.priority, violates, self.share(queue, after), self.share(queue, queue.allocated)

    def less(self, left: Queue, right: Queue) -> bool:
        a, b = self.keys(left), self.keys(right)
        if a != b:
            return a < b
        below, above = self.within(left, right), self.within(right, left)
        if below != above:
            return below
        return left.created < right.created

    def within(self, left: Queue, right: Queue) -> bool:
        pairs = zip(self.allocatable(left), self.allocatable(right), strict=True)
        return all(b == UNLIMITED or a != UNLIMITED and a <= b for a, b in pairs)

    def best(self, queue: Queue) -> Queue:
        unbeaten = [c for c in queue.present if not any(self.less(o, c) for o in queue.present if o is not c)]
        assert unbeaten, "the drawn queues beat each other in a circle"
        return queue.top if queue.top in unbeaten else unbeaten[0]

    def pop(self) -> tuple[Queue, int]:
        queue = self.root
        while queue.children:
            while queue.top.dirty:
                queue.top.dirty = False
                queue.top = self.best(queue)
            queue = queue.top
        slot = min(queue.waiting)
        queue.waiting.remove(slot)
        left = queue
        while left.parent and not left.waiting and not left.present:
            level = left.parent
            level.present.remove(left)
            level.top = None
            level.top = self.best(level) if level.present else None
            left = level
        self.soil(left)
        return queue, slot

    def push_back(self, leaf: Queue, slot: int) -> None:
        leaf.waiting.append(slot)
        queue = leaf
        while queue.parent and queue not in queue.parent.present:
            level = queue.parent
            level.present = sorted([*level.present, queue], key=lambda child: child.index)
            if level.top is None or self.less(queue, level.top):
                level.top = queue
            queue = level
        self.soil(leaf)

    @staticmethod
    def soil(queue: Queue) -> None:
        while queue.parent:
            queue.dirty = True
            queue = queue.parent


def walk(root: Queue) -> list[Queue]:
    """Breadth first; numbers queues, sets parents and gives leaves their slots."""
    listed, taken = [root], 0
    for index, queue in enumerate(listed):  # grows while it is walked
        queue.index = index
        for child in queue.children:
            child.parent = queue
        listed += queue.children
        end = taken + (max(queue.waiting) + 1 if queue.waiting else 0)
        queue.slots = range(taken, end)
        queue.waiting = [taken + slot for slot in queue.waiting]
        taken = end
    return listed


def tensors(listed: list[Queue], total: Vector) -> tuple[Queues, np.ndarray, np.ndarray]:
    """(queues, fair share, allocated)."""

    def column(values, dtype=np.int32, fill=0):
        return np.array([*values, *[fill] * (SIZE - len(listed))], dtype)

    def rows(name: str) -> np.ndarray:
        return np.array([column([getattr(q, name)[r] for q in listed], float) for r in range(3)])

    first = {q: q.children[0].index if q.children else 0 for q in listed}
    queues = Queues(
        parent=column([q.parent.index if q.parent else -1 for q in listed], fill=-1),
        level=column([0] * len(listed)),
        child_start=column(first.values()),
        child_count=column([len(q.children) for q in listed]),
        slot_start=column([q.slots.start for q in listed]),
        slot_end=column([q.slots.stop for q in listed]),
        quota=rows("quota"),
        limit=rows("limit"),
        weight=np.zeros((3, SIZE)),
        priority=column([q.priority for q in listed]),
        created=column([q.created for q in listed], np.int64),
        uid_rank=column([q.index for q in listed]),
        usage=np.zeros((3, SIZE)),
        request=np.zeros((3, SIZE)),
        total=np.array(total, float),
    )
    return queues, rows("fair_share"), rows("allocated")


def jobs_of(listed: list[Queue], job: list[int]) -> Jobs:
    filled = np.zeros(SLOTS, bool)
    filled[[slot for queue in listed for slot in queue.waiting]] = True
    unread = np.zeros(JOBS, np.int32)
    names = ("queue", "preemptible", "podset_start", "podset_count", "node_start", "node_count", "flat", "slot")
    return Jobs(**dict.fromkeys(names, unread), slot_job=np.array(job, np.int32), slot_filled=filled)


def need_from(needs):
    return lambda job: jnp.append(needs[job], 0.0)


ranking_of = jax.jit(rank_queues, static_argnums=(2, 3))


def tree(queues, jobs, ranking) -> QueueTree:
    return QueueTree(queues, jobs, ranking, CHILDREN, capacity=True)


@jax.jit
def build(queues, jobs, ranking, allocated, needs):
    return build_order(tree(queues, jobs, ranking), allocated, need_from(needs))


@jax.jit
def take(queues, jobs, ranking, order):
    return pop(tree(queues, jobs, ranking), order)


@jax.jit
def settle(queues, jobs, ranking, order, allocated, leaf, returned, needs):
    return settle_path(tree(queues, jobs, ranking), order, allocated, leaf, returned, need_from(needs))


class Kernel:
    """The same queue tree on arrays."""

    def __init__(self, listed: list[Queue], total: Vector, need: list[Vector], job: list[int]):
        self.listed, self.total, self.need = listed, total, need
        self.queues, fair_share, allocated = tensors(listed, total)
        ranking = ranking_of(self.queues, fair_share, CHILDREN, True)
        self.tree = self.queues, jobs_of(listed, job), ranking
        self.order = build(*self.tree, allocated, self.needs())

    def needs(self) -> np.ndarray:
        return np.array([*self.need, *[NOTHING] * (JOBS - len(self.need))], float)

    def pop(self) -> tuple[int, int]:
        self.order, leaf, slot = take(*self.tree, self.order)
        return int(leaf), int(slot)

    def settle(self, leaf: int, returned: int = -1) -> None:
        allocated = tensors(self.listed, self.total)[2]
        self.order = settle(*self.tree, self.order, allocated, np.int32(leaf), np.int32(returned), self.needs())

    @property
    def empty(self) -> bool:
        return int(self.order.top[0]) < 0


def grow(leaf: Queue, amount: Vector) -> None:
    queue = leaf
    while queue:
        queue.allocated = tuple(a + n for a, n in zip(queue.allocated, amount, strict=True))
        queue = queue.parent


def run(seed: int) -> tuple[list, list]:
    """The pops of the kernel and of the model while jobs succeed, fail and come back, changed or in another slot."""
    random = Random(seed)
    listed = walk(drawn(random))
    total, need = (8.0, 8.0, 16.0), [drawn_need(random) for _ in range(JOBS)]
    job = list(range(SLOTS))
    for queue in listed:  # the first two slots of a leaf are one job's, which waits in one of them
        if len(queue.slots) > 1:
            first, second = queue.slots[:2]
            job[second] = first
            if {first, second} <= set(queue.waiting):
                queue.waiting.remove(random.choice([first, second]))
    kernel = Kernel(listed, total, need, job)
    model = Model(listed[0], total, need, job)
    model.build(model.root)
    got, want = [], []
    while model.root.present and got == want and not kernel.empty:
        leaf, slot = model.pop()
        want.append((leaf.index, slot))
        got.append(kernel.pop())
        returned = -1
        if random.random() < 0.7:
            grow(leaf, need[job[slot]])
            need[job[slot]] = drawn_need(random)
            if random.random() < 0.6 and len(want) < 40:
                returned = random.choice([s for s in leaf.slots if job[s] == job[slot]])
                model.push_back(leaf, returned)
        kernel.settle(leaf.index, returned)
    assert kernel.empty == (not model.root.present)
    return got, want


def drawn_need(random: Random) -> Vector:
    return random.choice([0.0, 0.5, 1.0, 2.0]), random.choice([0.0, 0.5, 1.0, 2.0]), random.choice([0.0, 1.0, 2.0])


def drawn(random: Random) -> Queue:
    room = [11, SLOTS]
    return Queue(children=[drawn_queue(random, random.choice([0, 1, 2, 2]), room) for _ in range(random.randint(2, 4))])


def drawn_queue(random: Random, depth: int, room: list[int]) -> Queue:
    """A queue with at most `depth` levels below; vectors are comparable, so that queues never beat in a circle."""
    scale = random.choice([0.0, 1.0, 2.0])
    more = random.choice([1, 2])
    queue = Queue(
        quota=(UNLIMITED,) * 3 if random.random() < 0.1 else (scale, scale, 2 * scale),
        limit=(UNLIMITED,) * 3 if random.random() < 0.6 else (4.0, 4.0, 8.0),
        fair_share=(more * scale, more * scale, 2 * more * scale),
        priority=random.choice([100, 100, 100, 50]),
        created=random.choice([1, 1, 2]),
    )
    children = random.randint(0, 4) if depth else 0
    if 0 < children <= room[0]:
        room[0] -= children
        queue.children = [drawn_queue(random, depth - 1, room) for _ in range(children)]
    elif room[1] >= 4:
        room[1] -= 4
        queue.waiting = random.sample(range(4), random.randint(0, 4))
    return queue


@pytest.mark.parametrize("seeds", [range(50), range(50, 100), range(100, 150)])
def test_equals_stored_tops_and_dirty_flags(seeds):
    served = 0
    for seed in seeds:
        got, want = run(seed)
        assert got == want, seed
        served += len(want)
    assert served > 10 * len(seeds)


def first(*siblings: Queue, needs: tuple[Vector, ...], total: Vector = (100.0,) * 3) -> int:
    """Index among the siblings of the queue that is served first."""
    listed = walk(Queue(children=list(siblings)))
    return Kernel(listed, total, list(needs), list(range(SLOTS))).pop()[0] - 1


def gpu(quota: float, fair_share: float, allocated: float, **others) -> Queue:
    return Queue((0, 0, quota), (UNLIMITED,) * 3, (0, 0, fair_share), (0, 0, allocated), waiting=[0], **others)


def test_fitting_the_quota_comes_before_priority():
    one = ((0.0, 0.0, 1.0),) * 2
    assert first(gpu(2, 99, 20, priority=200), gpu(2, 2, 0), needs=one) == 1
    assert first(gpu(2, 99, 20, priority=200), gpu(2, 2, 3), needs=one) == 0


def test_dominant_share_counts_the_next_job():
    queues = [gpu(50, 50, 40), gpu(50, 50, 40)]
    assert first(*queues, needs=((0, 0, 1.0), (0, 0, 2.0))) == 0
    queues = [gpu(50, 50, 40), gpu(50, 50, 40)]
    assert first(*queues, needs=((0, 0, 3.2), (0, 0, 0.8))) == 1


def test_allocatable_and_dominant_share():
    queue = Queue((1, 8, 15), (3, 10, 17), (2, 9, 16), (5, 12, 19), waiting=[0])
    kernel = Kernel(walk(Queue(children=[queue])), (100.0,) * 3, [NOTHING], list(range(SLOTS)))
    assert kernel.tree[2].allocatable[:, 1].tolist() == [2, 9, 16]
    assert float(kernel.order.standing.share[1]) == 2.5


def test_over_the_fair_share_in_all_resources():
    small = ((0.1, 0.1, 0.1),) * 2
    over = Queue((9, 9, 9), fair_share=(1, 1, 1), allocated=(2, 2, 2), waiting=[0], priority=200)
    equal = Queue((9, 9, 9), fair_share=(1, 1, 1), allocated=(8, 8, 1), waiting=[0])
    assert first(over, equal, needs=small) == 1


def test_a_resource_without_share_counts_a_thousandfold():
    some = ((0.0, 0.0, 1.0), (1.0, 0.0, 0.0))
    none, full = Queue((0, 0, 0), allocated=(0, 0, 0), waiting=[0]), Queue((1, 1, 1), allocated=(5, 0, 0), waiting=[0])
    assert first(none, full, needs=some) == 1


def test_smaller_allocatable_then_age_then_place():
    small, large = {"quota": (1, 1, 8), "waiting": [0]}, {"quota": (2, 2, 8), "waiting": [0]}
    eighth = ((0.0, 0.0, 1.0),) * 3
    assert first(Queue(**large, created=1), Queue(**small, created=2), needs=eighth) == 1
    aside = Queue((0, 5, 8), waiting=[0], created=1)  # neither below nor above
    assert first(Queue(**small, created=2), aside, needs=eighth) == 1
    assert first(Queue(**small, created=2), Queue(**small, created=1), needs=eighth) == 1
    assert first(Queue(**small), Queue(**small), needs=eighth) == 0


def test_queues_that_do_not_wait_decide_nothing():
    """Three queues may beat each other in a circle; only those that hold jobs are compared."""
    eighth = ((0.0, 0.0, 1.0),) * 2
    large, small = Queue((2, 2, 8), created=1, waiting=[0]), Queue((1, 1, 8), created=3, waiting=[0])
    assert first(large, small, needs=eighth) == 1
    large, small = Queue((2, 2, 8), created=1, waiting=[0]), Queue((1, 1, 8), created=3, waiting=[0])
    assert first(large, small, Queue((0, 5, 8), created=2), needs=eighth) == 1


def test_a_branch_is_judged_by_the_leaf_served_last():
    """The next job of `a` is large, so its branch ranks behind the other, though `b` has a small one."""
    a, b = Queue((8, 8, 8), waiting=[0, 1]), Queue((8, 8, 8), waiting=[0], created=1)
    branch = Queue((8, 8, 8), children=[a, b])
    other = Queue((8, 8, 8), allocated=(3, 3, 3), waiting=[0])
    listed = walk(Queue(children=[branch, other]))
    sizes = {other: [2.0], a: [1.0, 7.0], b: [1.0]}
    need = [NOTHING] * 4
    for queue, wants in sizes.items():
        for slot, want in zip(queue.slots, wants, strict=True):
            need[slot] = (want,) * 3
    kernel = Kernel(listed, (16.0,) * 3, need, list(range(SLOTS)))
    served = []
    while not kernel.empty:
        leaf, slot = kernel.pop()
        served.append(listed[leaf])
        grow(listed[leaf], need[slot])
        kernel.settle(leaf)
    assert served == [a, other, b, a]
