"""Tensors of a cluster: contents, dtypes, padding that nothing reaches, slots of the job order."""

import dataclasses
import inspect
import re

import jax
import numpy as np
import pytest
from model.clusters import a_cluster, a_group, a_node, a_pod, a_queue, with_plugins

from kai_jax.api.config import Config, Plugin
from kai_jax.encode.buckets import SMALLEST
from kai_jax.encode.encode import Encoded, encode
from kai_jax.kernels.place import accepted, request_of
from kai_jax.model.cluster import Cluster
from kai_jax.tensors import Features, Status

LEVELS = [{"nodeLabel": "zone"}, {"nodeLabel": "rack"}]
NET = {"metadata": {"name": "net"}, "spec": {"levels": LEVELS}}
DTYPES = {"f64": "float64", "i64": "int64", "i32": "int32", "i8": "int8", "u64": "uint64", "bool": "bool"}


def a_rich_cluster() -> Cluster:
    """Everything at once, small: trees, topology, shared devices, ports, a nominated node, several queues."""
    nodes = [
        a_node(name, labels={"nvidia.com/gpu.memory": "40960", "zone": "z", "rack": name})
        for name in ("n3", "n1", "n2")
    ]
    queues = [a_queue("top"), a_queue("leaf", "top"), a_queue("side", "top"), a_queue("alone")]
    groups = [
        a_group("runs", minMember=2),
        a_group("tree", subGroups=[{"name": "b", "minMember": 1}, {"name": "a", "minMember": 2}], minSubGroup=1),
        a_group("near", queue="side", topologyConstraint={"topology": "net", "preferredTopologyLevel": "rack"}),
        a_group("lost", queue="gone"),
    ]
    subgroup = "kai.scheduler/subgroup-name"
    half, shared = {"gpu-fraction": "0.5"}, {"runai-gpu-group": "7"}
    container = {"name": "c", "ports": [{"hostPort": 80, "containerPort": 80}]}
    nominated = a_pod("b1", "tree", labels={subgroup: "b"}, annotations={"gpu-memory": "8000"})
    nominated["status"]["nominatedNodeName"] = "n2"
    pods = [
        a_pod("wait", "runs"),
        a_pod("half", "runs", node="n2", annotations=half, labels=shared),
        a_pod("a1", "tree", labels={subgroup: "a"}),
        a_pod("a2", "tree", labels={subgroup: "a"}),
        nominated,
        a_pod("near", "near", containers=[container]),
        a_pod("lost", "lost"),
        a_pod("gated", "near", schedulingGates=[{"name": "g"}]),
        a_pod("bad", "runs", annotations={"gpu-fraction": "7"}),
    ]
    return a_cluster(nodes, pods, groups, queues, topologies=[NET])


@pytest.fixture(scope="module")
def rich() -> Encoded:
    return encode(a_rich_cluster())


def declared(struct: type) -> dict[str, tuple[str, str]]:
    """(dtype, axes) by field, from the comments beside the fields, which are the contract."""
    found = {}
    for line in inspect.getsource(struct).splitlines():
        match = re.match(r"\s+(\w+): Array  # (f64|i64|i32|i8|u64|bool)\[([^\]]*)\]", line)
        if match:
            found[match[1]] = (match[2], match[3])
    return found


def test_leaves_have_the_declared_dtypes_and_axes(rich: Encoded) -> None:
    names = {
        "N": "nodes", "R": "resources", "T": "tasks", "P": "podsets", "J": "jobs", "M": "tree_nodes", "Q": "queues",
        "S": "slots", "K": "requests", "C": "constraints", "G": "devices", "X": "ports", "D": "domains", "L": "levels",
        "O": "topologies",
    }  # fmt: skip
    sizes = {letter: getattr(SMALLEST, name) for letter, name in names.items()} | {"3": 3}
    parts = [getattr(rich.snapshot, field.name) for field in dataclasses.fields(rich.snapshot)]
    checked = 0
    for part in [rich.state, *(part for part in parts if dataclasses.is_dataclass(part))]:
        for name, (dtype, axes) in declared(type(part)).items():
            leaf = getattr(part, name)
            shape = tuple(sizes[axis] for axis in axes.split(",") if axis)
            assert (leaf.dtype, leaf.shape) == (DTYPES[dtype], shape), f"{type(part).__name__}.{name}"
            checked += 1
    assert checked == len(jax.tree.leaves((rich.snapshot, rich.state))) - 2  # spread_gpu, spread_cpu


