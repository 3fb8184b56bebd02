"""Static filters: which nodes a class of pods may use, and what the other nodes are told."""

from dataclasses import replace

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kai_jax.api.config import Params
from kai_jax.api.objects import ConfigMap, Objects, Pod
from kai_jax.api.objects import Node as NodeObject
from kai_jax.model.constraints import AFFINITY_MISMATCH, ConstraintTable, NodeDevices, device_problem
from kai_jax.model.nodes import Node


def a_node(name: str, labels: dict | None = None, spec: dict | None = None, conditions: tuple = (), **facts) -> Node:
    wire = {
        "metadata": {"name": name, "labels": labels or {}},
        "spec": spec or {},
        "status": {"conditions": [{"type": kind, "status": status} for kind, status in conditions]},
    }
    plain = Node(
        index=0,
        name=name,
        object=msgspec.convert(wire, NodeObject),
        ready=True,
        amounts={},
        gpu_memory=40900,
        gpu_memory_known=True,
        gpu_count=8,
        mig=False,
        mig_strategy="",
        claimed_gpus=0,
    )
    return replace(plain, **facts)


def a_pod(spec: dict | None = None, annotations: dict | None = None) -> Pod:
    metadata = {"name": "pod", "namespace": "team", "annotations": annotations or {}}
    return msgspec.convert({"metadata": metadata, "spec": spec or {}}, Pod)


def a_table(nodes: list[Node], objects: Objects | None = None, params: Params | None = None, legacy_mig=frozenset()):
    indexed = [replace(node, index=index) for index, node in enumerate(nodes)]
    return ConstraintTable(indexed, objects or Objects(), params or Params(), legacy_mig)


def allowed_names(nodes: list[Node], pod: Pod, device: str = "whole", **more) -> list[str]:
    table = a_table(nodes, **more)
    index = table.class_of(pod, device)
    return [node.name for node, passes in zip(nodes, table.allowed()[index], strict=True) if passes]


def required(*terms: dict) -> dict:
    node_affinity = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": list(terms)}}
    return {"affinity": {"nodeAffinity": node_affinity}}


def expression(key: str, operator: str, *values: str) -> dict:
    return {"key": key, "operator": operator, "values": list(values)}


# ------------------------------------------------------------------------------------ classes


def test_pods_with_equal_needs_share_a_class():
    table = a_table([a_node("a")])
    plain = table.class_of(a_pod(), "whole")
    assert table.class_of(a_pod(), "whole") == plain
    assert table.class_of(a_pod(), "cpu") != plain
    selective = table.class_of(a_pod({"nodeSelector": {"x": "1", "y": "2"}}), "whole")
    assert table.class_of(a_pod({"nodeSelector": {"y": "2", "x": "1"}}), "whole") == selective
    assert len(table) == 3
    assert table.allowed().shape == (3, 1)


def test_without_needs_every_ready_node_is_allowed():
    assert allowed_names([a_node("a"), a_node("b")], a_pod()) == ["a", "b"]


def test_a_cluster_without_nodes():
    table = a_table([])
    table.class_of(a_pod({"nodeSelector": {"x": "1"}}), "whole")
    assert table.allowed().shape == (1, 0)
    assert table.causes(0) == {}


# ------------------------------------------------------------------------------------ conditions


