"""Node sets of topology constraints: worked examples, quirks, and a plain walk over random trees."""

from dataclasses import dataclass, fields, replace
from math import floor, inf

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kai_jax.kernels.books import Books
from kai_jax.kernels.topology import Group, NoNodes, node_sets, nodes_of
from kai_jax.tensors import GPU, PODS, Topology

LEVELS, DOMAINS, NODES, SLOTS = 4, 32, 12, 2
Path = tuple[str, ...]  # labels from the coarsest level down; () is the root


@dataclass(frozen=True)
class Node:
    labels: Path | None
    gpus: float = 0  # idle and releasing whole devices
    cpu: float = 1000
    pods: float = 100
    shared: tuple[tuple[int, int, int], ...] = ()  # (used, allocated, releasing) percent of a device


@dataclass(frozen=True)
class Ask:
    """A group of equal tasks."""

    tasks: int
    gpus: float = 0
    cpu: float = 0
    required: int = -1
    preferred: int = -1
    homogeneous: bool = True
    pinned: frozenset[Path] | None = None

    def request(self) -> np.ndarray:
        return np.array([self.gpus, self.cpu, 0.0, 1.0])


@dataclass(frozen=True)
class Found:
    order: list[Path]
    scores: list[int | None]  # per node, in steps of 100000
    outcome: NoNodes


def domain_paths(nodes: list[Node]) -> list[Path]:
    labels = {node.labels for node in nodes if node.labels is not None}
    return sorted({path[:level] for path in labels for level in range(len(path) + 1)}, key=lambda path: path[::-1])


def tensors(*topologies: list[Node]) -> tuple[Topology, list[dict[Path, int]]]:
    """Topologies over the same nodes, and the domain index of every path."""
    index: list[dict[Path, int]] = []
    size = 0
    for nodes in topologies:
        paths = domain_paths(nodes)
        index.append({path: size + i for i, path in enumerate(paths)})
        size += len(paths)
    out = Topology(
        node_domain=np.full((len(topologies), LEVELS, NODES), -1, np.int32),
        parent=np.full(DOMAINS, -1, np.int32),
        level=np.full(DOMAINS, -1, np.int32),
        topology=np.zeros(DOMAINS, np.int32),
        id_rank=np.zeros(DOMAINS, np.int32),
    )
    for o, (nodes, of) in enumerate(zip(topologies, index, strict=True)):
        for path, d in of.items():
            out.parent[d] = of[path[:-1]] if path else -1
            out.level[d], out.topology[d] = len(path), o
            out.id_rank[d] = sorted(p for p in of if len(p) == len(path)).index(path)
        for n, node in enumerate(nodes):
            for level in range(len(node.labels or ()) + 1):
                if node.labels is not None:
                    out.node_domain[o, level, n] = of[node.labels[:level]]
    return out, index


def group_of(ask: Ask, topology: int, index: dict[Path, int]) -> Group:
    pinned = np.ones(DOMAINS, bool)
    if ask.pinned is not None:
        pinned[:] = False
        pinned[[index[path] for path in ask.pinned]] = True
    return Group(
        topology=np.int32(topology),
        required=np.int32(ask.required),
        preferred=np.int32(ask.preferred),
        tasks=np.int32(ask.tasks),
        max_request=ask.request(),
        total_request=ask.request() * ask.tasks,
        homogeneous=np.bool_(ask.homogeneous),
        pinned=pinned,
    )


compiled = jax.jit(node_sets)


def find(nodes: list[Node], ask: Ask, given: set[int] | None = None, topologies: tuple = (), o: int = 0) -> Found:
    """Node sets of `ask` in the tree of `nodes` (or of topologies[o], whose nodes carry other labels)."""
    topology, index = tensors(*(topologies or (nodes,)))
    free, devices = np.zeros((4, NODES)), np.zeros((3, SLOTS, NODES), np.int64)
    inside = np.zeros(NODES, bool)
    for n, node in enumerate(nodes):
        free[:, n] = [node.gpus, node.cpu, 0, node.pods]
        inside[n] = given is None or n in given
        for slot, values in enumerate(node.shared):
            devices[:, slot, n] = values
    unread = dict.fromkeys((f.name for f in fields(Books)), np.zeros(1))
    used, allocated, releasing = devices
    held = {"device_used": used, "device_allocated": allocated, "device_releasing": releasing}
    group, books = group_of(ask, o, index[o] if o >= 0 else {}), Books(**{**unread, **held, "free": free})
    sets = compiled(topology, group, inside, books, np.full(NODES, 100))
    sets = jax.tree.map(np.asarray, sets)
    paths = {d: path for of in index for path, d in of.items()}
    assert (sets.order[int(sets.count) :] == -1).all()
    for domain in sets.order[: int(sets.count)]:
        assert nodes_of(topology, domain, inside).any()
    scores = [None if s < 0 else round(s / 100000) for s in sets.score[: len(nodes)].tolist()]
    assert bool(sets.scored) or set(scores) <= {None} or sets.outcome == NoNodes.COMMON_DOMAIN
    return Found([paths[d] for d in sets.order[: int(sets.count)].tolist()], scores, NoNodes(int(sets.outcome)))