def test_an_empty_cluster_has_the_same_leaves(rich: Encoded) -> None:
    empty = encode(a_cluster([], [], [], []))

    def leaves(encoded: Encoded) -> list[tuple]:
        return [(leaf.shape, leaf.dtype) for leaf in jax.tree.leaves((encoded.snapshot, encoded.state))]

    assert leaves(empty) == leaves(rich)
    assert empty.policy == rich.policy
    assert not empty.snapshot.jobs.slot_filled.any()


def test_contents(rich: Encoded) -> None:
    snapshot, state = rich.snapshot, rich.state
    names = [task.pod.metadata.name for task in rich.layout.tasks]
    assert names == ["bad", "wait", "half", "b1", "a1", "a2", "near", "gated", "lost"]
    assert snapshot.podsets.task_start[:5].tolist() == [0, 3, 4, 6, 8]
    assert snapshot.podsets.pending[:5].tolist() == [2, 1, 2, 1, 1]
    assert snapshot.podsets.minimum[:5].tolist() == [2, 1, 2, 1, 1]
    assert snapshot.jobs.node_count[:4].tolist() == [2, 3, 2, 2]
    assert snapshot.jobs.flat[:4].tolist() == [True, False, False, True]
    assert snapshot.jobs.queue[:4].tolist() == [3, 3, 4, -1]
    tree = snapshot.tree
    assert tree.parent[:9].tolist() == [-1, 0, -1, 0, 0, -1, 0, -1, 0]
    assert tree.podset[:9].tolist() == [-1, 0, -1, 1, 2, -1, 3, -1, 4]
    assert tree.threshold[:9].tolist() == [1, 2, 1, 1, 2, 1, 1, 1, 1]
    assert tree.name_rank[2:5].tolist() == [0, 2, 1]
    assert (tree.topology[5], tree.required[5], tree.preferred[5]) == (0, -1, 2)
    assert snapshot.topology.node_domain[0, :3, :3].tolist() == [[0, 0, 0], [1, 1, 1], [2, 3, 4]]
    assert snapshot.topology.id_rank[:5].tolist() == [0, 1, 2, 3, 4]
    assert snapshot.tasks.nominated[3] == 1
    assert state.task_status[:3].tolist() == [Status.PENDING, Status.PENDING, Status.RUNNING]
    assert state.task_node[:3].tolist() == [-1, -1, 1]
    assert state.task_devices[:3].tolist() == [0, 0, 1]
    assert (state.device_used[0, 1], state.device_numbered[0, 1]) == (20450, True)
    assert state.active[0] == state.allocated[0] == state.used[0] == 1
    requests = snapshot.requests
    b1, wait, bad = (snapshot.tasks.request[names.index(name)] for name in ("b1", "wait", "bad"))
    assert (requests.memory[b1], requests.devices[b1], requests.vector[b1, 0]) == (8000, 1, 0)
    assert requests.order_gpu[b1] == requests.gate_gpu[b1] == 8000 / 40900
    assert requests.vector[wait, :4].tolist() == [1, 1000, 0, 1]
    assert not requests.vector[bad].any()
    assert requests.ports[snapshot.tasks.request[names.index("near")]].any()


