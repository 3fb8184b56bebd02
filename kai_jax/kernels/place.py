"""Booking a task on a node, undoing it, and turning an allocation into a wait."""

import dataclasses

import jax
import jax.numpy as jnp
from jax import Array

from kai_jax.kernels.books import Books
from kai_jax.kernels.devices import Hold, leave_devices, pack, return_devices, take_devices, take_undoably, unpack
from kai_jax.kernels.exact import quotient, rounded
from kai_jax.kernels.rank import Owner, device_memory, portion_of
from kai_jax.kernels.vector import add, element, put, row, when
from kai_jax.tensors import CPU, GPU, MEMORY, Policy, Requests, Snapshot, Status
from kai_jax.tensors.pytree import pytree


@pytree
class Placement:
    """Outcome of the search for one task."""

    ok: Array  # bool[]
    node: Array  # i32[]
    waits: Array  # bool[] pipelined: the node must release something first
    slots: Array  # bool[G] shared devices taken
    overflow: Array  # bool[]


def request_of(requests: Requests, index: Array) -> Requests:
    """The row of one request class."""
    return jax.tree.map(lambda a: row(a, index), requests)


def book(policy: Policy, snapshot: Snapshot, books: Books, task: Array, placement: Placement, owner: Owner) -> Books:
    """Books with the task on its node, allocated or pipelined."""
    request = request_of(snapshot.requests, element(snapshot.tasks.request, task))
    podset = element(snapshot.tasks.podset, task)
    node, waits = placement.node, placement.waits
    books = _charge(policy, snapshot, books, request, task, placement)
    books = dataclasses.replace(
        books,
        task_status=put(books.task_status, task, jnp.where(waits, Status.PIPELINED, Status.ALLOCATED)),
        task_node=put(books.task_node, task, node),
        task_devices=put(books.task_devices, task, pack(placement.slots)),
        active=add(books.active, podset, 1),
        remaining=add(books.remaining, podset, -1),
        allocated=add(books.allocated, podset, jnp.where(waits, 0, 1)),
    )
    amount = accepted(snapshot, request, node)
    return charge_queues(books, owner, amount)


@pytree
class Place:
    """Where a task is: what undoing it must know."""

    node: Array  # i32[]
    devices: Array  # u64[]
    waits: Array  # bool[] pipelined


def place_of(books: Books, task: Array) -> Place:
    """The place of a task on a node."""
    waits = element(books.task_status, task) == Status.PIPELINED
    return Place(element(books.task_node, task), element(books.task_devices, task), waits)


def unbook(policy: Policy, snapshot: Snapshot, books: Books, task: Array, place: Place) -> Books:
    """The inverse of `book`, newest task first; queue amounts are restored by the caller."""
    request = request_of(snapshot.requests, element(snapshot.tasks.request, task))
    podset = element(snapshot.tasks.podset, task)
    books = _refund(policy, snapshot, books, request, task, place)
    return dataclasses.replace(
        books,
        task_status=put(books.task_status, task, Status.PENDING),
        task_node=put(books.task_node, task, -1),
        task_devices=put(books.task_devices, task, 0),
        active=add(books.active, podset, -1),
        remaining=add(books.remaining, podset, 1),
        allocated=add(books.allocated, podset, jnp.where(place.waits, 0, -1)),
    )


def defer(policy: Policy, snapshot: Snapshot, books: Books, task: Array, place: Place) -> Books:
    """An allocated task becomes pipelined on its node (spec 03 §2.4)."""
    request = request_of(snapshot.requests, element(snapshot.tasks.request, task))
    podset = element(snapshot.tasks.podset, task)
    node = place.node
    books = dataclasses.replace(
        books,
        idle=add(books.idle, node, request.vector.at[GPU].set(request.node_gpu)),
        task_status=put(books.task_status, task, Status.PIPELINED),
        allocated=add(books.allocated, podset, -1),
    )
    if not policy.features.shared:
        return books

    def exchange(books: Books) -> Books:
        hold = _hold(snapshot, books, request, place)
        books = leave_devices(books, snapshot.nodes, dataclasses.replace(hold, waits=jnp.bool_(False)))
        return take_devices(books, snapshot.nodes, dataclasses.replace(hold, waits=jnp.bool_(True)))

    return when(request.shared, exchange, books)


def accepted(snapshot: Snapshot, request: Requests, node: Array) -> Array:
    """f64[3] (cpu, memory, gpu) that queue usage grows by on a node; memory requests count as a rounded-up portion."""
    size = element(snapshot.nodes.gpu_memory, node).astype(jnp.float64)
    hundredths = rounded(portion_of(request.memory, size) * 100.0)
    by_memory = quotient(jnp.floor(hundredths + 0.5) * request.devices, 100.0)
    gpu = request.accepted_gpu + jnp.where(request.memory > 0, by_memory, 0.0)
    return jnp.stack([request.vector[CPU], request.vector[MEMORY], gpu])


def charge_queues(books: Books, owner: Owner, amount: Array) -> Books:
    """Books with the amount added to the leaf queue and its ancestors."""
    allocated, fixed = books.queue_allocated, books.queue_fixed
    for level in range(owner.path.shape[0]):
        queue = jnp.maximum(owner.path[level], 0)
        charged = jnp.where(owner.path[level] >= 0, amount, 0.0)
        allocated = add(allocated, queue, charged)
        fixed = add(fixed, queue, jnp.where(owner.preemptible, 0.0, charged))
    return dataclasses.replace(books, queue_allocated=allocated, queue_fixed=fixed)


def _charge(
    policy: Policy, snapshot: Snapshot, books: Books, request: Requests, task: Array, placement: Placement
) -> Books:
    node, waits = placement.node, placement.waits
    amount = request.vector.at[GPU].set(request.node_gpu)
    books = dataclasses.replace(
        books,
        idle=add(books.idle, node, jnp.where(waits, 0.0, -amount)),
        free=add(books.free, node, -amount),
        used_gpu=add(books.used_gpu, node, request.node_gpu),
    )
    if policy.features.ports:
        books = dataclasses.replace(books, ports=put(books.ports, node, element(books.ports, node) | request.ports))
    if not policy.features.shared:
        return books

    def take(books: Books) -> Books:
        memory = device_memory(request, element(snapshot.nodes.gpu_memory, node))
        return take_undoably(books, snapshot.nodes, Hold(node, placement.slots, memory, waits), task)

    return when(request.shared, take, books)


def _refund(policy: Policy, snapshot: Snapshot, books: Books, request: Requests, task: Array, place: Place) -> Books:
    node, waits = place.node, place.waits
    amount = request.vector.at[GPU].set(request.node_gpu)
    if policy.features.shared:

        def leave(books: Books) -> Books:
            return return_devices(books, snapshot.nodes, _hold(snapshot, books, request, place), task)

        books = when(request.shared, leave, books)
    if policy.features.ports:
        books = dataclasses.replace(books, ports=put(books.ports, node, element(books.ports, node) & ~request.ports))
    return dataclasses.replace(
        books,
        idle=add(books.idle, node, jnp.where(waits, 0.0, amount)),
        free=add(books.free, node, amount),
        used_gpu=add(books.used_gpu, node, -request.node_gpu),
    )


def _hold(snapshot: Snapshot, books: Books, request: Requests, place: Place) -> Hold:
    memory = device_memory(request, element(snapshot.nodes.gpu_memory, place.node))
    return Hold(place.node, unpack(place.devices, books.device_used.shape[0]), memory, place.waits)
