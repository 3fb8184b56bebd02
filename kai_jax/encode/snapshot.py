"""The part of the tensors that no decision changes."""

from collections.abc import Callable, Sequence

import numpy as np

from kai_jax.encode.buckets import Bucket, Sizes
from kai_jax.encode.layout import Layout
from kai_jax.encode.padding import Leaf, column, corner, starts
from kai_jax.model.books import request_vectors
from kai_jax.model.cluster import Cluster
from kai_jax.model.nodes import UNKNOWN_GPU_MEMORY
from kai_jax.model.queues import Queue
from kai_jax.model.resources import Requirement
from kai_jax.model.tasks import NOWHERE
from kai_jax.tensors import (
    NONE,
    Constraints,
    Jobs,
    Nodes,
    Podsets,
    Queues,
    Requests,
    Snapshot,
    Tasks,
    Topology,
    TreeNodes,
)


def encode_snapshot(cluster: Cluster, layout: Layout, bucket: Bucket) -> Snapshot:
    """Numpy leaves in the shapes of the bucket; padding as each class of `tensors.snapshot` says."""
    sizes = bucket.sizes
    allowed = corner(cluster.constraints.allowed(), (sizes.constraints, sizes.nodes), False)
    return Snapshot(
        nodes=_nodes(cluster, sizes),
        requests=_requests(cluster, sizes),
        constraints=Constraints(allowed),
        tasks=_tasks(cluster, layout, sizes),
        podsets=_podsets(layout, sizes),
        tree=_tree(cluster, layout, sizes),
        jobs=_jobs(cluster, layout, sizes),
        queues=_queues(cluster, layout, sizes),
        topology=_topology(cluster, bucket),
        spread_gpu=_spreads(cluster, "gpu"),
        spread_cpu=_spreads(cluster, "cpu"),
    )


def _spreads(cluster: Cluster, resource: str) -> Leaf:
    return np.bool_(cluster.config.spreads(resource))


def _nodes(cluster: Cluster, sizes: Sizes) -> Nodes:
    nodes, size = cluster.nodes, sizes.nodes
    return Nodes(
        exists=column([True] * len(nodes), size, False, bool),
        allocatable=corner(cluster.books.allocatable, (sizes.resources, size), 0.0),
        gpu_memory=column([node.gpu_memory for node in nodes], size, UNKNOWN_GPU_MEMORY, np.int64),
        gpu_count=column([node.gpu_count for node in nodes], size, 0, np.int64),
        cpu_only=column([node.cpu_only for node in nodes], size, False, bool),
        ports_taken=corner(cluster.ports.taken(), (sizes.ports, size), False),
    )


def _requests(cluster: Cluster, sizes: Sizes) -> Requests:
    classes, size, memory = cluster.requests.classes, sizes.requests, cluster.memory

    def each(of: Callable[[Requirement], float], dtype: type) -> Leaf:
        return column([of(requirement) for requirement, _ in classes], size, 0, dtype)

    return Requests(
        vector=corner(request_vectors(cluster.books.resources, cluster.requests), (size, sizes.resources), 0.0),
        node_gpu=each(lambda r: r.node_gpu, np.float64),
        shared=each(lambda r: r.shared, bool),
        cpu_only=each(lambda r: r.cpu_only, bool),
        devices=each(lambda r: r.devices if r.shared else 0, np.int32),
        portion=each(lambda r: r.portion, np.float64),
        memory=each(lambda r: r.memory, np.int64),
        accepted_gpu=each(lambda r: r.accepted_gpu, np.float64),
        order_gpu=each(lambda r: r.demand_gpu(memory.smallest), np.float64),
        gate_gpu=each(lambda r: r.demand_gpu(memory.largest), np.float64),
        ports=corner(np.array([cluster.ports.wanted(ports) for _, ports in classes]), (size, sizes.ports), False),
    )


def _tasks(cluster: Cluster, layout: Layout, sizes: Sizes) -> Tasks:
    tasks, size = layout.tasks, sizes.tasks
    nowhere = len(cluster.constraints)  # the first padding class: no node allowed
    index = {node.name: node.index for node in cluster.nodes}
    nominated = (task.pod.status.nominated_node_name for task in tasks)
    return Tasks(
        request=column([task.request for task in tasks], size, 0, np.int32),
        constraint=column([nowhere if task.constraint == NOWHERE else task.constraint for task in tasks],
                           size, nowhere, np.int32),
        podset=column(layout.task_podset, size, sizes.podsets - 1, np.int32),
        nominated=column([index.get(name, NONE) if name else NONE for name in nominated], size, NONE, np.int32),
    )  # fmt: skip


def _podsets(layout: Layout, sizes: Sizes) -> Podsets:
    size = sizes.podsets
    return Podsets(
        job=column(layout.podset_job, size, sizes.jobs - 1, np.int32),
        task_start=column(starts(layout.podset_tasks), size, sizes.tasks - 1, np.int32),
        task_count=column(layout.podset_tasks, size, 0, np.int32),
        pending=column(layout.pending, size, 0, np.int32),
        minimum=column(layout.minimum, size, 0, np.int32),
    )


