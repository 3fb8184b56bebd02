"""Random small clusters as tensors: 32 nodes of two runs, every kind of request, queues with limits."""

from dataclasses import dataclass, fields

import jax
import numpy as np

from kai_jax.tensors import (
    Bounds,
    Constraints,
    Features,
    Jobs,
    Nodes,
    Podsets,
    Policy,
    Queues,
    Requests,
    Snapshot,
    State,
    Tasks,
    Topology,
    TreeNodes,
)

NODES, PADDING, DEVICES, LEVELS = 32, 2, 4, 2
GPU, CPU, MEMORY, PODS, MIG = range(5)
DEFAULT_TERMS = ("nodeavailability", "resourcetype", "nominatednode", "topology", "nodeplacement", "gpusharingorder")
FALLBACK_TERMS = ("nodeavailability", "gpusharingorder", "resourcetype", "nominatednode", "nodeplacement", "topology")


def policy(terms: tuple[str, ...] = DEFAULT_TERMS, **features: bool) -> Policy:
    """All parts of the program, unless a feature is turned off."""
    return Policy(terms, ("gpupack",), True, True, Features(**features), Bounds(4, 4, LEVELS, 2))


@dataclass(frozen=True)
class Request:
    """A request class: whole devices, or `devices` parts by portion or memory, or a MIG instance, or neither."""

    gpus: float = 0
    cpu: float = 100
    devices: int = 0
    portion: float = 0
    memory: int = 0
    mig: int = 0
    ports: tuple[bool, bool] = (False, False)

    @property
    def cpu_only(self) -> bool:
        return not (self.gpus or self.devices or self.mig)

    def vector(self) -> list[float]:
        return [self.gpus + self.devices * self.portion, self.cpu, 16.0, 1.0, self.mig]


REQUESTS = (
    Request(gpus=1),
    Request(gpus=2),
    Request(cpu=500),
    Request(devices=1, portion=0.5),
    Request(devices=2, portion=0.3),
    Request(devices=1, memory=40),
    Request(mig=1),
    Request(cpu=700, ports=(True, False)),
)


def requests(classes: tuple[Request, ...]) -> Requests:
    def column(values, dtype=float):
        return np.array(list(values), dtype)

    gpus = [request.gpus + request.devices * request.portion + request.mig for request in classes]
    return Requests(
        vector=column(request.vector() for request in classes),
        node_gpu=column(request.gpus for request in classes),
        shared=column((request.devices > 0 for request in classes), bool),
        cpu_only=column((request.cpu_only for request in classes), bool),
        devices=column((request.devices for request in classes), np.int32),
        portion=column(request.portion for request in classes),
        memory=column((request.memory for request in classes), np.int64),
        accepted_gpu=column(gpus),
        order_gpu=column(gpus),
        gate_gpu=column(gpus),
        ports=column((request.ports for request in classes), bool),
    )


def nodes_and_state(random: np.random.Generator, tasks: int, podsets: int) -> tuple[Nodes, State]:
    """Few different amounts, so that scores tie; some nodes have no devices, the last ones are padding."""
    exists = np.arange(NODES) < NODES - PADDING
    counts = random.choice([0, 4, 4, 8], NODES) * exists
    memory = random.choice([100, 200], NODES)
    allocatable = np.array([[0], [4000], [1e6], [110], [2]]) * exists
    allocatable[GPU], allocatable[MIG] = counts, allocatable[MIG] * (counts == 0)
    idle, releasing = allocatable.copy(), np.zeros((5, NODES))
    idle[GPU] = random.integers(0, counts + 1) * random.choice([0, 0, 1], NODES)
    releasing[GPU] = np.minimum(random.choice([0, 1, 2, -1], NODES), counts - idle[GPU])
    idle[CPU] -= random.choice([0, 500, 3700], NODES) * exists
    releasing[CPU] = random.choice([0, 200], NODES) * (idle[CPU] == 300)
    idle[PODS] -= random.choice([0, 0, 108, 109], NODES) * exists
    held = (random.random((DEVICES, NODES)) < 0.3) & (counts > 0)
    allocated = held * random.choice([25, 50, 60, 100], (DEVICES, NODES))
    leaving = allocated * random.choice([0, 0, 0, 1], (DEVICES, NODES))
    state = State(
        idle=idle,
        releasing=releasing,
        used_gpu=np.maximum(counts - idle[GPU] - held.sum(axis=0), 0.0),
        device_used=allocated.astype(np.int64),
        device_allocated=allocated.astype(np.int64),
        device_releasing=leaving.astype(np.int64),
        device_marked=leaving > 0,
        device_seen=held,
        device_taken=held,
        device_numbered=held & (random.random((DEVICES, NODES)) < 0.5),
        task_status=np.zeros(tasks, np.int8),
        task_node=np.full(tasks, -1, np.int32),
        task_devices=np.zeros(tasks, np.uint64),
        active=np.zeros(podsets, np.int32),
        allocated=np.zeros(podsets, np.int32),
        used=np.zeros(podsets, np.int32),
        queue_allocated=np.array([[0.0] * 3, [0.0] * 3, [0, 6.2, 6.2]]),
        queue_fixed=np.array([[0.0] * 3, [0.0] * 3, [0, 3.0, 3.0]]),
    )
    nodes = Nodes(
        exists=exists,
        allocatable=allocatable,
        gpu_memory=memory.astype(np.int64),
        gpu_count=counts.astype(np.int64),
        cpu_only=exists & (counts == 0) & (random.random(NODES) < 0.5),
        ports_taken=random.random((2, NODES)) < 0.3,
    )
    return nodes, state