@pytest.mark.parametrize(
    ("spec", "conditions", "reason"),
    [
        ({}, (), ""),
        ({}, (("Ready", "True"), ("DiskPressure", "False")), ""),
        ({}, (("SomethingElse", "True"),), ""),
        ({"unschedulable": True}, (("Ready", "True"),), "node is unschedulable"),
        ({}, (("Ready", "False"),), "node has NotReady condition"),
        ({}, (("Ready", "Unknown"),), "node has NotReady condition"),
        ({}, (("MemoryPressure", "True"),), "node has MemoryPressure condition"),
        ({}, (("NetworkUnavailable", "Unknown"),), "node has NetworkUnavailable condition"),
        (
            {"unschedulable": True},
            (("Ready", "False"), ("PIDPressure", "True")),
            "node is unschedulable, node has NotReady condition, node has PIDPressure condition",
        ),
    ],
)
def test_conditions(spec, conditions, reason):
    table = a_table([a_node("a", spec=spec, conditions=conditions)])
    tolerant = a_pod({"tolerations": [{"operator": "Exists"}]})  # tolerations do not lift a cordon
    assert table.causes(table.class_of(tolerant, "cpu")) == ({reason: 1} if reason else {})
    assert table.allowed().tolist() == [[not reason]]


# ------------------------------------------------------------------------------------ taints

GPU_TAINT = {"key": "gpu", "value": "yes", "effect": "NoSchedule"}


@pytest.mark.parametrize(
    ("toleration", "tolerated"),
    [
        ({"key": "gpu", "operator": "Equal", "value": "yes", "effect": "NoSchedule"}, True),
        ({"key": "gpu", "value": "yes"}, True),
        ({"key": "gpu", "value": "no"}, False),
        ({"key": "gpu", "operator": "Exists"}, True),
        ({"key": "gpu", "operator": "Exists", "effect": "NoExecute"}, False),
        ({"key": "cpu", "operator": "Exists"}, False),
        ({"operator": "Exists"}, True),
        ({"operator": "Exists", "effect": "NoSchedule"}, True),
        ({"key": "gpu", "operator": "Gt", "value": "yes"}, False),
    ],
)
def test_tolerations(toleration, tolerated):
    nodes = [a_node("tainted", spec={"taints": [GPU_TAINT]})]
    assert allowed_names(nodes, a_pod({"tolerations": [toleration]})) == (["tainted"] if tolerated else [])


def test_taints_that_do_not_forbid_are_no_filter():
    soft = {"key": "gpu", "value": "yes", "effect": "PreferNoSchedule"}
    assert allowed_names([a_node("a", spec={"taints": [soft]})], a_pod()) == ["a"]


def test_the_first_untolerated_taint_is_named():
    taints = [GPU_TAINT, {"key": "team", "value": "", "effect": "NoExecute"}]
    table = a_table([a_node("a", spec={"taints": taints}), a_node("b", spec={"taints": taints[1:]})])
    some = table.class_of(a_pod({"tolerations": [{"key": "gpu", "operator": "Exists"}]}), "whole")
    none = table.class_of(a_pod(), "whole")
    assert table.causes(some) == {"node(s) had untolerated taint {team: }": 2}
    assert table.causes(none) == {
        "node(s) had untolerated taint {gpu: yes}": 1,
        "node(s) had untolerated taint {team: }": 1,
    }


# ------------------------------------------------------------------------------------ selectors

LABELLED = [
    a_node("a", {"zone": "a", "rank": "7"}),
    a_node("b", {"zone": "b", "rank": "-3"}),
    a_node("c", {"rank": "seven"}),
    a_node("d", {"zone": ""}),
]


@pytest.mark.parametrize(
    ("requirement", "names"),
    [
        (expression("zone", "In", "a", "b"), "ab"),
        (expression("zone", "In", ""), "d"),
        (expression("zone", "NotIn", "a"), "bcd"),
        (expression("zone", "Exists"), "abd"),
        (expression("zone", "DoesNotExist"), "c"),
        (expression("rank", "Gt", "-4"), "ab"),
        (expression("rank", "Gt", "7"), ""),
        (expression("rank", "Lt", "7"), "b"),
        (expression("rank", "Lt", "9223372036854775807"), "ab"),
        # malformed requirements match nothing
        (expression("zone", "In"), ""),
        (expression("zone", "NotIn"), ""),
        (expression("zone", "Exists", "a"), ""),
        (expression("rank", "Lt", "9", "10"), ""),
        (expression("rank", "Lt", "1_0"), ""),
        (expression("rank", "Lt", "9223372036854775808"), ""),
        (expression("zone", "Near", "a"), ""),
    ],
)
def test_requirements(requirement, names):
    pod = a_pod(required({"matchExpressions": [requirement]}))
    assert "".join(allowed_names(LABELLED, pod)) == names


