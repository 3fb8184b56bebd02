"""Numbers that make no sense never reach a tensor, and a malformed object is flagged alone."""

from copy import deepcopy
from typing import Any

import jax
import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from property.worlds import clusters
from regression.clusters import GPU, Cluster, bound

NUMBERS = st.sampled_from(
    ("NaN", "inf", "-1", "-0.5", "1e400", "1e-400", f"{2**62}", f"{2**63}", f"{2**64}", "9" * 63, "", "1Gi1", "-", "0",
     "1e18", "4E", "9E", "1n", "9223372036854775807Ei", 2**70, -(2**70), 1e308, -1e308, True, None, [], {})
)  # fmt: skip
ANNOTATIONS = ("gpu-fraction", "gpu-memory", "gpu-fraction-num-devices", "nvidia.com/mig-1g.10gb")
RESOURCES = ("cpu", "memory", GPU, "pods", "nvidia.com/mig-1g.10gb", "example.com/thing", "ephemeral-storage")


@st.composite
def _with_wild_numbers(draw: st.DrawFn) -> Cluster:
    cluster = Cluster().queue("a").node("n1", 4)
    for index in range(draw(st.integers(1, 4))):
        name, on = f"wild{index}", draw(st.sampled_from(("", "n1")))
        asked = {resource: draw(NUMBERS) for resource in draw(st.sets(st.sampled_from(RESOURCES)))}
        cluster.job(name, "a", on=on, requests={"cpu": "1", **asked})
        notes = {key: str(draw(NUMBERS)) for key in draw(st.sets(st.sampled_from(ANNOTATIONS)))}
        cluster.objects["pods"][-1]["metadata"]["annotations"] |= notes
    cluster.node("wild", 1, more={name: draw(NUMBERS) for name in draw(st.sets(st.sampled_from(RESOURCES)))})
    cluster.objects["nodes"][-1]["metadata"]["labels"] |= {
        f"nvidia.com/gpu.{fact}": str(draw(NUMBERS)) for fact in draw(st.sets(st.sampled_from(("count", "memory"))))
    }
    cluster.queue("wild", parent=draw(st.sampled_from(("", "wild", "gone"))))
    bounds = st.sampled_from((-1e308, 1e308, -2, 2.5, 1e18, "1", None, 10**30))
    entry = {key: draw(bounds) for key in ("quota", "limit", "overQuotaWeight")}
    cluster.objects["queues"][-1]["spec"]["resources"]["gpu"] = entry
    return cluster.job("waits", "wild").job("sound", "a", gpus=0)


@given(_with_wild_numbers())
def test_every_number_in_a_tensor_is_finite(cluster: Cluster) -> None:
    outcome = cluster.run()
    for part in (outcome.encoded.snapshot, outcome.encoded.state, outcome.state, outcome.attempts):
        assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(part))
    for requests in (outcome.encoded.snapshot.requests.vector, outcome.encoded.snapshot.requests.portion):
        assert (requests >= 0).all()


def _with(wire: dict, value: Any, *path: str | int) -> dict:
    """A copy of an object with one member replaced."""
    copied = deepcopy(wire)
    inner: Any = copied
    for step in path[:-1]:
        inner = inner[step]
    inner[path[-1]] = value
    return copied


SOUND = Cluster().queue("bad").node("bad", 1).job("bad", "a", gpus=0)
POD, NODE, QUEUE, GROUP = (SOUND.objects[kind][0] for kind in ("pods", "nodes", "queues", "podGroups"))
REQUESTS = ("spec", "containers", 0, "resources", "requests")
MALFORMED = {
    "pods": [
        _with(POD, 7, "metadata"),
        _with(POD, None, "metadata", "name"),
        _with(POD, "x", "spec", "containers"),
        _with(POD, "-1", *REQUESTS, "cpu"),
        _with(POD, "NaN", *REQUESTS, "memory"),
        _with(POD, f"{2**70}", *REQUESTS, "cpu"),
        _with(POD, {"pod-group-name": "bad", "gpu-fraction": "NaN"}, "metadata", "annotations"),
    ],
    "nodes": [_with(NODE, [], "status"), _with(NODE, {}, "status", "allocatable"), _with(NODE, 1, "metadata", "name")],
    "queues": [
        _with(QUEUE, "gone", "spec", "parentQueue"),
        _with(QUEUE, "bad", "spec", "parentQueue"),
        _with(QUEUE, "much", "spec", "resources", "gpu", "quota"),
    ],
    "podGroups": [
        _with(GROUP, -1, "spec", "minMember"),
        _with(GROUP, "gone", "spec", "queue"),
        _with(GROUP, [{"name": "x", "parent": "x"}], "spec", "subGroups"),
        _with(GROUP, 3, "spec", "queue"),
    ],
    "topologies": [{"metadata": {"name": "bad"}, "spec": {"levels": 3}}, {"spec": {}}],
    "bindRequests": [{"metadata": {"name": "bad"}, "spec": []}],
    "resourceSlices": [{"metadata": {"name": "bad"}, "spec": {"devices": 1}}],
    "configMaps": [{"metadata": {}}, 5, None],
}


@st.composite
def _malformed(draw: st.DrawFn) -> tuple[str, Any, float]:
    kind = draw(st.sampled_from(sorted(MALFORMED)))
    return kind, draw(st.sampled_from(MALFORMED[kind])), draw(st.floats(0, 1))


@given(clusters(), _malformed())
def test_one_malformed_object_is_flagged_alone(cluster: Cluster, malformed: tuple[str, Any, float]) -> None:
    kind, wire, place = malformed
    cluster.group("bad", "a")
    if kind == "podGroups":
        cluster.objects[kind].pop()
    expected = cluster.run()
    objects = cluster.objects.setdefault(kind, [])
    objects.insert(int(place * len(objects)), wire)
    outcome = cluster.run()
    assert bound(outcome) == bound(expected)
    assert {pod: place for pod, place in outcome.decisions.final.items() if pod != "team/bad-0"} == (
        expected.decisions.final
    )
    assert len(outcome.warnings) == len(expected.warnings) + 1
    assert set(outcome.warnings) > set(expected.warnings)
