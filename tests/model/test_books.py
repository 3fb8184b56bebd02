"""Node books at the start of a cycle."""

import random

import pytest
from model.clusters import a_cluster, a_group, a_node, a_pod

from kai_jax.model.cluster import Cluster

LEAVING = {"deletionTimestamp": "2099-01-01T00:00:00Z"}
HALF = {"gpu-fraction": "0.5"}


def sharing(name: str, group: str, fraction: str, leaving: bool = False, **wire) -> dict:
    return a_pod(
        name,
        node="n1",
        requests={"cpu": "1"},
        annotations={"gpu-fraction": fraction},
        labels={"runai-gpu-group": group},
        metadata=LEAVING if leaving else {},
        **wire,
    )


def gpus(cluster: Cluster) -> tuple[float, float, float]:
    """(used, idle, releasing) devices of the first node."""
    books = cluster.books
    return books.used[0, 0], books.idle[0, 0], books.releasing[0, 0]


def devices(cluster: Cluster) -> dict[str, tuple[int, int, int, bool]]:
    return {d.group: (d.used, d.allocated, d.releasing, d.marked) for d in cluster.books.devices[0].values()}


def test_worked_example_of_shared_devices() -> None:
    pods = [
        a_pod("whole", node="n1"),
        sharing("half", "g1", "0.5"),
        sharing("quarter", "g1", "0.25"),
        sharing("leaving", "g2", "0.5", leaving=True),
    ]
    cluster = a_cluster([a_node(gpus=4)], pods)
    assert cluster.nodes[0].gpu_memory == 40900
    assert gpus(cluster) == (1, 1, 1)
    assert devices(cluster) == {"g1": (30675, 30675, 0, False), "g2": (20450, 20450, 20450, True)}


def test_a_device_is_released_only_when_every_pod_on_it_leaves() -> None:
    pods = [sharing("half", "g1", "0.5", leaving=True), sharing("quarter", "g1", "0.25", leaving=True)]
    cluster = a_cluster([a_node(gpus=2)], pods)
    assert gpus(cluster) == (0, 1, 1)
    pods[1] = sharing("quarter", "g1", "0.25")
    assert gpus(a_cluster([a_node(gpus=2)], pods)) == (0, 1, 0)


@pytest.mark.parametrize("seed", range(20))
def test_books_equal_the_closed_form_in_any_order_of_pods(seed: int) -> None:
    draw = random.Random(seed)
    pods = [
        a_pod(f"w{i}", node="n1", metadata=LEAVING if draw.random() < 0.5 else {}) for i in range(draw.randrange(3))
    ]
    shared = [(f"g{draw.randrange(3)}", draw.random() < 0.5) for _ in range(draw.randrange(5))]
    pods += [sharing(f"s{i}", group, "0.25", leaving) for i, (group, leaving) in enumerate(shared)]
    draw.shuffle(pods)
    whole = [pod for pod in pods if "gpu-fraction" not in pod["metadata"]["annotations"]]
    groups = {group: [leaving for other, leaving in shared if other == group] for group, _ in shared}
    leaving_whole = sum("deletionTimestamp" in pod["metadata"] for pod in whole)
    used, idle, releasing = gpus(a_cluster([a_node(gpus=8)], pods))
    assert (used, idle) == (len(whole), 8 - len(whole) - len(groups))
    assert releasing == leaving_whole + sum(all(states) for states in groups.values())


def test_a_reservation_pod_takes_room_but_no_device() -> None:
    reservation = a_pod("reserve", group="", node="n1", labels={"app": "kai-resource-reservation"})
    cluster = a_cluster([a_node(gpus=2)], [reservation, sharing("half", "g", "0.5")])
    assert gpus(cluster) == (0, 1, 0)
    pods = cluster.books.resources.index("pods")
    assert cluster.books.idle[pods, 0] == 110 - 2


def test_a_fraction_without_a_device_group_occupies_none() -> None:
    cluster = a_cluster([a_node(gpus=2)], [a_pod("half", node="n1", annotations=HALF)])
    assert gpus(cluster) == (0, 2, 0)


def test_foreign_pods_and_pods_without_a_podgroup_take_room() -> None:
    pods = [a_pod("foreign", group="", node="n1", schedulerName="other"), a_pod("orphan", group="gone", node="n1")]
    assert gpus(a_cluster([a_node(gpus=4)], pods)) == (2, 2, 0)


def test_what_a_node_does_not_have_is_not_booked() -> None:
    node = a_node(gpus=0, allocatable={"cpu": "4", "pods": "10"})
    cluster = a_cluster([node], [a_pod("p", node="n1", requests={"cpu": "1", "memory": "1Gi", "nvidia.com/gpu": "1"})])
    assert gpus(cluster) == (0, 0, 0)
    assert cluster.books.idle[cluster.books.resources.index("memory"), 0] == 0


def test_other_resources_follow_the_fixed_ones_by_name() -> None:
    node = a_node(allocatable={"cpu": "1", "x.io/b": "1"})
    cluster = a_cluster([node], [a_pod("p", requests={"a.io/z": "1"})])
    assert cluster.books.resources == ("gpu", "cpu", "memory", "pods", "a.io/z", "x.io/b")


def test_a_claimed_device_that_two_pods_share_counts_once() -> None:
    claim = {
        "metadata": {"name": "c", "namespace": "team"},
        "spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu.example", "count": 1}}]}},
        "status": {
            "allocation": {
                "devices": {"results": [{"request": "r", "driver": "gpu.example", "pool": "n1", "device": "d0"}]}
            }
        },
    }
    piece = {
        "metadata": {"name": "s"},
        "spec": {"driver": "gpu.example", "nodeName": "n1", "pool": {"name": "n1"}, "devices": [{"name": "d0"}]},
    }
    wanted = [{"name": "c", "resourceClaimName": "c"}]
    pods = [a_pod(name, node="n1", requests={"cpu": "1"}, resourceClaims=wanted) for name in ("a", "b")]
    node = a_node(gpus=0, labels={}, allocatable={"cpu": "4", "pods": "10"})
    cluster = a_cluster([node], pods, [a_group()], resource_claims=[claim], resource_slices=[piece])
    assert gpus(cluster) == (1, 0, 0)
    assert cluster.use.allocated[2, 1] == 2  # queues are charged for both


@pytest.mark.parametrize(
    ("label", "memory", "known"),
    [
        ("81559", 81500, True),
        ("42949672960", 40900, True),
        ("4295000001", 4000, True),
        ("x", 100, False),
        ("", 100, False),
    ],
)
def test_device_memory_of_a_node(label: str, memory: int, known: bool) -> None:
    cluster = a_cluster([a_node(labels={"nvidia.com/gpu.memory": label} if label else {})], [])
    assert (cluster.nodes[0].gpu_memory, cluster.nodes[0].gpu_memory_known) == (memory, known)
    assert len(cluster.warnings) == (label == "x")
