"""Where everything lies on the axes: the one numbering that `encode` writes and `decode` reads."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from kai_jax.encode.buckets import Bucket, Sizes, choose_bucket
from kai_jax.encode.padding import starts
from kai_jax.model.cluster import Cluster
from kai_jax.model.order import elastic_classes, job_keys, waiting_classes
from kai_jax.model.podgroups import Job, is_ready
from kai_jax.model.resources import GPU
from kai_jax.model.tasks import Task
from kai_jax.model.topologies import Placement
from kai_jax.tensors import ACTIVE, ALLOCATED_SET, NONE, Features, Status


@dataclass(frozen=True, slots=True)
class Slots:
    """Places in the job order of leaf queues, sorted: leaf by leaf, each in job order."""

    job: np.ndarray  # i64[S]
    elastic: np.ndarray  # i64[S] the class in which the job waits here
    queue: np.ndarray  # i64[S] ascending
    filled: np.ndarray  # bool[S]


@dataclass(frozen=True, slots=True)
class Layout:
    """The axes J, P, T, M and S of a cluster, without padding."""

    jobs: Sequence[Job]
    tasks: Sequence[Task]  # by job and podset, pending ones first inside a podset
    status: np.ndarray  # i64[T]
    task_podset: np.ndarray  # i64[T]
    podset_job: np.ndarray  # i64[P]
    podset_start: np.ndarray  # i64[J] first podset of each job
    podset_tasks: np.ndarray  # i64[P] tasks
    minimum: np.ndarray  # i64[P]
    pending: np.ndarray  # i64[P] tasks that wait
    active: np.ndarray  # i64[P]
    allocated: np.ndarray  # i64[P]
    used: np.ndarray  # i64[P]
    node_count: np.ndarray  # i64[J] tree nodes
    slots: Slots


def lay_out(cluster: Cluster) -> Layout:
    """Every job, podset, task and slot at its place, with the counts that sizes and books need."""
    jobs = cluster.jobs
    podsets = [podset for job in jobs for podset in job.podsets]
    tasks = [task for podset in podsets for task in podset]
    status = np.array([task.status for task in tasks], dtype=np.int64)
    podset_tasks = np.array([len(podset) for podset in podsets], dtype=np.int64)
    podset_count = np.array([len(job.podsets) for job in jobs], dtype=np.int64)
    task_podset = np.repeat(np.arange(len(podsets)), podset_tasks)

    def count(*statuses: Status) -> np.ndarray:
        return np.bincount(task_podset[np.isin(status, statuses)], minlength=len(podsets))

    minimum = np.array([minimum for job in jobs for minimum in job.tree.minimums], dtype=np.int64)
    first_podset = starts(podset_count)
    pending, active = count(Status.PENDING), count(*ACTIVE)
    return Layout(
        jobs=jobs,
        tasks=tasks,
        status=status,
        task_podset=task_podset,
        podset_job=np.repeat(np.arange(len(jobs)), podset_count),
        podset_start=first_podset,
        podset_tasks=podset_tasks,
        minimum=minimum,
        pending=pending,
        active=active,
        allocated=count(*ALLOCATED_SET),
        used=count(*ACTIVE, Status.RELEASING, Status.STUCK_IN_RELEASING),
        node_count=np.array([len(job.tree.nodes) for job in jobs], dtype=np.int64),
        slots=_slots(cluster, active, pending, minimum, first_podset),
    )


def choose_layout_bucket(cluster: Cluster, layout: Layout, devices: int) -> Bucket:
    """The bucket that holds the cluster, with at least `devices` slots for shared devices of a node."""
    features = _features(cluster, layout)
    children = max((queue.child_count for queue in cluster.queues.queues), default=0)
    used = len(cluster.topologies) if features.topology else 0
    return choose_bucket(
        Sizes(
            nodes=len(cluster.nodes),
            resources=len(cluster.books.resources),
            tasks=len(layout.tasks),
            podsets=len(layout.podset_job),
            jobs=len(layout.jobs),
            tree_nodes=int(layout.node_count.sum()),
            queues=len(cluster.queues.queues),
            slots=len(layout.slots.job),
            requests=len(cluster.requests.classes),
            constraints=len(cluster.constraints),
            devices=max(devices, _devices(cluster)) if features.shared else 1,
            ports=len(cluster.ports),
            domains=sum(len(topology.domains) for topology in cluster.topologies) if used else 0,
            levels=1 + max((topology.depth for topology in cluster.topologies), default=0) if used else 0,
            topologies=used,
            children=children,
            window=int(layout.node_count.max(initial=2)),
            queue_levels=max((queue.level for queue in cluster.queues.queues), default=0),
            frames=max((_depth_of_constraints(layout.jobs[index], placements) for index, placements in
                        cluster.placements.items()), default=0),
        ),
        features,
    )  # fmt: skip


def _features(cluster: Cluster, layout: Layout) -> Features:
    requirements = [requirement for requirement, _ in cluster.requests.classes]
    return Features(
        shared=any(requirement.shared for requirement in requirements) or any(cluster.books.devices),
        topology=bool(cluster.placements),
        trees=not all(job.tree.simple for job in layout.jobs),
        ports=len(cluster.ports) > 0,
        nominated=any(task.pod.status.nominated_node_name for task in layout.tasks),
        releasing=bool(np.any(cluster.books.releasing))
        or any(device.releasing for held in cluster.books.devices for device in held.values()),
    )


def _devices(cluster: Cluster) -> int:
    """Slots that a node may need: those taken, and one for each of its devices."""
    return max((len(cluster.books.devices[node.index]) + node.amounts.get(GPU, 0) for node in cluster.nodes), default=0)


def _depth_of_constraints(job: Job, placements: list[Placement]) -> int:
    """Most constraints on a path from the root."""
    depths: list[int] = []
    for node, placement in zip(job.tree.nodes, placements, strict=True):
        above = depths[node.parent] if node.parent >= 0 else 0
        depths.append(above + (placement.topology != NONE))
    return max(depths)


def _slots(
    cluster: Cluster, active: np.ndarray, pending: np.ndarray, minimum: np.ndarray, first_podset: np.ndarray
) -> Slots:
    """One place for each class in which a job may wait; jobs that no queue takes in have none (insertion filters)."""
    if not len(first_podset):
        none = np.zeros(0, dtype=np.int64)
        return Slots(none, none, none, none.astype(bool))
    config, jobs = cluster.config, cluster.jobs
    present = elastic_classes(active, minimum, first_podset)
    classes = waiting_classes(active, pending, minimum, first_podset)
    simple_ready = active[first_podset] + pending[first_podset] >= minimum[first_podset]
    classes &= np.array([
        job.queue >= 0 and not job.refusal and bool(simple if job.tree.simple else is_ready(job))
        for job, simple in zip(jobs, simple_ready, strict=True)
    ])[:, None]  # fmt: skip
    if not config.has("elastic"):  # the class is no key: one place serves all
        classes = classes & (np.arange(classes.shape[1]) == present[:, None])
    job, elastic = np.nonzero(classes)
    queue = np.array([entry.queue for entry in jobs])[job]
    keys = job_keys([jobs[index] for index in job], elastic, config)
    order = np.lexsort((*reversed(keys), queue))
    job, elastic, queue = job[order], elastic[order], queue[order]
    waits = elastic == present[job]
    depth = config.queue_depth_per_action.get("allocate", -1)
    if depth >= 0:
        before = np.cumsum(waits) - waits
        first = np.searchsorted(queue, queue)
        waits &= before - before[first] < depth
    return Slots(job, elastic, queue, waits)
