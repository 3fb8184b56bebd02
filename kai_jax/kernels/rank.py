"""Which node a task likes best: all filters and scores that look at one node at a time (spec 04 §1 and §2)."""

import dataclasses

import jax
import jax.numpy as jnp
from jax import Array, lax

from kai_jax.kernels.books import Books, device_gaps
from kai_jax.kernels.exact import quotient
from kai_jax.kernels.vector import element, largest, row, smallest
from kai_jax.tensors import (
    CPU,
    GPU,
    MEMORY,
    PODS,
    QUEUE_GPU,
    UNLIMITED,
    Cause,
    Nodes,
    Policy,
    Queues,
    Requests,
    Snapshot,
)
from kai_jax.tensors.pytree import pytree

_WHOLE = 2.0**29  # more than the free millicores of a node; the greatest sum of scores times it is below 2**53


@pytree
class NodeSet:
    """Where a task may go; all nodes without a topology constraint."""

    inside: Array  # bool[N]
    score: Array  # f64[N] topology score, negative where a node is not in the score table


@pytree
class View:
    """What ranking reads of a run of nodes; W of them starting with node `first`."""

    first: Array  # i32[]
    nodes: Nodes
    allowed: Array  # bool[C,W]
    idle: Array  # f64[R,W]
    free: Array  # f64[R,W]
    widest_gap: Array  # i64[W]
    device_used: Array  # i64[G,W]
    device_allocated: Array  # i64[G,W]
    device_releasing: Array  # i64[G,W]
    ports: Array  # bool[X,W]
    within: NodeSet | None
    spread_gpu: Array  # bool[]
    spread_cpu: Array  # bool[]


@pytree
class Owner:
    """The job that a task belongs to, as far as placement asks."""

    path: Array  # i32[levels] queues from its leaf to the top, -1 beyond
    preemptible: Array  # bool[]


@pytree
class Candidate:
    """A task and its job, as far as ranking asks."""

    constraint: Array  # i32[] -> C
    nominated: Array  # i32[] -> N or -1
    request: Requests  # one row
    owner: Owner


@pytree
class Usage:
    """Queue amounts that a limit or quota on a node is checked against."""

    queues: Queues
    allocated: Array  # f64[Q] devices
    fixed: Array  # f64[Q] devices of non-preemptible jobs


@pytree
class _Fit:
    """Per node, what a task finds there."""

    idle: Array  # bool[W] its request fits on idle resources
    free: Array  # bool[W] its request fits on idle and releasing resources
    joins: Array  # bool[W] some shared device has room for its part of a device
    memory: Array  # i64[W] MiB of one device that it takes


def all_nodes(snapshot: Snapshot, books: Books, within: NodeSet | None) -> View:
    """The view of every node."""
    return View(
        first=jnp.int32(0),
        nodes=snapshot.nodes,
        allowed=snapshot.constraints.allowed,
        idle=books.idle,
        free=books.free,
        widest_gap=books.widest_gap,
        device_used=books.device_used,
        device_allocated=books.device_allocated,
        device_releasing=books.device_releasing,
        ports=books.ports,
        within=within,
        spread_gpu=snapshot.spread_gpu,
        spread_cpu=snapshot.spread_cpu,
    )


def run_of_nodes(view: View, first: Array, size: int) -> View:
    """The view of `size` nodes starting with `first`."""

    def cut(values: Array) -> Array:
        return lax.dynamic_slice_in_dim(values, first, size, values.ndim - 1) if values.ndim else values

    return dataclasses.replace(jax.tree.map(cut, view), first=first)


def usage_of(snapshot: Snapshot, books: Books) -> Usage:
    """Usage now."""
    return Usage(snapshot.queues, books.queue_allocated[QUEUE_GPU], books.queue_fixed[QUEUE_GPU])


def rank(policy: Policy, view: View, usage: Usage, task: Candidate) -> Array:
    """f64[W] greater is better, -inf where the task cannot go; only the devices of a node are not looked at."""
    fit = _fit(policy, view, task.request)
    return jnp.where(_allowed(policy, view, usage, task, fit), _score(policy, view, task, fit), -jnp.inf)


def is_local(usage: Usage, task: Candidate) -> Array:
    """bool[] the rank of a node depends on that node alone, so that placing a task elsewhere does not change it.

    Packing looks at other nodes only where nothing is free or a node has none of the resource, and such nodes take
    neither a task that asks for some nor one that shares a device. Parts of devices are also checked against queues.
    """
    request, owner = task.request, task.owner
    asked = jnp.where(request.cpu_only, request.vector[CPU], request.vector[GPU])
    at = jnp.maximum(owner.path, 0)
    no_limit = (owner.path < 0) | (usage.queues.limit[QUEUE_GPU, at] == UNLIMITED)
    no_quota = (owner.path < 0) | owner.preemptible | (usage.queues.quota[QUEUE_GPU, at] == UNLIMITED)
    return jnp.where(request.shared, jnp.all(no_limit & no_quota), asked > 0) & (task.nominated < 0)


