"""The verb `schedule`: documents, exit codes, error lines, explanations, tables."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from kai_jax.cli.cache import default_folder, processor
from kai_jax.sim.snapshot import NodeShape, SnapshotWriter

from .conftest import Run

KEYS = [
    "snapshot", "initial", "queues", "actions", "final", "bind_requests", "shared_devices", "claim_devices", "reasons",
    "warnings", "certificates", "timings_ms",
]  # fmt: skip
STEPS = ["read", "parse", "encode", "compile", "core", "decode", "total"]


def _decisions(document: dict[str, Any]) -> dict[str, Any]:
    return {key: document[key] for key in KEYS if key not in ("snapshot", "timings_ms")}


def test_a_line_of_jsonl_holds_the_whole_contract(run: Run, snapshot: Path) -> None:
    result = run("schedule", "--output", "jsonl", snapshot)
    assert (result.exit_code, result.stderr) == (0, "")
    document = json.loads(result.stdout)
    assert list(document) == KEYS
    assert document["snapshot"] == str(snapshot)
    assert list(document["timings_ms"]) == STEPS
    assert document["timings_ms"]["total"] >= sum(document["timings_ms"][step] for step in STEPS[:-1]) - 0.01
    placed = {
        "team/whole-0": ["Binding", "n000001"],
        "team/halves-0": ["Binding", "n000000"],
        "team/halves-1": ["Binding", "n000000"],
    }
    assert document["actions"] == [{"action": "allocate", "changed": placed}]
    assert document["final"] == document["initial"] | placed
    assert document["bind_requests"]["team/whole-0"] == ["n000001", "Regular", 2, "1.00"]
    assert document["bind_requests"]["team/halves-0"] == ["n000000", "Fraction", 1, "0.50"]
    assert document["shared_devices"] == [["team/halves-0", "team/halves-1"]]
    assert document["queues"]["leaf"]["fair_share"][2] == 4
    assert document["queues"]["leaf"]["deserved"] == [-1, -1, 4]
    assert document["queues"]["leaf"]["allocated"] == [0, 0, 0]
    assert document["reasons"] == {"team/gang": ["PodSchedulingErrors"]}


def test_snapshots_that_cannot_be_read_keep_their_line_and_the_others_are_decided(
    run: Run, snapshot: Path, archive: Path, tmp_path: Path
) -> None:
    broken, missing = tmp_path / "broken.json", tmp_path / "missing.json"
    broken.write_text('{"rawObjects": [')
    result = run("schedule", "--output", "jsonl", snapshot, broken, missing, archive)
    assert result.exit_code == 1
    first, second, third, fourth = map(json.loads, result.stdout.splitlines())
    assert [second["snapshot"], third["snapshot"]] == [str(broken), str(missing)]
    assert list(second) == list(third) == ["snapshot", "error"]
    assert "No such file" in third["error"]
    assert _decisions(first) == _decisions(fourth)
    assert result.stderr.splitlines() == [f"kai-jax: {second['error']}", f"kai-jax: {third['error']}"]
    assert str(broken) in second["error"]


def test_the_four_outputs_tell_the_same(run: Run, snapshot: Path, archive: Path) -> None:
    lines = [json.loads(line) for line in run("schedule", "-o", "jsonl", snapshot, archive).stdout.splitlines()]
    one, several = run("schedule", "-o", "json", snapshot), run("schedule", "-o", "json", snapshot, archive)
    documents = list(yaml.safe_load_all(run("schedule", "-o", "yaml", snapshot, archive).stdout))
    assert _decisions(json.loads(one.stdout)) == _decisions(lines[0])
    assert [_decisions(document) for document in json.loads(several.stdout)] == list(map(_decisions, lines))
    assert list(map(_decisions, documents)) == list(map(_decisions, lines))
    table = run("schedule", snapshot).stdout
    for word in ("team/whole", "team/halves", "team/gang", "n000000", "0.50 of shared device #0", "leaf", "∞"):
        assert word in table


def test_without_a_snapshot_the_example_is_decided(run: Run) -> None:
    result = run("schedule", "--output", "json")
    assert result.exit_code == 0, result.stderr
    document = json.loads(result.stdout)
    assert document["snapshot"] == "example"
    assert document["warnings"] == [
        "config.actions: consolidation, reclaim, preempt, stalegangeviction: not supported yet, skipped"
    ]
    waiting = sorted(pod for pod, place in document["final"].items() if place == ["Pending"])
    assert waiting == ["training/sweep-0", "training/sweep-1"]
    assert document["final"]["training/ingest-0"] == ["Binding", "plain-a"]
    assert document["shared_devices"] == [["training/notebook-ann", "training/notebook-bob"]]


def test_an_explanation_names_the_numbers(run: Run, snapshot: Path) -> None:
    table = run("schedule", "--explain", "team/gang", snapshot)
    assert table.exit_code == 0
    told = table.stdout.split("\nteam/gang: ")[1]
    assert "lost: gpu 2" in told
    assert "failed_pod: team/gang-0" in told
    document = json.loads(run("schedule", "-o", "json", "--explain", "team/gang", snapshot).stdout)
    assert document["explanation"]["podgroup"] == "team/gang"
    assert document["explanation"]["headline"]
    unknown = json.loads(run("schedule", "-o", "json", "--explain", "team/nobody", snapshot).stdout)
    assert "no such podgroup" in unknown["explanation"]["headline"]


@pytest.fixture
def refused(run: Run, snapshot: Path, tmp_path: Path) -> Callable[[str, str], str]:
    """What is said of a file of settings, given by an option, that ends the command with status 2."""

    def say(option: str, written: str) -> str:
        path = tmp_path / "settings.yaml"
        path.write_text(written)
        result = run("schedule", option, path, snapshot)
        assert result.exit_code == 2
        return result.stderr

    return say


def test_text_of_the_input_cannot_steer_the_terminal(run: Run, tmp_path: Path) -> None:
    """Escapes, markup and emoji codes in every text that a table or an error line shows."""
    steer, shown = "\x1b[2J\u202e[bold]:skull:", "\\x1b[2J\\u202e[bold]:skull:"
    writer = SnapshotWriter(NodeShape(gpus=2), actions="allocate")
    writer.node(0)
    writer.queue("leaf")
    writer.job("placed", "leaf")
    writer.job("waits", "leaf")
    writer.job("lost", f"gone-{steer}")
    document = writer.document()
    document["rawObjects"]["queues"][0]["spec"]["displayName"] = f"display-{steer}"
    document["rawObjects"]["nodes"][0]["spec"]["taints"] = [
        {"key": f"key-{steer}", "value": f"value-{steer}", "effect": "NoSchedule"}
    ]
    document["rawObjects"]["pods"][0]["spec"]["tolerations"] = [{"operator": "Exists"}]
    document["rawObjects"]["pods"].append({"metadata": {"name": f"pod-{steer}"}, "spec": 5})
    snapshot = tmp_path / f"file-{steer}.json"
    snapshot.write_text(json.dumps(document))
    result = run("schedule", "--explain", "team/waits", snapshot, tmp_path / f"missing-{steer}.json")
    assert result.exit_code == 1
    assert "\x1b" not in result.stdout + result.stderr
    assert "\u202e" not in result.stdout + result.stderr
    told = "".join(result.stdout.split())  # long cells are folded
    for name in ("display", "gone", "key", "value", "pod", "file"):
        assert f"{name}-{shown}" in told, name
    assert f"missing-{shown}.json" in result.stderr


@pytest.mark.parametrize(
    ("option", "written"),
    [
        ("--usage", '"\\e[2J": 5'),
        ("--config", 'scenarioSearchBudgets: {maxActionSearchDuration: {"\\e[2J": soon}}'),
    ],
)
def test_text_of_a_file_of_settings_cannot_steer_the_terminal(
    refused: Callable[[str, str], str], option: str, written: str
) -> None:
    said = refused(option, written)
    assert "\\x1b[2J" in said
    assert "\x1b" not in said


def test_a_configuration_overrides_the_one_of_the_snapshot(run: Run, snapshot: Path, tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text("actions: reclaim\n")
    document = json.loads(run("schedule", "-o", "json", "--config", config, snapshot).stdout)
    assert document["actions"] == []
    assert document["final"] == document["initial"]
    assert document["warnings"] == ["config.actions: reclaim: not supported yet, skipped"]


def test_past_usage_lowers_fair_shares(run: Run, tmp_path: Path) -> None:
    """16 devices, equal weights, one queue has used half of the cluster: 5 and 11 (k = 1)."""
    writer = SnapshotWriter(NodeShape(gpus=16), actions="allocate")
    writer.node(0)
    for name in ("busy", "idle"):
        writer.queue(name, gpu=0)
        writer.job(f"job-{name}", name, pods=16)
    snapshot, usage = tmp_path / "cluster.json", tmp_path / "usage.yaml"
    snapshot.write_text(json.dumps(writer.document()))
    usage.write_text("busy: {gpu: 0.5}\ngone: {}\n")
    document = json.loads(run("schedule", "-o", "json", "--usage", usage, snapshot).stdout)
    assert {name: queue["fair_share"][2] for name, queue in document["queues"].items()} == {"busy": 5, "idle": 11}
    assert document["warnings"] == ["usage: queue 'gone' does not exist"]


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ("team-a: {gpus: 1}", "queue team-a: object contains unknown field `gpus`"),
        ("team-a: {gpu: -1}", "queue team-a: gpu: expected a number from 0 on, found -1.0"),
        ("team-a: {gpu: .nan}", "queue team-a: gpu: expected a number from 0 on, found nan"),
        ("[]", "expected `object`, got `array`"),
        ("a: {}\n---\nb: {}\n", "expected one YAML document, found 2"),
    ],
)
def test_usage_that_means_nothing_ends_with_status_2(
    refused: Callable[[str, str], str], written: str, message: str
) -> None:
    assert message in refused("--usage", written)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--output", "xml"], "'xml' is not one of"),
        (["--config", "nowhere.yaml"], "'nowhere.yaml' does not exist"),
        (["--colour"], "No such option"),
    ],
)
def test_a_wrong_command_line_ends_with_status_2(run: Run, arguments: list[str], message: str) -> None:
    result = run("schedule", *arguments)
    assert result.exit_code == 2
    assert message in result.stderr
    assert result.stdout == ""


def test_a_configuration_with_an_unknown_key_ends_with_status_2(refused: Callable[[str, str], str]) -> None:
    assert "unknown key 'action'" in refused("--config", "action: allocate\n")


def test_compiled_programs_are_kept_where_asked(run: Run, snapshot: Path, tmp_path: Path) -> None:
    kept = tmp_path / "programs"
    assert run("schedule", "--cache-dir", kept, snapshot).exit_code == 0
    # whether something was compiled in this process depends on the tests before; the setting does not
    import jax

    assert jax.config.jax_compilation_cache_dir == str(kept / processor())


def test_the_default_cache_is_in_the_users_cache_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert default_folder() == tmp_path / "kai-jax"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert default_folder() == Path.home() / ".cache" / "kai-jax"
