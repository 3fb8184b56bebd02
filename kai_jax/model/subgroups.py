"""The tree of sets and podsets of a podgroup (spec 01 §6.4, spec 03 §7.1)."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from kai_jax.api.objects import PodGroup, SubGroup, TopologyConstraint

DEFAULT_PODSET = "default"
ROOT = ""


class TreeError(ValueError):
    """Subgroups that form no tree; the message names the field."""


@dataclass(frozen=True, slots=True)
class TreeNode:
    """A set (podset -1) or a podset of one podgroup; indices are local to it."""

    name: str
    parent: int
    depth: int
    podset: int
    threshold: int  # of a set: children required; of a podset: its minimum of pods
    constraint: TopologyConstraint | None = None


@dataclass(frozen=True, slots=True)
class Tree:
    """Nodes with parents before children, the root first; podsets by name and by index."""

    nodes: tuple[TreeNode, ...]
    podsets: dict[str, int]
    minimums: tuple[int, ...]

    @property
    def simple(self) -> bool:
        """One podset, always required, right below the root."""
        return len(self.nodes) == 2 and self.nodes[0].threshold == 1

    @property
    def constrained(self) -> bool:
        return any(node.constraint is not None for node in self.nodes)

    def required(self, satisfied: Sequence[bool]) -> bool:
        """Whether the root is satisfied, given which podsets are."""
        counts = [0] * len(self.nodes)
        for place in range(len(self.nodes) - 1, 0, -1):
            node = self.nodes[place]
            met = satisfied[node.podset] if node.podset >= 0 else counts[place] >= node.threshold
            counts[node.parent] += met
        return counts[0] >= self.nodes[0].threshold


def read_tree(group: PodGroup) -> Tree:
    """The tree of a podgroup. Raises TreeError where the subgroups form none; such a group gets `flat_tree(1)`."""
    spec = group.spec
    root_constraint = _named(spec.topology_constraint)
    if not spec.sub_groups and root_constraint is None and spec.min_sub_group is None:
        return flat_tree(1 if spec.min_member is None else spec.min_member)
    children = _children(spec.sub_groups)
    _check_reached(spec.sub_groups, children)
    by_name = {subgroup.name: subgroup for subgroup in spec.sub_groups}
    below = children.get(ROOT, [])
    threshold = len(below) or 1 if spec.min_sub_group is None else spec.min_sub_group
    nodes = [TreeNode(ROOT, -1, 0, -1, threshold, root_constraint)]
    podsets: dict[str, int] = {}
    minimums: list[int] = []

    def add_podset(name: str, parent: int, depth: int, minimum: int, constraint: TopologyConstraint | None) -> None:
        podsets[name] = len(podsets)
        minimums.append(minimum)
        nodes.append(TreeNode(name, parent, depth, podsets[name], minimum, constraint))

    waiting = [(0, name) for name in below]
    for parent, name in waiting:  # grows while it is walked: level by level
        subgroup, depth = by_name[name], nodes[parent].depth + 1
        constraint = _named(subgroup.topology_constraint)
        if name in children:
            required = len(children[name]) if subgroup.min_sub_group is None else subgroup.min_sub_group
            nodes.append(TreeNode(name, parent, depth, -1, required, constraint))
            waiting += [(len(nodes) - 1, child) for child in children[name]]
        else:
            add_podset(name, parent, depth, subgroup.min_member or 0, constraint)
    if not podsets:
        add_podset(DEFAULT_PODSET, 0, 1, 1 if spec.min_member is None else spec.min_member, None)
    return Tree(tuple(nodes), podsets, tuple(minimums))


@lru_cache(maxsize=1024)
def flat_tree(minimum: int) -> Tree:
    """One default podset below the root."""
    nodes = (TreeNode(ROOT, -1, 0, -1, 1), TreeNode(DEFAULT_PODSET, 0, 1, 0, minimum))
    return Tree(nodes, {DEFAULT_PODSET: 0}, (minimum,))


def _children(subgroups: Sequence[SubGroup]) -> dict[str, list[str]]:
    """Names of children by parent, in the order written."""
    names = {subgroup.name for subgroup in subgroups}
    children: dict[str, list[str]] = {}
    seen: set[str] = set()
    for subgroup in subgroups:
        name, parent = subgroup.name, (subgroup.parent or ROOT).lower()
        if name in seen:
            raise TreeError(f"spec.subGroups[{name}].name: duplicate")
        if parent != ROOT and parent not in names:
            raise TreeError(f"spec.subGroups[{name}].parent: {parent!r} does not exist")
        seen.add(name)
        children.setdefault(parent, []).append(name)
    return children


def _check_reached(subgroups: Sequence[SubGroup], children: dict[str, list[str]]) -> None:
    reached = list(children.get(ROOT, ()))
    for name in reached:  # grows while it is walked
        reached += children.get(name, ())
    for subgroup in subgroups:
        if subgroup.name not in reached:
            raise TreeError(f"spec.subGroups[{subgroup.name}].parent: its ancestors form a cycle")


def _named(constraint: TopologyConstraint | None) -> TopologyConstraint | None:
    """A constraint without a topology is none."""
    return constraint if constraint is not None and constraint.topology else None