def node(*labels: str, gpus: float = 0, **more) -> Node:
    return Node(labels, gpus, **more)


def test_preferred_level_scores_and_falls_back_to_the_root():
    found = find([node("r1", gpus=1), node("r2", gpus=1)], Ask(2, gpus=1, preferred=1))
    assert found == Found([()], [5, 10], NoNodes.OK)


def test_required_level_above_a_preferred_one():
    nodes = [node("r1", "s1"), node("r1", "s2", gpus=1), node("r2", "s1", gpus=1), node("r2", "s2", gpus=1)]
    found = find(nodes, Ask(2, gpus=1, required=1, preferred=2))
    assert found == Found([("r2",)], [2, 5, 7, 10], NoNodes.OK)


def spines(used: int = 0) -> list[Node]:
    """A zone of 2 spines of 2 racks of 2 one-device nodes; `used` devices are taken."""
    racks = [("z", "s1", "r1"), ("z", "s1", "r2"), ("z", "s2", "r3"), ("z", "s2", "r4")]
    return [Node(rack, float(2 * i + j >= used)) for i, rack in enumerate(racks) for j in range(2)]


def test_subgroups_inside_a_group():
    assert find(spines(), Ask(6, gpus=1, preferred=2)).order == [("z",)]
    first = find(spines(), Ask(3, gpus=1, preferred=3))
    assert first.order == [("z", "s1"), ("z", "s2"), ("z",)]
    assert first.scores == [2, 2, 5, 5, 7, 7, 10, 10]
    second = find(spines(used=3), Ask(3, gpus=1, preferred=3))
    assert second.order == [("z", "s2"), ("z",)]
    assert second.scores[4:] == [7, 7, 10, 10]


def test_racks_are_sorted_below_their_spine():
    nodes = [node("z1", "s1", f"r{i}", gpus=1) for i in (1, 2, 3)] + [node("z1", "s2", "r4", gpus=2)]
    found = find(nodes, Ask(1, gpus=1, preferred=3))
    assert found.order[:4] == [("z1", "s2", "r4"), ("z1", "s1", "r1"), ("z1", "s1", "r2"), ("z1", "s1", "r3")]
    assert found.order[4:] == [("z1", "s2"), ("z1", "s1"), ("z1",)]


def test_tighter_zone_first_and_roomier_rack_scores_best():
    nodes = [node("A", f"A{i}", gpus=2 if i == 1 else 1) for i in (1, 2, 3, 4)]
    nodes += [node("B", f"B{i}", gpus=2) for i in (1, 2, 3)]
    found = find(nodes, Ask(3, gpus=1, required=1, preferred=2))
    assert found.order == [("A",), ("B",)]
    assert found.scores == [5, 1, 2, 4, 7, 8, 10]


def test_fuller_rack_first():
    nodes = [node("r1", gpus=10), node("r2", gpus=9), node("r3", gpus=10)]
    assert find(nodes, Ask(1, gpus=1, required=1)).order == [("r2",), ("r1",), ("r3",)]


def test_two_topologies_narrow_each_other():
    racks = [Node((rack,), 1.0) for rack in ("r1", "r2", "r3", "r4")]
    zones = [Node((zone,), 1.0) for zone in ("x", "y", "x", "y")]
    both = (racks, zones)
    assert find(racks, Ask(2, gpus=1, required=1), topologies=both, o=1).order == [("x",), ("y",)]
    assert find(racks, Ask(1, gpus=1, required=1), {0, 2}, both, o=0).order == [("r1",), ("r3",)]


def test_required_level_above_the_common_domain_has_no_room():
    nodes = [node("z1", "r1", gpus=4), node("z1", "r1", gpus=4), node("z2", "r2", gpus=4)]
    assert find(nodes, Ask(1, gpus=1, required=1), {0, 1}).outcome == NoNodes.NO_DOMAIN
    assert find(nodes, Ask(1, gpus=1, required=1)).order == [("z2",), ("z1",)]
    assert find(nodes, Ask(1, gpus=1, required=1, preferred=1), {0, 1}).order == [("z1",)]
    # pods without any amount fit where nothing was measured
    assert find(nodes, Ask(1, required=1), {0, 1}).order == [("z1",)]


