"""Pods as tasks: status, node, membership, bind requests, shards."""

from datetime import UTC, datetime

import pytest
from model.clusters import NOW, a_cluster, a_group, a_node, a_pod, a_queue, statuses

from kai_jax.api.config import Params

POOL = "kai.scheduler/node-pool"


def moment(seconds_ago: int) -> str:
    return datetime.fromtimestamp(NOW - seconds_ago, UTC).isoformat().replace("+00:00", "Z")


def a_binding(pod: str, node: str, **more) -> dict:
    return {
        "metadata": {"name": pod, "namespace": "team", "labels": more.pop("labels", {})},
        "spec": {"podName": pod, "selectedNode": node, "receivedResourceType": "Regular", **more.pop("spec", {})},
        "status": more,
    }


@pytest.mark.parametrize(
    ("wire", "status"),
    [
        ({"node": "n1"}, "RUNNING"),
        ({"node": "n1", "metadata": {"deletionTimestamp": moment(119)}}, "RELEASING"),
        ({"node": "n1", "metadata": {"deletionTimestamp": moment(121)}}, "STUCK_IN_RELEASING"),
        ({"phase": "Pending", "metadata": {"deletionTimestamp": moment(0)}}, "RELEASING"),
        ({"phase": "Pending", "node": "n1"}, "BOUND"),
        ({"schedulingGates": [{"name": "g"}]}, "GATED"),
        ({}, "PENDING"),
        ({"phase": "Succeeded"}, "SUCCEEDED"),
        ({"phase": "Failed"}, "FAILED"),
        ({"phase": "Strange"}, "UNKNOWN"),
    ],
)
def test_status_of_a_pod(wire: dict, status: str) -> None:
    assert statuses(a_cluster([a_node()], [a_pod("p", **wire)])) == {"p": status}


@pytest.mark.parametrize(
    ("binding", "status", "kept"),
    [
        (a_binding("p", "n1"), "BINDING", 1),
        (a_binding("p", "n1", phase="Failed"), "PENDING", 0),
        (a_binding("p", "n1", phase="Failed", failedAttempts=1, spec={"backoffLimit": 3}), "BINDING", 1),
        (a_binding("p", "elsewhere"), "PENDING", 0),
        (a_binding("p", "elsewhere", labels={POOL: "blue"}), "PENDING", 1),
    ],
)
def test_a_usable_bind_request_binds_its_pod(binding: dict, status: str, kept: int) -> None:
    cluster = a_cluster([a_node()], [a_pod("p")], bind_requests=[binding])
    assert statuses(cluster) == {"p": status}
    assert len(cluster.bind_requests) == kept
    assert cluster.books.used[0, 0] == (status == "BINDING")


def test_devices_of_a_bind_request_win_over_labels() -> None:
    binding = a_binding("p", "n1", spec={"selectedGPUGroups": ["g1", "g2"]})
    pod = a_pod("p", annotations={"gpu-fraction": "0.5"}, labels={"runai-gpu-group": "other"})
    cluster = a_cluster([a_node()], [pod], bind_requests=[binding])
    assert list(cluster.books.devices[0]) == ["g1", "g2"]


def test_devices_by_prefixed_labels_count_only_beside_the_plain_one() -> None:
    prefixed = {"runai-gpu-group/g2": "g2"}
    half = {"gpu-fraction": "0.5"}
    alone = a_cluster([a_node()], [a_pod("p", node="n1", annotations=half, labels=prefixed)])
    both = a_cluster(
        [a_node()], [a_pod("p", node="n1", annotations=half, labels={"runai-gpu-group": "g1", **prefixed})]
    )
    assert [list(cluster.books.devices[0]) for cluster in (alone, both)] == [[], ["g1", "g2"]]


def test_a_member_outside_the_shard_counts_for_the_gang_and_for_no_queue() -> None:
    cluster = a_cluster([a_node()], [a_pod("far", node="elsewhere"), a_pod("here", node="n1")])
    assert [(task.node, task.node_name) for task in cluster.jobs[0].tasks()] == [(-1, "elsewhere"), (0, "n1")]
    assert cluster.use.allocated[2, 1] == 1


def test_pods_join_by_name_in_any_namespace_and_their_own_where_names_collide() -> None:
    groups = [a_group("one", "a"), a_group("two", "a"), a_group("two", "b")]
    pods = [
        a_pod("p1", "one", namespace="z", schedulerName="other"),
        a_pod("p2", "two", namespace="b"),
        a_pod("p3", "two", namespace="z"),
        a_pod("p4", "none"),
    ]
    cluster = a_cluster([a_node()], pods, groups)
    assert {job.key: [task.key for task in job.tasks()] for job in cluster.jobs} == {
        "a/one": ["z/p1"],
        "a/two": ["z/p3"],
        "b/two": ["b/p2"],
    }


@pytest.mark.parametrize(
    ("params", "chosen"),
    [
        (Params(), "plain"),
        (Params(node_pool_label_value="blue"), "blue"),
        (Params(node_pool_label_key=""), "blue empty plain"),
    ],
)
def test_a_shard_has_its_own_nodes_queues_and_podgroups(params: Params, chosen: str) -> None:
    pools = {"plain": {}, "blue": {POOL: "blue"}, "empty": {POOL: ""}}

    def each(make) -> list[dict]:
        wires = [make(name) for name in pools]
        for wire, labels in zip(wires, pools.values(), strict=True):
            wire["metadata"].setdefault("labels", {}).update(labels)
        return wires

    cluster = a_cluster(each(a_node), [], each(a_group), each(a_queue), params=params)
    names = chosen.split()
    assert [node.name for node in cluster.nodes] == sorted(names)
    assert sorted(cluster.queues.index) == sorted(names)
    assert sorted(job.name for job in cluster.jobs) == sorted(names)


def test_restricted_nodes_need_a_role() -> None:
    roles = {"gpu": "node-role.kubernetes.io/gpu-worker", "cpu": "node-role.kubernetes.io/cpu-worker", "none": "x"}
    nodes = [a_node(name, labels={label: ""}) for name, label in roles.items()]
    cluster = a_cluster(nodes, [], params=Params(restrict_scheduling_nodes=True))
    assert [node.name for node in cluster.nodes] == ["cpu", "gpu"]
    assert cluster.total[2] == 4  # devices of a node that is no GPU worker do not count