def fits_idle(policy: Policy, view: View, task: Candidate) -> Array:
    """bool[W] the request fits without waiting for a release."""
    return _fit(policy, view, task.request).idle


def causes(policy: Policy, view: View, usage: Usage, task: Candidate) -> Array:
    """i32[H] nodes by the first filter that the task fails there, in the order of spec 04 §1; columns are Cause."""
    request = task.request
    fit = _fit(policy, view, request)
    need, free = request.vector, view.free
    enough = need[:, None] <= free
    checks = [
        (Cause.GPU, _gpu_fits(policy, view, request, fit.memory, free[GPU])),
        (Cause.CPU, enough[CPU]),
        (Cause.MEMORY, enough[MEMORY]),
        (Cause.PODS, enough[PODS] & (~request.shared | (free[PODS] >= 2))),
        (Cause.OTHER, jnp.all(enough[PODS + 1 :], axis=0)),
        (Cause.CAPACITY, _within_capacity(policy, view, usage, task, fit.memory)),
        (Cause.CONSTRAINT, row(view.allowed, task.constraint)),
        (Cause.PORTS, _ports_free(policy, view, request)),
    ]
    left = view.nodes.exists
    lost = jnp.zeros(len(Cause), jnp.int32)
    if view.within is not None:
        lost = lost.at[Cause.OUTSIDE].set(jnp.sum(left & ~view.within.inside, dtype=jnp.int32))
        left = left & view.within.inside
    for cause, passes in checks:
        lost = lost.at[cause].set(jnp.sum(left & ~passes, dtype=jnp.int32))
        left = left & passes
    return lost


def _fit(policy: Policy, view: View, request: Requests) -> _Fit:
    memory = device_memory(request, view.nodes.gpu_memory)
    others = request.vector[CPU:, None]

    def fits(available: Array) -> Array:
        enough = jnp.all(others <= available[CPU:], axis=0)
        return enough & _gpu_fits(policy, view, request, memory, available[GPU])

    free = fits(view.free)
    return _Fit(
        idle=fits(view.idle) if policy.features.releasing else free,
        free=free,
        joins=view.widest_gap >= memory,
        memory=memory,
    )


def _gpu_fits(policy: Policy, view: View, request: Requests, memory: Array, available: Array) -> Array:
    """bool[W] devices suffice; room on shared devices counts the releasing part in both flavours (quirk Q3)."""
    whole = request.vector[GPU] <= available
    if not policy.features.shared:
        return whole
    size = view.nodes.gpu_memory

    def joinable_devices() -> Array:
        gaps = device_gaps(view.device_used, view.device_allocated, view.device_releasing, size[None, :])
        return jnp.minimum(jnp.sum(gaps >= memory, axis=0), request.devices).astype(jnp.float64)

    joinable = lax.cond(request.devices > 1, joinable_devices, lambda: (view.widest_gap >= memory).astype(jnp.float64))
    portion = portion_of(request.memory, size.astype(jnp.float64))
    valid = (portion <= 1.0) | (portion == jnp.floor(portion))
    return jnp.where(request.shared, valid & (jnp.floor(available) + joinable >= request.devices), whole)


def _allowed(policy: Policy, view: View, usage: Usage, task: Candidate, fit: _Fit) -> Array:
    """bool[W] nodes that pass every filter but those on the devices chosen."""
    allowed = fit.free & row(view.allowed, task.constraint)
    if view.within is not None:
        allowed = allowed & view.within.inside
        if "topology" in policy.score_terms:
            allowed = allowed & (view.within.score >= 0)
    if policy.features.ports:
        allowed = allowed & _ports_free(policy, view, task.request)
    if policy.features.shared:
        everywhere = jnp.ones_like(allowed)
        allowed = allowed & lax.cond(
            task.request.shared,
            lambda: _within_capacity(policy, view, usage, task, fit.memory),
            lambda: everywhere,
        )
    return allowed