def test_nodes_outside_the_set_count_inside_the_common_domain():
    nodes = [node("r1", gpus=1), node("r1", gpus=1), node("r2", gpus=1)]
    assert find(nodes, Ask(2, gpus=1, required=1), {0}).order == [("r1",)]
    assert find(nodes, Ask(2, gpus=1, required=1), {0, 2}).order == [("r1",)]


def test_nodes_without_the_labels_are_left_out():
    nodes = [Node(None, 8), node("r1", gpus=1), node("r2", gpus=2)]
    assert find(nodes, Ask(2, gpus=1, required=1)).order == [("r2",)]
    assert find(nodes, Ask(4, gpus=1, required=1)).outcome == NoNodes.COMMON_DOMAIN


def test_no_node_at_all():
    nodes = [node("r1", gpus=1), node("r2", gpus=1)]
    assert find(nodes, Ask(1, gpus=1, required=1), set()) == Found([], [None, None], NoNodes.OK)
    assert find(nodes, Ask(3, gpus=1, required=1), set()).outcome == NoNodes.COMMON_DOMAIN


def test_active_pods_pin_required_domains():
    nodes = [node("r1", "n1", gpus=1), node("r1", "n2", gpus=2), node("r2", "n3", gpus=2)]
    pinned = frozenset({("r2",)})
    assert find(nodes, Ask(1, gpus=1, required=1, pinned=pinned)).order == [("r2",)]
    assert find(nodes, Ask(1, gpus=1, required=1, preferred=2, pinned=pinned)).order == [("r2", "n3"), ("r2",)]
    assert find(nodes, Ask(3, gpus=1, required=1, pinned=pinned)).outcome == NoNodes.NO_DOMAIN
    assert find(nodes, Ask(1, gpus=1, required=1, pinned=frozenset())).outcome == NoNodes.NONE_LEFT


def test_constraints_that_name_nothing():
    nodes = [node("r1", gpus=1)]
    assert find(nodes, Ask(1, required=1), o=-2).outcome == NoNodes.NONE_LEFT
    assert find(nodes, Ask(1), o=-3).outcome == NoNodes.MISCONFIGURED


@pytest.mark.parametrize(
    ("nodes", "ask", "fits"),
    [
        ([node("r", cpu=1000)], Ask(2, cpu=500, required=1), True),
        ([node("r", cpu=1000)], Ask(2, cpu=800, required=1), False),
        ([node("r", gpus=0, shared=((50, 50, 0), (50, 50, 0)))], Ask(2, gpus=0.4, required=1), True),
        ([node("r", gpus=0, shared=((50, 50, 0),))], Ask(2, gpus=0.4, required=1), False),
        ([node("r", gpus=0, shared=((50, 50, 50),))], Ask(2, gpus=0.4, required=1), True),
        ([node("r", gpus=0, shared=((0, 0, 0),))], Ask(1, gpus=0.4, required=1), False),
        ([node("r", gpus=0.7)], Ask(7, gpus=0.1, required=1), False),  # 0.7 / 0.1 is 6.99
        ([node("r", gpus=1.5)], Ask(2, gpus=1, required=1), False),
        ([node("r", gpus=2, pods=1)], Ask(2, gpus=1, required=1), False),
        ([node("r", gpus=-1)], Ask(1, cpu=1, required=1), False),
        ([node("r", pods=0)], Ask(4, required=1), True),  # pods alone are not counted
    ],
)
def test_capacity(nodes, ask, fits):
    assert find(nodes, ask).outcome == (NoNodes.OK if fits else NoNodes.COMMON_DOMAIN)


def test_mixed_tasks_fit_by_sums():
    nodes = [node("r1", gpus=1), node("r1", gpus=1), node("r2", gpus=1)]
    assert find(nodes, Ask(1, gpus=2, required=1)).outcome == NoNodes.COMMON_DOMAIN
    assert find(nodes, Ask(1, gpus=2, required=1, homogeneous=False)).order == [("r1",)]