def test_refused_pods_fit_nowhere(rich: Encoded) -> None:
    allowed = rich.snapshot.constraints.allowed
    names = [task.pod.metadata.name for task in rich.layout.tasks]
    for name, fits in (("bad", False), ("wait", True)):
        assert allowed[rich.snapshot.tasks.constraint[names.index(name)]].any() == fits


def test_nothing_reaches_the_padding(rich: Encoded) -> None:
    snapshot, layout, cluster = rich.snapshot, rich.layout, rich.cluster
    tasks, podsets, jobs, queues = (
        len(layout.tasks),
        len(layout.podset_job),
        len(layout.jobs),
        len(cluster.queues.queues),
    )
    nodes, slots = len(cluster.nodes), len(layout.slots.job)
    assert snapshot.podsets.task_count.sum() == tasks
    assert not snapshot.podsets.pending[podsets:].any()
    assert snapshot.jobs.podset_count.sum() == podsets
    assert snapshot.jobs.slot.max() < slots
    assert (snapshot.jobs.queue[jobs:] == -1).all()
    assert not snapshot.jobs.slot_filled[slots:].any()
    last_child = snapshot.queues.child_start + snapshot.queues.child_count
    assert last_child.max() == queues
    assert (snapshot.queues.parent[queues:] == -1).all()
    assert (snapshot.queues.slot_start[queues:] == snapshot.queues.slot_end[queues:]).all()
    assert snapshot.queues.slot_end.max() == slots
    assert not snapshot.nodes.exists[nodes:].any()
    assert not snapshot.constraints.allowed[:, nodes:].any()
    assert not snapshot.constraints.allowed[len(cluster.constraints) :].any()
    assert not snapshot.nodes.allocatable[:, nodes:].any()
    assert not rich.state.idle[:, nodes:].any()
    assert (rich.state.task_node[tasks:] == -1).all()
    for size, used in (
        (SMALLEST.tasks, tasks),
        (SMALLEST.podsets, podsets),
        (SMALLEST.jobs, jobs),
        (SMALLEST.slots, slots),
    ):
        assert used < size  # one entry of padding at least


def test_queues_are_numbered_as_in_the_model(rich: Encoded) -> None:
    queues = rich.snapshot.queues
    assert queues.parent[:5].tolist() == [-1, 0, 0, 2, 2]
    assert queues.uid_rank[:5].tolist() == [0, 1, 4, 2, 3]
    assert queues.quota[:, 3].tolist() == [-1, -1, -1]
    assert queues.total.tolist() == rich.cluster.total.tolist()


# ------------------------------------------------------------------------------------ slots


def slots_of(cluster: Cluster) -> list[tuple[str, str, bool]]:
    """(job, class, filled) in the order of the slots."""
    slots = encode(cluster).layout.slots
    names = ("below", "exact", "above")
    rows = zip(slots.job, slots.elastic, slots.filled, strict=True)
    return [(cluster.jobs[job].name, names[elastic], bool(filled)) for job, elastic, filled in rows]


def test_a_job_owns_one_slot_for_each_class_it_can_wait_in() -> None:
    pods = [a_pod("a1", "a"), *(a_pod(f"b{i}", "b") for i in range(3)), a_pod("c1", "c", node="n1"), a_pod("c2", "c")]
    groups = [a_group("c"), a_group("b"), a_group("a"), a_group("d")]
    assert slots_of(a_cluster([a_node()], pods, groups)) == [
        ("a", "below", True),
        ("b", "below", True),
        ("b", "exact", False),
        ("c", "exact", True),
        ("b", "above", False),
    ]


def test_without_the_elastic_plugin_one_slot_serves_all_classes() -> None:
    pods = [a_pod("a1", "a"), *(a_pod(f"b{i}", "b") for i in range(3))]
    cluster = a_cluster([a_node()], pods, [a_group("a"), a_group("b")], config=with_plugins("predicates", "priority"))
    assert slots_of(cluster) == [("a", "below", True), ("b", "below", True)]
    assert encode(cluster).snapshot.jobs.slot[:2].tolist() == [[0, 0, 0], [1, 1, 1]]


