"""Ranks of nodes: the order of the sums of scores, ties included, and the filters."""

from dataclasses import replace
from math import ceil, floor

import jax
import numpy as np
import pytest
from kernels.snapshots import (
    CPU,
    DEFAULT_TERMS,
    FALLBACK_TERMS,
    GPU,
    MIG,
    NODES,
    PODS,
    REQUESTS,
    Request,
    policy,
    random_cluster,
)

from kai_jax.kernels.books import open_books
from kai_jax.kernels.place import request_of
from kai_jax.kernels.rank import Candidate, NodeSet, Owner, all_nodes, causes, rank, usage_of
from kai_jax.tensors import Cause, Snapshot, State

PATH = np.array([2, 1], np.int32)
books_of = jax.jit(open_books, static_argnums=2)


def ranks(terms, snapshot, state, request: int, *, constraint=0, nominated=-1, within=None, preemptible=True, of=rank):
    books = books_of(snapshot, state, 4)
    task = Candidate(
        np.int32(constraint),
        np.int32(nominated),
        request_of(snapshot.requests, request),
        Owner(PATH, np.bool_(preemptible)),
    )
    return np.asarray(compiled(of, policy(terms), snapshot, books, within, task))


def _compiled(of, rules, snapshot, books, within, task):
    return of(rules, all_nodes(snapshot, books, within), usage_of(snapshot, books), task)


compiled = jax.jit(_compiled, static_argnums=(0, 1))


class Plain:
    """One task on one node, as spec 04 §1 and §2 read."""

    def __init__(self, snapshot: Snapshot, state: State, request: Request, within: NodeSet | None):
        self.nodes, self.state, self.request, self.within = snapshot.nodes, state, request, within
        self.queues = snapshot.queues
        self.free = state.idle + state.releasing
        self.spread = snapshot.spread_cpu if request.cpu_only else snapshot.spread_gpu
        self.resource = CPU if request.cpu_only else GPU
        known = [n for n in range(NODES) if self.nodes.allocatable[self.resource, n]]
        known = [n for n in known if within is None or within.inside[n]]
        self.most = max((self.free[self.resource, n] for n in known), default=0)
        self.least = min((self.free[self.resource, n] for n in known), default=0)

    def memory(self, n: int) -> int:
        return self.request.memory or int(self.request.portion * int(self.nodes.gpu_memory[n]))

    def portion(self, n: int) -> float:
        return ceil(self.memory(n) / int(self.nodes.gpu_memory[n]) * 100) / 100

    def joinable(self, n: int) -> int:
        books = (self.state.device_used, self.state.device_allocated, self.state.device_releasing)
        devices = zip(*(book[:, n].tolist() for book in books), strict=True)
        room = [self.nodes.gpu_memory[n] - alloc + rel for used, alloc, rel in devices if used and alloc != rel]
        return sum(gap >= self.memory(n) for gap in room)

    def fits(self, n: int, available: np.ndarray) -> bool:
        request = self.request
        if any(need > have for need, have in zip(request.vector()[CPU:], available[CPU:, n], strict=True)):
            return False
        if not request.devices:
            return request.gpus <= available[GPU, n]
        return floor(available[GPU, n]) + min(request.devices, self.joinable(n)) >= request.devices

    def capacity(self, n: int, preemptible: bool) -> bool:
        request = self.request
        amount = request.devices * self.portion(n) if request.devices else request.gpus + request.mig
        limits = self.state.queue_allocated[2] + amount > self.queues.limit[2]
        quotas = self.state.queue_fixed[2] + amount > self.queues.quota[2]
        limits, quotas = limits & (self.queues.limit[2] != -1), quotas & (self.queues.quota[2] != -1)
        return not amount or not (limits[PATH].any() or not preemptible and quotas[PATH].any())

    def ports(self, n: int) -> bool:
        return not (self.nodes.ports_taken[:, n] & np.array(self.request.ports)).any()

    def placement(self, n: int) -> float:
        free, capacity = self.free[self.resource, n], self.nodes.allocatable[self.resource, n]
        if self.spread:
            total = capacity if self.request.cpu_only else self.nodes.gpu_count[n]
            return free / total if total else 0.0
        if not capacity or self.most == 0:
            return 0.0
        if self.most == self.least:
            return 9.0
        return 9 * (1 - (free - self.least) / (self.most - self.least))

    def score(self, n: int, terms: tuple[str, ...], nominated: int) -> float:
        scores = {
            "nodeavailability": 1000.0 * self.fits(n, self.state.idle),
            "resourcetype": 10.0 * bool(self.request.cpu_only and self.nodes.cpu_only[n]),
            "nominatednode": 1e7 * (n == nominated),
            "topology": self.within.score[n] if self.within else 0.0,
            "nodeplacement": self.placement(n),
            "gpusharingorder": 10000.0 * (self.joinable(n) > 0),
        }
        total = 0.0
        for term in terms:
            total += scores[term]
        return total


