"""Amounts that fair shares and queue limits read (spec 02 §1): vectors of cpu milli, memory bytes, gpu devices."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from kai_jax.api.config import Params
from kai_jax.model.nodes import UNKNOWN_GPU_MEMORY, Node
from kai_jax.model.podgroups import Job
from kai_jax.model.queues import QueueTree
from kai_jax.model.requests import RequestTable
from kai_jax.model.resources import CPU, GPU, MEMORY, mig_size
from kai_jax.model.tasks import ALLOCATED, NOWHERE, Task
from kai_jax.tensors.state import Status


@dataclass(frozen=True, slots=True)
class DeviceMemory:
    """Smallest and largest device memory of the shard in MiB, None where no node tells it."""

    smallest: int | None
    largest: int | None


@dataclass(frozen=True, slots=True)
class QueueUse:
    """f64[3,Q] per queue, ancestors included."""

    allocated: np.ndarray
    fixed: np.ndarray  # the part of non-preemptible jobs
    request: np.ndarray  # allocated plus what pending pods ask for


def device_memory(nodes: Iterable[Node]) -> DeviceMemory:
    """The range over the nodes that tell theirs."""
    known = [node.gpu_memory for node in nodes if node.gpu_memory > UNKNOWN_GPU_MEMORY]
    return DeviceMemory(min(known, default=None), max(known, default=None))


def cluster_total(nodes: Iterable[Node], foreign: Iterable[Task], requests: RequestTable, params: Params) -> np.ndarray:
    """f64[3] what the ready nodes offer, less what `foreign` pods take there (cluster total)."""
    total = np.zeros(3)
    ready = set()
    for node in nodes:
        if node.ready:
            ready.add(node.index)
            barred = params.restrict_scheduling_nodes and params.gpu_worker_node_label_key not in node.labels
            mig = sum(amount * mig_size(name) for name, amount in node.amounts.items())
            gpus = 0 if barred else node.amounts.get(GPU, 0) + mig
            total += (node.amounts.get(CPU, 0), node.amounts.get(MEMORY, 0), gpus)
    taken = [
        (*_amounts(requests, task.request), requests.requirement(task.request).demand_gpu(None))
        for task in foreign
        if task.node in ready
    ]
    for amounts in sorted(taken, key=lambda amounts: amounts[2]):  # as in queue_use
        total -= amounts
    return total


def queue_use(
    jobs: Iterable[Job], queues: QueueTree, nodes: Sequence[Node], requests: RequestTable, memory: DeviceMemory
) -> QueueUse:
    """Sums over the tasks of all jobs whose queue exists."""
    columns = np.array([_amounts(requests, index) for index in range(len(requests.classes))])  # [K,2] cpu, memory
    accepted = [requirement.accepted_gpu for requirement, _ in requests.classes]
    demanded = [requirement.demand_gpu(memory.smallest) for requirement, _ in requests.classes]
    queue: list[int] = []
    request: list[int] = []
    gpus: list[float] = []
    allocated: list[bool] = []
    fixed: list[bool] = []
    for job in jobs:
        if not job.queue_exists:
            continue
        place, binding = queues.index[job.queue_name], not job.preemptible
        for podset in job.podsets:
            for task in podset:
                status, index = task.status, task.request
                if status is Status.PENDING:
                    gpus.append(demanded[index])
                    allocated.append(False)
                elif status in ALLOCATED and task.node != NOWHERE:
                    requirement = requests.requirement(index)
                    memory_request = requirement.memory > 0
                    gpus.append(
                        requirement.accepted_on(nodes[task.node].gpu_memory) if memory_request else accepted[index]
                    )
                    allocated.append(True)
                else:
                    continue
                queue.append(place)
                request.append(index)
                fixed.append(binding)
    order = np.argsort(np.array(gpus, dtype=float))  # the order of the input must not round the sums
    places = np.array(queue, dtype=np.intp)[order]
    amounts = np.column_stack((columns[np.array(request, dtype=np.intp)], np.array(gpus, dtype=float)))[order]
    held = np.array(allocated, dtype=float)[order]
    bound = held * np.array(fixed, dtype=float)[order]
    count = len(queues.queues)
    parents = [entry.parent for entry in queues.queues]
    return QueueUse(
        allocated=_with_ancestors(_summed(places, amounts * held[:, None], count), parents),
        fixed=_with_ancestors(_summed(places, amounts * bound[:, None], count), parents),
        request=_with_ancestors(_summed(places, amounts, count), parents),
    )


def _amounts(requests: RequestTable, index: int) -> tuple[int, int]:
    amounts = dict(requests.requirement(index).amounts)
    return amounts.get(CPU, 0), amounts.get(MEMORY, 0)


def _summed(places: np.ndarray, amounts: np.ndarray, queues: int) -> np.ndarray:
    return np.array([np.bincount(places, column, queues) for column in amounts.T], dtype=float)


def _with_ancestors(own: np.ndarray, parents: Sequence[int]) -> np.ndarray:
    """Adds every queue to its parent; parents come before their children."""
    for queue in range(len(parents) - 1, 0, -1):
        own[:, parents[queue]] += own[:, queue]
    return own