def _score(policy: Policy, view: View, task: Candidate, fit: _Fit) -> Array:
    """f64[W] whose order is that of the sum of the plugins' scores (spec 04 §2), equal where the sums are equal.

    All scores but that of nodeplacement are whole multiples of 10. Packing adds 9·(1 - (free - least)/(most - least)),
    less than 10 and falling with `free`, a whole number: so the sum is compared like the pair (other scores, -free),
    which spares a division per node. Only the sum for spreading depends on its order and is built as configured.
    """
    request = task.request
    whole = {
        "nodeavailability": lambda: 1000.0 * fit.idle if policy.features.releasing else None,
        "gpusharingorder": lambda: 10000.0 * fit.joins if policy.features.shared else None,
        "resourcetype": lambda: 10.0 * (request.cpu_only & view.nodes.cpu_only),
        "nominatednode": lambda: _nominated(view, task) if policy.features.nominated else None,
        "topology": lambda: None if view.within is None else view.within.score,
    }
    scores = [(name, whole[name]() if name in whole else None) for name in policy.score_terms]
    zero = jnp.zeros(view.idle.shape[1])
    others = sum((score for _, score in scores if score is not None), zero)
    if "nodeplacement" not in policy.score_terms:
        return others
    resource = jnp.where(request.cpu_only, CPU, GPU)
    free, capacity = row(view.free, resource), row(view.nodes.allocatable, resource)

    def spread() -> Array:
        total = jnp.where(request.cpu_only, capacity, view.nodes.gpu_count.astype(jnp.float64))
        score = jnp.where(total == 0, 0.0, free / jnp.where(total == 0, 1.0, total))
        terms = (score if name == "nodeplacement" else other for name, other in scores)
        return sum((term for term in terms if term is not None), zero)

    def pack() -> Array:
        has_some = capacity > 0
        counted = has_some if view.within is None else has_some & view.within.inside
        return others * _WHOLE + _packing(free, counted)

    spreads = jnp.where(request.cpu_only, view.spread_cpu, view.spread_gpu)
    return lax.cond(spreads, spread, pack)


def _packing(free: Array, counted: Array) -> Array:
    """f64[W] 0 and below, greater where the packing score is; `counted` nodes have some of the packed resource.

    The score is 0 where a node has none of it, and everywhere when none is free or there; it is 9 when all are equal.
    """
    least = smallest(jnp.where(counted, free, jnp.inf))
    most = largest(jnp.where(counted, free, -jnp.inf))
    without = jnp.where(most == least, -most - 1.0, -most)
    nothing = (most == 0.0) | (most == -jnp.inf)
    return jnp.where(nothing, 0.0, jnp.where(counted, -free, without))


def _nominated(view: View, task: Candidate) -> Array:
    index = view.first + jnp.arange(view.nodes.exists.shape[0], dtype=jnp.int32)
    return 1e7 * (index == task.nominated)


def _within_capacity(policy: Policy, view: View, usage: Usage, task: Candidate, memory: Array) -> Array:
    """bool[W] the devices of the task on that node stay inside every limit, and quota when non-preemptible."""
    request, owner = task.request, task.owner
    everywhere = jnp.ones(memory.shape[0], bool)
    if not policy.capacity:
        return everywhere
    size = view.nodes.gpu_memory.astype(jnp.float64)
    portion = portion_of(memory.astype(jnp.float64), size)
    amount = jnp.where(request.shared, request.devices * portion, request.accepted_gpu)
    limit, quota = usage.queues.limit[QUEUE_GPU], usage.queues.quota[QUEUE_GPU]

    within = everywhere
    for level in range(owner.path.shape[0]):
        queue = jnp.maximum(owner.path[level], 0)
        most, deserved = element(limit, queue), element(quota, queue)
        unlimited = (owner.path[level] < 0) | (most == UNLIMITED)
        within = within & (unlimited | (element(usage.allocated, queue) + amount <= most))
        unlimited = (owner.path[level] < 0) | owner.preemptible | (deserved == UNLIMITED)
        within = within & (unlimited | (element(usage.fixed, queue) + amount <= deserved))
    return within | (amount == 0)


def device_memory(request: Requests, size: Array) -> Array:
    """i64[...] MiB that a request takes of one device of `size` i64[...] MiB (spec 04 §3.1)."""
    return jnp.where(request.memory > 0, request.memory, jnp.trunc(request.portion * size).astype(jnp.int64))


def portion_of(memory: Array, size: Array) -> Array:
    """f64[...] part of a device of `size` MiB that `memory` MiB count as, rounded up to hundredths."""
    return quotient(jnp.ceil(memory / size * 100.0), 100.0)


def _ports_free(policy: Policy, view: View, request: Requests) -> Array:
    if not policy.features.ports:
        return jnp.ones(view.idle.shape[1], bool)
    return ~jnp.any(view.ports & request.ports[:, None], axis=0)