def test_jobs_that_no_queue_takes_in_have_no_slot() -> None:
    claim = [{"name": "c", "resourceClaimName": "c"}]
    pods = [
        a_pod("u", "unready"),
        a_pod("r", "refused", resourceClaims=claim),
        a_pod("l", "lost"),
        a_pod("p", "parent"),
    ]
    groups = [
        a_group("unready", minMember=2),
        a_group("refused"),
        a_group("lost", queue="gone"),
        a_group("parent", queue="top"),
    ]
    cluster = a_cluster([a_node()], pods, groups, [a_queue("top"), a_queue("leaf", "top")])
    assert slots_of(cluster) == []


def test_the_queue_depth_keeps_the_best_jobs_of_each_leaf() -> None:
    names = [f"{queue}{index}" for queue in "ab" for index in (2, 0, 1)]
    cluster = a_cluster(
        [a_node()],
        [a_pod(name, name) for name in names],
        [a_group(name, queue=name[0]) for name in names],
        [a_queue("a"), a_queue("b")],
        config=Config(queue_depth_per_action={"allocate": 2}),
    )
    assert [name for name, _, filled in slots_of(cluster) if filled] == ["a0", "a1", "b0", "b1"]


# ------------------------------------------------------------------------------------ policy


def test_kernels_charge_queues_as_the_model_counts_running_pods() -> None:
    """MIG profiles count beside a request for device memory, in both."""
    wanted = [{}, {"annotations": {"gpu-memory": "9000"}}, {"annotations": {"gpu-fraction": "0.33"}},
              {"requests": {"nvidia.com/mig-2g.10gb": "1"}},
              {"requests": {"nvidia.com/mig-2g.10gb": "1"}, "annotations": {"gpu-memory": "9000"}}]  # fmt: skip
    nodes = [a_node("n1"), a_node("n2", labels={"nvidia.com/gpu.memory": "81920"}), a_node("n3", labels={})]
    cluster = a_cluster(nodes, [a_pod(f"p{index}", **pod) for index, pod in enumerate(wanted)])
    snapshot = encode(cluster).snapshot
    for index, (requirement, _) in enumerate(cluster.requests.classes[1:], 1):
        for node in cluster.nodes:
            charged = accepted(snapshot, request_of(snapshot.requests, np.int32(index)), np.int32(node.index))
            assert charged[2] == requirement.accepted_on(node.gpu_memory)


def test_policy_follows_the_configured_plugins(rich: Encoded) -> None:
    assert rich.policy.score_terms == (
        "nodeavailability", "gpusharingorder", "resourcetype", "nominatednode", "nodeplacement", "topology",
    )  # fmt: skip
    assert (rich.policy.device_terms, rich.policy.subgroup_order, rich.policy.capacity) == (("gpupack",), True, True)
    assert rich.policy.features == Features()
    bare = encode(a_cluster([], [], [], config=with_plugins("nodeplacement", "gpuspread", "nodeavailability"))).policy
    assert bare.score_terms == ("nodeplacement", "nodeavailability")
    assert (bare.device_terms, bare.subgroup_order, bare.capacity) == (("gpuspread",), False, False)


@pytest.mark.parametrize(("written", "value"), [(None, 1.0), ("0.5", 0.5), ("-3", 0.0), ("much", 1.0), ("nan", 1.0)])
def test_k_value(written: str | None, value: float) -> None:
    arguments = {} if written is None else {"kValue": written}
    config = Config(
        plugins=(Plugin("proportion", arguments), Plugin("nodeplacement", {"gpu": "spread", "cpu": "binpack"}))
    )
    encoded = encode(a_cluster([], [], [], config=config))
    assert (encoded.k_value, encoded.k_value.dtype) == (value, np.float64)
    assert (bool(encoded.snapshot.spread_gpu), bool(encoded.snapshot.spread_cpu)) == (True, False)
