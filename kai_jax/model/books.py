"""Node books at the start of a cycle: what is idle, used and releasing, and the shared devices (spec 01 §4.3, §4.4)."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from kai_jax.api.numbers import integer
from kai_jax.model.nodes import Node
from kai_jax.model.requests import RequestTable
from kai_jax.model.resources import FIXED, GPU, PODS, Requirement
from kai_jax.model.tasks import Task
from kai_jax.tensors.state import Status

MAX_SHARED_DEVICES = 64  # of one node


@dataclass(slots=True)
class SharedDevice:
    """One physical device that pods share; amounts in MiB."""

    group: str
    used: int = 0
    allocated: int = 0
    releasing: int = 0
    marked: bool = False  # counted as a whole releasing device
    pods: list[Task] = field(default_factory=list)

    @property
    def numbered(self) -> bool:
        """The id is an integer, which ids of devices that we choose never are."""
        return integer(self.group) is not None


@dataclass(frozen=True, slots=True)
class Books:
    """Amounts f64[R,N] of the nodes, and per node its shared devices in the order they came up."""

    resources: tuple[str, ...]  # axis R
    allocatable: np.ndarray
    idle: np.ndarray
    used: np.ndarray
    releasing: np.ndarray
    devices: tuple[dict[str, SharedDevice], ...]


def resource_axis(nodes: Iterable[Node], requests: RequestTable) -> tuple[str, ...]:
    """Names of axis R: the four fixed ones, then every other name that a node offers or a pod asks for, sorted."""
    names = {name for node in nodes for name in node.amounts}
    names |= {name for requirement, _ in requests.classes for name, _ in requirement.amounts}
    return (*FIXED, *sorted(names.difference(FIXED)))


def request_vectors(resources: Sequence[str], requests: RequestTable) -> np.ndarray:
    """f64[K,R] request vectors; class 0 asks for nothing, not even a pod slot."""
    place = {name: index for index, name in enumerate(resources)}
    vectors = np.zeros((len(requests.classes), len(resources)))
    vectors[1:, place[PODS]] = 1
    for row, (requirement, _) in zip(vectors, requests.classes, strict=True):
        row[place[GPU]] = requirement.requested_gpu
        for name, amount in requirement.amounts:
            row[place[name]] = amount
    return vectors


def read_books(
    nodes: Sequence[Node],
    placed: Sequence[Task],
    reservations: set[int],
    requests: RequestTable,
    resources: tuple[str, ...],
    warnings: list[str],
) -> Books:
    """Books with all pods that use a node; `reservations` are ids of tasks that hold no device of their own."""
    place = {name: index for index, name in enumerate(resources)}
    allocatable = np.zeros((len(resources), len(nodes)))
    for node in nodes:
        for name, amount in node.amounts.items():
            allocatable[place[name], node.index] = amount
    charges = request_vectors(resources, requests)
    charges[0, place[PODS]] = 1  # a refused pod takes its slot all the same
    charges[:, 0] = [requirement.node_gpu for requirement, _ in requests.classes]
    used, releasing = _charged(placed, reservations, charges, len(nodes))
    present = allocatable != 0  # what a node does not have is not booked
    used, releasing = used * present, releasing * present
    books = Books(resources, allocatable, allocatable - used, used, releasing, tuple({} for _ in nodes))
    for task in placed:
        requirement = requests.requirement(task.request)
        if task.groups and requirement.shared:
            _share(books, nodes[task.node], task, requirement, warnings)
    return books


def _charged(
    placed: Sequence[Task], reservations: set[int], charges: np.ndarray, nodes: int
) -> tuple[np.ndarray, np.ndarray]:
    """Sums f64[R,N] of what all pods use and of what the releasing ones do."""
    node = np.array([task.node for task in placed], dtype=np.intp)
    vectors = charges[np.array([task.request for task in placed], dtype=np.intp)]
    vectors[[id(task) in reservations for task in placed], 0] = 0
    vectors[:, 0] = np.maximum(vectors[:, 0] - _claimed_twice(placed), 0)
    leaving = np.array([task.status is Status.RELEASING for task in placed], dtype=float)
    used = np.array([np.bincount(node, column, nodes) for column in vectors.T], dtype=float)
    releasing = np.array([np.bincount(node, column * leaving, nodes) for column in vectors.T], dtype=float)
    return used, releasing


def _claimed_twice(placed: Sequence[Task]) -> list[int]:
    """Per pod, the claimed devices that a pod before it on the node holds too: they count once."""
    held: set[tuple[int, tuple[str, str, str]]] = set()
    repeated = []
    for task in placed:
        mine = {(task.node, device) for device in task.devices} if task.devices else set()
        repeated.append(len(mine & held))
        held |= mine
    return repeated


def _share(books: Books, node: Node, task: Task, requirement: Requirement, warnings: list[str]) -> None:
    """Adds a pod to its shared devices, one after the other (shared-device groups, add)."""
    memory = requirement.memory_on(node.gpu_memory)
    devices, at = books.devices[node.index], node.index
    for group in task.groups:
        if len(devices) == MAX_SHARED_DEVICES and group not in devices:
            warnings.append(
                f"pod {task.key}: shared device {group!r}: node {node.name} has {len(devices)} others, left out"
            )
            continue
        device = devices.setdefault(group, SharedDevice(group))
        device.pods.append(task)
        device.used += memory
        device.allocated += memory
        in_use = int(books.used[0, at]) + sum(other.used > 0 for other in devices.values())
        counted_too_often = node.gpu_count < int(books.idle[0, at]) + in_use
        if task.status is Status.RELEASING:
            device.releasing += memory
            if device.used == device.releasing:
                if not device.marked:
                    books.releasing[0, at] += 1
                    device.marked = True
                books.idle[0, at] -= counted_too_often
        else:
            books.idle[0, at] -= device.used <= memory and counted_too_often
            if device.marked:
                books.releasing[0, at] -= 1
                device.marked = False
