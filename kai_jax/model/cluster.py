"""The cluster as the host knows it: objects with names, defaults applied, bad ones flagged alone (specs 01 and 02).

`build` is the one way from objects to it, and everything it computes is what `kai_jax.encode` turns into tensors.
"""

from dataclasses import dataclass

import numpy as np

from kai_jax.api.config import Config, Params
from kai_jax.api.documents import Document
from kai_jax.api.objects import POD_GROUP, BindRequest
from kai_jax.api.plain import some_of
from kai_jax.api.usage import NO_USAGE, Usage
from kai_jax.model.books import Books, read_books, resource_axis
from kai_jax.model.claims import ClaimTable
from kai_jax.model.constraints import ConstraintTable
from kai_jax.model.fairness import DeviceMemory, QueueUse, cluster_total, device_memory, queue_use
from kai_jax.model.nodes import Node, read_nodes
from kai_jax.model.order import sort_tasks
from kai_jax.model.podgroups import Job, Jobs, join, read_jobs
from kai_jax.model.ports import PortTable
from kai_jax.model.queues import QueueTree, read_queues
from kai_jax.model.refusals import refuse
from kai_jax.model.requests import RequestTable
from kai_jax.model.shards import Shard
from kai_jax.model.tasks import NOWHERE, USED, Bindings, Task, TaskReader, is_helper, is_reservation
from kai_jax.model.topologies import Placement, Topology, read_topologies, resolve
from kai_jax.tensors.state import Status


@dataclass(frozen=True, slots=True)
class Cluster:
    """One shard at one moment; tuples are in the order of their axis."""

    config: Config
    params: Params
    nodes: tuple[Node, ...]
    queues: QueueTree
    jobs: tuple[Job, ...]
    topologies: tuple[Topology, ...]
    placements: dict[int, list[Placement]]  # topology constraints of the tree nodes, of jobs that have any
    requests: RequestTable
    constraints: ConstraintTable
    ports: PortTable
    books: Books
    memory: DeviceMemory
    total: np.ndarray  # f64[3]
    use: QueueUse
    bind_requests: tuple[BindRequest, ...]  # that stay, of the input
    warnings: tuple[str, ...]


def build(document: Document, now: float, usage: Usage = NO_USAGE) -> Cluster:
    """The cluster of a document at `now` (Unix seconds); `usage` is the normalised history by queue name.

    Never fails on a bad object: it is left out or corrected, and `warnings` names it and its field.
    """
    objects, params, config = document.objects, document.params, document.config
    warnings: list[str] = []
    shard = Shard(params.node_pool_label_key, params.node_pool_label_value)
    nodes = read_nodes(objects.nodes, objects.resource_slices, shard, params, warnings)
    index = {node.name: node.index for node in nodes}
    queues = read_queues(objects.queues, shard, params.full_hierarchy_fairness, usage, now, warnings)
    jobs = read_jobs(objects.pod_groups, objects.priority_classes, queues, shard, warnings)
    requests = RequestTable()
    bindings = Bindings(objects.bind_requests, index, shard)
    reader = TaskReader(bindings, ClaimTable(objects.resource_claims), index, requests, params, now, warnings)
    placed = _read_pods(document, reader, jobs, warnings)
    for job in jobs.jobs:
        sort_tasks(job, config, warnings)
    reservations = {id(task) for task in placed if is_reservation(task.pod, params)}
    foreign = [
        task
        for task in placed
        if task.pod.spec.scheduler_name != params.scheduler_name and not is_helper(task.pod, params)
    ]
    refuse(jobs.jobs, placed, objects, config, params, warnings)
    legacy = {task.node for task in placed if requests.requirement(task.request).legacy_mig}
    constraints = ConstraintTable(nodes, objects, params, legacy)
    waiting = _pending(jobs)
    for task in waiting:
        if not task.refusal:
            task.constraint = constraints.class_of(task.pod, requests.requirement(task.request).device_kind)
    warnings.extend(constraints.warnings)
    memory = device_memory(nodes)
    topologies = read_topologies(objects.topologies, _topologies_used(jobs), nodes) if config.has("topology") else ()
    return Cluster(
        config=config,
        params=params,
        nodes=nodes,
        queues=queues,
        jobs=tuple(jobs.jobs),
        topologies=topologies,
        placements=_placements(jobs, topologies, warnings) if config.has("topology") else {},
        requests=requests,
        constraints=constraints,
        ports=_ports(waiting, placed, requests, len(nodes)),
        books=read_books(nodes, placed, reservations, requests, resource_axis(nodes, requests), warnings),
        memory=memory,
        total=cluster_total(nodes, foreign, requests, params),
        use=queue_use(jobs.jobs, queues, nodes, requests, memory),
        bind_requests=tuple(bindings.kept),
        warnings=tuple(warnings),
    )


def _read_pods(document: Document, reader: TaskReader, jobs: Jobs, warnings: list[str]) -> list[Task]:
    """Gives every pod to its job, and returns the pods that use a node of the shard."""
    placed: list[Task] = []
    alone: list[str] = []
    for pod in document.objects.pods:
        name = pod.metadata.annotations.get(POD_GROUP)
        job = jobs.of(name, pod.metadata.namespace) if name is not None else None
        task = reader.read(pod)
        if job is not None:
            join(job, task, warnings)
        elif task.status is Status.PENDING and pod.spec.scheduler_name == document.params.scheduler_name:
            alone.append(task.key)
        if task.node != NOWHERE and task.status in USED:
            placed.append(task)
    if alone:
        missing = f"metadata.annotations[{POD_GROUP}]: no such podgroup in this shard, or it backs off; not scheduled"
        warnings.append(f"pod {some_of(alone)}: {missing}")
    return placed


def _pending(jobs: Jobs) -> list[Task]:
    return [task for job in jobs.jobs for podset in job.podsets for task in podset if task.status is Status.PENDING]


def _ports(waiting: list[Task], placed: list[Task], requests: RequestTable, nodes: int) -> PortTable:
    """Classes of the host ports that pending pods ask for."""
    asked = {requests.classes[task.request][1] for task in waiting}
    held = [(task.node, requests.classes[task.request][1]) for task in placed]
    return PortTable(asked, [(node, ports) for node, ports in held if ports], nodes)


def _placements(jobs: Jobs, topologies: tuple[Topology, ...], warnings: list[str]) -> dict[int, list[Placement]]:
    """Constraints of every job that has any, by index of the job; one that makes no sense keeps its pods waiting."""
    placements: dict[int, list[Placement]] = {}
    for index, job in enumerate(jobs.jobs):
        if job.tree.constrained:
            placements[index] = []
            for node in job.tree.nodes:
                placement, problem = resolve(node.constraint, topologies)
                placements[index].append(placement)
                if problem:
                    owner = f"spec.subGroups[{node.name}]" if node.name else "spec"
                    warnings.append(f"podgroup {job.key}: {owner}.topologyConstraint: {problem}")
    return placements


def _topologies_used(jobs: Jobs) -> set[str]:
    return {
        node.constraint.topology
        for job in jobs.jobs
        if job.tree.constrained
        for node in job.tree.nodes
        if node.constraint is not None
    }
