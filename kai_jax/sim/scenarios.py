"""Benchmark scenarios: each is a function of its number of nodes alone, for one shape of node and one scheduler."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kai_jax.api.plain import InputError
from kai_jax.sim.snapshot import BUILT_IN, DEFAULT_SHAPE, NodeShape, Scheduler, SnapshotWriter

Fill = Callable[[SnapshotWriter, int], None]


class ScenarioError(InputError):
    """A scenario that is not known, or a size that it cannot have."""


@dataclass(frozen=True)
class Scenario:
    """A named shape; `size` nodes when none is asked for."""

    name: str
    size: int
    fill: Fill

    @property
    def summary(self) -> str:
        return (self.fill.__doc__ or "").strip()


SCENARIOS: dict[str, Scenario] = {}


def document(
    name: str, size: int | None = None, shape: NodeShape = DEFAULT_SHAPE, scheduler: Scheduler = BUILT_IN
) -> dict[str, Any]:
    """The snapshot document of a scenario on `size` nodes. Raises ScenarioError for an unknown name or size < 1."""
    if name not in SCENARIOS:
        raise ScenarioError(f"scenario {name!r}: unknown; known are {', '.join(SCENARIOS)}")
    scenario = SCENARIOS[name]
    size = scenario.size if size is None else size
    if size < 1:
        raise ScenarioError(f"scenario {name!r}: size {size} is not positive")
    writer = SnapshotWriter(shape, scheduler)
    scenario.fill(writer, size)
    return writer.document()


def parse(text: str) -> tuple[str, int | None]:
    """NAME or NAME:SIZE. Raises ScenarioError for a size that is no number."""
    name, _, size = text.partition(":")
    try:
        return name, int(size) if size else None
    except ValueError:
        raise ScenarioError(f"scenario {text!r}: size {size!r} is not a whole number") from None


def _scenario(size: int) -> Callable[[Fill], Fill]:
    def register(fill: Fill) -> Fill:
        name = fill.__name__.replace("_", "-")
        SCENARIOS[name] = Scenario(name, size, fill)
        return fill

    return register


@_scenario(500)
def fill_single(writer: SnapshotWriter, size: int) -> None:
    """as many pending one-device jobs as devices, over four queues"""
    _nodes(writer, size)
    queues = _four_queues(writer, size)
    for index in range(writer.shape.gpus * size):
        writer.job(f"j{index:07d}", queues[index % 4])


@_scenario(500)
def fill_mixed(writer: SnapshotWriter, size: int) -> None:
    """gangs of 1 to 16 pods of 0 to 8 devices in three departments, 130 % of the devices asked for"""
    shapes = ((1, 1), (1, 8), (2, 4), (4, 1), (1, 2), (8, 8), (1, 1), (16, 1), (1, 4), (4, 8), (2, 2), (1, 0))
    devices = writer.shape.gpus * size
    _nodes(writer, size)
    for department in range(3):
        writer.queue(f"d{department}", gpu=devices // 3)
        for queue in range(4):
            writer.queue(f"d{department}q{queue}", f"d{department}", gpu=devices // 12, weight=1 + queue % 3)
    wanted, index = int(devices * 1.3), 0
    while wanted > 0:
        pods, gpus = shapes[index * 7 % len(shapes)]
        writer.job(
            f"j{index:07d}",
            f"d{index % 3}q{index // 3 % 4}",
            pods,
            gpus,
            priority="build" if index % 3 == 2 else "train",
            minimum=pods if index % 4 else max(1, pods // 2),
            cpu="2",
        )
        wanted -= max(pods * gpus, 1)
        index += 1


@_scenario(512)
def topology_gang(writer: SnapshotWriter, size: int) -> None:
    """zones, blocks and racks of two nodes; one gang that prefers a rack, and gangs of four pods that require one"""
    for index in range(size):
        zone, block, rack = index * 4 // size, index * 32 // size, index // 2
        writer.node(index, {"topo/zone": f"z{zone}", "topo/block": f"b{block}", "topo/rack": f"r{rack}"})
    writer.topology("net", ("topo/zone", "topo/block", "topo/rack"))
    writer.queue("root")
    writer.queue("q", "root")
    writer.job("big", "q", size, 2, topology={"topology": "net", "preferredTopologyLevel": "topo/rack"})
    for index in range(size // 8):
        required = {"topology": "net", "requiredTopologyLevel": "topo/rack"}
        writer.job(f"j{index:05d}", "q", 4, 2, topology=required)


@_scenario(200)
def reclaim_large_gang(writer: SnapshotWriter, size: int) -> None:
    """full nodes of one queue, and one gang of whole nodes of another queue that deserves half"""
    writer.actions = "allocate, reclaim"
    _nodes(writer, size)
    half = writer.shape.gpus * size // 2
    _rivals(writer, (half, half))
    _running(writer, size, writer.shape.gpus * size, "a")
    writer.job("big", "b", size // 2, writer.shape.gpus)


@_scenario(100)
def reclaim_many_single(writer: SnapshotWriter, size: int) -> None:
    """full nodes of one queue, and as many pending one-device jobs of another queue that deserves half"""
    _nodes(writer, size)
    half = writer.shape.gpus * size // 2
    _rivals(writer, (half, half))
    _running(writer, size, writer.shape.gpus * size, "a")
    for index in range(writer.shape.gpus * size):
        writer.job(f"p{index:07d}", "b")


@_scenario(30)
def infeasible_gang(writer: SnapshotWriter, size: int) -> None:
    """a gang of ten whole nodes that the share of the running queue leaves one device too few for"""
    writer.actions = "allocate, reclaim"
    _nodes(writer, size)
    gang = 10 * writer.shape.gpus
    _rivals(writer, (writer.shape.gpus * size - gang + 1, gang), weights=(0, 0))
    _running(writer, size, writer.shape.gpus * size, "a")
    writer.job("big", "b", 10, writer.shape.gpus)


@_scenario(100)
def consolidate_gangs(writer: SnapshotWriter, size: int) -> None:
    """nodes half full of one-device jobs, and gangs of five pods of three quarters of a node"""
    writer.actions = "allocate, consolidation"
    writer.parameters = {"maxNumberConsolidationPreemptees": -1}
    _nodes(writer, size)
    writer.queue("root")
    writer.queue("q", "root")
    _running(writer, size, writer.shape.gpus * size // 2, "q")
    for index in range(max(1, size // 12)):
        writer.job(f"p{index:05d}", "q", 5, writer.shape.gpus * 3 // 4)


@_scenario(200)
def preempt_priority(writer: SnapshotWriter, size: int) -> None:
    """full nodes of low-priority jobs, and one high-priority job of half a node for each in the same queue"""
    writer.actions = "allocate, preempt"
    _nodes(writer, size)
    writer.queue("root")
    writer.queue("q", "root")
    _running(writer, size, writer.shape.gpus * size, "q")
    for index in range(size):
        writer.job(f"p{index:07d}", "q", 1, writer.shape.gpus // 2, priority="inference")


@_scenario(500)
def fractions(writer: SnapshotWriter, size: int) -> None:
    """two pods a device that ask for a half, a quarter or a fifth of one"""
    writer.actions = "allocate"
    _nodes(writer, size)
    queues = _four_queues(writer, size)
    for index in range(2 * writer.shape.gpus * size):
        writer.job(f"j{index:07d}", queues[index % 4], gpus=0, fraction=(0.5, 0.25, 0.2, 0.5)[index % 4])


@_scenario(500)
def many_queues(writer: SnapshotWriter, size: int) -> None:
    """one leaf queue a node, ten to a department, and as many one-device jobs as devices"""
    writer.actions = "allocate"
    _nodes(writer, size)
    gpus, departments = writer.shape.gpus, max(1, size // 10)
    for department in range(departments):
        writer.queue(f"d{department:04d}", gpu=10 * gpus)
        for queue in range(10):
            writer.queue(f"d{department:04d}q{queue}", f"d{department:04d}", gpu=gpus)
    for index in range(gpus * size):
        writer.job(f"j{index:07d}", f"d{index % departments:04d}q{index // 7 % 10}")


@_scenario(500)
def idle_cycle(writer: SnapshotWriter, size: int) -> None:
    """full nodes, and pending jobs of a queue without quota: nothing can be placed"""
    _nodes(writer, size)
    _rivals(writer, (writer.shape.gpus * size, 0), weights=(1, 0))
    _running(writer, size, writer.shape.gpus * size, "a")
    for index in range(size):
        writer.job(f"p{index:07d}", "b")


def _nodes(writer: SnapshotWriter, size: int) -> None:
    for index in range(size):
        writer.node(index)


def _four_queues(writer: SnapshotWriter, size: int) -> list[str]:
    """A root queue and four leaves that deserve a quarter of the devices each."""
    names = [f"q{index}" for index in range(4)]
    writer.queue("root")
    for name in names:
        writer.queue(name, "root", gpu=writer.shape.gpus * size // 4)
    return names


def _rivals(writer: SnapshotWriter, quotas: tuple[int, int], weights: tuple[int, int] = (1, 1)) -> None:
    """Queues a and b under one root."""
    writer.queue("root")
    for name, quota, weight in zip("ab", quotas, weights, strict=True):
        writer.queue(name, "root", gpu=quota, weight=weight)


def _running(writer: SnapshotWriter, size: int, jobs: int, queue: str) -> None:
    """One-device jobs that run already, dealt out to the nodes in turn."""
    for index in range(jobs):
        writer.job(f"r{index:07d}", queue, on=index % size)
