"""Numbers out of range, names that obey nobody, tables that are too small: named, and the rest is scheduled."""

from pathlib import Path

import pytest
from regression.clusters import Cluster, bound

from kai_jax.api import documents
from kai_jax.explain import explain


def _with_neighbour() -> Cluster:
    return Cluster().queue("q").node("n1", 4).job("ok", "q")


def test_a_device_count_beyond_32_bits_is_refused_on_its_pod() -> None:
    outcome = _with_neighbour().job("bad", "q", fraction="0.5", devices=2**31).run()
    assert bound(outcome) == {"ok-0": "n1"}
    assert any("bad-0" in text and "gpu-fraction-num-devices" in text for text in outcome.warnings)


def test_a_queue_priority_beyond_32_bits_counts_as_the_greatest() -> None:
    cluster = Cluster().queue("low", created=1).queue("high", priority=2**40, created=2).node("n1", 1)
    outcome = cluster.job("a", "low").job("b", "high").run()
    assert bound(outcome) == {"b-0": "n1"}
    assert any("queue high: spec.priority" in text for text in outcome.warnings)


@pytest.mark.parametrize("field", ["quota", "limit", "weight"])
def test_a_queue_amount_that_no_sum_survives_is_capped(field: str) -> None:
    outcome = Cluster().queue("q", **{field: 1e300}).node("n1", 2).job("ok", "q").run()
    assert bound(outcome) == {"ok-0": "n1"}
    assert any("is too large" in text for text in outcome.warnings)


def test_a_node_with_more_shared_devices_than_the_table_holds_takes_what_fits() -> None:
    cluster = Cluster().queue("q").node("n1", 70)
    for index in range(66):
        cluster.job(f"part{index:02d}", "q", fraction="0.6", cpu="100m")
    outcome = cluster.run()
    assert len(bound(outcome)) == 64
    assert any(text.startswith("node n1: more than 64 shared devices") for text in outcome.warnings)


def test_a_full_table_of_shared_devices_is_named_though_another_node_takes_the_rest() -> None:
    cluster = Cluster().queue("q").node("n1", 70).node("n2", 70)
    for index in range(66):
        cluster.job(f"part{index:02d}", "q", fraction="0.6", cpu="100m")
    outcome = cluster.run()
    assert sorted(bound(outcome).values()) == ["n1"] * 64 + ["n2"] * 2
    assert any(text.startswith("node n1: more than 64 shared devices") for text in outcome.warnings)


def test_pods_that_ask_for_nothing_take_a_pod_slot() -> None:
    cluster = Cluster().queue("q").node("n1", pods=2)
    for index in range(3):
        cluster.job(f"bare{index}", "q", gpus=0, requests={})
    assert sorted(bound(cluster.run())) == ["bare0-0", "bare1-0"]


@pytest.mark.parametrize("port", [80, 81])
def test_host_ports_of_sidecars_are_kept_apart(port: int) -> None:
    def web(cluster: Cluster, name: str, port: int) -> None:
        sidecar = {"name": "web", "ports": [{"hostPort": port, "containerPort": 80}], "restartPolicy": "Always"}
        cluster.group(name, "q", 1).pod(name, name, initContainers=[sidecar])

    cluster = Cluster().queue("q").node("n1")
    cluster.job("plain", "q", gpus=0)
    web(cluster, "first", 80)
    web(cluster, "second", port)
    expected = {"plain-0", "first"} | ({"second"} if port == 81 else set())
    assert set(bound(cluster.run())) == expected


def test_a_pod_of_ours_without_a_podgroup_is_named() -> None:
    outcome = _with_neighbour().pod("alone", "", 1).run()
    assert bound(outcome) == {"ok-0": "n1"}
    assert any("team/alone" in text and "no such podgroup" in text for text in outcome.warnings)


def test_a_constraint_that_makes_no_sense_is_the_reason_shown() -> None:
    cluster = _with_neighbour().topology("t", "rack")
    cluster.job("bad", "q", group={"topologyConstraint": {"topology": "t", "requiredTopologyLevel": "moon"}})
    outcome = cluster.run()
    assert bound(outcome) == {"ok-0": "n1"}
    explanation = explain(outcome, "team/bad")
    assert "topology" in explanation.headline
    assert any("'moon'" in line for line in explanation.lines)


def test_a_name_with_control_characters_is_left_out() -> None:
    outcome = _with_neighbour().job("\x1b[31mred", "q").run()
    assert bound(outcome) == {"ok-0": "n1"}
    assert any(text.startswith("PodGroup") and "metadata.name" in text for text in outcome.warnings)


def test_a_document_that_is_no_object_does_not_take_its_file_along(tmp_path: Path) -> None:
    file = tmp_path / "objects.yaml"
    file.write_text("- a\n---\n{apiVersion: v1, kind: Node, metadata: {name: n1}}\n")
    document = documents.read(file)
    assert [node.metadata.name for node in document.objects.nodes] == ["n1"]
    assert any("objects.yaml[0]" in text for text in document.warnings)
