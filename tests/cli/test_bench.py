"""The verbs `bench` and `snapshot`."""

import json
from pathlib import Path

import pytest
import yaml

from kai_jax.cli import bench as bench_module
from kai_jax.cli.measure import Settings
from kai_jax.sim import scenarios

from .conftest import Run

CONFIGS = Path(__file__).parent.parent.parent / "configs"
GROUPS = ("cluster", "workload", "policy", "plugins", "device")


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
    assert isinstance(bench_module._compose(overrides, show_config=False), Settings)


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


def test_a_policy_changes_the_plugins_of_the_snapshot() -> None:
    from kai_jax.cli.measure import _scheduler

    spread = bench_module._compose(("policy=spread", "plugins=deployed"), show_config=False)
    assert spread
    plugins = _scheduler(spread).plugins
    assert "gpuspread" in plugins
    assert not plugins.keys() & {"gpupack", "gpusharingorder"}
    assert plugins["nodeplacement"] == {"gpu": "spread", "cpu": "spread"}


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("workload=nothing", "Could not find 'workload/nothing'"),
        ("repeats=many", "Expected `int`, got `str` - at `$.repeats`"),
        ("rounds=3", "Could not override 'rounds'"),
        ("=", "="),
    ],
)
def test_a_wrong_override_ends_with_status_2(run: Run, override: str, message: str) -> None:
    result = run("bench", override)
    assert result.exit_code == 2
    assert message in result.stderr


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
