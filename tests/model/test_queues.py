"""The queue tree: numbers, orphans, cycles, the flat hierarchy; totals and use."""

from itertools import permutations

import numpy as np
import pytest
from model.clusters import NOW, UNLIMITED, a_cluster, a_group, a_node, a_pod, a_queue

from kai_jax.api.config import Config, Params
from kai_jax.api.documents import Document
from kai_jax.api.objects import Metadata, Objects, Queue
from kai_jax.model.cluster import Cluster, build


def queues_of(*queues: dict, **params) -> Cluster:
    return a_cluster([], [], [], list(queues), params=Params(**params))


def shape(cluster: Cluster) -> list[tuple[str, int, int, int, int]]:
    return [(q.name, q.parent, q.level, q.child_start, q.child_count) for q in cluster.queues.queues]


def test_siblings_are_contiguous_and_by_name() -> None:
    cluster = queues_of(a_queue("b"), a_queue("a2", "a"), a_queue("a"), a_queue("b1", "b"), a_queue("a1", "a"))
    assert shape(cluster) == [
        ("", -1, 0, 1, 2),
        ("a", 0, 1, 3, 2),
        ("b", 0, 1, 5, 1),
        ("a1", 1, 2, 0, 0),
        ("a2", 1, 2, 0, 0),
        ("b1", 2, 2, 0, 0),
    ]
    assert [cluster.queues.leaf(name) for name in ("a", "a1", "x")] == [-1, 3, -1]


def test_orphans_are_dropped_with_all_below_them() -> None:
    cluster = queues_of(a_queue("lost", "gone"), a_queue("below", "lost"), a_queue("good"))
    assert list(cluster.queues.index) == ["good"]
    assert cluster.warnings == (
        "queue lost: spec.parentQueue: parent 'gone' does not exist, dropped with all queues below it",
        "queue below: spec.parentQueue: parent 'lost' was dropped, dropped with all queues below it",
    )


def test_cycles_are_dropped_like_orphans() -> None:
    cluster = queues_of(
        a_queue("x", "y"), a_queue("y", "x"), a_queue("self", "self"), a_queue("tail", "x"), a_queue("ok")
    )
    assert list(cluster.queues.index) == ["ok"]
    assert [warning.split(":")[2].strip().split(",")[0] for warning in cluster.warnings] == [
        *["the queue is its own ancestor"] * 3,
        "parent 'x' was dropped",
    ]


def test_the_flat_hierarchy_has_one_top_queue() -> None:
    cluster = queues_of(a_queue("top"), a_queue("a", "top"), a_queue("b", "a"), full_hierarchy_fairness=False)
    assert [(name, parent) for name, parent, *_ in shape(cluster)] == [("", -1), ("default", 0), ("a", 1), ("b", 1)]
    assert cluster.queues.queues[1].limit == (-1, -1, -1)


def test_numbers_of_a_queue() -> None:
    resources = {"gpu": {"quota": 1.5, "overQuotaWeight": 2, "limit": 3}, "memory": {"quota": 2048, "limit": -7}}
    bare = {"metadata": {"name": "bare"}}
    given = {"metadata": {"name": "given"}, "spec": {"resources": resources}}
    cluster = queues_of(bare, given)
    queue, nothing = cluster.queues.queues[cluster.queues.index["given"]], cluster.queues.queues[1]
    assert (queue.quota, queue.limit, queue.weight) == ((0, 2_048_000_000, 1.5), (0, -1, 3), (0, 0, 2))
    assert (nothing.quota, nothing.limit, nothing.weight, nothing.priority) == ((0, 0, 0), (0, 0, 0), (0, 0, 0), 100)
    assert cluster.warnings == ("queue given: spec.resources.memory.limit: -7 is negative (-1: unlimited)",)


def test_cluster_total_leaves_out_unready_nodes_and_foreign_pods() -> None:
    """Allocatable 8000m and 10 GB, one foreign pod of 1 CPU and 1 GB: 7000m and 9 GB."""
    amounts = {"cpu": "8", "memory": "10G"}
    nodes = [a_node(allocatable=amounts), a_node("down", allocatable=amounts, spec={"unschedulable": True})]
    one = {"cpu": "1", "memory": "1G"}
    pods = [
        a_pod("foreign", "", one, "n1", schedulerName="other"),
        a_pod("own", "job", one, "n1"),
        a_pod("reserve", "", one, "n1", schedulerName="other", labels={"app": "kai-resource-reservation"}),
        a_pod("elsewhere", "", one, "down", schedulerName="other"),
    ]
    assert a_cluster(nodes, pods).total.tolist() == [7000, 9e9, 0]


def test_profiles_count_for_the_devices_of_the_cluster() -> None:
    node = a_node(allocatable={"cpu": "1", "nvidia.com/gpu": "1", "nvidia.com/mig-3g.20gb": "2"})
    assert a_cluster([node], []).total[2] == 7


def test_use_of_queues_includes_descendants() -> None:
    queues = [a_queue("top"), a_queue("leaf", "top"), a_queue("other", "top")]
    groups = [
        a_group("runs", preemptibility="non-preemptible"),
        a_group("waits", queue="other"),
        a_group("lost", queue="gone"),
    ]
    pods = [
        a_pod("r", "runs", node="n1", requests={"cpu": "2"}, annotations={"gpu-memory": "10225"}),
        a_pod("w", "waits", requests={"memory": "5"}, annotations={"gpu-memory": "20450"}),
        a_pod("gated", "waits", schedulingGates=[{"name": "g"}]),
        a_pod("leaves", "waits", node="n1", metadata={"deletionTimestamp": "2099-01-01T00:00:00Z"}),
        a_pod("l", "lost", node="n1"),
    ]
    use = a_cluster([a_node()], pods, groups, queues).use
    leaf, other = [2000, 0, 0.25], [0, 5, 0.5]
    assert use.allocated.T.tolist() == [leaf, leaf, leaf, [0, 0, 0]]
    assert np.array_equal(use.fixed, use.allocated)
    assert use.request.T.tolist() == [[2000, 5, 0.75], [2000, 5, 0.75], leaf, other]


@pytest.mark.parametrize("order", list(permutations(range(4))))
def test_the_order_of_the_input_rounds_no_sum(order: tuple[int, ...]) -> None:
    part = {"annotations": {"gpu-fraction": "0.3"}, "requests": {"cpu": "1"}}
    asked = [part, part, {}, {}]
    waiting = [a_pod(f"waits{index}", **asked[index]) for index in order]
    foreign = [a_pod(f"holds{index}", "", node="n1", schedulerName="other", **asked[index]) for index in order]
    cluster = a_cluster([a_node(gpus=8)], waiting + foreign)
    assert cluster.use.request[2].tolist() == [0.3 + 0.3 + 1 + 1] * 2
    assert cluster.total[2] == 8 - 0.3 - 0.3 - 1 - 1


def test_history_is_given_by_queue_name() -> None:
    document = Document(Config(), Params(), Objects(queues=(Queue(Metadata("a")), Queue(Metadata("b")))))
    cluster = build(document, NOW, {"a": (0.1, 0.2, 0.3), "gone": (1, 1, 1)})
    assert [queue.usage for queue in cluster.queues.queues[1:]] == [(0.1, 0.2, 0.3), (0, 0, 0)]
    assert "usage: queue 'gone' does not exist" in cluster.warnings


def test_missing_numbers_of_a_resource_are_zero() -> None:
    assert queues_of(a_queue("q", gpu={"quota": 1})).queues.queues[1].limit[2] == 0
    assert queues_of(a_queue("q", gpu=UNLIMITED)).queues.queues[1].limit[2] == -1
