"""Topology: a required level is never left, a preferred one only where it must be."""

import pytest
from regression.clusters import Cluster, below, bound, reasons

from kai_jax.tensors import Reason


def _racks(*racks: str, gpus: int = 4, zone: str = "z") -> Cluster:
    """Nodes n1, n2, ... in the racks named, all in one zone."""
    cluster = Cluster().queue("q").topology("t", "zone", "rack")
    for index, rack in enumerate(racks, 1):
        cluster.node(f"n{index}", gpus, zone=zone, rack=rack)
    return cluster


def _fill(cluster: Cluster, *nodes: str, gpus: int = 4) -> Cluster:
    for node in nodes:
        cluster.job(f"busy-{node}", "q", gpus=gpus, on=node)
    return cluster


def test_b75_the_required_level_may_be_the_preferred_one() -> None:
    cluster = _racks("a", "b", "a", "b")
    outcome = cluster.job("gang", "q", pods=2, gpus=4, group=below(required="rack", preferred="rack")).run()
    assert sorted(bound(outcome).values()) in (["n1", "n3"], ["n2", "n4"])


def test_b76_jobs_without_requests_or_without_pods_pass_through_topology() -> None:
    cluster = _racks("a", "b", "a", "b")
    cluster.job("free", "q", pods=2, requests={}, group=below(required="rack"))
    cluster.job("empty", "q", pods=0, minimum=1, group=below(required="rack"))
    cluster.job("last", "q")
    placed = bound(cluster.run())
    assert set(placed) == {"free-0", "free-1", "last-0"}
    assert {placed["free-0"], placed["free-1"]} <= {"n1", "n3"} or {placed["free-0"], placed["free-1"]} <= {"n2", "n4"}


def test_b77_a_constraint_on_a_group_holds_for_its_default_subgroup() -> None:
    cluster = _fill(_racks("a", "a", "b", "b"), "n2", "n4")
    cluster.job("gang", "q", pods=2, gpus=4, group=below(required="rack"))
    outcome = cluster.run()
    assert bound(outcome) == {}
    assert int(outcome.attempts.reasons[2]) & Reason.TOPOLOGY_NOT_ENOUGH
    assert reasons(outcome, "gang")


def test_b78_the_search_is_not_confined_below_the_preferred_level() -> None:
    cluster = _fill(_racks("a", "a", "b", "b"), "n2", "n4")
    cluster.job("gang", "q", pods=2, gpus=4, group=below(required="zone", preferred="rack"))
    assert sorted(bound(cluster.run()).values()) == ["n1", "n3"]


def test_b79_names_with_a_common_prefix_are_different_domains() -> None:
    cluster = _racks("rack-1", "rack-10").job("gang", "q", pods=2, gpus=4, group=below(required="rack"))
    assert bound(cluster.run()) == {}


def test_b80_a_node_may_have_the_name_of_its_domain() -> None:
    cluster = Cluster().queue("q").topology("t", "zone").node("a", 4, zone="a").node("b", 4, zone="a")
    cluster.job("gang", "q", pods=2, gpus=4, group=below(required="zone"))
    assert sorted(bound(cluster.run()).values()) == ["a", "b"]


@pytest.mark.parametrize(("pods", "placed"), [(3, set()), (4, {"n1"})])
def test_b82_groups_of_one_gang_share_the_pod_slots_of_a_node(pods: int, placed: set[str]) -> None:
    cluster = Cluster().queue("q").topology("t", "host")
    cluster.node("n1", pods=pods, host="n1").node("n2", pods=3, host="n2")
    subgroups = [{"name": name, "minMember": 2} for name in "ab"]
    cluster.group("gang", "q", subGroups=subgroups, **below(required="host"))
    for name in ("a0", "a1", "b0", "b1"):
        cluster.pod(name, "gang", cpu="1m", memory="1Mi", subgroup=name[0])
    assert set(bound(cluster.run()).values()) == placed


def test_b84_a_preferred_level_is_spread_over_no_more_domains_than_needed() -> None:
    cluster = _racks("a", "a", "b", "b", "c", "c").job("gang", "q", pods=4, gpus=4, group=below(preferred="rack"))
    placed = bound(cluster.run())
    assert len(placed) == 4
    racks = {"n1": "a", "n2": "a", "n3": "b", "n4": "b", "n5": "c", "n6": "c"}
    assert len({racks[node] for node in placed.values()}) == 2


def test_b84_the_domain_that_holds_all_goes_before_those_that_hold_some() -> None:
    cluster = _fill(_racks("a", "a", "b", "b", "c", "c"), "n4", "n6")
    cluster.job("gang", "q", pods=2, gpus=4, group=below(preferred="rack"))
    assert sorted(bound(cluster.run()).values()) == ["n1", "n2"]


def test_b85_a_replaced_pod_stays_in_the_domain_of_its_gang() -> None:
    cluster = _racks("a", "a", "b", "b", gpus=2)
    cluster.group("gang", "q", 4, **below(required="rack"))
    for index, node in enumerate(("n1", "n1", "n2")):
        cluster.pod(f"gang-{index}", "gang", 1, on=node)
    cluster.pod("gang-3", "gang", 1)
    assert bound(cluster.run()) == {"gang-3": "n2"}
    assert bound(cluster.job("thief", "q", on="n2").run()) == {}