def _tree(cluster: Cluster, layout: Layout, sizes: Sizes) -> TreeNodes:
    """Trees of one podset below the root at once, the others one by one."""
    size, first_node = sizes.tree_nodes, starts(layout.node_count)
    columns: dict[str, Leaf] = {
        "parent": np.full(size, NONE, np.int32),
        "depth": np.zeros(size, np.int32),
        "podset": np.full(size, NONE, np.int32),
        "threshold": np.ones(size, np.int32),
        "name_rank": np.zeros(size, np.int32),
        "topology": np.full(size, NONE, np.int32),
        "required": np.full(size, NONE, np.int32),
        "preferred": np.full(size, NONE, np.int32),
    }
    simple = np.array([job.tree.simple for job in layout.jobs], dtype=bool)
    leaf, podset = first_node[simple] + 1, layout.podset_start[simple]
    columns["parent"][leaf] = 0
    columns["depth"][leaf] = 1
    columns["podset"][leaf] = podset
    columns["threshold"][leaf] = layout.minimum[podset]
    columns["name_rank"][leaf] = 1
    for index in np.flatnonzero(~simple).tolist():
        nodes, first = layout.jobs[index].tree.nodes, int(layout.podset_start[index])
        rows = slice(first_node[index], first_node[index] + len(nodes))
        ranks = {name: rank for rank, name in enumerate(sorted((node.name for node in nodes), key=str.encode))}
        columns["parent"][rows] = [node.parent for node in nodes]
        columns["depth"][rows] = [node.depth for node in nodes]
        columns["podset"][rows] = [first + node.podset if node.podset >= 0 else NONE for node in nodes]
        columns["threshold"][rows] = [node.threshold for node in nodes]
        columns["name_rank"][rows] = [ranks[node.name] for node in nodes]
    for index, placements in cluster.placements.items():
        rows = slice(first_node[index], first_node[index] + len(placements))
        columns["topology"][rows] = [placement.topology for placement in placements]
        columns["required"][rows] = [placement.required for placement in placements]
        columns["preferred"][rows] = [placement.preferred for placement in placements]
    return TreeNodes(**columns)


def _jobs(cluster: Cluster, layout: Layout, sizes: Sizes) -> Jobs:
    jobs, size, slots = layout.jobs, sizes.jobs, layout.slots
    slot: Leaf = np.full((size, 3), NONE, np.int32)
    slot[slots.job, slots.elastic] = np.arange(len(slots.job))
    if not cluster.config.has("elastic"):
        slot[:] = slot.max(axis=1, keepdims=True)  # the class is no key: one place serves all
    return Jobs(
        queue=column([job.queue for job in jobs], size, NONE, np.int32),
        preemptible=column([job.preemptible for job in jobs], size, False, bool),
        podset_start=column(layout.podset_start, size, sizes.podsets - 1, np.int32),
        podset_count=column([len(job.podsets) for job in jobs], size, 0, np.int32),
        node_start=column(starts(layout.node_count), size, sizes.tree_nodes - 1, np.int32),
        node_count=column(layout.node_count, size, 0, np.int32),
        flat=column([job.tree.simple and index not in cluster.placements for index, job in enumerate(jobs)],
                     size, True, bool),
        slot=slot,
        slot_job=column(slots.job, sizes.slots, size - 1, np.int32),
        slot_filled=column(slots.filled, sizes.slots, False, bool),
    )  # fmt: skip


def _queues(cluster: Cluster, layout: Layout, sizes: Sizes) -> Queues:
    queues, size = cluster.queues.queues, sizes.queues
    rows = np.arange(len(queues))
    slots = layout.slots.queue
    ranks = np.argsort(np.argsort([queue.name.encode() for queue in queues]))

    def each(of: Callable[[Queue], int], padding: int, dtype: type = np.int32) -> Leaf:
        return column([of(queue) for queue in queues], size, padding, dtype)

    def triples(of: Callable[[Queue], Sequence[float]], padding: float) -> Leaf:
        return corner(np.array([of(queue) for queue in queues], dtype=float).T, (3, size), padding)

    return Queues(
        parent=each(lambda queue: queue.parent, NONE),
        level=each(lambda queue: queue.level, 0),
        child_start=each(lambda queue: queue.child_start, 0),
        child_count=each(lambda queue: queue.child_count, 0),
        slot_start=column(np.searchsorted(slots, rows), size, len(slots), np.int32),
        slot_end=column(np.searchsorted(slots, rows, side="right"), size, len(slots), np.int32),
        quota=triples(lambda queue: queue.quota, 0.0),
        limit=triples(lambda queue: queue.limit, 0.0),
        weight=triples(lambda queue: queue.weight, 0.0),
        priority=each(lambda queue: queue.priority, 0),
        created=each(lambda queue: queue.created, 0, np.int64),
        uid_rank=column(ranks, size, len(queues), np.int32),
        usage=triples(lambda queue: queue.usage, 0.0),
        request=corner(cluster.use.request, (3, size), 0.0),
        total=column(cluster.total, 3, 0.0, np.float64),
    )


def _topology(cluster: Cluster, bucket: Bucket) -> Topology:
    sizes = bucket.sizes
    topologies = cluster.topologies if bucket.features.topology else ()
    node_domain: Leaf = np.full((sizes.topologies, sizes.levels, sizes.nodes), NONE, np.int32)
    parents: list[int] = []
    levels: list[int] = []
    owners: list[int] = []
    ranks: list[int] = []
    for index, topology in enumerate(topologies):
        first = len(parents)
        for node, path in enumerate(topology.node_domains):
            node_domain[index, : len(path), node] = [first + domain for domain in path]
        parents += [first + domain.parent if domain.parent >= 0 else NONE for domain in topology.domains]
        levels += [domain.level for domain in topology.domains]
        owners += [index] * len(topology.domains)
        names = [(domain.level, domain.identifier.encode(), domain.values) for domain in topology.domains]
        places = {name: place for place, name in enumerate(sorted(names))}
        ranks += [places[name] for name in names]
    return Topology(
        node_domain=node_domain,
        parent=column(parents, sizes.domains, NONE, np.int32),
        level=column(levels, sizes.domains, NONE, np.int32),
        topology=column(owners, sizes.domains, 0, np.int32),
        id_rank=column(ranks, sizes.domains, 0, np.int32),
    )
