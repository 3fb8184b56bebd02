"""Podgroups: priority, backoff, trees of subgroups, readiness, orders of tasks and jobs."""

import numpy as np
import pytest
from model.clusters import a_cluster, a_group, a_node, a_pod, a_queue, with_plugins

from kai_jax.api.config import Config
from kai_jax.model.cluster import Cluster
from kai_jax.model.order import elastic_classes, job_keys, waiting_classes
from kai_jax.model.podgroups import Job, is_ready

CLASSES = [
    {"metadata": {"name": "train"}, "value": 50},
    {"metadata": {"name": "build"}, "value": 100},
]


def tree_of(cluster: Cluster) -> list[tuple[str, int, int, int]]:
    """(name, parent, podset, threshold) of every node of the only job."""
    return [(node.name, node.parent, node.podset, node.threshold) for node in cluster.jobs[0].tree.nodes]


def a_tree(*subgroups: dict, pods: list[dict] | None = None, **spec) -> Cluster:
    return a_cluster([a_node()], pods or [], [a_group(subGroups=list(subgroups), **spec)])


def member(name: str, subgroup: str, **wire) -> dict:
    return a_pod(name, labels={"kai.scheduler/subgroup-name": subgroup}, **wire)


# ------------------------------------------------------------------------------------ one podgroup


@pytest.mark.parametrize(
    ("spec", "priority", "preemptible"),
    [
        ({"priorityClassName": "train"}, 50, True),
        ({"priorityClassName": "build"}, 100, False),
        ({"priorityClassName": "build", "preemptibility": "preemptible"}, 100, True),
        ({"preemptibility": "non-preemptible"}, 50, False),
        ({"priorityClassName": "unknown", "preemptibility": "semi-preemptible"}, 50, True),
        ({"queue": "gone", "priorityClassName": "build", "preemptibility": "preemptible"}, 0, False),
    ],
)
def test_priority_and_preemptibility(spec: dict, priority: int, preemptible: bool) -> None:
    job = a_cluster([], [], [a_group(**spec)], priority_classes=CLASSES).jobs[0]
    assert (job.priority, job.preemptible, job.queue_exists) == (priority, preemptible, "queue" not in spec)


def test_a_global_default_stands_in_for_unknown_classes() -> None:
    classes = [*CLASSES, {"metadata": {"name": "usual"}, "value": 70, "globalDefault": True}]
    jobs = a_cluster([], [], [a_group("a"), a_group("b", priorityClassName="build")], priority_classes=classes).jobs
    assert [job.priority for job in jobs] == [70, 100]


def test_a_missing_priority_class_is_named_once_with_its_podgroups() -> None:
    groups = [a_group("a", priorityClassName="gone"), a_group("b"), a_group("c", priorityClassName="gone")]
    (warning,) = a_cluster([], [], groups, priority_classes=CLASSES).warnings
    missing = "spec.priorityClassName: priority class 'gone' does not exist, 50 counts"
    assert warning == f"podgroup team/a, team/c: {missing}"


@pytest.mark.parametrize(
    ("backoff", "conditions", "loaded"),
    [
        (1, [("default", "2")], False),
        (-1, [("default", "2")], True),
        (None, [("default", "2")], True),
        (1, [], True),
        (1, [("blue", "10"), ("default", "9")], True),
        (1, [("blue", "9"), ("default", "10"), ("blue", "x")], False),
    ],
)
def test_backoff_looks_at_the_newest_condition(backoff: int | None, conditions: list, loaded: bool) -> None:
    group = a_group(schedulingBackoff=backoff) if backoff is not None else a_group()
    group["status"] = {"schedulingConditions": [{"nodePool": p, "transitionID": t} for p, t in conditions]}
    assert len(a_cluster([], [], [group]).jobs) == loaded


def test_an_unknown_queue_and_one_with_children_take_no_jobs() -> None:
    queues = [a_queue("top"), a_queue("leaf", "top")]
    cluster = a_cluster([], [], [a_group("a", queue="gone"), a_group("b", queue="top"), a_group("c")], queues)
    assert [(job.queue, job.queue_exists) for job in cluster.jobs] == [(-1, False), (-1, True), (2, True)]
    assert cluster.warnings == ("podgroup team/a: spec.queue: queue 'gone' does not exist",)


# ------------------------------------------------------------------------------------ trees


def test_a_tree_of_subgroups() -> None:
    cluster = a_tree(
        {"name": "a", "minMember": 2, "parent": "X"},
        {"name": "x", "minMember": 9, "minSubGroup": 1},
        {"name": "b", "parent": "x"},
        {"name": "y", "minMember": 3},
        minMember=7,
    )
    assert tree_of(cluster) == [("", -1, -1, 2), ("x", 0, -1, 1), ("y", 0, 0, 3), ("a", 1, 1, 2), ("b", 1, 2, 0)]
    assert not cluster.warnings


