"""What a job tries next: whatever reaches the next minimum of its subgroup tree, or one step more (next tasks)."""

import jax
import jax.numpy as jnp
from jax import Array, lax

from kai_jax.kernels.exact import ascending_rank
from kai_jax.tensors import NONE, TreeNodes
from kai_jax.tensors.pytree import pytree

ELASTIC_ONLY = 1e12  # above every ratio of a count to a threshold


@pytree
class Chunk:
    """Tasks of one attempt in placement order, as runs of the next pending tasks of podsets.

    W is the largest number of tree nodes of a job, rounded up to a bucket. Positions count tasks from 0.
    """

    podset: Array  # i32[W] -> P, podsets that contribute in placement order, then -1
    count: Array  # i32[W] tasks taken from each
    end: Array  # i32[W] position after its last task
    segments: Array  # i32[] podsets that contribute
    tasks: Array  # i32[] all tasks
    first: Array  # i32[W] tasks below each tree node of the job have positions first .. last-1
    last: Array  # i32[W] equal to first when the node contributes nothing


@pytree
class Tree:
    """The tree nodes of one job by local index; entries past its last node have no parent and no podset."""

    parent: Array  # i32[W] local index, -1 for the root
    podset: Array  # i32[W] -> P, or -1 for a set
    threshold: Array  # i32[W]
    name_rank: Array  # i32[W]
    height: Array  # i32[] depth of the deepest node


def next_chunk(
    tree: TreeNodes,
    window: int,
    subgroup_order: bool,
    node_start: Array,
    node_count: Array,
    active: Array,
    remaining: Array,
) -> Chunk:
    """The tasks that one job tries next, and their places in its tree (spec 03 §2.2).

    `window` is W and static; the job's nodes are node_start .. node_start + node_count - 1. `active` i32[P] counts
    placed tasks, `remaining` i32[P] pending ones. Without `subgroup_order` names alone order siblings.
    A set below its minimum looks at as many children as its minimum, satisfied ones included (quirk), and takes no
    notice of children that can never reach their minimum (quirk).
    """
    job = local_tree(tree, window, node_start, node_count)
    count = satisfied_parts(job, active)
    satisfied = count >= job.threshold
    position = sibling_positions(job, count, satisfied, subgroup_order)
    chosen, amount = choose(job, satisfied, position, active, remaining)
    return lay_out(job, chosen, amount, first_positions(job, position, jnp.where(chosen, amount, 0)))


def local_tree(tree: TreeNodes, window: int, node_start: Array, node_count: Array) -> Tree:
    """The window of one job."""
    local = jnp.arange(window, dtype=jnp.int32)
    exists = local < node_count

    def column(values: Array, missing: int) -> Array:
        return jnp.where(exists, values.at[node_start + local].get(mode="clip"), missing)

    return Tree(
        parent=column(tree.parent, NONE),
        podset=column(tree.podset, NONE),
        threshold=column(tree.threshold, 1),
        name_rank=column(tree.name_rank, window),
        height=jnp.max(column(tree.depth, 0)),
    )


def satisfied_parts(job: Tree, active: Array) -> Array:
    """i32[W] placed tasks of a podset, satisfied children of a set."""
    is_set = job.podset == NONE
    placed = jnp.where(is_set, 0, active[job.podset])

    def rise(_: Array, count: Array) -> Array:
        return jnp.where(is_set, children_total(job, (count >= job.threshold).astype(jnp.int32)), placed)

    return lax.fori_loop(0, job.height + 1, rise, placed)


def sibling_positions(job: Tree, count: Array, satisfied: Array, subgroup_order: bool) -> Array:
    """i32[W] a numbering that keeps siblings together, in subgroup order (spec 02 §5.2)."""
    window = job.parent.shape[0]
    family = job.parent.astype(jnp.int64) * window
    if subgroup_order:
        ratio = count.astype(jnp.float64) / jnp.maximum(job.threshold, 1)
        ratio = jnp.where(job.threshold > 0, ratio, ELASTIC_ONLY + count)
        family = family + ascending_rank(lax.bitcast_convert_type(jnp.where(satisfied, ratio, 0.0), jnp.int64))
    return ascending_rank(family * (window + 1) + job.name_rank).astype(jnp.int32)


def choose(job: Tree, satisfied: Array, position: Array, active: Array, remaining: Array) -> tuple[Array, Array]:
    """bool[W] whether a node's parent draws on it, i32[W] how many tasks a node yields if so."""
    is_set = job.podset == NONE
    wanted = jnp.where(satisfied, 1, job.threshold - active[job.podset])
    taken = jnp.where(is_set, 0, jnp.minimum(remaining[job.podset], wanted))
    below_minimum = ~satisfied & (
        position - of_parent(job, children_first(job, position)) < of_parent(job, job.threshold)
    )
    elastic = of_parent(job, satisfied)

    def drawn(amount: Array) -> Array:
        some = children_first(job, jnp.where(amount > 0, position, position.shape[0]))
        return jnp.where(elastic, position == of_parent(job, some), below_minimum)

    def rise(_: Array, amount: Array) -> Array:
        return jnp.where(is_set, children_total(job, jnp.where(drawn(amount), amount, 0)), taken)

    amount = lax.fori_loop(0, job.height + 1, rise, taken)
    return drawn(amount), amount


def first_positions(job: Tree, position: Array, taken: Array) -> Array:
    """i32[W] tasks that come before the first one below a node."""
    before = (jnp.cumsum(jnp.zeros_like(taken).at[position].add(taken)))[position] - taken
    after_siblings = before - of_parent(job, children_first(job, before))
    after_siblings = jnp.where(job.parent == NONE, 0, after_siblings)
    return lax.fori_loop(
        0,
        job.height + 1,
        lambda _, first: after_siblings + jnp.where(job.parent == NONE, 0, of_parent(job, first)),
        after_siblings,
    )


def lay_out(job: Tree, chosen: Array, amount: Array, first: Array) -> Chunk:
    """The chunk, given where the tasks of each node start."""
    root = job.parent == NONE
    selected = lax.fori_loop(0, job.height + 1, lambda _, selected: root | (chosen & of_parent(job, selected)), root)
    amount = jnp.where(selected, amount, 0)
    last = first + amount
    leaf = (job.podset != NONE) & (amount > 0)
    size = leaf.shape[0]
    slot = jnp.where(leaf, ascending_rank(jnp.where(leaf, first, jnp.iinfo(jnp.int32).max)), size)

    def listed(values: Array, missing: int) -> Array:
        return jnp.full(size, missing, jnp.int32).at[slot].set(values, mode="drop")

    return Chunk(
        podset=listed(job.podset, NONE),
        count=listed(amount, 0),
        end=listed(last, 0),
        segments=jnp.sum(leaf, dtype=jnp.int32),
        tasks=jnp.sum(jnp.where(leaf, amount, 0), dtype=jnp.int32),
        first=first,
        last=last,
    )


def children_total(job: Tree, values: Array) -> Array:
    """i32[W] sum over the children of each node."""
    return jax.ops.segment_sum(values, scatter_parent(job), values.shape[0])


def children_first(job: Tree, values: Array) -> Array:
    """i32[W] least value of the children of each node."""
    return jax.ops.segment_min(values, scatter_parent(job), values.shape[0])


def scatter_parent(job: Tree) -> Array:
    """i32[W] parent, out of range where there is none."""
    return jnp.where(job.parent == NONE, job.parent.shape[0], job.parent)


def of_parent(job: Tree, values: Array) -> Array:
    """[W] value of each node's parent; the value of node 0 for nodes without one."""
    return values[jnp.maximum(job.parent, 0)]
