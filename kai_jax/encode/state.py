"""The part of the tensors that decisions change."""

from collections.abc import Callable

import numpy as np

from kai_jax.encode.buckets import Sizes
from kai_jax.encode.layout import Layout
from kai_jax.encode.padding import Leaf, column, corner
from kai_jax.model.books import SharedDevice
from kai_jax.model.cluster import Cluster
from kai_jax.tensors import NONE, State, Status


def encode_state(cluster: Cluster, layout: Layout, sizes: Sizes) -> State:
    """Numpy leaves in the shapes of `sizes`: books, places and counts at the start of the cycle."""
    books, tasks = cluster.books, layout.tasks
    shape = (sizes.resources, sizes.nodes)

    def devices(of: Callable[[SharedDevice], int], dtype: type) -> Leaf:
        table: np.ndarray = np.zeros((sizes.devices, sizes.nodes), dtype)
        for node, held in enumerate(books.devices):
            if held:
                table[: len(held), node] = [of(device) for device in held.values()]
        return table

    return State(
        idle=corner(books.idle, shape, 0.0),
        releasing=corner(books.releasing, shape, 0.0),
        used_gpu=column(books.used[0], sizes.nodes, 0, np.float64),
        device_used=devices(lambda device: device.used, np.int64),
        device_allocated=devices(lambda device: device.allocated, np.int64),
        device_releasing=devices(lambda device: device.releasing, np.int64),
        device_marked=devices(lambda device: device.marked, bool),
        device_seen=devices(lambda device: True, bool),
        device_taken=devices(lambda device: True, bool),
        device_numbered=devices(lambda device: device.numbered, bool),
        task_status=column(layout.status, sizes.tasks, Status.UNKNOWN, np.int8),
        task_node=column([task.node for task in tasks], sizes.tasks, NONE, np.int32),
        task_devices=_task_devices(cluster, layout, sizes),
        active=column(layout.active, sizes.podsets, 0, np.int32),
        allocated=column(layout.allocated, sizes.podsets, 0, np.int32),
        used=column(layout.used, sizes.podsets, 0, np.int32),
        queue_allocated=corner(cluster.use.allocated, (3, sizes.queues), 0.0),
        queue_fixed=corner(cluster.use.fixed, (3, sizes.queues), 0.0),
    )


def _task_devices(cluster: Cluster, layout: Layout, sizes: Sizes) -> Leaf:
    """u64[T] bit g for the device in slot g of the task's node."""
    bits: dict[int, int] = {}
    for held in cluster.books.devices:
        for slot, device in enumerate(held.values()):
            for task in device.pods:
                bits[id(task)] = bits.get(id(task), 0) | 1 << slot
    if not bits:
        return np.zeros(sizes.tasks, np.uint64)
    return column([bits.get(id(task), 0) for task in layout.tasks], sizes.tasks, 0, np.uint64)
