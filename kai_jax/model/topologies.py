"""Topologies: levels of node labels, domains, and constraints by level index (spec 01 §1.4, spec 04 §4.1)."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from kai_jax.api.objects import Topology as TopologyObject
from kai_jax.api.objects import TopologyConstraint
from kai_jax.model.nodes import Node
from kai_jax.tensors.axes import MISCONFIGURED_TOPOLOGY, NONE, UNKNOWN_TOPOLOGY

OUTSIDE = -1


@dataclass(frozen=True, slots=True)
class Domain:
    """The nodes that agree on the labels of all levels down to this one; the root holds all nodes of the topology."""

    level: int  # root 0
    values: tuple[str, ...]
    parent: int  # index in the same topology, OUTSIDE for the root

    @property
    def identifier(self) -> str:
        return ".".join(self.values)


@dataclass(frozen=True, slots=True)
class Topology:
    """One topology; `levels` names the level (label or alias) by index, from 1 on."""

    name: str
    depth: int
    levels: dict[str, int]
    domains: tuple[Domain, ...]
    node_domains: tuple[tuple[int, ...], ...]  # per node, root first; () for a node that lacks a label


@dataclass(frozen=True, slots=True)
class Placement:
    """A topology constraint of a tree node, by indices."""

    topology: int = NONE
    required: int = NONE
    preferred: int = NONE


UNCONSTRAINED = Placement()


def read_topologies(objects: Iterable[TopologyObject], used: set[str], nodes: Sequence[Node]) -> tuple[Topology, ...]:
    """The topologies that some podgroup names, in the order of their names."""
    chosen = {item.metadata.name: item for item in objects if item.metadata.name in used}
    return tuple(_read(chosen[name], nodes) for name in sorted(chosen, key=str.encode))


def resolve(constraint: TopologyConstraint | None, topologies: Sequence[Topology]) -> tuple[Placement, str]:
    """The constraint by indices, and what is wrong with it ("" where nothing is)."""
    if constraint is None:
        return UNCONSTRAINED, ""
    name = constraint.topology
    index = next((place for place, topology in enumerate(topologies) if topology.name == name), None)
    if index is None:
        return Placement(UNKNOWN_TOPOLOGY), f"topology {name!r} does not exist"
    required, problem = _level(topologies[index], constraint.required_topology_level)
    preferred, other = _level(topologies[index], constraint.preferred_topology_level)
    problem = problem or other
    if not problem and required == preferred == NONE:
        problem = "names neither a required nor a preferred level"
    if not problem and NONE < preferred < required:
        problem = f"required level {constraint.required_topology_level!r} is finer than the preferred one"
    return (Placement(MISCONFIGURED_TOPOLOGY), problem) if problem else (Placement(index, required, preferred), "")


def _level(topology: Topology, name: str) -> tuple[int, str]:
    if not name:
        return NONE, ""
    level = topology.levels.get(name)
    return (NONE, f"level {name!r} is not in topology {topology.name!r}") if level is None else (level, "")


def _read(item: TopologyObject, nodes: Sequence[Node]) -> Topology:
    labels = [level.node_label for level in item.spec.levels]
    aliases = {level.alias: place for place, level in enumerate(item.spec.levels, 1) if level.alias}
    domains: dict[tuple[str, ...], int] = {(): 0}
    parents = [OUTSIDE]
    places: list[tuple[int, ...]] = []
    for node in nodes:
        values = tuple([node.labels[label] for label in labels if label in node.labels])
        if len(values) < len(labels):
            places.append(())
            continue
        path = [0]
        for depth in range(1, len(values) + 1):
            place = domains.setdefault(values[:depth], len(domains))
            if place == len(parents):
                parents.append(path[-1])
            path.append(place)
        places.append(tuple(path))
    return Topology(
        name=item.metadata.name,
        depth=len(labels),
        levels=aliases | {label: place for place, label in enumerate(labels, 1)},
        domains=tuple(Domain(len(v), v, parent) for v, parent in zip(domains, parents, strict=True)),
        node_domains=tuple(places),
    )