def queues() -> Queues:
    """The virtual root above a top queue (1) with one leaf (2); devices are limited."""
    zeros = {f.name: np.zeros(3, np.int32) for f in fields(Queues)}
    bound = np.full((3, 3), -1.0)
    limit, quota = bound.copy(), bound.copy()
    limit[2, 2], quota[2, 1] = 6.69, 3.55
    tree = {"parent": np.array([-1, 0, 1], np.int32), "limit": limit, "quota": quota, "total": np.full(3, 1e4)}
    return Queues(**{**zeros, **tree})


def random_cluster(random: np.random.Generator, classes: list[int], podset_sizes: tuple[int, ...]):
    """(snapshot, state): task i asks for REQUESTS[classes[i]]; podset p is job p, flat, its minimum its size."""
    count, jobs = len(classes), len(podset_sizes)
    nodes, state = nodes_and_state(random, count, jobs)
    starts = np.cumsum([0, *podset_sizes[:-1]]).astype(np.int32)
    sizes = np.array(podset_sizes, np.int32)
    each, two = np.arange(jobs, dtype=np.int32), 2 * jobs
    local = np.arange(two) % 2

    def full(value, size=jobs):
        return np.full(size, value, np.int32)

    snapshot = Snapshot(
        nodes=nodes,
        requests=requests(REQUESTS),
        constraints=Constraints(allowed=(random.random((3, NODES)) < 0.8) & nodes.exists),
        tasks=Tasks(
            request=np.array(classes, np.int32),
            constraint=random.choice([0, 0, 0, 1, 2], count).astype(np.int32),
            podset=np.repeat(each, sizes),
            nominated=np.where(random.random(count) < 0.1, random.integers(0, NODES, count), -1).astype(np.int32),
        ),
        podsets=Podsets(job=each, task_start=starts, task_count=sizes, pending=sizes, minimum=sizes),
        tree=TreeNodes(
            parent=(local - 1).astype(np.int32),
            depth=local.astype(np.int32),
            podset=np.where(local == 1, np.arange(two) // 2, -1).astype(np.int32),
            threshold=np.where(local == 1, np.repeat(sizes, 2), 1).astype(np.int32),
            name_rank=local.astype(np.int32),
            topology=full(-1, two),
            required=full(-1, two),
            preferred=full(-1, two),
        ),
        jobs=Jobs(
            queue=full(2),
            preemptible=np.ones(jobs, bool),
            podset_start=each,
            podset_count=full(1),
            node_start=2 * each,
            node_count=full(2),
            flat=np.ones(jobs, bool),
            slot=np.repeat(each[:, None], 3, axis=1),
            slot_job=each,
            slot_filled=np.ones(jobs, bool),
        ),
        queues=queues(),
        topology=Topology(
            node_domain=np.full((1, 2, NODES), -1, np.int32),
            parent=full(-1, 4),
            level=full(-1, 4),
            topology=full(0, 4),
            id_rank=full(0, 4),
        ),
        spread_gpu=np.bool_(random.random() < 0.5),
        spread_cpu=np.bool_(random.random() < 0.5),
    )
    return snapshot, state


def same(a, b) -> None:
    """Two trees are equal bit for bit; what tasks noted for being undone means nothing once they are placed or gone."""
    for (path, left), (_, right) in zip(jax.tree.leaves_with_path(a), jax.tree.leaves_with_path(b), strict=True):
        name = jax.tree_util.keystr(path)
        if "before_" not in name:
            assert np.asarray(left).dtype == np.asarray(right).dtype, name
            assert np.asarray(left).tobytes() == np.asarray(right).tobytes(), name
