"""The node sets that a group with a topology constraint is tried in, best first (topology).

A domain of the constraint's levels is a candidate when the group fits in it; finer levels come first, tighter domains
before roomier ones. Domains of the preferred level score the other way round, so that roomier nodes are tried first
inside a larger set (spec 04 §4.3 to §4.6).
"""

from enum import IntEnum

import jax.numpy as jnp
from jax import Array, lax

from kai_jax.kernels.books import Books
from kai_jax.kernels.exact import ascending_rank, descending_rank, quotient
from kai_jax.kernels.vector import first_true
from kai_jax.tensors import GPU, MISCONFIGURED_TOPOLOGY, NONE, PODS, UNKNOWN_TOPOLOGY, Topology
from kai_jax.tensors.pytree import pytree

OVERFULL = 1000.0  # ratio of a domain without any of a resource
LAST = jnp.iinfo(jnp.int64).max


class NoNodes(IntEnum):
    """Why a group has no node sets."""

    OK = 0
    COMMON_DOMAIN = 1  # all the nodes given, up to the domain they share, lack resources
    NO_DOMAIN = 2  # every domain of the constraint that is left lacks resources
    NONE_LEFT = 3  # unknown topology, or active pods leave no domain to look at
    MISCONFIGURED = 4  # levels that do not make sense


@pytree
class Group:
    """Tasks that share a constraint: all those of one call below a tree node. Amounts of resources that device classes
    back are 0 here."""

    topology: Array  # i32[] -> O, or as in TreeNodes.topology
    required: Array  # i32[] level >= 1 or -1
    preferred: Array  # i32[] level >= 1 or -1, not coarser than required
    tasks: Array  # i32[]
    max_request: Array  # f64[R] largest amount of a task
    total_request: Array  # f64[R]
    homogeneous: Array  # bool[] all or none ask for devices, likewise for each resource but cpu and memory
    pinned: Array  # bool[D] domains of the required level to stay in


@pytree
class NodeSets:
    """Candidate domains in the order of trial; `nodes_of` gives their nodes."""

    order: Array  # i32[D] -> D, then -1
    count: Array  # i32[] 0 with outcome OK when the domains that fit hold none of the nodes given
    score: Array  # f64[N] topology score, -1 where a node has no entry
    scored: Array  # bool[] the group has a score table
    outcome: Array  # i32[] NoNodes


@pytree
class _Domains:
    """The group's topology seen from the domain that its nodes have in common."""

    inside: Array  # bool[D] at or below the common domain
    kept: Array  # bool[D] not excluded by the pin
    rank: Array  # i32[D] place among the domains inside of the same level, in the sorted tree


def node_sets(topology: Topology, group: Group, nodes: Array, books: Books, gpu_memory: Array) -> NodeSets:
    """Node sets for `group` within `nodes` bool[N]; `gpu_memory` i64[N] is in MiB."""
    tree = lax.dynamic_index_in_dim(topology.node_domain, jnp.maximum(group.topology, 0), keepdims=False)
    valid = nodes & (tree[0] >= 0)
    own = (topology.level >= 0) & (topology.topology == group.topology)
    common, common_level = _common_domain(topology, group, tree, valid, own)

    capacity = _node_capacity(group, books, gpu_memory)
    sums = _domain_sums(jnp.concatenate([books.free, capacity[None]]), tree, common, common_level, own.shape[0])
    ratio = _ratio(group.total_request, sums[:-1])
    has_room, low_ratio = sums[-1] >= group.tasks, ratio <= 1.0
    common_fits = jnp.where(group.homogeneous, has_room, low_ratio).at[common].get(mode="fill", fill_value=False)
    domains = _sort(topology, group, own, common, ratio, jnp.where(common_fits, tree.shape[0], 0))
    fits = jnp.where(group.homogeneous & domains.inside, has_room, low_ratio)

    fine = jnp.where(group.preferred == NONE, group.required, group.preferred)
    coarse = jnp.maximum(group.required, 0)
    relevant = own & (coarse <= topology.level) & (topology.level <= fine) & domains.kept
    outcome = _outcome(
        group,
        common_fits=common_fits,
        any_fits=jnp.any(relevant & fits),
        any_left=jnp.any(relevant & (topology.level == coarse)),
    )
    candidate = relevant & fits & _inhabited(tree, valid, own.shape[0]) & (outcome == NoNodes.OK)
    score, scored = _node_scores(topology, group, tree, own & domains.inside, domains.rank)
    return NodeSets(
        order=_trial_order(candidate, fine - topology.level, domains.rank),
        count=jnp.sum(candidate, dtype=jnp.int32),
        score=score,
        scored=scored & (outcome != NoNodes.COMMON_DOMAIN) & (group.topology >= 0),
        outcome=outcome,
    )


