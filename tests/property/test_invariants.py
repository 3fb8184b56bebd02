"""What must hold in every cycle, over random small clusters."""

from contextlib import contextmanager
from dataclasses import asdict, replace
from typing import Any

import jax
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from property.worlds import clusters, nodes, overcommitted, running
from regression.clusters import Cluster, bound, pipelined, reasons

from kai_jax.cycle import Outcome
from kai_jax.encode import layout
from kai_jax.encode.buckets import NONE_NEEDED, SMALLEST, Bucket, Sizes
from kai_jax.tensors import Features


@given(clusters())
def test_nothing_is_promised_twice(cluster: Cluster) -> None:
    """What is bound fits beside all that is there; what waits fits beside all that stays."""
    outcome = cluster.run()
    devices = [[name.removeprefix("team/") for name in names] for names in outcome.decisions.shared_devices]
    waits = set(pipelined(outcome))
    leaves = {pod["metadata"]["name"] for pod in cluster.objects["pods"] if "deletionTimestamp" in pod["metadata"]}
    for node in (item["metadata"]["name"] for item in cluster.objects["nodes"]):
        there = _pods_of(cluster, outcome, node)
        for left_out in (waits, leaves):
            pods = [pod for pod in there if pod["metadata"]["name"] not in left_out]
            names = {pod["metadata"]["name"] for pod in pods}
            shared = [[name for name in device if name in names] for device in devices]
            assert overcommitted(cluster, node, pods, [device for device in shared if device]) == []


def _pods_of(cluster: Cluster, outcome: Outcome, node: str) -> list[dict]:
    place = {key.removeprefix("team/"): place[1:] for key, place in outcome.decisions.final.items()}
    return [pod for pod in cluster.objects["pods"] if place[pod["metadata"]["name"]] == [node]]


@given(clusters())
def test_a_podset_gets_its_minimum_or_nothing(cluster: Cluster) -> None:
    outcome = cluster.run()
    placed = {**bound(outcome), **pipelined(outcome)}
    for job in outcome.cluster.jobs:
        tasks = [[task.pod.metadata.name for task in podset] for podset in job.podsets]
        for names, minimum in zip(tasks, job.tree.minimums, strict=True):
            new = [name for name in names if name in placed]
            assert not new or len(new) >= minimum


@st.composite
def _with_a_gang_that_fails_late(draw: st.DrawFn) -> Cluster:
    """One waiting gang, whose last pod fits nowhere."""
    cluster = Cluster().queue("a").queue("b").queue("c").topology("t", "zone", "rack")
    cluster.node("large", 4, cpu="60", device_memory=80000, rack="r1", zone="z")
    draw(nodes(cluster))
    for index in range(draw(st.integers(0, 4))):
        running(draw, cluster, f"held{index}", True, True)
    levels = draw(st.sampled_from(((), ("zone", ""), ("", "rack"), ("zone", "rack"))))
    request = draw(st.sampled_from(({"gpus": 1}, {"fraction": "0.3"}, {"fraction": "0.45", "devices": 2})))
    constraint = dict(zip(("requiredTopologyLevel", "preferredTopologyLevel"), levels, strict=False))
    more = {"topologyConstraint": {"topology": "t", **constraint}} if levels else {}
    pods = draw(st.integers(2, 4))
    cluster.job("gang", "a", pods - 1, minimum=pods, preemptible=draw(st.booleans()), group=more, **request)
    # equal but for the node that it wants, so that it is the last in the order and no sum rules it out before
    return cluster.pod("gang-z", "gang", **request, nodeSelector={"never": "there"})


@given(_with_a_gang_that_fails_late())
def test_a_failed_attempt_leaves_every_tensor_as_it_was(cluster: Cluster) -> None:
    for queue in cluster.objects["queues"]:
        queue["spec"]["resources"]["gpu"]["quota"] = -1
    outcome = cluster.run()
    assert reasons(outcome, "gang")
    before, after = (jax.tree.map(np.asarray, state) for state in (outcome.encoded.state, outcome.state))
    for name in vars(before):
        assert vars(before)[name].tobytes() == vars(after)[name].tobytes(), name


def test_a_failed_attempt_did_place_pods_before_it_failed() -> None:
    cluster = Cluster().queue("a").node("n1", 4).job("gang", "a", 2, minimum=3, fraction="0.3")
    outcome = cluster.pod("gang-z", "gang", fraction="0.3", nodeSelector={"never": "there"}).run()
    assert outcome.attempts.placed_before[0] == 2
    assert bound(outcome) == {}


@given(clusters(), st.randoms(use_true_random=False))
def test_the_order_of_the_input_decides_nothing(cluster: Cluster, random: Any) -> None:
    shuffled = cluster.copy()
    for objects in shuffled.objects.values():
        random.shuffle(objects)
    assert _decided(cluster.run()) == _decided(shuffled.run())


@given(clusters())
def test_more_padding_decides_nothing(cluster: Cluster) -> None:
    expected = _decided(cluster.run())
    wider = {name: size * 2 for name, size in asdict(SMALLEST).items()} | {"nodes": 96, "frames": 6}
    with _bucket(Bucket(Sizes(**wider), Features())):
        assert _decided(cluster.run()) == expected


@given(clusters(plain=True))
def test_parts_of_the_program_that_are_not_needed_decide_nothing(cluster: Cluster) -> None:
    expected = _decided(cluster.run())
    nothing = Features(shared=False, topology=False, trees=False, ports=False, nominated=False, releasing=False)
    with _bucket(Bucket(replace(NONE_NEEDED, resources=8), nothing)):
        assert _decided(cluster.run()) == expected


@contextmanager
def _bucket(bucket: Bucket):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(layout, "choose_bucket", lambda needed, features: bucket)
        yield


def _decided(outcome: Outcome) -> dict[str, Any]:
    return asdict(outcome.decisions)
