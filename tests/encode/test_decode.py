"""Decisions from tensors, without a kernel: a state is written by hand."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from model.clusters import a_cluster, a_group, a_node, a_pod, a_queue

from kai_jax.api.config import Config
from kai_jax.encode.decode import STATUS_NAMES, Decisions, decode
from kai_jax.encode.encode import Encoded, encode
from kai_jax.tensors import Reason, Status

BINDING = {
    "metadata": {"name": "held", "namespace": "team"},
    "spec": {
        "podName": "held",
        "selectedNode": "n2",
        "receivedResourceType": "Fraction",
        "receivedGPU": {"count": 1, "portion": "0.50"},
        "selectedGPUGroups": ["g"],
    },
}
PODS = [
    a_pod("held", annotations={"gpu-fraction": "0.5"}),
    a_pod("whole", requests={"nvidia.com/gpu": "2"}),
    a_pod("cpu", requests={"cpu": "1"}),
    a_pod("memory", annotations={"gpu-memory": "8000", "gpu-fraction-num-devices": "2"}),
    a_pod("profile", requests={"nvidia.com/mig-1g.5gb": "1"}),
    a_pod("later"),
    a_pod("waits"),
]


def decide(placed: dict[str, tuple[Status, int, int]], reasons: int = 0, **more) -> Decisions:
    """Decisions when the named pods got (status, node, device slots)."""
    groups = more.pop("groups", [a_group(minMember=1)])
    cluster = a_cluster([a_node("n1"), a_node("n2")], PODS, groups, bind_requests=[BINDING], **more)
    encoded = encode(cluster)
    state = replace(
        encoded.state,
        task_status=encoded.state.task_status.copy(),
        task_node=encoded.state.task_node.copy(),
        task_devices=encoded.state.task_devices.copy(),
    )
    for index, task in enumerate(encoded.layout.tasks):
        if (place := placed.get(task.pod.metadata.name)) is not None:
            state.task_status[index], state.task_node[index], state.task_devices[index] = place
    notes = SimpleNamespace(reasons=np.full(128, reasons))
    return decode(encoded, _shares(encoded), state, notes)


def _shares(encoded: Encoded) -> np.ndarray:
    return np.arange(3 * encoded.snapshot.queues.parent.shape[0], dtype=float).reshape(3, -1)


def test_placed_pods_change_and_the_others_stay() -> None:
    decisions = decide({"whole": (Status.ALLOCATED, 0, 0), "later": (Status.PIPELINED, 1, 0)})
    assert decisions.initial["team/held"] == ["Binding", "n2"]
    assert decisions.initial["team/whole"] == ["Pending"]
    changed = {"team/whole": ["Binding", "n1"], "team/later": ["Pipelined", "n2"]}
    assert decisions.actions == [{"action": "allocate", "changed": changed}]
    assert decisions.final == decisions.initial | changed


def test_bind_requests_tell_what_a_pod_received() -> None:
    placed = dict.fromkeys(("whole", "cpu", "memory", "profile"), (Status.ALLOCATED, 0, 0))
    decisions = decide({**placed, "later": (Status.PIPELINED, 0, 0)})
    assert decisions.bind_requests == {
        "team/held": ["n2", "Fraction", 1, "0.50"],
        "team/whole": ["n1", "Regular", 2, "1.00"],
        "team/cpu": ["n1", "Regular", 0, "0.00"],
        "team/memory": ["n1", "Fraction", 2, "0.20"],  # 8000 of 40900 MiB, rounded up
        "team/profile": ["n1", "MigInstance", 0, "0.00"],
    }


def test_pods_that_share_a_device_are_listed_together() -> None:
    decisions = decide({"memory": (Status.ALLOCATED, 1, 0b11), "later": (Status.ALLOCATED, 0, 0b1)})
    assert decisions.shared_devices == [["team/held", "team/memory"], ["team/later"], ["team/memory"]]


def test_queues_report_raw_numbers() -> None:
    queues = [a_queue("leaf", gpu={"quota": 1.5, "limit": 3})]
    decisions = decide({}, queues=queues)
    assert decisions.queues == {
        "leaf": {"fair_share": [1.0, 65.0, 129.0], "deserved": [-1, -1, 1.5], "allocated": [1000, 0, 0.5]}
    }


@pytest.mark.parametrize(
    ("bits", "texts"),
    [
        (0, []),
        (Reason.OVER_LIMIT, ["OverLimit"]),
        (
            Reason.TOPOLOGY_NOT_ENOUGH | Reason.POD_SCHEDULING_ERRORS,
            ["Not enough resources for the workload", "PodSchedulingErrors"],
        ),
    ],
)
def test_reasons(bits: int, texts: list[str]) -> None:
    assert decide({}, bits).reasons == ({"team/job": texts} if texts else {})


def test_an_unknown_queue_is_a_reason_without_an_attempt() -> None:
    assert decide({}, groups=[a_group(queue="gone")]).reasons == {"team/job": ["QueueDoesNotExist"]}


def test_without_allocate_nothing_is_reported_as_done() -> None:
    assert decide({}, config=Config(actions=("reclaim",))).actions == []


def test_every_status_has_a_name() -> None:
    assert set(STATUS_NAMES) == set(Status)
