"""The worked numbers of docs/concepts.md."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from kai_jax import cycle
from kai_jax.encode.decode import Decisions
from kai_jax.sim.snapshot import BUILT_IN, PLUGINS, NodeShape, Scheduler, SnapshotWriter

NOW = 1_790_000_000.0
SPREAD = Scheduler(
    {
        "gpuspread" if name == "gpupack" else name: {"cpu": "spread", "gpu": "spread"} if arguments else {}
        for name, arguments in PLUGINS.items()
        if name != "gpusharingorder"
    }
)


@pytest.fixture
def decide(tmp_path: Path) -> Any:
    def run(writer: SnapshotWriter) -> Decisions:
        path = tmp_path / "cluster.json"
        path.write_text(json.dumps(writer.document()))
        return cycle.run_file(path, NOW).decisions

    return run


def _cluster(nodes: int, devices: int, scheduler: Scheduler = BUILT_IN) -> SnapshotWriter:
    writer = SnapshotWriter(NodeShape(gpus=devices), scheduler, "allocate")
    for index in range(nodes):
        writer.node(index)
    return writer


def _with_queue(nodes: int, devices: int, scheduler: Scheduler = BUILT_IN) -> SnapshotWriter:
    writer = _cluster(nodes, devices, scheduler)
    writer.queue("top")
    writer.queue("q", "top")
    return writer


def _shares(decisions: Decisions) -> dict[str, float]:
    return {name: queue["fair_share"][2] for name, queue in decisions.queues.items()}


def _placed(decisions: Decisions) -> dict[str, str]:
    """Pod, without its namespace -> node."""
    return {pod.partition("/")[2]: place[1] for pod, place in decisions.final.items() if place[0] == "Binding"}


def test_quota_first_then_by_weight(decide: Any) -> None:
    writer = _cluster(1, 11)
    for name, weight in (("a", 1), ("b", 4)):
        writer.queue(name, gpu=2, weight=weight)
        writer.job(f"job-{name}", name, pods=10)
    assert _shares(decide(writer)) == {"a": 3, "b": 8}


def test_a_limit_leaves_a_device_to_nobody(decide: Any) -> None:
    writer = _cluster(1, 12)
    for name, limit in (("a", 5), ("b", -1)):
        writer.queue(name, gpu=2, weight=2, limit=limit)
        writer.job(f"job-{name}", name, pods=6)
    assert _shares(decide(writer)) == {"a": 5, "b": 6}


def test_priority_is_served_first_beyond_the_quota(decide: Any) -> None:
    writer = _cluster(1, 6)
    for name, weight, priority in (("heavy", 100, 1), ("first", 1, 2)):
        writer.queue(name, gpu=2, weight=weight, priority=priority)
        writer.job(f"job-{name}", name, pods=6)
    assert _shares(decide(writer)) == {"heavy": 2, "first": 4}


def test_a_quota_is_honoured_where_it_does_not_fit(decide: Any) -> None:
    writer = _cluster(1, 4)
    for name, quota in (("d1", 3), ("d2", 1)):
        writer.queue(name, gpu=quota)
        writer.queue(f"{name}-child", name, gpu=2)
        writer.job(f"job-{name}", f"{name}-child", pods=100)
    assert _shares(decide(writer)) == {"d1": 3, "d1-child": 3, "d2": 1, "d2-child": 2}


def test_a_quota_binds_what_cannot_be_preempted(decide: Any) -> None:
    writer = _cluster(1, 8)
    writer.queue("q", gpu=2)
    writer.job("fixed", "q", pods=1, gpus=3, priority="build")
    writer.job("movable", "q", pods=1, gpus=3)
    decisions = decide(writer)
    assert _placed(decisions) == {"movable-0": "n000000"}
    assert decisions.reasons["team/fixed"] == ["NonPreemptibleOverQuota"]


@pytest.mark.parametrize(("pods", "minimum", "on_nodes"), [(3, 3, [1, 2]), (5, 5, []), (5, 2, [2, 2]), (5, 0, [2, 2])])
def test_a_gang_reaches_its_minimum_or_waits_whole(decide: Any, pods: int, minimum: int, on_nodes: list[int]) -> None:
    writer = _with_queue(2, 4)
    writer.job("gang", "q", pods, 2, minimum=minimum)
    assert sorted(Counter(_placed(decide(writer)).values()).values()) == on_nodes


def test_parts_are_packed_or_spread(decide: Any) -> None:
    def devices(scheduler: Scheduler) -> list[list[str]]:
        writer = _with_queue(1, 2, scheduler)
        for index, part in enumerate((0.5, 0.25, 0.5, 0.25), 1):
            writer.job(f"p{index}", "q", gpus=0, fraction=part)
        return [
            [pod.removeprefix("team/").removesuffix("-0") for pod in pods] for pods in decide(writer).shared_devices
        ]

    assert sorted(devices(BUILT_IN)) == [["p1", "p2", "p4"], ["p3"]]
    assert sorted(map(len, devices(SPREAD))) == [2, 2]


def test_memory_is_charged_in_hundredths_of_a_device(decide: Any) -> None:
    """Two requests of 10240 MiB are 0.52 devices, four are 1.04: over a limit of one."""
    writer = _cluster(1, 2)
    writer.queue("q", limit=1)
    for index in range(4):
        writer.job(f"p{index}", "q", gpus=0, annotations={"gpu-memory": "10240"})
    decisions = decide(writer)
    assert sorted(_placed(decisions)) == ["p0-0", "p1-0", "p2-0"]


def _racks(used: dict[int, int]) -> SnapshotWriter:
    """Three racks of two nodes with four devices; node index -> devices in use."""
    writer = SnapshotWriter(NodeShape(gpus=4), actions="allocate")
    for index in range(6):
        writer.node(index, {"zone": "z", "rack": f"r{index // 2 + 1}"})
    writer.topology("net", ("zone", "rack"))
    writer.queue("top")
    writer.queue("q", "top")
    for index, devices in used.items():
        writer.job(f"running-{index}", "q", 1, devices, on=index)
    return writer


def test_the_tightest_rack_that_fits_is_chosen(decide: Any) -> None:
    writer = _racks({0: 3, 2: 2})
    writer.job("gang", "q", 3, 2, topology={"topology": "net", "requiredTopologyLevel": "rack"})
    assert set(_placed(decide(writer)).values()) == {"n000002", "n000003"}


@pytest.mark.parametrize(("level", "placed"), [("required", 0), ("preferred", 5)])
def test_a_gang_that_fits_no_rack_waits_or_crosses_racks(decide: Any, level: str, placed: int) -> None:
    writer = _racks({0: 3, 2: 2})
    writer.job("gang", "q", 5, 2, topology={"topology": "net", f"{level}TopologyLevel": "rack"})
    assert len(_placed(decide(writer))) == placed


def test_a_gang_on_releasing_devices_waits_whole(decide: Any) -> None:
    writer = _with_queue(1, 4)
    writer.job("ending", "q", 1, 2, on=0, deleted="2099-01-01T00:00:00Z")
    writer.job("gang", "q", 2, 2)
    decisions = decide(writer)
    assert decisions.final["team/gang-0"] == decisions.final["team/gang-1"] == ["Pipelined", "n000000"]
    assert decisions.bind_requests == {}
