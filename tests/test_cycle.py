"""The cycle: what is compiled when, buckets that turn out too small, actions that are not there, timings."""

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

from kai_jax import cycle
from kai_jax.api import documents
from kai_jax.encode.encode import encode
from kai_jax.sim import scenarios
from kai_jax.sim.snapshot import NodeShape, SnapshotWriter

NOW = 1_790_000_000.0


def _document(writer: SnapshotWriter, folder: Path) -> documents.Document:
    path = folder / "cluster.json"
    path.write_text(json.dumps(writer.document()))
    return documents.read(path)


def _cluster(nodes: int, jobs: int, actions: str = "allocate") -> SnapshotWriter:
    writer = SnapshotWriter(NodeShape(gpus=4), actions=actions)
    for index in range(nodes):
        writer.node(index)
    writer.queue("top")
    writer.queue("leaf", "top")
    for index in range(jobs):
        writer.job(f"job{index}", "leaf", gpus=1 + index % 3)
    return writer


def test_a_second_snapshot_in_the_same_bucket_compiles_nothing(tmp_path: Path) -> None:
    cycle.run(_document(_cluster(3, 5), tmp_path), NOW)
    compiled: list[str] = []

    def listen(event: str, _: float, **__: Any) -> None:
        if "trace" in event or "compile" in event:
            compiled.append(event)

    jax.monitoring.register_event_duration_secs_listener(listen)
    programs = cycle.compilations()
    try:
        outcome = cycle.run(_document(_cluster(9, 30), tmp_path), NOW)
    finally:
        jax.monitoring.unregister_event_duration_listener(listen)
    assert len(outcome.decisions.bind_requests) > 5
    assert cycle.compilations() == programs
    assert compiled == []  # nor does anything else on the way


def test_a_larger_bucket_compiles_one_program(tmp_path: Path) -> None:
    cycle._program.cache_clear()
    counts = []
    for jobs in (5, 300, 310, 7):
        cycle.run(_document(_cluster(9, jobs), tmp_path), NOW)
        counts.append(cycle.compilations())
    assert counts == [1, 2, 2, 2]


def test_more_shared_devices_than_expected_are_encoded_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    writer = _cluster(1, 0)
    for index in range(4):
        writer.job(f"part{index}", "leaf", gpus=0, fraction=0.75)
    document = _document(writer, tmp_path)
    expected = cycle.run(document, NOW).decisions
    asked: list[int] = []

    def too_small(cluster: Any, devices: int) -> Any:
        """Room for two shared devices on a node where four are needed, until more is asked for."""
        asked.append(devices)
        encoded = encode(cluster, devices)
        if len(asked) > 1:
            return encoded
        state = encoded.state
        cut = {name: value[:2] for name, value in vars(state).items() if name.startswith("device_")}
        return replace(encoded, state=replace(state, **cut))

    monkeypatch.setattr(cycle, "encode", too_small)
    assert cycle.run(document, NOW).decisions == expected
    assert asked == [0, 4]
    assert len(expected.shared_devices) == 4


def test_actions_that_are_not_there_are_named_and_skipped(tmp_path: Path) -> None:
    outcome = cycle.run(_document(_cluster(2, 3, "reclaim, allocate, preempt"), tmp_path), NOW)
    assert outcome.warnings == ("config.actions: reclaim, preempt: not supported yet, skipped",)
    assert [step["action"] for step in outcome.decisions.actions] == ["allocate"]
    assert len(outcome.decisions.bind_requests) == 3


def test_without_an_action_nothing_changes(tmp_path: Path) -> None:
    outcome = cycle.run(_document(_cluster(2, 3, "consolidation"), tmp_path), NOW)
    assert outcome.decisions.actions == []
    assert outcome.decisions.final == outcome.decisions.initial
    assert outcome.decisions.queues["leaf"]["fair_share"][2] == 6
    assert all(np.array_equal(after, before) for after, before in zip(
        jax.tree.leaves(outcome.state), jax.tree.leaves(outcome.encoded.state), strict=True))  # fmt: skip


def test_history_lowers_the_fair_share(tmp_path: Path) -> None:
    """16 devices, equal weights, one queue has used half of the cluster: 5 and 11 (k = 1)."""
    writer = SnapshotWriter(NodeShape(gpus=16), actions="allocate")
    writer.node(0)
    for name in ("busy", "idle"):
        writer.queue(name, gpu=0)
        writer.job(f"job-{name}", name, pods=16)
    outcome = cycle.run(_document(writer, tmp_path), NOW, usage={"busy": (0.0, 0.0, 0.5)})
    shares = {name: queue["fair_share"][2] for name, queue in outcome.decisions.queues.items()}
    assert shares == {"busy": 5, "idle": 11}


def test_every_step_is_timed_and_observed(tmp_path: Path) -> None:
    path = tmp_path / "cluster.json"
    path.write_text(json.dumps(scenarios.document("fill-single", 4)))
    seen: list[str] = []
    outcome = cycle.run_file(path, NOW, observe=seen.append)
    timings = asdict(outcome.timings)
    assert tuple(seen) == cycle.STEPS
    assert all(timings[step] > 0 for step in cycle.STEPS)
    assert timings["total"] >= sum(timings[step] for step in cycle.STEPS)


def test_equal_inputs_give_equal_decisions(tmp_path: Path) -> None:
    document = _document(_cluster(7, 40), tmp_path)
    assert cycle.run(document, NOW).decisions == cycle.run(document, NOW).decisions