@pytest.mark.parametrize(
    ("terms", "names"),
    [
        ([], ""),
        ([{}], ""),
        ([{}, {"matchExpressions": [expression("zone", "In", "a")]}], "a"),
        ([{"matchExpressions": [expression("zone", "Exists"), expression("rank", "Exists")]}], "ab"),
        ([{"matchFields": [expression("metadata.name", "In", "c")]}], "c"),
        ([{"matchFields": [expression("metadata.name", "NotIn", "c")]}], "abd"),
        ([{"matchFields": [expression("metadata.name", "In", "c", "d")]}], ""),
        ([{"matchFields": [expression("metadata.name", "Exists")]}], ""),
        ([{"matchFields": [expression("metadata.namespace", "In", "")]}], ""),
        (
            [
                {
                    "matchExpressions": [expression("zone", "Exists")],
                    "matchFields": [expression("metadata.name", "NotIn", "b")],
                },
                {"matchExpressions": [expression("zone", "DoesNotExist")]},
            ],
            "acd",
        ),
    ],
)
def test_terms(terms, names):
    assert "".join(allowed_names(LABELLED, a_pod(required(*terms)))) == names


def test_selector_and_affinity_must_both_hold():
    pod = a_pod({"nodeSelector": {"zone": "a"}, **required({"matchExpressions": [expression("rank", "Lt", "0")]})})
    table = a_table(LABELLED)
    assert table.causes(table.class_of(pod, "whole")) == {AFFINITY_MISMATCH: 4}


def test_preferred_affinity_is_no_filter():
    term = {"weight": 1, "preference": {"matchExpressions": [expression("zone", "In", "a")]}}
    affinity = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [term]}}
    assert len(allowed_names(LABELLED, a_pod({"affinity": affinity}))) == 4


# ------------------------------------------------------------------------------------ devices

PLAIN = NodeDevices(mig=False, mig_strategy="", memory_known=True, claimed=False, legacy_mig=False)
MIG = PLAIN._replace(mig=True)


@pytest.mark.parametrize(
    ("node", "refused"),
    [
        (PLAIN, {"legacy-mig", "mig"}),
        (PLAIN._replace(claimed=True), {"legacy-mig", "mig", "fraction", "memory"}),
        (PLAIN._replace(memory_known=False), {"legacy-mig", "mig", "memory"}),
        (PLAIN._replace(mig_strategy="single", legacy_mig=True), {"legacy-mig", "mig"}),
        (MIG, {"legacy-mig"}),
        (MIG._replace(legacy_mig=True), {"legacy-mig", "mig"}),
        (MIG._replace(mig_strategy="single"), {"legacy-mig", "mig", "fraction", "memory"}),
        (MIG._replace(mig_strategy="mixed"), {"legacy-mig", "whole", "fraction", "memory"}),
    ],
)
def test_device_types(node, refused):
    kinds = ("cpu", "whole", "fraction", "memory", "mig", "legacy-mig")
    assert {kind for kind in kinds if device_problem(kind, node)} == refused


def test_device_facts_come_from_the_node():
    nodes = [
        a_node("claimed", claimed_gpus=2),
        a_node("legacy", mig=True),
        a_node("mixed", mig=True, mig_strategy="mixed"),
        a_node("unknown", gpu_memory_known=False),
    ]
    assert allowed_names(nodes, a_pod(), "memory") == ["legacy"]
    assert allowed_names(nodes, a_pod(), "mig", legacy_mig=frozenset({1})) == ["mixed"]
    assert allowed_names(nodes, a_pod(), "whole") == ["claimed", "legacy", "unknown"]


