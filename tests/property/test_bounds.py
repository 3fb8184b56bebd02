"""Limits and quotas: equality passes, a hundredth of a device more does not."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from regression.clusters import Cluster, bound, reasons

HUNDREDTHS = st.integers(1, 100)
QUARTERS = st.sampled_from((25, 50, 75, 100))  # their sums are exact in binary


def _cluster(held: list[int], bound_in_hundredths: int, preemptible: bool) -> Cluster:
    """Jobs of a queue that run, each on a device of its own, under a limit, or a quota for non-preemptible ones."""
    bounded = {"limit" if preemptible else "quota": bound_in_hundredths / 100}
    cluster = Cluster().queue("top", quota=-1).queue("q", parent="top", **bounded).node("n1", 8)
    for index, part in enumerate(held):
        fraction = {"fraction": part / 100, "device": f"g{index}"}
        cluster.job(f"held{index}", "q", preemptible=preemptible, on="n1", **fraction)
    return cluster


def _decide(held: list[int], wanted: int, allowed: int, preemptible: bool) -> tuple[dict[str, str], list[str]]:
    cluster = _cluster(held, allowed, preemptible)
    outcome = cluster.job("new", "q", fraction=wanted / 100, preemptible=preemptible).run()
    return bound(outcome), reasons(outcome, "new")


@given(st.lists(QUARTERS, max_size=5), QUARTERS, st.booleans())
def test_equality_passes(held: list[int], wanted: int, preemptible: bool) -> None:
    assert _decide(held, wanted, sum(held) + wanted, preemptible) == ({"new-0": "n1"}, [])


@given(st.lists(HUNDREDTHS, max_size=5), HUNDREDTHS, st.booleans())
def test_a_hundredth_more_does_not_pass(held: list[int], wanted: int, preemptible: bool) -> None:
    refused = ["OverLimit" if preemptible else "NonPreemptibleOverQuota"]
    assert _decide(held, wanted, sum(held) + wanted - 1, preemptible) == ({}, refused)


@pytest.mark.parametrize(("held", "wanted"), [([10], 20), ([17, 17, 17, 17], 17)])
def test_sums_are_those_of_float64_in_order(held: list[int], wanted: int) -> None:
    """No tolerance either way: 0.1 + 0.2 is above 0.3, as it is for the peer."""
    assert sum(part / 100 for part in (*held, wanted)) > (sum(held) + wanted) / 100
    assert _decide(held, wanted, sum(held) + wanted, True) == ({}, ["OverLimit"])


@given(QUARTERS, st.integers(1, 5))
def test_equality_passes_with_what_the_same_cycle_placed(part: int, jobs: int) -> None:
    cluster = Cluster().queue("q", limit=part * jobs / 100).node("n1", 8)
    for index in range(jobs + 1):
        cluster.job(f"new{index}", "q", fraction=part / 100)
    assert len(bound(cluster.run())) == jobs


@given(st.lists(st.integers(1, 20), min_size=1, max_size=4))
def test_a_device_is_filled_to_the_hundredth(weights: list[int]) -> None:
    """Parts that add up to a whole device share one; the last one a hundredth larger opens another."""
    free = 100 - sum(weights)
    for wanted, shared in ((free, True), (free + 1, False)):
        cluster = Cluster().queue("q").node("n1", 2, device_memory=80000)
        for index, part in enumerate(weights):
            cluster.job(f"held{index}", "q", fraction=part / 100, on="n1", device="g")
        outcome = cluster.job("new", "q", fraction=wanted / 100).run()
        assert bound(outcome) == {"new-0": "n1"}
        assert (len(outcome.decisions.shared_devices) == 1) is shared


@pytest.mark.parametrize("field", ["quota", "limit"])
def test_a_bound_that_overflows_in_bytes_stays_finite(field: str) -> None:
    cluster = Cluster().queue("q").node("n1", 1).job("new", "q")
    cluster.objects["queues"][0]["spec"]["resources"]["memory"][field] = 1e308  # 10^6 bytes
    outcome = cluster.run()
    assert bound(outcome) == {"new-0": "n1"}
    assert np.isfinite(outcome.encoded.snapshot.queues.quota).all()
    assert np.isfinite(outcome.encoded.snapshot.queues.limit).all()
