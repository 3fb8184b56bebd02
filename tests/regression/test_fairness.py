"""Quotas, limits and weights decide as written: 0 is nothing, -1 is unlimited, parts of devices count as parts."""

import pytest
from regression.clusters import Cluster, bound, reasons

from kai_jax.explain import explain


def test_b17_requests_by_memory_count_against_the_limit() -> None:
    cluster = Cluster().queue("q", limit=0.5).node("n1", 1, device_memory=80000)
    outcome = cluster.job("a", "q", device_memory=40000).job("b", "q", device_memory=40000).run()
    assert bound(outcome) == {"a-0": "n1"}
    assert reasons(outcome, "b") == ["OverLimit"]


def test_b18_every_device_of_a_request_by_memory_counts_against_the_quota() -> None:
    cluster = Cluster().queue("q", quota=1).node("n1", 2, device_memory=80000)
    outcome = cluster.job("a", "q", preemptible=False, device_memory=48000, devices=2).run()
    assert bound(outcome) == {}
    assert reasons(outcome, "a") == ["NonPreemptibleOverQuota"]
    headline = explain(outcome, "team/a").headline
    assert "requested 1.2 GPUs" in headline
    assert "quota is 1 GPUs" in headline


def test_b20_weight_0_does_not_go_first_and_may_use_what_is_idle() -> None:
    alone = Cluster().queue("a", weight=0).queue("b", weight=1).node("n1", 1).job("old", "a")
    assert bound(alone.run()) == {"old-0": "n1"}
    assert bound(alone.job("young", "b").run()) == {"young-0": "n1"}


def test_b29_quota_0_is_no_quota() -> None:
    cluster = Cluster().queue("q", quota=0, limit=-1).node("n1", 2)
    outcome = cluster.job("fixed", "q", preemptible=False).job("free", "q").run()
    assert bound(outcome) == {"free-0": "n1"}
    assert reasons(outcome, "fixed") == ["NonPreemptibleOverQuota"]
    cluster.objects["queues"][0]["spec"]["resources"]["gpu"]["quota"] = -1
    assert set(bound(cluster.run())) == {"fixed-0", "free-0"}


@pytest.mark.parametrize(("limit", "placed"), [(6, {"own-0", "other-0"}), (3, {"other-0"})])
def test_b30_a_limit_lowered_under_running_work_refuses_new_work_alone(limit: float, placed: set[str]) -> None:
    cluster = Cluster().queue("q", quota=2, limit=limit).queue("other", quota=2).node("n1", 7)
    cluster.job("fixed", "q", pods=4, on="n1", preemptible=False).job("free", "q", on="n1")
    outcome = cluster.job("own", "q").job("other", "other").run()
    assert set(bound(outcome)) == placed
    assert reasons(outcome, "own") == ([] if limit == 6 else ["OverLimit"])


def test_b28_idle_devices_are_bound_whatever_a_queue_uses_of_other_resources() -> None:
    cluster = Cluster().queue("q", quota=2).queue("other", quota=2).node("n1", 4)
    cluster.objects["queues"][0]["spec"]["resources"]["cpu"] = {"quota": 1000, "limit": -1, "overQuotaWeight": 1}
    cluster.job("hungry", "q", gpus=0, cpu="32", on="n1").job("wants", "q")
    assert bound(cluster.run()) == {"wants-0": "n1"}


def test_b107_overflowing_and_negative_requests_neither_wrap_nor_count() -> None:
    cluster = Cluster().queue("q", limit=1).node("n1", 4)
    huge = f"{2**62}m"
    cluster.group("huge", "q", 2).pod("huge-0", "huge", cpu=huge).pod("huge-1", "huge", cpu=huge)
    cluster.group("below", "q", 1).pod("below-0", "below", cpu="-1")
    outcome = cluster.job("sound", "q").run()
    assert bound(outcome) == {"sound-0": "n1"}
    assert outcome.decisions.queues["q"]["allocated"] == [0, 0, 0]
    assert any("below-0" in warning and "negative" in warning for warning in outcome.warnings)
    queue = outcome.cluster.queues.index["q"]
    assert outcome.state.queue_allocated[:, queue].tolist() == [1000, 2**30, 1]