@pytest.mark.parametrize(("spec", "minimum"), [({}, 1), ({"minMember": 0}, 0), ({"minMember": 3}, 3)])
def test_without_subgroups_there_is_one_podset(spec: dict, minimum: int) -> None:
    cluster = a_cluster([], [], [a_group(**spec)])
    assert tree_of(cluster) == [("", -1, -1, 1), ("default", 0, 0, minimum)]


@pytest.mark.parametrize(
    ("subgroups", "problem"),
    [
        ([{"name": "a"}, {"name": "a"}], "spec.subGroups[a].name: duplicate"),
        ([{"name": "a", "parent": "gone"}], "spec.subGroups[a].parent: 'gone' does not exist"),
        (
            [{"name": "a", "parent": "b"}, {"name": "b", "parent": "a"}, {"name": "c"}],
            "spec.subGroups[a].parent: its ancestors form a cycle",
        ),
    ],
)
def test_subgroups_that_form_no_tree_are_flagged_and_ignored(subgroups: list[dict], problem: str) -> None:
    cluster = a_tree(*subgroups, minMember=4, minSubGroup=2)
    assert tree_of(cluster) == [("", -1, -1, 1), ("default", 0, 0, 1)]
    assert cluster.warnings == (f"podgroup team/job: {problem}; the subgroups are ignored",)


def test_pods_of_an_unknown_subgroup_are_left_out() -> None:
    cluster = a_tree({"name": "a"}, pods=[member("p", "a"), member("q", "b"), a_pod("r")])
    assert [task.pod.metadata.name for task in cluster.jobs[0].tasks()] == ["p"]
    assert [warning.split(":")[0] for warning in cluster.warnings] == ["pod team/q", "pod team/r"]


def test_readiness_follows_the_tree() -> None:
    pods = [member("a1", "a"), member("b1", "b", schedulingGates=[{"name": "g"}]), member("b2", "b", node="n1")]

    def ready(**spec) -> bool:
        subgroups = ({"name": "a", "minMember": 1}, {"name": "b", "minMember": 2})
        return is_ready(a_tree(*subgroups, pods=pods, **spec).jobs[0])

    assert not ready()  # gated pods do not count
    assert ready(minSubGroup=1)
    assert is_ready(a_cluster([], [], [a_group(minMember=0)]).jobs[0])
    assert not is_ready(a_cluster([], [a_pod("p")], [a_group(minMember=1, minSubGroup=2)]).jobs[0])


def test_a_constraint_that_makes_no_sense_is_flagged() -> None:
    topology = {"metadata": {"name": "net"}, "spec": {"levels": [{"nodeLabel": "zone"}, {"nodeLabel": "rack"}]}}

    def problem(**constraint: str) -> str:
        group = a_group(topologyConstraint=constraint)
        warnings = a_cluster([], [], [group], topologies=[topology]).warnings
        return warnings[0].removeprefix("podgroup team/job: spec.topologyConstraint: ") if warnings else ""

    assert problem(topology="gone", requiredTopologyLevel="zone") == "topology 'gone' does not exist"
    assert problem(topology="net", requiredTopologyLevel="row") == "level 'row' is not in topology 'net'"
    assert problem(topology="net") == "names neither a required nor a preferred level"
    finer = {"requiredTopologyLevel": "rack", "preferredTopologyLevel": "zone"}
    assert problem(topology="net", **finer) == "required level 'rack' is finer than the preferred one"
    assert problem(topology="net", requiredTopologyLevel="rack", preferredTopologyLevel="rack") == ""
    assert problem(requiredTopologyLevel="rack") == ""  # no topology, no constraint


def test_domains_of_a_topology() -> None:
    levels = [{"nodeLabel": "zone", "alias": "z"}, {"nodeLabel": "rack"}]
    places = {"n1": ("a", "r1"), "n2": ("a", "r2"), "n3": ("b", "r1"), "n4": ("a", None)}
    nodes = [
        a_node(name, labels={"zone": zone, **({"rack": rack} if rack else {})}) for name, (zone, rack) in places.items()
    ]
    group = a_group(topologyConstraint={"topology": "net", "requiredTopologyLevel": "z"})
    net = {"metadata": {"name": "net"}, "spec": {"levels": levels}}
    cluster = a_cluster(nodes, [], [group], topologies=[net, {"metadata": {"name": "unused"}}])
    (topology,) = cluster.topologies
    named = [tuple(topology.domains[domain].identifier for domain in path) for path in topology.node_domains]
    assert named == [("", "a", "a.r1"), ("", "a", "a.r2"), ("", "b", "b.r1"), ()]
    assert [(domain.level, domain.parent) for domain in topology.domains] == [
        (0, -1),
        (1, 0),
        (2, 1),
        (2, 1),
        (1, 0),
        (2, 4),
    ]
    assert (cluster.placements[0][0].required, cluster.placements[0][0].preferred) == (1, -1)


