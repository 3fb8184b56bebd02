"""Parts of devices: what is checked is what is taken, on each device alone, and with everything else on the node."""

import pytest
from regression.clusters import Cluster, bound, pipelined, reasons


def _shared(outcome) -> list[list[str]]:
    return [[pod.removeprefix("team/") for pod in pods] for pods in outcome.decisions.shared_devices]


def test_b50_sixteen_halves_fill_eight_devices() -> None:
    cluster = Cluster().queue("q").node("n1", 8)
    for index in range(16):
        cluster.job(f"half{index}", "q", fraction=0.5)
    outcome = cluster.run()
    assert len(bound(outcome)) == 16
    assert [len(pods) for pods in _shared(outcome)] == [2] * 8


def test_b54_a_fraction_does_not_go_where_the_only_device_is_taken_whole() -> None:
    cluster = Cluster().queue("q").node("n1", 1).node("n2", 1)
    cluster.pod("foreign", "", 1, on="n1", schedulerName="default-scheduler")
    assert bound(cluster.job("part", "q", fraction=0.5).run()) == {"part-0": "n2"}


def test_b56_a_fraction_is_bound_where_a_device_is_free_rather_than_made_to_wait() -> None:
    cluster = Cluster().queue("q").node("n1", 1).node("n2", 1)
    cluster.job("runs", "q", fraction=0.5, on="n1", device="g")
    cluster.job("ends", "q", fraction=0.5, on="n1", device="g", deleted=600)
    cluster.job("part", "q", fraction=0.5)
    assert bound(cluster.run()) == {"part-0": "n2"}
    full = cluster.job("fills", "q", on="n2").run()
    assert bound(full) == {}
    assert pipelined(full) == {}  # what has been ending for longer than the threshold may never end
    assert reasons(full, "part") == ["PodSchedulingErrors"]


def test_b57_a_fraction_waits_for_memory_that_is_not_free_yet() -> None:
    cluster = Cluster().queue("q").node("n1", 1, memory="20Gi")
    cluster.job("runs", "q", fraction=0.25, memory="10Gi", on="n1", device="g")
    cluster.job("ends", "q", gpus=0, memory="5Gi", on="n1", deleted=10)
    outcome = cluster.job("part", "q", fraction=0.5, memory="7.5Gi").run()
    assert (bound(outcome), pipelined(outcome)) == ({}, {"part-0": "n1"})


def test_b58_memory_that_is_being_released_is_not_idle() -> None:
    cluster = Cluster().queue("q").node("n1", 1, memory="20Gi")
    cluster.job("ends", "q", gpus=0, memory="10Gi", on="n1", deleted=10)
    outcome = cluster.job("part", "q", fraction=0.5, memory="15Gi").run()
    assert (bound(outcome), pipelined(outcome)) == ({}, {"part-0": "n1"})


def test_b60_device_memory_is_in_mebibytes() -> None:
    cluster = Cluster().queue("q").node("n1", 1, device_memory=80000)
    cluster.job("a", "q", device_memory=40000).job("b", "q", device_memory=40000)
    outcome = cluster.run()
    assert bound(outcome) == {"a-0": "n1", "b-0": "n1"}
    assert _shared(outcome) == [["a-0", "b-0"]]


@pytest.mark.parametrize(("first", "placed"), [(0.7, False), (0.5, True)])
def test_b61_parts_of_several_devices_are_not_added_up(first: float, placed: bool) -> None:
    cluster = Cluster().queue("q").node("n1", 2)
    cluster.job("one", "q", fraction=first, on="n1", device="g1").job("two", "q", fraction=0.4, on="n1", device="g2")
    outcome = cluster.job("both", "q", fraction=0.45, devices=2).run()
    assert bound(outcome) == ({"both-0": "n1"} if placed else {})
    if placed:
        assert _shared(outcome) == [["both-0", "one-0"], ["both-0", "two-0"]]


def test_b62_two_pods_do_not_pass_the_same_test_for_room() -> None:
    cluster = Cluster().queue("q").node("n1", 1).job("a", "q", fraction=0.6).job("b", "q", fraction=0.6)
    assert bound(cluster.run()) == {"a-0": "n1"}


def test_b64_two_pods_of_a_gang_may_share_a_device() -> None:
    outcome = Cluster().queue("q").node("n1", 2).job("gang", "q", pods=2, fraction=0.5).run()
    assert _shared(outcome) == [["gang-0", "gang-1"]]


def test_b16_requests_by_memory_count_in_shares_and_fill_a_half_free_device() -> None:
    cluster = Cluster().queue("a", quota=1).queue("b", quota=1).node("n1", 2, device_memory=80000)
    for index, device in enumerate(("g1", "g1", "g2")):
        cluster.job(f"a{index}", "a", device_memory=40000, on="n1", device=device)
    outcome = cluster.job("b0", "b", device_memory=40000).job("b1", "b", device_memory=40000).run()
    assert outcome.decisions.queues["a"]["allocated"][2] == 1.5
    assert outcome.decisions.queues["b"]["fair_share"][2] == 1
    assert bound(outcome) == {"b0-0": "n1"}


def _mig_node(cluster: Cluster, slices: int) -> Cluster:
    labels = {"nvidia.com/mig.strategy": "mixed", "nvidia.com/gpu.count": "1"}
    return cluster.node("n1", more={"nvidia.com/mig-3g.40gb": str(slices)}, **labels)


@pytest.mark.parametrize(("slices", "placed"), [(2, {"job-0": "n1"}), (1, {})])
def test_b65_two_slices_of_one_device_go_to_one_pod(slices: int, placed: dict[str, str]) -> None:
    requests = {"cpu": "1", "nvidia.com/mig-3g.40gb": "2"}
    assert bound(_mig_node(Cluster().queue("q"), slices).job("job", "q", requests=requests).run()) == placed


def test_b70_a_node_with_devices_by_claims_alone_is_no_cpu_node() -> None:
    cluster = Cluster().queue("q").node("n1").node("n2")
    slices = {"driver": "gpu.nvidia.com", "nodeName": "n1", "pool": {"name": "n1"},
              "devices": [{"name": f"gpu{index}"} for index in range(8)]}  # fmt: skip
    cluster.add("resourceSlices", {"name": "n1"}, spec=slices)
    assert bound(cluster.job("c", "q", gpus=0).run()) == {"c-0": "n2"}