def nodes_of(topology: Topology, domain: Array, nodes: Array) -> Array:
    """bool[N] those of `nodes` that lie in a domain."""
    tree = topology.node_domain[topology.topology[domain], topology.level[domain]]
    return (tree == domain) & nodes


def _common_domain(topology: Topology, group: Group, tree: Array, valid: Array, own: Array) -> tuple[Array, Array]:
    """The finest domain, down to the preferred level, that holds all valid nodes, and its level; else the root.

    Without a preferred level it can lie below the required one, which then has no candidate (quirk).
    """
    least = jnp.min(jnp.where(valid, tree, jnp.iinfo(tree.dtype).max), axis=1)
    greatest = jnp.max(jnp.where(valid, tree, NONE), axis=1)
    levels = jnp.arange(tree.shape[0], dtype=jnp.int32)
    reachable = (group.preferred == NONE) | (levels <= group.preferred)
    level = jnp.max(jnp.where((least == greatest) & (least >= 0) & reachable, levels, 0))
    return jnp.where(level > 0, least[level], first_true(own & (topology.level == 0))), level


def _node_capacity(group: Group, books: Books, gpu_memory: Array) -> Array:
    """f64[N] how many tasks as large as the largest amounts a node can take (spec 04 §4.4)."""
    shared = (group.max_request[GPU] > 0) & (group.max_request[GPU] < 1)

    def gap(slot: Array, gaps: Array) -> Array:
        room = gpu_memory - books.device_allocated[slot] + books.device_releasing[slot]
        part = jnp.maximum(room, 0).astype(jnp.float64) / jnp.maximum(gpu_memory, 1)
        return gaps + jnp.where(books.device_used[slot] > 0, part, 0.0)

    slots = jnp.where(shared, books.device_used.shape[0], 0)
    gaps = lax.fori_loop(0, slots, gap, jnp.zeros(gpu_memory.shape[0]))
    free = books.free.at[GPU].add(gaps)
    each = group.max_request[:, None]
    amounts = jnp.min(jnp.where(each > 0, jnp.trunc(quotient(free, jnp.where(each > 0, each, 1.0))), jnp.inf), axis=0)
    only_pods = (jnp.sum(group.max_request > 0) == (group.max_request[PODS] > 0)) & (group.max_request[PODS] <= 1)
    return jnp.where(only_pods, group.tasks, jnp.where(jnp.any(each > free, axis=0), 0.0, amounts))


def _domain_sums(measures: Array, tree: Array, common: Array, common_level: Array, size: int) -> Array:
    """f64[C,D] sums of measures f64[C,N] over the nodes of domains at or below the common one; 0 elsewhere."""
    levels = jnp.arange(tree.shape[0])[:, None]
    inside = tree[common_level] == common
    domain = jnp.where(inside & (levels >= common_level) & (tree >= 0), tree, size)
    spread = jnp.broadcast_to(measures[:, None], (measures.shape[0], *tree.shape))
    return jnp.zeros((measures.shape[0], size)).at[:, domain].add(spread, mode="drop")


