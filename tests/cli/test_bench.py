"""The verbs `bench` and `snapshot`."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from kai_jax.cli import bench as bench_module
from kai_jax.cli.measure import Settings
from kai_jax.sim import scenarios
from kai_jax.sim.snapshot import BUILT_IN, NodeShape, SnapshotWriter

from .conftest import Run

CONFIGS = Path(__file__).parent.parent.parent / "configs"
GROUPS = ("cluster", "workload", "policy", "plugins", "device")


def _settings(*overrides: str) -> Settings:
    return bench_module._settings(bench_module._compose(overrides))


def test_every_choice_is_listed_beside_its_default_and_in_the_help(run: Run) -> None:
    listed = (CONFIGS / "bench.yaml").read_text()
    help_text = run("bench", "--help").stdout
    for group in GROUPS:
        choices = {path.stem for path in (CONFIGS / group).glob("*.yaml")}
        assert choices, group
        for choice in choices:
            assert choice in listed, f"{group}={choice}"
            assert choice in help_text, f"{group}={choice}"


def test_every_workload_is_a_scenario_or_files() -> None:
    workloads = {path.stem: yaml.safe_load(path.read_text()) for path in (CONFIGS / "workload").glob("*.yaml")}
    assert workloads.keys() == scenarios.SCENARIOS.keys() | {"files"}
    assert all(workload["name"] == name for name, workload in workloads.items() if name != "files")


@pytest.mark.parametrize(
    "override", [f"{group}={path.stem}" for group in GROUPS for path in (CONFIGS / group).glob("*.yaml")]
)
def test_every_choice_composes(override: str) -> None:
    overrides = (override, "workload.paths=[a.zip]") if override == "workload=files" else (override,)
    assert isinstance(_settings(*overrides), Settings)


def test_the_built_in_plugins_are_those_of_the_scheduler_in_order() -> None:
    from kai_jax.cli.measure import _scheduler

    assert list(_scheduler(_settings()).plugins.items()) == list(BUILT_IN.plugins.items())


def test_a_benchmark_measures_each_size(run: Run) -> None:
    result = run("bench", "-o", "json", "workload=fill-single", "workload.sizes=[2,4]", "cluster=four", "repeats=2")
    assert result.exit_code == 0, result.output
    small, large = json.loads(result.stdout)
    assert (small["input"], small["nodes"], small["pending"], small["placed"]) == ("fill-single:2", 2, 8, 8)
    assert (large["input"], large["nodes"], large["pending"], large["placed"]) == ("fill-single:4", 4, 16, 16)
    assert small["slope"] is None
    assert large["slope"] == pytest.approx(large["core_ms"] / small["core_ms"] / 2)
    assert large["pods_per_second"] == pytest.approx(1000 * 16 / large["core_ms"])
    assert min(small["read_ms"], small["parse_ms"], small["encode_ms"], small["core_ms"], small["decode_ms"]) > 0


def test_a_benchmark_of_files_prints_a_table(run: Run, snapshot: Path) -> None:
    result = run("bench", "workload=files", f"workload.paths=[{snapshot}]", "repeats=1")
    assert result.exit_code == 0, result.output
    (row,) = [line.split() for line in result.stdout.splitlines() if line.startswith("  cluster")]
    assert row[:4] == ["cluster", "2", "5", "3"]


def test_pods_behind_gates_wait_before_a_cycle_too(run: Run, tmp_path: Path) -> None:
    writer = SnapshotWriter(NodeShape(gpus=2), actions="allocate")
    writer.node(0)
    writer.queue("leaf")
    writer.job("running", "leaf", on=0)
    writer.job("waiting", "leaf")
    writer.job("gated", "leaf")
    document = writer.document()
    document["rawObjects"]["pods"][-1]["spec"]["schedulingGates"] = [{"name": "wait"}]
    path = tmp_path / "gated.json"
    path.write_text(json.dumps(document))
    (row,) = json.loads(run("bench", "-o", "json", "workload=files", f"workload.paths=[{path}]", "repeats=1").stdout)
    assert (row["pending"], row["placed"]) == (2, 1)


def test_a_policy_changes_the_plugins_of_the_snapshot() -> None:
    from kai_jax.cli.measure import _scheduler

    plugins = _scheduler(_settings("policy=spread", "plugins=deployed")).plugins
    assert "gpuspread" in plugins
    assert not plugins.keys() & {"gpupack", "gpusharingorder"}
    assert plugins["nodeplacement"] == {"gpu": "spread", "cpu": "spread"}


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("workload=nothing", "Could not find 'workload/nothing'"),
        ("repeats=many", "repeats: expected `int`, got `str`"),
        ("repeats=0", "repeats: expected `int` >= 1"),
        ("workload.sizes=[4,0]", "workload.sizes[1]: expected `int` >= 1"),
        ("workload.sizes=[]", "workload: neither sizes nor paths are given"),
        ("rounds=3", "Could not override 'rounds'"),
        ("=", "="),
    ],
)
def test_a_wrong_override_ends_with_status_2(run: Run, override: str, message: str) -> None:
    result = run("bench", override)
    assert result.exit_code == 2
    assert message in result.stderr


@pytest.mark.skipif(Path("/dev/nvidia0").exists(), reason="there is a GPU")
def test_a_device_that_is_not_there_ends_with_status_2_and_says_what_to_do() -> None:
    command = [sys.executable, "-m", "kai_jax.cli.main", "bench", "device=gpu"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)  # jax keeps its platform
    assert done.returncode == 2, done.stderr
    message = done.stderr.splitlines()[-1]
    assert message.startswith("Error: device: jax cannot use 'cuda' here")
    assert "choose device=cpu" in message
    assert "kai-jax[gpu]" in message


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["workload.name=everything"], "scenario 'everything': unknown"),
        (["workload=files", "workload.paths=[nowhere.json]"], "nowhere.json"),
    ],
)
def test_an_input_that_cannot_be_measured_is_named(run: Run, overrides: list[str], message: str) -> None:
    result = run("bench", *overrides)
    assert result.exit_code == 1
    assert message in result.stderr


def test_a_bug_is_not_reported_as_bad_input(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise ValueError("a bug")

    monkeypatch.setattr(scenarios, "document", broken)
    assert isinstance(run("bench").exception, ValueError)


def test_the_composed_configuration_can_be_shown(run: Run) -> None:
    shown = yaml.safe_load(run("bench", "--show-config", "cluster=four").stdout)
    assert shown["cluster"]["gpus"] == 4
    assert shown["workload"]["name"] == "fill-single"


def test_a_scenario_is_written_as_a_snapshot(run: Run, tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    assert run("snapshot", "fractions:3", out).exit_code == 0
    assert json.loads(out.read_text()) == json.loads(json.dumps(scenarios.document("fractions", 3)))
    listed = run("snapshot", "--list").stdout
    assert [line.split(":")[0] for line in listed.splitlines()] == list(scenarios.SCENARIOS)
    unknown = run("snapshot", "everything:3", out)
    assert unknown.exit_code == 2
    assert "scenario 'everything': unknown" in unknown.stderr
