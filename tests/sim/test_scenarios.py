"""The generator writes the very snapshots whose decisions were recorded."""

import json
from typing import Any

import pytest
from conformance import cases

from kai_jax.sim import scenarios
from kai_jax.sim.snapshot import NodeShape, Scheduler


def _recorded() -> dict[str, Any]:
    return {name: case["snapshot"] for name, case in cases.load("scenarios").items()}


def test_every_recorded_snapshot_is_generated_anew() -> None:
    recorded = _recorded()
    assert len(recorded) == 18
    for name, snapshot in recorded.items():
        scenario, _, size = name.rpartition("_")
        generated = scenarios.document(scenario.replace("_", "-"), int(size))
        assert json.loads(json.dumps(generated)) == snapshot, name


def test_fractions_and_many_queues_fill_what_they_say() -> None:
    fractions = scenarios.document("fractions", 10)["rawObjects"]
    shares = [float(pod["metadata"]["annotations"]["gpu-fraction"]) for pod in fractions["pods"]]
    assert len(shares) == 160
    assert sum(shares) == pytest.approx(58)  # of 80 devices

    queues = scenarios.document("many-queues", 20)["rawObjects"]["queues"]
    assert [queue["metadata"]["name"] for queue in queues if "parentQueue" not in queue["spec"]] == ["d0000", "d0001"]
    assert sum("parentQueue" in queue["spec"] for queue in queues) == 20


def test_the_shape_of_a_node_scales_the_work() -> None:
    small = scenarios.document("fill-single", 3, NodeShape(gpus=2))["rawObjects"]
    assert len(small["pods"]) == 6
    assert small["nodes"][0]["status"]["allocatable"]["nvidia.com/gpu"] == "2"
    without = scenarios.document("fill-mixed", 3, NodeShape(gpus=0))["rawObjects"]
    assert "nvidia.com/gpu" not in without["nodes"][0]["status"]["allocatable"]


def test_the_scheduler_goes_into_the_document() -> None:
    scheduler = Scheduler({"proportion": {"kValue": "2"}, "gpuspread": {}}, {"allocate": 3})
    config = scenarios.document("fill-single", 1, scheduler=scheduler)["config"]
    (tier,) = config["tiers"]
    assert tier["plugins"] == [{"name": "proportion", "arguments": {"kValue": "2"}}, {"name": "gpuspread"}]
    assert config["queueDepthPerAction"] == {"allocate": 3}


@pytest.mark.parametrize(("text", "message"), [("fill", "'fill': unknown; known"), ("fill-single:0", "not positive")])
def test_what_cannot_be_generated_is_named(text: str, message: str) -> None:
    with pytest.raises(scenarios.ScenarioError, match=message):
        scenarios.document(*scenarios.parse(text))


def test_a_size_is_a_whole_number() -> None:
    with pytest.raises(scenarios.ScenarioError, match="'fill-single:many': size 'many' is not a whole number"):
        scenarios.parse("fill-single:many")
