"""Sentences and numbers about podgroups that wait."""

from types import SimpleNamespace

import numpy as np
import pytest
from model.clusters import a_cluster, a_group, a_node, a_pod, a_queue

from kai_jax.explain import NOT_LOADED, counted, explain, explain_pending, gate_sentence, shown
from kai_jax.tensors import NONE, Cause, Reason

NODES = [
    a_node("big", gpus=8),
    a_node(
        "tainted",
        allocatable={"nvidia.com/gpu": "4", "cpu": "32"},
        spec={"taints": [{"key": "team", "value": "a", "effect": "NoSchedule"}]},
    ),
]
QUEUES = [a_queue("root"), a_queue("leaf", "root")]


def an_outcome(groups: list[dict], pods: list[dict], placed: tuple = (), notes: dict | None = None):
    """An outcome in which the `placed` pods were allocated and the first podgroup's attempt left `notes`."""
    cluster = a_cluster(NODES, pods, groups, QUEUES)
    tasks = [task for job in cluster.jobs for task in job.tasks()]
    final = {
        task.key: ["Binding", "big"] if task.pod.metadata.name in placed else [task.status.name.capitalize()]
        for task in tasks
    }
    none = {
        "reasons": 0,
        "failed_task": NONE,
        "placed_before": 0,
        "lost": [0] * len(Cause),
        "gate_queue": NONE,
        "gate_resource": NONE,
        "gate_amounts": [0.0] * 3,
    }
    columns = {name: np.array([value] * len(groups)) for name, value in none.items()}
    for name, value in (notes or {}).items():
        columns[name][0] = value
    return SimpleNamespace(
        decisions=SimpleNamespace(final=final),
        warnings=cluster.warnings,
        encoded=SimpleNamespace(cluster=cluster, layout=SimpleNamespace(jobs=cluster.jobs, tasks=tasks)),
        attempts=SimpleNamespace(**columns),
    )


def lost(**counts: int) -> list[int]:
    return [counts.get(cause.name.lower(), 0) for cause in Cause]


def failing(task: int = 0, **notes) -> dict:
    return {"reasons": int(Reason.POD_SCHEDULING_ERRORS), "failed_task": task, **notes}


# ------------------------------------------------------------------------------------ wording


@pytest.mark.parametrize(
    ("amount", "scale", "text"),
    [
        (-1.0, 1, "Unlimited"),
        (0.0, 1, "0"),
        (2.0, 1, "2"),
        (0.333999, 1, "0.333"),
        (0.3339999999, 1, "0.334"),  # six decimals are rounded, the last three cut
        (1500.0, 1000, "1.5"),
        (100.0, 1, "100"),
        (536870912.0, 10**9, "0.536"),
    ],
)
def test_amounts_are_cut_to_three_decimals(amount, scale, text):
    assert shown(amount, scale) == text


def test_numbers_of_things_are_counted_in_words():
    assert [counted(number, "node") for number in (0, 1, 2, 1000)] == ["0 nodes", "1 node", "2 nodes", "1,000 nodes"]


@pytest.mark.parametrize(
    ("reason", "resource", "amounts", "text"),
    [
        (
            Reason.OVER_LIMIT,
            2,
            (2.0, 7.5, 8.0),
            "leaf quota has reached the allowable limit of GPUs. Limit is 8 GPUs, "
            "currently 7.5 GPUs allocated and workload requested 2 GPUs",
        ),
        (
            Reason.OVER_LIMIT,
            0,
            (500.0, 2000.0, 2250.0),
            "leaf quota has reached the allowable limit of CPU cores. Limit is 2.25 cores, "
            "currently 2 cores allocated and workload requested 0.5 cores",
        ),
        (
            Reason.NON_PREEMPTIBLE_OVER_QUOTA,
            1,
            (2e9, 0.0, 1e9),
            "Non-preemptible workload is over quota. Workload requested 2 GB memory, but leaf quota is 1 GB, "
            "while 0 GB are already allocated for non-preemptible pods. Use a preemptible workload to go over quota.",
        ),
        (
            Reason.NON_PREEMPTIBLE_OVER_QUOTA,
            2,
            (3.0, 1.0, 2.0),
            "Non-preemptible workload is over quota. Workload requested 3 GPUs, but leaf quota is 2 GPUs, "
            "while 1 GPUs are already allocated for non-preemptible pods. Use a preemptible workload to go over quota.",
        ),
    ],
)
def test_capacity_gates(reason, resource, amounts, text):
    assert gate_sentence(reason, "leaf", resource, amounts) == text