def test_restricted_nodes():
    params = Params(restrict_scheduling_nodes=True)
    nodes = [
        a_node("both", {params.gpu_worker_node_label_key: "", params.cpu_worker_node_label_key: ""}),
        a_node("cpu", {params.cpu_worker_node_label_key: "true"}),
        a_node("gpu", {params.gpu_worker_node_label_key: "true"}),
    ]
    assert allowed_names(nodes, a_pod(), "cpu", params=params) == ["both", "cpu"]
    assert allowed_names(nodes, a_pod(), "fraction", params=params) == ["both", "gpu"]
    assert allowed_names(nodes, a_pod(), "fraction") == ["both", "cpu", "gpu"]


# ------------------------------------------------------------------------------------ config maps

MOUNTED = {"name": "main", "volumeMounts": [{"name": "settings"}]}


@pytest.mark.parametrize(
    ("spec", "missing"),
    [
        ({"containers": [MOUNTED], "volumes": [{"name": "settings", "configMap": {"name": "gone"}}]}, "gone"),
        ({"containers": [MOUNTED], "volumes": [{"name": "settings", "configMap": {"name": "here"}}]}, ""),
        ({"containers": [{}], "volumes": [{"name": "settings", "configMap": {"name": "gone"}}]}, ""),
        (
            {
                "containers": [MOUNTED],
                "volumes": [{"name": "settings", "configMap": {"name": "gone", "optional": True}}],
            },
            "",
        ),
        (
            {
                "containers": [{}],
                "initContainers": [MOUNTED],
                "volumes": [{"name": "settings", "projected": {"sources": [{"configMap": {"name": "gone"}}, {}]}}],
            },
            "gone",
        ),
        ({"containers": [{"envFrom": [{"configMapRef": {"name": "gone"}}, {}]}]}, "gone"),
        ({"containers": [{"envFrom": [{"configMapRef": {"name": "gone", "optional": True}}]}]}, ""),
        (
            {
                "containers": [
                    {"env": [{"name": "A", "valueFrom": {"configMapKeyRef": {"name": name, "key": "k"}}}]}
                    for name in ("gone", "away", "shared-7-evar")
                ]
            },
            "away gone",
        ),
    ],
)
def test_config_maps(spec, missing):
    existing = (
        msgspec.convert({"metadata": {"name": "here", "namespace": "team"}}, ConfigMap),
        msgspec.convert({"metadata": {"name": "gone", "namespace": "other"}}, ConfigMap),
    )
    table = a_table([a_node("a"), a_node("b")], Objects(config_maps=existing))
    index = table.class_of(a_pod(spec, {"runai/shared-gpu-configmap": "shared-7"}), "whole")
    text = f"Missing required configmaps: [{missing}]" if missing else ""
    assert table.failure(index) == text
    assert table.allowed()[index].tolist() == [not missing] * 2
    assert table.causes(index) == ({text: 2} if missing else {})


# ------------------------------------------------------------------------------------ causes


def test_a_node_counts_for_the_first_filter_it_fails():
    nodes = [
        a_node("a", {"zone": "a"}),
        a_node("b", {"zone": "b"}, spec={"taints": [GPU_TAINT]}),
        a_node("c", {"zone": "b"}, spec={"unschedulable": True, "taints": [GPU_TAINT]}),
        a_node("d", {"zone": "b"}, mig=True, mig_strategy="mixed", spec={"unschedulable": True}),
        a_node("e", {"zone": "b"}),
    ]
    table = a_table(nodes)
    assert table.causes(table.class_of(a_pod({"nodeSelector": {"zone": "a"}}), "whole")) == {
        "non MIG jobs cant run on a node with MigStrategy='mixed'": 1,
        "node is unschedulable": 1,
        "node(s) had untolerated taint {gpu: yes}": 1,
        AFFINITY_MISMATCH: 1,
    }


# ------------------------------------------------------------------------------------ against a plain evaluation

