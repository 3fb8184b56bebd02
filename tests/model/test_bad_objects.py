"""A malformed or unsupported object is flagged alone, by name and field; everything else is loaded as without it."""

import pytest
from model.clusters import a_cluster, a_group, a_node, a_pod, a_queue

from kai_jax.api.config import Config, Params, Plugin
from kai_jax.model.cluster import Cluster


def refusals(cluster: Cluster) -> dict[str, str]:
    return {job.name: job.refusal for job in cluster.jobs}


@pytest.mark.parametrize(
    ("kind", "wire", "warning"),
    [
        ("nodes", {"metadata": {"name": "bad"}}, "node bad: status.allocatable: missing"),
        (
            "nodes",
            a_node("bad", allocatable={"cpu": "-1"}),
            "node bad: status.allocatable[cpu]: quantity '-1' is negative",
        ),
        (
            "nodes",
            a_node("bad", labels={"nvidia.com/gpu.count": "many"}),
            "node bad: metadata.labels[nvidia.com/gpu.count]: 'many'",
        ),
        ("queues", a_queue("bad", "gone"), "queue bad: spec.parentQueue"),
        (
            "queues",
            a_queue("bad", gpu={"quota": -3, "overQuotaWeight": 1, "limit": -1}),
            "queue bad: spec.resources.gpu.quota: -3 is negative",
        ),
        (
            "queues",
            {"metadata": {"name": "bad", "creationTimestamp": "noon"}},
            "queue bad: metadata.creationTimestamp: timestamp 'noon'",
        ),
        ("pod_groups", a_group("bad", queue="gone"), "podgroup team/bad: spec.queue: queue 'gone' does not exist"),
        (
            "pod_groups",
            a_group("bad", subGroups=[{"name": "a"}, {"name": "a"}]),
            "podgroup team/bad: spec.subGroups[a].name: duplicate",
        ),
        ("pod_groups", a_group("bad", preemptionDelay="soon"), "podgroup team/bad: spec.preemptionDelay"),
        ("pod_groups", a_group("bad", preemptibility="maybe"), "podgroup team/bad: spec.preemptibility"),
        ("pods", a_pod("bad", requests={"cpu": "-1"}), "pod team/bad: spec.containers[main].resources.requests[cpu]"),
        ("pods", a_pod("bad", annotations={"gpu-fraction": "2"}), "pod team/bad: metadata.annotations[gpu-fraction]"),
        (
            "pods",
            a_pod("bad", node="n1", metadata={"deletionTimestamp": "later"}),
            "pod team/bad: metadata.deletionTimestamp",
        ),
        (
            "pods",
            a_pod("bad", labels={"kai.scheduler/subgroup-name": "x"}),
            "pod team/bad: metadata.labels[kai.scheduler/subgroup-name]",
        ),
    ],
)
def test_a_bad_object_is_flagged_alone(kind: str, wire: dict, warning: str) -> None:
    good = {"nodes": [a_node()], "pods": [a_pod("p")], "groups": [a_group()], "queues": [a_queue()]}
    argument = "groups" if kind == "pod_groups" else kind
    cluster = a_cluster(**{**good, argument: [*good[argument], wire]})
    assert len(cluster.warnings) == 1
    assert cluster.warnings[0].startswith(warning)
    job = next(job for job in cluster.jobs if job.name == "job")
    (task,) = [task for task in job.tasks() if task.pod.metadata.name == "p"]
    assert task.constraint >= 0
    assert not task.refusal
    assert cluster.books.idle[0, cluster.nodes[-1].index] >= 0


def test_a_refused_pod_asks_for_nothing_and_fits_nowhere() -> None:
    cluster = a_cluster([a_node()], [a_pod("bad", requests={"cpu": "-1"})])
    (task,) = cluster.jobs[0].tasks()
    assert (task.request, task.constraint) == (0, -1)
    assert "requests[cpu]" in task.refusal


def affinity(kind: str, strength: str, app: str = "x") -> dict:
    term: dict = {"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": "zone"}
    terms = [term] if strength == "required" else [{"weight": 1, "podAffinityTerm": term}]
    return {"affinity": {kind: {f"{strength}DuringSchedulingIgnoredDuringExecution": terms}}}


NUMA = Config(plugins=(*Config().plugins, Plugin("numa")))
PREFERRING = Config(plugins=(*Config().plugins, Plugin("podaffinity")))


@pytest.mark.parametrize(
    ("wire", "config", "params", "feature"),
    [
        ({"resourceClaims": [{"name": "c", "resourceClaimName": "c"}]}, None, None, "device claims"),
        ({"requests": {"deviceclass.resource.kubernetes.io/big": "1"}}, None, None, "device claims"),
        ({"requests": {"example.com/mapped": "1"}}, None, None, "device claims"),
        (affinity("podAffinity", "required"), None, None, "inter-pod affinity"),
        (affinity("podAntiAffinity", "required"), None, None, "inter-pod affinity"),
        (affinity("podAffinity", "preferred"), None, None, ""),
        (affinity("podAffinity", "preferred"), PREFERRING, None, "inter-pod affinity"),
        ({}, NUMA, None, "NUMA placement"),
        (
            {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]},
            None,
            Params(schedule_csi_storage=True),
            "CSI storage capacity",
        ),
    ],
)
def test_podgroups_with_missing_features_are_refused_by_name(wire, config, params, feature: str) -> None:
    pods = [a_pod("special", "special", **wire), a_pod("plain", "plain")]
    cluster = a_cluster(
        [a_node()],
        pods,
        [a_group("special"), a_group("plain")],
        config=config,
        params=params,
        device_classes=[{"metadata": {"name": "d"}, "spec": {"extendedResourceName": "example.com/mapped"}}],
        node_resource_topologies=[{"metadata": {"name": "n1"}}],
    )
    others = feature if config is NUMA else ""
    assert refusals(cluster) == {"special": feature, "plain": others}
    text = f"podgroup team/special: {feature}: not supported yet, not scheduled"
    assert (text in cluster.warnings) == bool(feature)


@pytest.mark.parametrize(
    ("owner", "app", "namespace", "feature"),
    [
        (affinity("podAntiAffinity", "required"), "x", "team", "inter-pod affinity"),
        (affinity("podAntiAffinity", "required"), "y", "team", ""),
        (affinity("podAntiAffinity", "required"), "x", "elsewhere", ""),
        (affinity("podAffinity", "required"), "x", "team", ""),
        (affinity("podAffinity", "preferred"), "x", "team", ""),
    ],
)
def test_anti_affinity_of_placed_pods_refuses_those_it_may_select(owner, app, namespace, feature: str) -> None:
    pods = [a_pod("placed", "", node="n1", **owner), a_pod("p", labels={"app": app}, namespace=namespace)]
    assert refusals(a_cluster([a_node()], pods)) == {"job": feature}


def test_a_placed_pod_may_have_any_feature() -> None:
    wire = affinity("podAffinity", "required")
    assert refusals(a_cluster([a_node()], [a_pod("placed", node="n1", **wire), a_pod("p")])) == {"job": ""}
