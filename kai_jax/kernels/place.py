"""The one placement of a task: filter and score all nodes, take the best, book it; and the way back.

Filters and scores: spec 04 §1 and §2. Every node is scored before any is filtered, since the packing score is relative
to the least and most free node of the whole node set.
"""

import dataclasses

import jax
import jax.numpy as jnp
from jax import Array, lax

from kai_jax.kernels.books import Books, device_gaps
from kai_jax.kernels.devices import Ask, choose_devices, forget_devices, leave_devices, take_devices
from kai_jax.kernels.exact import quotient, rounded
from kai_jax.kernels.vector import add, element, first_true, largest, put, smallest, when
from kai_jax.tensors import Cause, Policy, Requests, Snapshot, Status
from kai_jax.tensors.pytree import pytree

UNLIMITED = -1.0
GPU, CPU, MEMORY, PODS = 0, 1, 2, 3


@pytree
class Owner:
    """The job that a task belongs to, as far as placement asks."""

    path: Array  # i32[levels] queues from its leaf to the top, -1 beyond
    preemptible: Array  # bool[]


@pytree
class NodeSet:
    """Where a task may go; all nodes without a topology constraint."""

    inside: Array  # bool[N]
    score: Array  # f64[N] topology score, negative where a node is not in the score table


@pytree
class Placement:
    """Outcome of the search for one task."""

    ok: Array  # bool[]
    node: Array  # i32[]
    waits: Array  # bool[] pipelined: the node must release something first
    slots: Array  # bool[G] shared devices taken
    overflow: Array  # bool[]


@pytree
class _Fit:
    """Per node, what a task finds there."""

    idle: Array  # bool[N] its request fits on idle resources
    free: Array  # bool[N] its request fits on idle and releasing resources
    joins: Array  # bool[N] some shared device has room for its part of a device
    memory: Array  # i64[N] MiB of one device that it takes


def request_of(requests: Requests, index: Array) -> Requests:
    """The row of one request class."""
    return jax.tree.map(lambda a: lax.dynamic_index_in_dim(a, index, axis=0, keepdims=False), requests)


def find_node(
    policy: Policy, snapshot: Snapshot, numbered: Array, books: Books, nodes: NodeSet | None, task: Array, owner: Owner
) -> Placement:
    """The best node that takes the task, smallest name on ties."""
    request = request_of(snapshot.requests, element(snapshot.tasks.request, task))
    fit = _fit(policy, snapshot, books, request)
    allowed = _allowed(policy, snapshot, books, nodes, task, request, fit, owner)
    score = _score(policy, snapshot, books, nodes, task, request, fit)
    score = jnp.where(allowed, score, -jnp.inf)
    best = largest(score)
    node = first_true(score == best)
    found = best > -jnp.inf
    slots = jnp.zeros(books.device_used.shape[0], bool)
    waits = ~element(fit.idle, jnp.minimum(node, fit.idle.shape[0] - 1))
    placement = Placement(found, node, waits, slots, jnp.bool_(False))
    if not policy.features.shared:
        return placement

    def choose(carry):
        score, placement, _ = carry
        ask = Ask(request.devices, element(fit.memory, placement.node))
        choice = choose_devices(
            books,
            numbered,
            snapshot.nodes.gpu_memory,
            placement.node,
            ask,
            element(fit.idle, placement.node),
            policy.device_terms,
        )
        pods = element(books.free[PODS], placement.node)
        ok = choice.ok & (~choice.opens | (pods >= 2))
        score = put(score, placement.node, jnp.where(ok, element(score, placement.node), -jnp.inf))
        best = largest(score)
        found = best > -jnp.inf
        node = jnp.where(ok, placement.node, first_true(score == best))
        overflow = placement.overflow | choice.overflow
        return score, Placement(found, node, choice.waits, choice.slots & ok, overflow), found & ~ok

    return lax.while_loop(lambda c: c[2], choose, (score, placement, request.shared & found))[1]


