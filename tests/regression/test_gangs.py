"""Gangs and subgroup trees: all of what is required, or nothing, and nothing held by those that do not fit."""

import pytest
from regression.clusters import Cluster, bound, pipelined, reasons

from kai_jax.explain import explain


def test_b03_two_gangs_do_not_hold_half_of_the_cluster_each() -> None:
    cluster = Cluster().queue("q").node("n1", 8).node("n2", 8)
    cluster.job("a", "q", pods=12).job("b", "q", pods=12)
    placed = bound(cluster.run())
    assert {pod[0] for pod in placed} == {"a"}
    assert len(placed) == 12
    single = bound(cluster.job("c", "q", gpus=4).run())
    assert {pod[0] for pod in single} == {"a", "c"}


def test_b04_a_gang_whose_last_pod_does_not_fit_holds_nothing() -> None:
    outcome = Cluster().queue("q").node("n1", 9).job("a", "q", pods=10).job("b", "q", gpus=4).run()
    assert bound(outcome) == {"b-0": "n1"}
    assert "9" in explain(outcome, "team/a").headline
    assert "10" in explain(outcome, "team/a").headline


def test_b05_half_a_gang_does_not_run() -> None:
    cluster = Cluster().queue("q").node("n1", 1).node("n2", 1).job("a", "q", pods=2)
    held = cluster.copy().job("x", "q", on="n2")
    assert bound(held.run()) == {}
    assert sorted(bound(cluster.run()).values()) == ["n1", "n2"]


def _subgroups(*groups: dict, **spec) -> dict:
    return {"subGroups": list(groups), **spec}


def _with_pods(cluster: Cluster, subgroups: dict[str, int]) -> Cluster:
    for subgroup, pods in subgroups.items():
        for index in range(pods):
            cluster.pod(f"{subgroup}-{index}", "job", 1, subgroup=subgroup)
    return cluster


def test_b08_pods_above_the_minimums_of_subgroups_are_placed() -> None:
    cluster = Cluster().queue("q").node("n1", 6)
    cluster.group("job", "q", **_subgroups({"name": "a", "minMember": 1}, {"name": "b", "minMember": 1}))
    assert len(bound(_with_pods(cluster, {"a": 3, "b": 3}).run())) == 6


def test_b09_a_subgroup_without_a_minimum_has_the_default() -> None:
    cluster = Cluster().queue("q").node("n1", 5)
    cluster.group("job", "q", **_subgroups({"name": "a"}, {"name": "b", "minMember": 2}))
    outcome = _with_pods(cluster, {"a": 2, "b": 2}).job("other", "q").run()
    assert set(bound(outcome)) == {"a-0", "a-1", "b-0", "b-1", "other-0"}


def test_b10_a_subgroup_with_minimum_0_blocks_nothing() -> None:
    cluster = Cluster().queue("q").node("n1", 2)
    cluster.group("job", "q", **_subgroups({"name": "a", "minMember": 0}, {"name": "b", "minMember": 2}))
    assert set(bound(_with_pods(cluster, {"a": 2, "b": 2}).run())) == {"b-0", "b-1"}


@pytest.mark.parametrize(("gpus", "placed"), [(6, 6), (5, 0)])
def test_b11_middle_levels_count_children_and_leaves_pods(gpus: int, placed: int) -> None:
    leaves = [{"name": name, "parent": name[0], "minMember": 2} for name in ("x0", "x1", "y0")]
    middle = [{"name": "x", "minSubGroup": 2}, {"name": "y", "minSubGroup": 1}]
    cluster = Cluster().queue("q").node("n1", gpus).group("job", "q", **_subgroups(*middle, *leaves, minSubGroup=2))
    assert len(bound(_with_pods(cluster, {"x0": 2, "x1": 2, "y0": 2}).run())) == placed


def test_b48_a_job_that_is_being_bound_counts_once() -> None:
    cluster = Cluster().queue("q", limit=8).node("n1", 8).job("one", "q", pods=4).job("two", "q", pods=4)
    for index in range(4):
        request = {"podName": f"one-{index}", "selectedNode": "n1", "receivedResourceType": "Regular",
                   "receivedGPU": {"count": 1, "portion": "1.00"}}  # fmt: skip
        metadata = {"name": f"one-{index}", "namespace": "team"}
        cluster.add("bindRequests", metadata, spec=request, status={"phase": "Pending"})
    outcome = cluster.run()
    assert set(bound(outcome)) == {f"two-{index}" for index in range(4)}
    assert outcome.decisions.queues["q"]["allocated"][2] == 4


def test_b47_a_removed_node_takes_its_capacity_and_leaves_no_debt() -> None:
    cluster = Cluster().queue("q", limit=8).node("n1", 4)
    cluster.job("here", "q", pods=2, on="n1").job("gone", "q", pods=4, on="n2").job("new", "q", pods=2)
    outcome = cluster.run()
    assert bound(outcome) == {"new-0": "n1", "new-1": "n1"}
    assert outcome.decisions.queues["q"]["allocated"][2] == 2
    assert (outcome.encoded.state.idle >= 0).all()


def test_b92_the_head_of_the_line_does_not_block_other_hardware() -> None:
    cluster = Cluster().queue("q").queue("k").node("h", 8, kind="h").node("a", 2, kind="a")
    cluster.job("busy", "q", gpus=8, on="h")
    cluster.job("first", "q", gpus=8, nodeSelector={"kind": "h"})
    cluster.job("second", "q", nodeSelector={"kind": "a"}).job("third", "k", nodeSelector={"kind": "a"})
    outcome = cluster.run()
    assert bound(outcome) == {"second-0": "a", "third-0": "a"}
    assert reasons(outcome, "first") == ["PodSchedulingErrors"]


def test_b101_a_pod_of_another_scheduler_counts_from_its_node_name_on() -> None:
    cluster = Cluster().queue("q").node("n1", cpu="4")
    cluster.job("ours", "q", gpus=0, cpu="2")
    foreign = {"schedulerName": "default-scheduler", "cpu": "3", "on": "n1"}
    assert bound(cluster.copy().run()) == {"ours-0": "n1"}
    for phase in ("Pending", "Running"):
        assert bound(cluster.copy().pod("theirs", "", phase=phase, **foreign).run()) == {}
    for phase in ("Succeeded", "Failed"):
        assert bound(cluster.copy().pod("theirs", "", phase=phase, **foreign).run()) == {"ours-0": "n1"}


def test_b40_a_job_waits_for_what_is_ending_rather_than_for_what_runs() -> None:
    cluster = Cluster().queue("q").node("n1", 4).node("n2", 4)
    cluster.job("ending", "q", gpus=4, on="n1", deleted=60).job("running", "q", gpus=4, on="n2")
    assert pipelined(cluster.job("high", "q", gpus=4).run()) == {"high-0": "n1"}