def walk(nodes: list[Node], ask: Ask, given: set[int]) -> Found:
    """Spec 04 §4.3 to §4.6 as they read, on dictionaries."""
    in_tree = [n for n, node in enumerate(nodes) if node.labels is not None]
    valid = [n for n in in_tree if n in given]
    paths, members = domain_paths(nodes), {}
    for path in paths:
        members[path] = [n for n in in_tree if nodes[n].labels[: len(path)] == path]
    common: Path = ()
    while valid and (ask.preferred < 0 or len(common) < ask.preferred):
        below = {nodes[n].labels[: len(common) + 1] for n in valid}
        if len(below) > 1 or below == {common}:
            break
        (common,) = below
    request, total = ask.request(), ask.request() * ask.tasks
    filled = [path for path in paths if path[: len(common)] == common]

    def vector(n: int) -> np.ndarray:
        return np.array([nodes[n].gpus, nodes[n].cpu, 0, nodes[n].pods], float)

    def node_capacity(n: int) -> float:
        if not (request[:PODS] > 0).any():
            return ask.tasks
        free = vector(n)
        if 0 < request[GPU] < 1:
            free[GPU] += sum(max(0, 100 - a + r) / 100 for u, a, r in nodes[n].shared if u > 0)
        if (request > free).any():
            return 0
        return min([floor(f / p) for p, f in zip(request, free, strict=True) if p > 0], default=inf)

    def ratio(path: Path) -> float:
        free = sum((vector(n) for n in members[path]), np.zeros(4)) if path in filled else np.zeros(4)
        return max([1000.0 if free[r] <= 0 else total[r] / free[r] for r in range(PODS) if total[r] > 0], default=0.0)

    def fits(path: Path) -> bool:
        if ask.homogeneous and path in filled:
            return sum(map(node_capacity, members[path])) >= ask.tasks
        return ratio(path) <= 1

    if not fits(common):
        return Found([], [None] * len(nodes), NoNodes.COMMON_DOMAIN)

    def sort_key(path: Path) -> tuple:
        return tuple((-ratio(path[:level]), path[:level]) for level in range(1, len(path) + 1))

    scores: list[int | None] = [None] * len(nodes)
    if ask.preferred >= 0:
        level = sorted((path for path in filled if len(path) == ask.preferred), key=sort_key)
        for i, path in enumerate(level):
            for n in members[path]:
                scores[n] = floor((i + 1) / len(level) * 10)
    fine = ask.preferred if ask.preferred >= 0 else ask.required
    coarse = max(ask.required, 0)
    kept = [p for p in paths if coarse <= len(p) <= fine and (ask.pinned is None or p[: ask.required] in ask.pinned)]
    fitting = [path for path in kept if fits(path)]
    if not fitting:
        left = any(len(path) == coarse for path in kept)
        return Found([], scores, NoNodes.NO_DOMAIN if left else NoNodes.NONE_LEFT)
    order = sorted((p for p in fitting if set(members[p]) & set(valid)), key=lambda p: (-len(p), sort_key(p)))
    return Found(order, scores, NoNodes.OK)


@st.composite
def cases(draw) -> tuple[list[Node], Ask, set[int]]:
    depth = draw(st.integers(1, LEVELS - 1))
    labels = st.tuples(*[st.sampled_from("ab") for _ in range(depth)])
    slot = st.tuples(*[st.sampled_from([0, 50, 70])] * 3)
    nodes = draw(
        st.lists(
            st.builds(
                Node,
                st.one_of(labels, labels, labels, st.none()),
                gpus=st.sampled_from([-1, 0, 1, 2, 3, 4]),
                cpu=st.sampled_from([0, 500, 1000]),
                pods=st.sampled_from([0, 1, 5]),
                shared=st.lists(slot, max_size=SLOTS).map(tuple),
            ),
            min_size=1,
            max_size=NODES,
        )
    )
    if all(node.labels is None for node in nodes):
        nodes[0] = replace(nodes[0], labels=("a",) * depth)
    coarse = draw(st.sampled_from([-1, *range(1, depth + 1)]))
    fine = draw(st.sampled_from([level for level in (-1, *range(1, depth + 1)) if level == -1 or level >= coarse]))
    if coarse == fine == -1:
        fine = depth
    hosts = sorted({node.labels[:coarse] for node in nodes if node.labels is not None}) if coarse > 0 else []
    pins = st.one_of(st.none(), st.sets(st.sampled_from(hosts)).map(frozenset)) if hosts else st.none()
    ask = Ask(
        tasks=draw(st.integers(1, 4)),
        gpus=draw(st.sampled_from([0, 0.4, 0.5, 1, 2])),
        cpu=draw(st.sampled_from([0, 250, 500])),
        required=coarse,
        preferred=fine,
        homogeneous=draw(st.booleans()),
        pinned=draw(pins),
    )
    given = draw(st.sets(st.integers(0, len(nodes) - 1)) | st.just(set(range(len(nodes)))))
    return nodes, ask, given


@settings(max_examples=400)
@given(cases())
def test_equals_plain_walk(case):
    nodes, ask, given = case
    want, got = walk(nodes, ask, given), find(nodes, ask, given)
    if want.outcome == NoNodes.COMMON_DOMAIN:  # nothing is stored then
        got = replace(got, scores=want.scores)
    assert got == want