def _inhabited(tree: Array, valid: Array, size: int) -> Array:
    """bool[D] domains with a valid node."""
    domain = jnp.where(valid & (tree >= 0), tree, size)
    return jnp.zeros(size, bool).at[domain].set(True, mode="drop")


def _ratio(total: Array, free: Array) -> Array:
    """f64[D] the resource that is tightest: requested over free (spec 04 §4.5)."""
    wanted = (total > 0) & (jnp.arange(total.shape[0]) != PODS)
    share = jnp.where(free <= 0, OVERFULL, total[:, None] / jnp.where(free <= 0, 1.0, free))
    return jnp.max(jnp.where(wanted[:, None], share, 0.0), axis=0)


def _sort(topology: Topology, group: Group, own: Array, common: Array, ratio: Array, levels: Array) -> _Domains:
    """Sorts siblings below the common domain, tightest first, then by id; `levels` from the root at most."""
    size = ratio.shape[0]
    parent = jnp.maximum(topology.parent, 0)
    among_siblings = descending_rank(ratio) * size + topology.id_rank

    def descend(level: Array, domains: _Domains) -> _Domains:
        here = own & (topology.level == level)
        inside = jnp.where(here, domains.inside | domains.inside[parent], domains.inside)
        kept = jnp.where(level == group.required, group.pinned, domains.kept[parent])
        key = domains.rank[parent].astype(jnp.int64) * size**2 + among_siblings
        rank = ascending_rank(jnp.where(here & inside, key, LAST)).astype(jnp.int32)
        return _Domains(
            inside=inside,
            kept=jnp.where(here, kept, domains.kept),
            rank=jnp.where(here & inside, rank, domains.rank),
        )

    start = _Domains(jnp.arange(size) == common, jnp.ones(size, bool), jnp.zeros(size, jnp.int32))
    deepest = jnp.maximum(group.required, group.preferred)
    return lax.fori_loop(1, jnp.minimum(levels, deepest + 1), descend, start)


def _outcome(group: Group, common_fits: Array, any_fits: Array, any_left: Array) -> Array:
    """i32[] NoNodes, the first that applies."""
    return jnp.select(
        [
            group.topology == UNKNOWN_TOPOLOGY,
            group.topology == MISCONFIGURED_TOPOLOGY,
            ~common_fits,
            any_fits,
            any_left,
        ],
        [
            jnp.int32(NoNodes.NONE_LEFT),
            jnp.int32(NoNodes.MISCONFIGURED),
            jnp.int32(NoNodes.COMMON_DOMAIN),
            jnp.int32(NoNodes.OK),
            jnp.int32(NoNodes.NO_DOMAIN),
        ],
        jnp.int32(NoNodes.NONE_LEFT),
    )


def _node_scores(topology: Topology, group: Group, tree: Array, inside: Array, rank: Array) -> tuple[Array, Array]:
    """f64[N] scores, bool[] there are any: one of ten steps per domain of the preferred level, the last the best."""
    scored = group.preferred != NONE
    preferred = inside & (topology.level == group.preferred)
    count = jnp.sum(preferred).astype(jnp.float64)
    steps = jnp.floor(quotient((rank + 1).astype(jnp.float64), jnp.maximum(count, 1)) * 10)
    of_domain = jnp.where(preferred, steps * 100000, -1.0)
    domain = tree[jnp.maximum(group.preferred, 0)]
    return jnp.where(scored & (domain >= 0), of_domain[domain], -1.0), scored


def _trial_order(candidate: Array, coarseness: Array, rank: Array) -> Array:
    """i32[D] candidates, finest level first, then in the order of the sorted tree; -1 after the last."""
    size = candidate.shape[0]
    place = (coarseness.astype(jnp.int64) * size + rank) * size + jnp.arange(size)
    ordered = jnp.sort(jnp.where(candidate, place, LAST))
    return jnp.where(ordered == LAST, NONE, ordered % size).astype(jnp.int32)