KEYS, VALUES = st.sampled_from(["x", "y", "z"]), st.sampled_from(["", "a", "b", "1", "2", "-1"])
EXPRESSIONS = st.builds(
    lambda key, operator, values: expression(key, operator, *values),
    KEYS,
    st.sampled_from(["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"]),
    st.lists(VALUES, max_size=2),
)
TERMS = st.lists(st.builds(lambda them: {"matchExpressions": them}, st.lists(EXPRESSIONS, max_size=2)), max_size=2)
EFFECTS = st.sampled_from(["NoSchedule", "NoExecute", "PreferNoSchedule"])
TAINTS = st.lists(st.builds(lambda k, v, e: {"key": k, "value": v, "effect": e}, KEYS, VALUES, EFFECTS), max_size=2)
TOLERATIONS = st.lists(
    st.builds(
        lambda key, operator, value, effect: {"key": key, "operator": operator, "value": value, "effect": effect},
        KEYS | st.just(""),
        st.sampled_from(["", "Equal", "Exists"]),
        VALUES,
        EFFECTS | st.just(""),
    ),
    max_size=2,
)
NODES = st.lists(
    st.tuples(st.dictionaries(KEYS, VALUES), TAINTS, st.booleans(), st.sampled_from(["True", "False"])),
    max_size=5,
)
PODS = st.lists(st.tuples(st.dictionaries(KEYS, VALUES, max_size=1), st.none() | TERMS, TOLERATIONS), max_size=4)


def holds(requirement: dict, labels: dict[str, str]) -> bool | None:
    """Plain reading of one requirement; None when it is malformed."""
    operator, values, label = requirement["operator"], requirement["values"], labels.get(requirement["key"])
    if operator in ("In", "NotIn"):
        return (label in values) == (operator == "In") if values else None
    if operator in ("Exists", "DoesNotExist"):
        return None if values else (label is not None) == (operator == "Exists")
    if len(values) != 1 or values[0] not in ("1", "2", "-1"):
        return None
    if label not in ("1", "2", "-1"):
        return False
    return int(label) > int(values[0]) if operator == "Gt" else int(label) < int(values[0])


def plainly_allowed(node: tuple, pod: tuple) -> bool:
    labels, taints, cordoned, ready = node
    selector, terms, tolerations = pod
    if cordoned or ready != "True" or any(labels.get(key) != value for key, value in selector.items()):
        return False
    for taint in taints:
        covers = [
            t
            for t in tolerations
            if (not t["effect"] or t["effect"] == taint["effect"])
            and (not t["key"] or t["key"] == taint["key"])
            and (t["operator"] == "Exists" or t["value"] == taint["value"])
        ]
        if taint["effect"] != "PreferNoSchedule" and not covers:
            return False
    if terms is None:
        return True
    return any(
        term["matchExpressions"] and all(holds(each, labels) for each in term["matchExpressions"]) for term in terms
    )


@given(NODES, PODS)
def test_masks_equal_a_plain_evaluation(nodes, pods):
    built = [
        a_node(f"n{i}", labels, {"taints": taints, "unschedulable": cordoned}, (("Ready", ready),))
        for i, (labels, taints, cordoned, ready) in enumerate(nodes)
    ]
    table = a_table(built)
    classes = []
    for selector, terms, tolerations in pods:
        affinity = required(*terms) if terms is not None else {}
        classes.append(
            table.class_of(a_pod({"nodeSelector": selector, "tolerations": tolerations, **affinity}), "whole")
        )
    allowed = table.allowed()
    expected = np.array([[plainly_allowed(node, pod) for node in nodes] for pod in pods], dtype=bool)
    assert np.array_equal(allowed[classes].reshape(len(pods), len(nodes)), expected.reshape(len(pods), len(nodes)))
    for row, index in zip(expected, classes, strict=True):
        assert sum(table.causes(index).values()) == len(nodes) - np.count_nonzero(row)
