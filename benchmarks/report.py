"""Compares a benchmark run with the recorded times of another scheduler; usage: report.py BENCHMARK_JSON.

Exit status 1 when a ratio of thresholds.json is missed. The recorded times were taken on two cores of a shared
machine: their order of magnitude counts.
"""

import json
import sys
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

HERE = Path(__file__).parent
Times = dict[str, dict[str, float]]  # suite -> input -> median milliseconds


def main(path: Path) -> int:
    times = _times(json.loads(path.read_text()))
    peer = json.loads((HERE / "peer.json").read_text())
    bars = json.loads((HERE / "thresholds.json").read_text())
    ratios = _ratios(times, peer)
    console = Console()
    console.print(_comparison(times, ratios, peer, bars))
    console.print(_growth(times["core"]))
    missed = [f"{suite} of {name}: {ratios[suite].get(name, 0):.0f} times, wanted {bar}" for suite in ratios
              for name, bar in bars[suite].items() if ratios[suite].get(name, 0) < bar]  # fmt: skip
    for pair, bar in bars["growth"].items():
        small, large = pair.split()
        grown = times["core"][large] / times["core"][small]
        if grown >= bar:
            missed.append(f"core from {small} to {large}: {grown:.0f} times longer, wanted below {bar}")
    for line in missed:
        console.print(f"[red]missed[/] {line}")
    return 1 if missed else 0


def _times(report: Any) -> Times:
    times: Times = {"core": {}, "cycle": {}}
    for entry in report["benchmarks"]:
        suite = entry["name"].split("[")[0].removeprefix("test_")
        times[suite][entry["extra_info"]["input"]] = 1000 * entry["stats"]["median"]
    return times


def _ratios(times: Times, peer: Any) -> Times:
    """How many times faster: the core against deciding alone, the cycle against opening and deciding."""
    core = {name: peer[name]["actions_ms"] / ms for name, ms in times["core"].items() if name in peer}
    whole = {name: (peer[name]["open_ms"] + peer[name]["actions_ms"]) / ms for name, ms in times["cycle"].items()}
    return {"core": core, "cycle": whole}


def _comparison(times: Times, ratios: Times, peer: Any, bars: Any) -> Table:
    table = Table(box=box.SIMPLE_HEAD, title="against the recorded times")
    for name in ("input", "suite", "recorded ms", "ms", "times faster", "wanted"):
        table.add_column(name, justify="left" if name in ("input", "suite") else "right")
    for suite in ratios:
        for name, ratio in ratios[suite].items():
            recorded = times[suite][name] * ratio
            bar = bars[suite].get(name, "")
            table.add_row(name, suite, f"{recorded:,.0f}", f"{times[suite][name]:,.1f}", f"{ratio:,.0f}", str(bar))
    return table


def _growth(core: dict[str, float]) -> Table:
    """Of every scenario run at several sizes: growth of core time over growth of size."""
    table = Table(box=box.SIMPLE_HEAD, title="growth of core time")
    for name in ("from", "to", "size", "core", "slope"):
        table.add_column(name, justify="left" if name in ("from", "to") else "right")
    sized: dict[str, list[tuple[int, float]]] = {}
    for name, ms in core.items():
        scenario, _, size = name.partition(":")
        if size:
            sized.setdefault(scenario, []).append((int(size), ms))
    for scenario, points in sized.items():
        (base, base_ms), *larger = sorted(points)
        for size, ms in larger:
            grown, longer = size / base, ms / base_ms
            table.add_row(
                f"{scenario}:{base}", f"{scenario}:{size}", f"x{grown:.1f}", f"x{longer:.1f}", f"{longer / grown:.2f}"
            )
    return table


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
