"""The next tasks of a job, against a plain recursive walk over its subgroup tree."""

from dataclasses import dataclass
from fractions import Fraction
from functools import partial

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kai_jax.kernels.tree import Chunk, next_chunk
from kai_jax.tensors import TreeNodes

WINDOW = 16
SIZE = 48
OFFSET = 5  # another job's nodes come first


@dataclass(frozen=True)
class Podset:
    name: str
    minimum: int
    active: int
    pending: int


@dataclass(frozen=True)
class Set:
    name: str
    minimum: int | None
    children: tuple["Set | Podset", ...]

    @property
    def threshold(self) -> int:
        return len(self.children) if self.minimum is None else self.minimum


Node = Set | Podset


def count_of(node: Node) -> int:
    return node.active if isinstance(node, Podset) else sum(satisfied(child) for child in node.children)


def threshold_of(node: Node) -> int:
    return node.minimum if isinstance(node, Podset) else node.threshold


def satisfied(node: Node) -> bool:
    return count_of(node) >= threshold_of(node)


def subgroup_order(node: Node) -> tuple:
    count, threshold = count_of(node), threshold_of(node)
    if count < threshold:
        return (0, 0, node.name)
    return (1, Fraction(count, threshold), node.name) if threshold else (2, count, node.name)


def by_name(node: Node) -> str:
    return node.name


def collect(node: Node, key) -> list[tuple[str, int]]:
    """(podset, tasks) in placement order."""
    if isinstance(node, Podset):
        taken = min(node.pending, 1 if satisfied(node) else node.minimum - node.active)
        return [(node.name, taken)] if taken else []
    children = sorted(node.children, key=key)
    if satisfied(node):
        return next((found for child in children if (found := collect(child, key))), [])
    return [part for child in children[: node.threshold] if not satisfied(child) for part in collect(child, key)]


def breadth_first(root: Set) -> list[tuple[int, int, Node]]:
    """(parent, depth, node), parents before children."""
    listed: list[tuple[int, int, Node]] = [(-1, 0, root)]
    for index, (_, depth, node) in enumerate(listed):  # grows while it is walked
        if isinstance(node, Set):
            listed += [(index, depth + 1, child) for child in node.children]
    return listed


@partial(jax.jit, static_argnums=(1, 2))
def compiled(tree, window, ordered, *rest):
    return next_chunk(tree, window, ordered, *rest)


def chunk_of(root: Set, ordered: bool = True) -> tuple[Chunk, list[Node], list[Podset]]:
    listed = breadth_first(root)
    nodes = [node for _, _, node in listed]
    podsets = [node for node in nodes if isinstance(node, Podset)]
    names = sorted(node.name for node in nodes)

    def column(values: list[int]) -> np.ndarray:
        out = np.zeros(SIZE, np.int32)  # what lies around the job's nodes must not matter
        out[OFFSET : OFFSET + len(values)] = values
        return out

    tree = TreeNodes(
        parent=column([parent for parent, _, _ in listed]),
        depth=column([depth for _, depth, _ in listed]),
        podset=column([podsets.index(node) if isinstance(node, Podset) else -1 for node in nodes]),
        threshold=column([threshold_of(node) for node in nodes]),
        name_rank=column([names.index(node.name) for node in nodes]),
        topology=column([]),
        required=column([]),
        preferred=column([]),
    )
    active, remaining = np.zeros(SIZE, np.int32), np.full(SIZE, 7, np.int32)
    active[: len(podsets)] = [podset.active for podset in podsets]
    remaining[: len(podsets)] = [podset.pending for podset in podsets]
    chunk = compiled(tree, WINDOW, ordered, np.int32(OFFSET), np.int32(len(nodes)), active, remaining)
    return jax.tree.map(np.asarray, chunk), nodes, podsets


def parts(root: Set, ordered: bool = True) -> list[tuple[str, int]]:
    chunk, _, podsets = chunk_of(root, ordered)
    used = int(chunk.segments)
    return [(podsets[p].name, int(n)) for p, n in zip(chunk.podset[:used], chunk.count[:used], strict=True)]


def podset(name: str, minimum: int, active: int = 0, pending: int = 0) -> Podset:
    return Podset(name, minimum, active, pending)


def root(*children: Node, minimum: int | None = None) -> Set:
    return Set("", minimum, children)


def test_gang_then_one_more():
    assert parts(root(podset("a", 2, pending=3), podset("b", 1, pending=1))) == [("a", 2), ("b", 1)]
    assert parts(root(podset("a", 2, 2, 1), podset("b", 1, 1))) == [("a", 1)]
    assert parts(root(podset("a", 2, 3), podset("b", 1, 1))) == []