@pytest.mark.parametrize("terms", [DEFAULT_TERMS, FALLBACK_TERMS])
@pytest.mark.parametrize("inside_a_topology", [False, True])
def test_order_is_that_of_the_sums(terms, inside_a_topology):
    compared = 0
    for seed in range(40):
        random = np.random.default_rng(seed)
        snapshot, state = random_cluster(random, [0], (1,))
        request = int(seed % len(REQUESTS))
        within = None
        if inside_a_topology:
            steps = random.choice([-1.0, 1e5, 2e5, 1e6], NODES, p=[0.1, 0.3, 0.3, 0.3])
            within = NodeSet(random.random(NODES) < 0.8, steps)
        nominated = int(random.integers(-1, NODES)) if seed % 3 == 0 else -1
        preemptible = bool(random.random() < 0.5)
        found = ranks(
            terms, snapshot, state, request, constraint=1, nominated=nominated, within=within, preemptible=preemptible
        )
        plain = Plain(snapshot, state, REQUESTS[request], within)
        allowed = [
            n
            for n in range(NODES)
            if snapshot.constraints.allowed[1, n]
            and (within is None or within.inside[n] and within.score[n] >= 0)
            and plain.fits(n, plain.free)
            and plain.ports(n)
            and (not REQUESTS[request].devices or plain.capacity(n, preemptible))  # else the gate of the job tells
        ]
        assert np.flatnonzero(found > -np.inf).tolist() == allowed, seed
        sums = np.array([plain.score(n, terms, nominated) for n in allowed])
        found = found[allowed]
        assert np.array_equal(found[:, None] > found[None], sums[:, None] > sums[None]), (seed, found, sums)
        compared += len(allowed)
    assert compared > 200


def placed_by(free, allocatable, *, spread: bool, cpu: bool = False, terms=("nodeplacement",)) -> list[float]:
    """Ranks of the first nodes for a task that asks for none of the resource."""
    snapshot, state = random_cluster(np.random.default_rng(0), [0], (1,))
    resource = CPU if cpu else GPU
    rows = np.zeros((2, NODES))
    rows[:, : len(free)] = free, allocatable
    capacity, idle = snapshot.nodes.allocatable.copy(), np.full((5, NODES), 1e6)
    idle[resource], capacity[resource] = rows
    nodes = replace(snapshot.nodes, allocatable=capacity, gpu_count=rows[1].astype(np.int64))
    empty = np.zeros_like(state.device_used)
    state = replace(state, idle=idle, releasing=np.zeros((5, NODES)), device_used=empty, device_allocated=empty)
    vector = np.array([0, 0, 0, 1, 0.0])
    kind = {"vector": vector, "cpu_only": np.bool_(cpu)}
    kinds = replace(snapshot.requests, **{name: np.array([a] * len(REQUESTS)) for name, a in kind.items()})
    snapshot = replace(
        snapshot,
        nodes=nodes,
        requests=kinds,
        constraints=replace(snapshot.constraints, allowed=np.ones((3, NODES), bool)),
        spread_gpu=np.bool_(spread),
        spread_cpu=np.bool_(spread),
    )
    return ranks(terms, snapshot, state, 0)[: len(free)].tolist()


