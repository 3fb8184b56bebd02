"""From tensors back to names: what a cycle decided, in the form that other programs read."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from kai_jax.encode.encode import Encoded
from kai_jax.model.cluster import Cluster
from kai_jax.model.resources import Kind, Requirement
from kai_jax.model.tasks import Task
from kai_jax.tensors import Attempts, State, Status
from kai_jax.tensors.state import Reason

Place = list[str]  # [status] or [status, node]
Binding = list[Any]  # [node, received type, devices, portion of each "0.50"]

QUEUE_DOES_NOT_EXIST = "QueueDoesNotExist"
REASONS = {
    Reason.OVER_LIMIT: "OverLimit",
    Reason.NON_PREEMPTIBLE_OVER_QUOTA: "NonPreemptibleOverQuota",
    Reason.POD_SCHEDULING_ERRORS: "PodSchedulingErrors",
    Reason.TOPOLOGY_NOT_ENOUGH: "Not enough resources for the workload",
}
STATUS_NAMES = {
    Status.PENDING: "Pending",
    Status.GATED: "Gated",
    Status.ALLOCATED: "Binding",  # once committed
    Status.PIPELINED: "Pipelined",
    Status.BINDING: "Binding",
    Status.BOUND: "Bound",
    Status.RUNNING: "Running",
    Status.RELEASING: "Releasing",
    Status.STUCK_IN_RELEASING: "StuckInReleasing",
    Status.SUCCEEDED: "Succeeded",
    Status.FAILED: "Failed",
    Status.UNKNOWN: "Unknown",
}
WAITING = (STATUS_NAMES[Status.PENDING], STATUS_NAMES[Status.GATED])


@dataclass(frozen=True)
class Decisions:
    """The parts of the output document that a cycle decides; pods and podgroups are named namespace/name."""

    initial: dict[str, Place]  # pods after loading
    queues: dict[str, dict[str, list[float]]]  # fair_share, deserved, allocated before the actions: [cpu, memory, gpu]
    actions: list[dict[str, Any]]  # {action, changed: {pod: place}}
    final: dict[str, Place]
    bind_requests: dict[str, Binding]  # those of the input that stay, and the new ones
    shared_devices: list[list[str]]  # pods that share one device, per device
    claim_devices: dict[str, list[str]]
    reasons: dict[str, list[str]]  # podgroups

    @property
    def placed(self) -> set[str]:
        """Pods that were given a node in this cycle, or promised one."""
        return {pod for pod, place in self.final.items() if len(place) > 1 and place != self.initial[pod]}


def waiting_pods(places: Mapping[str, Place]) -> set[str]:
    """Those of the pods that wait for a node."""
    return {pod for pod, place in places.items() if place[0] in WAITING}


def decode(encoded: Encoded, fair_share: np.ndarray, state: State, attempts: Attempts) -> Decisions:
    """Decisions of a cycle from fair shares f64[3,Q], the state it left and its failed attempts."""
    tasks, cluster = encoded.layout.tasks, encoded.cluster
    keys = [task.key for task in tasks]
    initial = {key: _initial_place(task) for key, task in zip(keys, tasks, strict=True)}
    status = np.asarray(state.task_status)[: len(tasks)]
    node = np.asarray(state.task_node)[: len(tasks)]
    moved = np.flatnonzero((status != encoded.layout.status) | (node != encoded.state.task_node[: len(tasks)]))
    changed: dict[str, Place] = {}
    bound: dict[str, Binding] = {}
    received = _Received(cluster)
    for index, now, at in zip(moved.tolist(), status[moved].tolist(), node[moved].tolist(), strict=True):
        key, name = keys[index], cluster.nodes[at].name
        changed[key] = [STATUS_NAMES[now], name]
        if now == Status.ALLOCATED:
            bound[key] = [name, *received.by(tasks[index].request, cluster.nodes[at].gpu_memory)]
    return Decisions(
        initial=initial,
        queues=_queues(encoded, np.asarray(fair_share)),
        actions=[{"action": "allocate", "changed": changed}] if "allocate" in cluster.config.actions else [],
        final=initial | changed,
        bind_requests=_kept_bindings(encoded) | bound,
        shared_devices=_shared_devices(keys, node, np.asarray(state.task_devices)[: len(tasks)]),
        claim_devices={},
        reasons=_reasons(encoded, np.asarray(attempts.reasons)),
    )


def _initial_place(task: Task) -> Place:
    status = STATUS_NAMES[task.status]
    return [status, task.node_name] if task.node_name else [status]


class _Received:
    """What pods of a request class receive on nodes with so much device memory: type, devices, portion."""

    def __init__(self, cluster: Cluster) -> None:
        self._requests = cluster.requests
        self._known: dict[tuple[int, int], tuple[str, int, str]] = {}

    def by(self, request: int, gpu_memory: int) -> tuple[str, int, str]:
        known = self._known.get((request, gpu_memory))
        if known is None:
            known = self._known[request, gpu_memory] = self._of(self._requests.requirement(request), gpu_memory)
        return known

    def _of(self, requirement: Requirement, gpu_memory: int) -> tuple[str, int, str]:
        if requirement.shared:
            return str(Kind.FRACTION), requirement.devices, f"{requirement.portion_on(gpu_memory):.2f}"
        if requirement.kind is Kind.MIG:
            return str(Kind.MIG), 0, "0.00"
        return str(Kind.REGULAR), requirement.devices, f"{requirement.portion:.2f}"


def _kept_bindings(encoded: Encoded) -> dict[str, Binding]:
    bindings: dict[str, Binding] = {}
    for request in encoded.cluster.bind_requests:
        spec, received = request.spec, request.spec.received_gpu
        devices = [received.count, str(received.portion)] if received is not None else [0, ""]
        key = f"{request.metadata.namespace}/{spec.pod_name}"
        bindings[key] = [spec.selected_node, spec.received_resource_type, *devices]
    return bindings


def _queues(encoded: Encoded, fair_share: np.ndarray) -> dict[str, dict[str, list[float]]]:
    shares, allocated = fair_share.T.tolist(), encoded.cluster.use.allocated.T.tolist()
    return {
        queue.name: {
            "fair_share": shares[queue.index],
            "deserved": list(queue.quota),
            "allocated": allocated[queue.index],
        }
        for queue in encoded.cluster.queues.queues[1:]
    }


def _shared_devices(keys: list[str], node: np.ndarray, devices: np.ndarray) -> list[list[str]]:
    """Pods of every shared device that some pod holds."""
    holders: dict[tuple[int, int], list[str]] = {}
    for index in np.flatnonzero(devices).tolist():
        for slot in _bits(int(devices[index])):
            holders.setdefault((int(node[index]), slot), []).append(keys[index])
    return sorted(sorted(pods) for pods in holders.values())


def _bits(mask: int) -> Iterable[int]:
    return (bit for bit in range(mask.bit_length()) if mask >> bit & 1)


def _reasons(encoded: Encoded, reasons: np.ndarray) -> dict[str, list[str]]:
    """Reasons of all failed attempts, of jobs that were placed in the end too."""
    told: dict[str, list[str]] = {}
    for job, bits in zip(encoded.layout.jobs, reasons.tolist(), strict=False):
        texts = [] if job.queue_exists else [QUEUE_DOES_NOT_EXIST]
        texts += [text for reason, text in REASONS.items() if bits & reason] if bits else []
        if texts:
            told[job.key] = sorted(texts)
    return told
