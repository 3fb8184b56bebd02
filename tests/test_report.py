"""The benchmark report: ratios against recorded times, growth, and the bars that decide its exit status."""

import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest

BENCHMARKS = Path(__file__).parent.parent / "benchmarks"


@pytest.fixture(scope="module")
def report() -> Any:
    spec = importlib.util.spec_from_file_location("report", BENCHMARKS / "report.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _write(folder: Path, faster: float, growth: float) -> Path:
    """A run in which every input with a bar is `faster` times as fast as its bar asks for."""
    peer = json.loads((BENCHMARKS / "peer.json").read_text())
    bars = json.loads((BENCHMARKS / "thresholds.json").read_text())
    seconds: dict[tuple[str, str], float] = {}
    for suite, opening in (("core", 0), ("cycle", 1)):
        for name, bar in bars[suite].items():
            recorded = peer[name]["actions_ms"] + opening * peer[name]["open_ms"]
            seconds[suite, name] = recorded / 1000 / bar / faster
    for pair in bars["growth"]:
        small, large = pair.split()
        seconds["core", large] = growth * seconds["core", small]
    entries = [
        {"name": f"test_{suite}[{name}]", "extra_info": {"input": name}, "stats": {"median": value}}
        for (suite, name), value in seconds.items()
    ]
    path = folder / "report.json"
    path.write_text(json.dumps({"benchmarks": entries}))
    return path


def test_a_run_above_its_bars_passes(report: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert report.main(_write(tmp_path, faster=2, growth=20)) == 0
    shown = capsys.readouterr().out
    assert ["fill-single:500", "core", "2,428", "24.3", "100", "50"] in [line.split() for line in shown.splitlines()]
    assert ["fill-single:500", "fill-single:5000", "x10.0", "x20.0", "2.00"] in [
        line.split() for line in shown.splitlines()
    ]


@pytest.mark.parametrize(
    ("faster", "growth", "message"),
    [(0.5, 20, "core of openb: 25 times, wanted 50"), (2, 41, "41 times longer, wanted below 40")],
)
def test_a_missed_bar_is_named_and_fails(
    report: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str], faster: float, growth: float, message: str
) -> None:
    assert report.main(_write(tmp_path, faster, growth)) == 1
    assert message in " ".join(capsys.readouterr().out.split())