def book(policy: Policy, snapshot: Snapshot, books: Books, task: Array, placement: Placement, owner: Owner) -> Books:
    """Books with the task on its node, allocated or pipelined."""
    request = request_of(snapshot.requests, element(snapshot.tasks.request, task))
    podset = element(snapshot.tasks.podset, task)
    node, waits = placement.node, placement.waits
    books = _charge(policy, snapshot, books, request, node, placement.slots, waits)
    books = dataclasses.replace(
        books,
        task_status=put(books.task_status, task, jnp.where(waits, Status.PIPELINED, Status.ALLOCATED)),
        task_node=put(books.task_node, task, node),
        task_devices=put(books.task_devices, task, _pack(placement.slots)),
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
    books = _refund(policy, snapshot, books, request, place)
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
    nodes = snapshot.nodes
    memory = _device_memory(snapshot, request, node)

    def exchange(books: Books) -> Books:
        slots = _unpack(place.devices, books)
        books = leave_devices(books, nodes.gpu_count, nodes.gpu_memory, node, slots, memory, jnp.bool_(False))
        return take_devices(books, nodes.gpu_count, nodes.gpu_memory, node, slots, memory, jnp.bool_(True))

    return when(request.shared, exchange, books)


def accepted(snapshot: Snapshot, request: Requests, node: Array) -> Array:
    """f64[3] (cpu, memory, gpu) that queue usage grows by on a node; memory requests count as a rounded-up portion."""
    size = element(snapshot.nodes.gpu_memory, node).astype(jnp.float64)
    hundredths = rounded(_portion(request.memory, size) * 100.0)
    by_memory = quotient(jnp.floor(hundredths + 0.5) * request.devices, 100.0)
    gpu = jnp.where(request.memory > 0, by_memory, request.accepted_gpu)
    return jnp.stack([request.vector[CPU], request.vector[MEMORY], gpu])


def charge_queues(books: Books, owner: Owner, amount: Array) -> Books:
    """Books with the amount added to the leaf queue and its ancestors (and to the virtual root, which nobody reads)."""
    fixed = jnp.where(owner.preemptible, jnp.zeros(3), amount)
    allocated, non_preemptible = books.queue_allocated, books.queue_fixed
    for level in range(owner.path.shape[0]):
        queue = jnp.maximum(owner.path[level], 0)
        allocated = add(allocated, queue, amount)
        non_preemptible = add(non_preemptible, queue, fixed)
    return dataclasses.replace(books, queue_allocated=allocated, queue_fixed=non_preemptible)


def causes(
    policy: Policy, snapshot: Snapshot, books: Books, nodes: NodeSet | None, task: Array, owner: Owner
) -> Array:
    """i32[H] nodes by the first filter that the task fails there, in the order of spec 04 §1; columns are Cause."""
    request = request_of(snapshot.requests, element(snapshot.tasks.request, task))
    fit = _fit(policy, snapshot, books, request)
    need, free = request.vector, books.free
    enough = need[:, None] <= free
    checks = [
        (Cause.GPU, _gpu_fits(policy, snapshot, books, request, fit.memory, free[GPU])),
        (Cause.CPU, enough[CPU]),
        (Cause.MEMORY, enough[MEMORY]),
        (Cause.PODS, enough[PODS] & (~request.shared | (free[PODS] >= 2))),
        (Cause.OTHER, jnp.all(enough[PODS + 1 :], axis=0)),
        (Cause.CAPACITY, _within_capacity(policy, snapshot, books, request, fit.memory, owner)),
        (Cause.CONSTRAINT, _row(snapshot.constraints.allowed, element(snapshot.tasks.constraint, task))),
        (Cause.PORTS, _ports_free(policy, books, request)),
    ]
    left = snapshot.nodes.exists
    lost = jnp.zeros(len(Cause), jnp.int32)
    if nodes is not None:
        lost = lost.at[Cause.OUTSIDE].set(jnp.sum(left & ~nodes.inside, dtype=jnp.int32))
        left = left & nodes.inside
    for cause, passes in checks:
        lost = lost.at[cause].set(jnp.sum(left & ~passes, dtype=jnp.int32))
        left = left & passes
    return lost


def _fit(policy: Policy, snapshot: Snapshot, books: Books, request: Requests) -> _Fit:
    memory = jnp.where(
        request.memory > 0,
        request.memory,
        jnp.trunc(request.portion * snapshot.nodes.gpu_memory).astype(jnp.int64),
    )
    others = request.vector[CPU:, None]
    idle = jnp.all(others <= books.idle[CPU:], axis=0)
    free = jnp.all(others <= books.free[CPU:], axis=0)
    return _Fit(
        idle=idle & _gpu_fits(policy, snapshot, books, request, memory, books.idle[GPU]),
        free=free & _gpu_fits(policy, snapshot, books, request, memory, books.free[GPU]),
        joins=books.widest_gap >= memory,
        memory=memory,
    )


def _gpu_fits(
    policy: Policy, snapshot: Snapshot, books: Books, request: Requests, memory: Array, available: Array
) -> Array:
    """bool[N] devices suffice; room on shared devices counts the releasing part in both flavours (quirk Q3)."""
    whole = request.vector[GPU] <= available
    if not policy.features.shared:
        return whole
    size = snapshot.nodes.gpu_memory

    def joinable_devices():
        gaps = device_gaps(books.device_used, books.device_allocated, books.device_releasing, size[None, :])
        return jnp.minimum(jnp.sum(gaps >= memory, axis=0), request.devices).astype(jnp.float64)

    joinable = lax.cond(
        request.devices > 1, joinable_devices, lambda: (books.widest_gap >= memory).astype(jnp.float64)
    )
    portion = _portion(request.memory, size.astype(jnp.float64))
    valid = (portion <= 1.0) | (portion == jnp.floor(portion))
    return jnp.where(request.shared, valid & (jnp.floor(available) + joinable >= request.devices), whole)


def _allowed(
    policy: Policy,
    snapshot: Snapshot,
    books: Books,
    nodes: NodeSet | None,
    task: Array,
    request: Requests,
    fit: _Fit,
    owner: Owner,
) -> Array:
    """bool[N] nodes that pass every filter but those on the devices chosen."""
    allowed = fit.free & _row(snapshot.constraints.allowed, element(snapshot.tasks.constraint, task))
    if nodes is not None:
        allowed = allowed & nodes.inside
        if "topology" in policy.score_terms:
            allowed = allowed & (nodes.score >= 0)
    if policy.features.ports:
        allowed = allowed & _ports_free(policy, books, request)
    if policy.features.shared:
        everywhere = jnp.ones_like(allowed)
        allowed = allowed & lax.cond(
            request.shared,
            lambda: _within_capacity(policy, snapshot, books, request, fit.memory, owner),
            lambda: everywhere,
        )
    return allowed


def _score(
    policy: Policy,
    snapshot: Snapshot,
    books: Books,
    nodes: NodeSet | None,
    task: Array,
    request: Requests,
    fit: _Fit,
) -> Array:
    """f64[N] sum of the plugins' scores in the configured order (spec 04 §2)."""
    terms = {
        "nodeavailability": lambda: 1000.0 * fit.idle,
        "gpusharingorder": lambda: 10000.0 * fit.joins,
        "resourcetype": lambda: 10.0 * (request.cpu_only & snapshot.nodes.cpu_only),
        "nominatednode": lambda: _nominated(snapshot, task),
        "nodeplacement": lambda: _placement_score(snapshot, books, nodes, request),
        "topology": lambda: None if nodes is None else nodes.score,
    }
    off = {
        "gpusharingorder": not policy.features.shared,
        "nominatednode": not policy.features.nominated,
    }
    total = jnp.zeros(books.idle.shape[1])
    for name in policy.score_terms:
        value = None if off.get(name) else terms[name]()
        if value is not None:
            total = total + value
    return total


def _nominated(snapshot: Snapshot, task: Array) -> Array:
    index = jnp.arange(snapshot.nodes.exists.shape[0], dtype=jnp.int32)
    return 1e7 * (index == element(snapshot.tasks.nominated, task))


def _placement_score(snapshot: Snapshot, books: Books, nodes: NodeSet | None, request: Requests) -> Array:
    """f64[N] binpack 0..9 or spread 0..1 over free CPU or devices (spec 04 §2.3)."""
    resource = jnp.where(request.cpu_only, CPU, GPU)
    free = _row(books.free, resource)
    capacity = _row(snapshot.nodes.allocatable, resource)
    counted = capacity > 0 if nodes is None else (capacity > 0) & nodes.inside
    least = smallest(jnp.where(counted, free, jnp.inf))
    most = largest(jnp.where(counted, free, -jnp.inf))
    span = jnp.where(most == least, 1.0, most - least)
    packed = jnp.where(most == least, 9.0, 9.0 * (1.0 - quotient(free - least, span)))
    packed = jnp.where((capacity > 0) & (most != 0.0), packed, 0.0)
    total = jnp.where(request.cpu_only, capacity, snapshot.nodes.gpu_count.astype(jnp.float64))
    spread = jnp.where(total == 0, 0.0, free / jnp.where(total == 0, 1.0, total))
    return jnp.where(jnp.where(request.cpu_only, snapshot.spread_cpu, snapshot.spread_gpu), spread, packed)


def _within_capacity(
    policy: Policy, snapshot: Snapshot, books: Books, request: Requests, memory: Array, owner: Owner
) -> Array:
    """bool[N] the devices of the task on that node stay inside every limit, and quota when non-preemptible."""
    everywhere = jnp.ones(memory.shape[0], bool)
    if not policy.capacity:
        return everywhere
    size = snapshot.nodes.gpu_memory.astype(jnp.float64)
    portion = _portion(memory.astype(jnp.float64), size)
    amount = jnp.where(request.shared, request.devices * portion, request.accepted_gpu)
    limit, quota = snapshot.queues.limit[2], snapshot.queues.quota[2]

    within = everywhere
    for level in range(owner.path.shape[0]):
        queue = jnp.maximum(owner.path[level], 0)
        most, deserved = element(limit, queue), element(quota, queue)
        unlimited = (owner.path[level] < 0) | (most == UNLIMITED)
        within = within & (unlimited | (element(books.queue_allocated[2], queue) + amount <= most))
        unlimited = (owner.path[level] < 0) | owner.preemptible | (deserved == UNLIMITED)
        within = within & (unlimited | (element(books.queue_fixed[2], queue) + amount <= deserved))
    return within | (amount == 0)


def _portion(memory: Array, size: Array) -> Array:
    """Part of a device of `size` MiB that `memory` MiB count as, rounded up to hundredths."""
    return quotient(jnp.ceil(memory / size * 100.0), 100.0)


def _ports_free(policy: Policy, books: Books, request: Requests) -> Array:
    if not policy.features.ports:
        return jnp.ones(books.idle.shape[1], bool)
    return ~jnp.any(books.ports & request.ports[:, None], axis=0)


def _charge(
    policy: Policy, snapshot: Snapshot, books: Books, request: Requests, node: Array, slots: Array, waits: Array
) -> Books:
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
    nodes = snapshot.nodes
    memory = _device_memory(snapshot, request, node)

    def take(books: Books) -> Books:
        return take_devices(books, nodes.gpu_count, nodes.gpu_memory, node, slots, memory, waits)

    return when(request.shared, take, books)


def _refund(policy: Policy, snapshot: Snapshot, books: Books, request: Requests, place: Place) -> Books:
    node, waits = place.node, place.waits
    amount = request.vector.at[GPU].set(request.node_gpu)
    if policy.features.shared:
        nodes = snapshot.nodes
        memory = _device_memory(snapshot, request, node)

        def leave(books: Books) -> Books:
            slots = _unpack(place.devices, books)
            books = leave_devices(books, nodes.gpu_count, nodes.gpu_memory, node, slots, memory, waits)
            return forget_devices(books, node)

        books = when(request.shared, leave, books)
    if policy.features.ports:
        books = dataclasses.replace(books, ports=put(books.ports, node, element(books.ports, node) & ~request.ports))
    return dataclasses.replace(
        books,
        idle=add(books.idle, node, jnp.where(waits, 0.0, amount)),
        free=add(books.free, node, amount),
        used_gpu=add(books.used_gpu, node, -request.node_gpu),
    )


def _device_memory(snapshot: Snapshot, request: Requests, node: Array) -> Array:
    size = element(snapshot.nodes.gpu_memory, node)
    return jnp.where(request.memory > 0, request.memory, jnp.trunc(request.portion * size).astype(jnp.int64))


def _row(values: Array, index: Array) -> Array:
    return lax.dynamic_index_in_dim(values, index, axis=0, keepdims=False)


def _pack(slots: Array) -> Array:
    bits = jnp.uint64(1) << jnp.arange(slots.shape[0], dtype=jnp.uint64)
    return jnp.sum(jnp.where(slots, bits, 0), dtype=jnp.uint64)


def _unpack(bits: Array, books: Books) -> Array:
    places = jnp.arange(books.device_used.shape[0], dtype=jnp.uint64)
    return (bits >> places) & jnp.uint64(1) != 0