# ------------------------------------------------------------------------------------ podgroups that are not tried


def test_a_podgroup_that_is_not_there():
    explanation = explain(an_outcome([a_group()], []), "team/other")
    assert (explanation.podgroup, explanation.headline) == ("team/other", NOT_LOADED)


@pytest.mark.parametrize(
    ("group", "pods", "headline"),
    [
        (a_group(queue="gone"), [a_pod("a")], "queue 'gone' does not exist"),
        (a_group(queue="root"), [a_pod("a")], "queue 'root' has child queues; only leaf queues take podgroups"),
        (
            a_group(minMember=4),
            [a_pod("a"), a_pod("b"), a_pod("c", schedulingGates=[{"name": "wait"}])],
            "not ready: 2 of 4 pods exist, 1 more are gated",
        ),
        (
            a_group(subGroups=[{"name": "leader", "minMember": 1}, {"name": "worker", "minMember": 2}]),
            [a_pod("a", labels={"kai.scheduler/subgroup-name": "worker"})],
            "not ready: sub-group leader: 0 of 1 pods exist; sub-group worker: 1 of 2 pods exist",
        ),
        (
            a_group(),
            [a_pod("a", resourceClaims=[{"name": "c", "resourceClaimName": "c"}])],
            "device claims: not supported yet",
        ),
        (
            a_group(minMember=0),
            [a_pod("a", schedulingGates=[{"name": "wait"}])],
            "1 pod held back by scheduling gates",
        ),
        (
            a_group(),
            [a_pod("a")],
            "not tried in this cycle: its queue tries only its first podgroups (queueDepthPerAction)",
        ),
    ],
)
def test_podgroups_that_are_not_tried(group, pods, headline):
    explanation = explain(an_outcome([group], pods), "team/job")
    assert explanation.headline == headline
    assert explanation.lines == ()


def test_bad_objects_of_a_podgroup_are_among_its_lines():
    pods = [a_pod("a", labels={"kai.scheduler/subgroup-name": "x"}), a_pod("b")]
    (line,) = explain(an_outcome([a_group(minMember=2), a_group("job2")], pods), "team/job").lines
    assert "no subgroup 'x'" in line


def test_a_podgroup_whose_pods_are_placed_does_not_wait():
    outcome = an_outcome([a_group(), a_group("other")], [a_pod("a"), a_pod("b", "other")], placed=("a",))
    assert explain(outcome, "team/job").headline == "no pod waits: 1 Binding"
    assert [each.podgroup for each in explain_pending(outcome)] == ["team/other"]


# ------------------------------------------------------------------------------------ attempts that failed


def test_a_capacity_gate_has_numbers():
    notes = {
        "reasons": int(Reason.OVER_LIMIT),
        "gate_queue": 2,
        "gate_resource": 2,
        "gate_amounts": [2.0, 7.0, 8.0],
    }
    explanation = explain(an_outcome([a_group()], [a_pod("a")], notes=notes), "team/job")
    assert explanation.headline.startswith("leaf quota has reached the allowable limit of GPUs. Limit is 8 GPUs")
    assert explanation.numbers["gate"] == {
        "queue": "leaf",
        "resource": "gpu",
        "requested": 2.0,
        "allocated": 7.0,
        "bound": 8.0,
        "short": 1.0,
    }


def test_a_gang_that_found_too_few_nodes():
    pods = [a_pod(name) for name in "abc"]
    notes = failing(2, placed_before=2, lost=lost(gpu=1, constraint=1))
    explanation = explain(an_outcome([a_group(minMember=3)], pods, notes=notes), "team/job")
    assert explanation.headline == (
        "Resources were found for 2 pods while 3 are required for gang scheduling. Additional pods cannot be scheduled "
        "due to: no nodes with enough resources were found: "
        "1 node: node(s) had untolerated taint {team: a}; 1 node: not enough GPUs"
    )
    assert explanation.lines == ("1 node: node(s) had untolerated taint {team: a}", "1 node: not enough GPUs")
    assert explanation.numbers["lost"] == {"constraint": 1, "gpu": 1}
    assert explanation.numbers["placed_before"] == 2
    assert explanation.numbers["failed_pod"] == "team/c"
    assert explanation.numbers["minimum"] == {"default": 3}
    assert explanation.numbers["pods"] == {"Pending": 3}