def dense(values: list[float]) -> list[int]:
    """0 for the least, equal numbers for equal values."""
    return [sorted(set(values)).index(value) for value in values]


@pytest.mark.parametrize(
    ("free", "allocatable", "scores"),
    [
        ([0, 3, 4, 0], [4, 4, 4, 0], [9, 2.25, 0, 0]),
        ([0, 0, 0], [4, 2, 0], [0, 0, 0]),
        ([1, 1, 1], [1, 2, 4], [9, 9, 9]),
        ([1, 1, 0], [1, 2, 0], [9, 9, 0]),
        ([8, 4, 16], [16, 16, 16], [6, 9, 0]),
        ([1, 0, 64], [2, 2, 64], [9 * (1 - 1 / 64), 9, 0]),
    ],
)
@pytest.mark.parametrize("cpu", [False, True])
def test_packing(free, allocatable, scores, cpu):
    assert dense(placed_by(free, allocatable, spread=False, cpu=cpu)) == dense(scores)


@pytest.mark.parametrize("cpu", [False, True])
def test_spreading(cpu):
    assert placed_by([1, 3, 0], [4, 4, 0], spread=True, cpu=cpu) == [0.25, 0.75, 0]


def test_packing_where_no_node_has_any():
    """A MIG task in a cluster of MIG nodes: nobody has whole devices, and the other scores decide."""
    snapshot, state = random_cluster(np.random.default_rng(0), [0], (1,))
    capacity = snapshot.nodes.allocatable.copy()
    capacity[GPU], capacity[MIG] = 0, 1.0 * snapshot.nodes.exists
    idle, releasing = capacity.copy(), np.zeros((5, NODES))
    idle[MIG, :5], releasing[MIG, :5] = 0, 1
    nodes = replace(snapshot.nodes, allocatable=capacity, gpu_count=np.zeros(NODES, np.int64))
    empty = np.zeros_like(state.device_used)
    state = replace(state, idle=idle, releasing=releasing, device_used=empty, device_allocated=empty)
    allowed = np.ones((3, NODES), bool) & snapshot.nodes.exists
    constraints = replace(snapshot.constraints, allowed=allowed)
    snapshot = replace(snapshot, nodes=nodes, constraints=constraints, spread_gpu=np.bool_(False))
    mig = REQUESTS.index(Request(mig=1))
    assert int(ranks(DEFAULT_TERMS, snapshot, state, mig).argmax()) == 5  # the first that need not wait


def test_causes_count_the_first_filter_that_a_node_fails():
    for seed in range(16):
        random = np.random.default_rng(seed)
        snapshot, state = random_cluster(random, [0], (1,))
        request = seed % len(REQUESTS)
        within = NodeSet(random.random(NODES) < 0.8, np.zeros(NODES))
        lost = ranks(DEFAULT_TERMS, snapshot, state, request, within=within, of=causes)
        plain = Plain(snapshot, state, REQUESTS[request], within)
        expected = np.zeros(len(Cause), int)
        for n in np.flatnonzero(snapshot.nodes.exists):
            need, free = REQUESTS[request].vector(), plain.free[:, n]
            shared = REQUESTS[request].devices
            devices = floor(free[GPU]) + min(shared, plain.joinable(n)) >= shared if shared else need[GPU] <= free[GPU]
            checks = {
                Cause.OUTSIDE: within.inside[n],
                Cause.GPU: devices,
                Cause.CPU: need[CPU] <= free[CPU],
                Cause.MEMORY: need[2] <= free[2],
                Cause.PODS: free[PODS] >= (2 if shared else 1),
                Cause.OTHER: need[MIG] <= free[MIG],
                Cause.CAPACITY: plain.capacity(n, True),
                Cause.CONSTRAINT: snapshot.constraints.allowed[0, n],
                Cause.PORTS: plain.ports(n),
            }
            first = next((cause for cause, passes in checks.items() if not passes), None)
            if first is not None:
                expected[first] += 1
        assert lost.tolist() == expected.tolist(), seed