# ------------------------------------------------------------------------------------ orders


def task_names(*pods: dict, config: Config | None = None) -> str:
    (job,) = a_cluster([a_node()], list(pods), config=config).jobs
    return " ".join(task.pod.metadata.name for task in job.tasks())


def ordered(name: str, created: int, labels: dict | None = None) -> dict:
    return a_pod(name, metadata={"creationTimestamp": f"2026-01-01T00:00:{created:02d}Z"}, labels=labels)


def test_task_order() -> None:
    pods = [
        a_pod("runs", node="n1"),
        ordered("late", 5),
        ordered("b", 3),
        ordered("a", 3),
        ordered("odd", 9, {"kai.scheduler/task-priority": "high"}),
        ordered("low", 8, {"kai.scheduler/task-priority": "-2"}),
        ordered("high", 9, {"kai.scheduler/task-priority": "10"}),
        ordered("head", 9, {"ray.io/node-type": "head"}),
        ordered("master", 9, {"training.kubeflow.org/job-role": "master"}),
    ]
    assert task_names(*pods) == "master head high low odd a b late runs"
    assert task_names(*pods, config=with_plugins("taskorder")) == "high low odd a b late head master runs"


def test_bad_times_and_priorities_of_tasks_are_flagged() -> None:
    odd = a_pod("odd", labels={"kai.scheduler/task-priority": "x"}, metadata={"creationTimestamp": "yesterday"})
    warnings = a_cluster([], [odd, a_pod("p")]).warnings
    assert [warning.split(": ")[1] for warning in warnings] == [
        "metadata.labels[kai.scheduler/task-priority]",
        "metadata.creationTimestamp",
    ]


@pytest.mark.parametrize(
    ("active", "pending", "minimum", "classes"),
    [
        ([0], [1], [1], "below"),
        ([0], [3], [1], "below exact above"),
        ([0], [2], [1], "below exact"),
        ([0], [2], [0], "exact above"),
        ([1], [1], [1], "exact"),
        ([2], [2], [1], "above"),
        ([0], [1], [2], "below"),
        ([0, 3], [1, 2], [1, 2], "below above"),
        ([1], [0], [1], ""),
    ],
)
def test_classes_in_which_a_job_can_wait(active: list, pending: list, minimum: list, classes: str) -> None:
    counts = [np.array(each) for each in (active, pending, minimum)]
    (possible,) = waiting_classes(*counts, starts=np.array([0]))
    names = np.array(["below", "exact", "above"])
    assert " ".join(names[possible]) == classes


def test_classes_can_be_reached_by_placing_tasks_one_by_one() -> None:
    """The classes are exactly those that some order of placements passes through with a task left."""
    draw = np.random.default_rng(7)
    for _ in range(200):
        size = draw.integers(1, 3)
        active, pending, minimum = (draw.integers(0, 4, size) for _ in range(3))
        seen = set()
        missing = np.maximum(minimum - active, 0)
        for extra in np.ndindex(*(pending + 1)):
            placed = np.array(extra)
            gang_first = np.all(placed >= missing) or np.all(placed <= missing)
            if gang_first and placed.sum() < pending.sum():
                seen.add(int(elastic_classes(active + placed, minimum, np.array([0]))[0]))
        (possible,) = waiting_classes(active, pending, minimum, np.array([0]))
        assert set(np.flatnonzero(possible)) == seen


def jobs_in_order(config: Config, classes: list[int], *groups: dict) -> str:
    jobs = a_cluster([], [], list(groups), priority_classes=CLASSES).jobs
    keys = job_keys(jobs, np.array(classes), config)
    return " ".join(jobs[index].name for index in np.lexsort(list(reversed(keys))))


def test_job_order() -> None:
    def group(name: str, created: int, priority: str = "train") -> dict:
        wire = a_group(name, priorityClassName=priority)
        wire["metadata"]["creationTimestamp"] = f"2026-01-01T00:00:{created:02d}Z"
        return wire

    groups = [group("late", 9), group("b", 1), group("a", 1), group("full", 0), group("vital", 9, "build")]
    classes = [0, 0, 0, 1, 2]
    assert jobs_in_order(Config(), classes, *groups) == "vital a b late full"
    assert jobs_in_order(with_plugins("elastic", "priority"), classes, *groups) == "a b late full vital"
    assert jobs_in_order(with_plugins("proportion"), classes, *groups) == "full a b late vital"


def test_preemption_delay_starts_at_the_last_eviction() -> None:
    group = a_group(preemptionDelay="1m")
    group["metadata"] |= {
        "creationTimestamp": "1970-01-01T00:01:40Z",
        "annotations": {"kai.scheduler/last-eviction-timestamp": "1970-01-01T00:03:20Z"},
    }
    job: Job = a_cluster([], [], [group]).jobs[0]
    assert job.may_evict_from == 260