@pytest.mark.parametrize(
    ("group", "placed", "beginning"),
    [
        (a_group(), (), "Resources were not found for pod team/b due to: no nodes"),
        (a_group(minMember=2), ("a", "c"), "Resources were not found for pod team/b due to: no nodes"),
        (a_group(minMember=2), ("a",), "Resources were found for 1 pods while 2 are required for gang scheduling. "),
    ],
)
def test_a_pod_beyond_the_minimum_is_named_alone(group, placed, beginning):
    outcome = an_outcome(
        [group], [a_pod(name) for name in "abc"], placed, failing(1, placed_before=1, lost=lost(gpu=2))
    )
    assert explain(outcome, "team/job").headline.startswith(beginning)


def test_a_sub_group_is_named():
    group = a_group(subGroups=[{"name": "leader", "minMember": 1}, {"name": "worker", "minMember": 2}])
    pods = [
        a_pod(name, labels={"kai.scheduler/subgroup-name": podset})
        for name, podset in (("a", "leader"), ("b", "worker"), ("c", "worker"))
    ]
    outcome = an_outcome([group], pods, notes=failing(2, placed_before=1, lost=lost(gpu=2)))
    assert explain(outcome, "team/job").headline.startswith(
        "Resources were found for 1 pods from all sub-groups while sub-group worker requires 2 pods for gang "
    )


def test_a_pod_that_no_node_can_take_tells_why():
    pod = a_pod("a", volumes=[{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}])
    outcome = an_outcome([a_group()], [pod], notes=failing(lost=lost(constraint=2)))
    assert explain(outcome, "team/job").headline == (
        "Resources were not found for pod team/a due to: Scheduling conditions were not met for pod team/a: "
        'persistentvolumeclaim "data" not found'
    )


@pytest.mark.parametrize(
    ("requests", "annotations", "counts", "lines"),
    [
        (
            {"nvidia.com/gpu": "16"},
            {},
            {"gpu": 2},
            (
                "2 nodes: not enough GPUs",
                "Max GPU resources available in a single node in the default node-pool is topped at 8",
            ),
        ),
        (
            {"cpu": "65", "memory": "1Ti"},
            {},
            {"cpu": 2},
            (
                "2 nodes: not enough CPU cores",
                "Max CPU resources available in a single node in the default node-pool is topped at 64 cores",
                "Max memory resources available in a single node in the default node-pool is topped at 549.755 GB",
            ),
        ),
        (
            {"example.com/link": "1"},
            {},
            {"other": 2},
            (
                "2 nodes: not enough example.com/link",
                "No node in the default node-pool has example.com/link resources",
            ),
        ),
        ({}, {"gpu-memory": "1000"}, {"gpu": 2}, ("2 nodes: not enough GPU memory",)),
        (
            {"cpu": "1"},
            {},
            {"pods": 1, "ports": 1},
            ("1 node: no free pod slot", "1 node: node(s) didn't have free ports"),
        ),
    ],
)
def test_causes_name_the_resource(requests, annotations, counts, lines):
    pod = a_pod("a", requests=requests, annotations=annotations)
    found = explain(an_outcome([a_group()], [pod], notes=failing(lost=lost(**counts))), "team/job").lines
    assert len(found) == len(lines)
    assert all(line.startswith(beginning) for line, beginning in zip(found, lines, strict=True))


def test_constraints_that_also_hit_nodes_lost_otherwise_are_told_for_the_whole_shard():
    pod = a_pod("a", nodeSelector={"zone": "a"})
    outcome = an_outcome([a_group()], [pod], notes=failing(lost=lost(gpu=1, constraint=1)))
    assert explain(outcome, "team/job").lines[0] == (
        "1 node: refused by constraints (in the whole shard node(s) had untolerated taint {team: a}: 1, "
        "node(s) didn't match Pod's node affinity/selector: 1)"
    )


def test_topology_names_the_constraint():
    constraint = {"topology": "rooms", "requiredTopologyLevel": "rack"}
    group = a_group(topologyConstraint=constraint)
    notes = {"reasons": int(Reason.POD_SCHEDULING_ERRORS | Reason.TOPOLOGY_NOT_ENOUGH)}
    explanation = explain(an_outcome([group], [a_pod("a")], notes=notes), "team/job")
    assert explanation.headline == "no domain of topology rooms at level rack has room for the podgroup"