def test_set_below_its_minimum_passes_by_optional_podsets():
    a, b = podset("a", 2, pending=3), podset("b", 1, pending=1)
    assert parts(root(a, b, minimum=1)) == [("a", 2)]
    a = podset("a", 2, 2, 1)
    assert parts(root(a, b, minimum=1)) == [("b", 1)]
    assert parts(root(a, podset("b", 1, 1), minimum=1)) == [("a", 1)]


def test_minimum_is_not_reduced_by_satisfied_children():
    done, c, d = podset("a", 1, 1), podset("c", 1, pending=1), podset("d", 1, pending=1)
    assert parts(root(done, c, d, minimum=2)) == [("c", 1), ("d", 1)]


def test_unready_child_is_picked_before_a_ready_one():
    assert parts(root(podset("a", 2, pending=1), podset("b", 2, pending=2), minimum=1)) == [("a", 1)]
    assert parts(root(podset("a", 2, 1), podset("b", 2, pending=2), minimum=1)) == []


def test_two_groups_take_turns():
    def groups(a: int, c: int, d: int) -> Set:
        ab = Set("ab", 1, (podset("a", 1, a), podset("b", 1, 0, 2)))
        return root(ab, Set("cd", None, (podset("c", 1, c, 2 - c), podset("d", 1, d, 2 - d))))

    assert parts(groups(1, 0, 0)) == [("c", 1), ("d", 1)]
    assert parts(groups(1, 1, 1)) == [("b", 1)]  # equal ratios: ab first


def test_lower_ratio_first():
    ab = Set("ab", 1, (podset("a", 1, 1, 2), podset("b", 1, 1)))
    cd = Set("cd", 2, (podset("c", 1, 1, 2), podset("d", 1, 1)))
    assert parts(root(ab, cd)) == [("c", 1)]
    assert parts(root(podset("a", 4, 9, 1), podset("b", 2, 4, 1))) == [("b", 1)]
    assert parts(root(podset("a", 4, 8, 1), podset("b", 2, 4, 1))) == [("a", 1)]


def test_podsets_without_minimum_come_last_and_fewer_first():
    assert parts(root(podset("a", 0, 5, 1), podset("b", 0, 4, 1), podset("c", 1, 9, 1))) == [("c", 1)]
    assert parts(root(podset("a", 0, 5, 1), podset("b", 0, 4, 1), podset("c", 1, 9))) == [("b", 1)]


def test_names_alone_order_without_the_plugin():
    tree = root(podset("a", 1, 1, 1), podset("b", 1, pending=1), minimum=1)
    assert parts(tree, ordered=True) == [("b", 1)]
    assert parts(tree, ordered=False) == [("a", 1)]
    tree = root(podset("a", 1, 1), podset("b", 1, pending=1), podset("c", 1, pending=1), minimum=2)
    assert parts(tree, ordered=False) == [("b", 1)]


def trees() -> st.SearchStrategy[Set]:
    small = st.integers(0, 3)
    leaf = st.builds(Podset, st.just(""), small, small, small)
    minimum = st.one_of(st.none(), st.integers(0, 3))
    sets = st.recursive(
        leaf, lambda inner: st.builds(Set, st.just(""), minimum, st.lists(inner, min_size=1, max_size=4).map(tuple))
    )
    tree = st.builds(Set, st.just(""), minimum, st.lists(sets, min_size=1, max_size=4).map(tuple))
    return st.builds(named, tree.filter(lambda t: len(breadth_first(t)) <= WINDOW), st.randoms(use_true_random=False))


def named(tree: Set, random) -> Set:
    names = [f"n{i:02}" for i in range(WINDOW)]
    random.shuffle(names)

    def rename(node: Node) -> Node:
        if isinstance(node, Podset):
            return Podset(names.pop(), node.minimum, node.active, node.pending)
        return Set(names.pop(), node.minimum, tuple(rename(child) for child in node.children))

    return rename(tree)


@pytest.mark.parametrize("ordered", [True, False])
@settings(max_examples=200)
@given(trees())
def test_equals_recursive_walk(ordered, tree):
    chunk, nodes, podsets = chunk_of(tree, ordered)
    want = collect(tree, subgroup_order if ordered else by_name)
    used = len(want)
    assert int(chunk.segments) == used
    assert [(podsets[p].name, n) for p, n in zip(chunk.podset[:used], chunk.count[:used], strict=True)] == want
    assert chunk.end[:used].tolist() == np.cumsum([n for _, n in want]).tolist()
    assert int(chunk.tasks) == sum(n for _, n in want)
    assert (chunk.podset[used:] == -1).all()
    assert not chunk.count[used:].any()
    for node, first, last in zip(nodes, chunk.first, chunk.last, strict=False):
        below = {n.name for _, _, n in breadth_first(node)} if isinstance(node, Set) else {node.name}
        positions = [i for i, name in enumerate(name for name, n in want for _ in range(n)) if name in below]
        assert list(range(first, last)) == positions
