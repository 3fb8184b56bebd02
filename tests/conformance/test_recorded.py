"""Decisions equal recorded ones, case by case; a family that differs names the cases and their first differences."""

import json
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import jax
import pytest
from conformance import cases

from kai_jax import cycle
from kai_jax.actions import allocate
from kai_jax.cli.contract import as_document

NOW = 1_790_000_000.0  # September 2026; recorded times are years in the past or years long
SHOWN = 3

# The peer fills its queue heaps in random order, so the first top of a level may be any of its queues (spec 02 §3.2);
# we start with the best. Case -> the top queue with which the recorded run must have started.
RANDOM_STARTS = {("allocate-multi-fraction", "0015"): "d1"}


@pytest.mark.parametrize("family", cases.families())
def test_decisions_equal_the_recorded_ones(family: str) -> None:
    differing = {name: lines for name, lines in _differences(family).items() if _decisive(lines)}
    text = "\n".join(f"{name}: {line}" for name, lines in differing.items() for line in _decisive(lines)[:SHOWN])
    assert not differing, f"{len(differing)} cases differ\n{text}"


def test_reasons_equal_the_recorded_ones_in_nearly_all_cases() -> None:
    every = [lines for family in cases.families() for lines in _differences(family).values()]
    agreeing = sum(len(lines) == len(_decisive(lines)) for lines in every)
    assert agreeing / len(every) >= 0.95, f"{agreeing} of {len(every)}"


@pytest.mark.parametrize(("family", "name"), RANDOM_STARTS)
def test_the_recorded_random_start_leads_to_the_recorded_decisions(
    family: str, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = cases.load(family)[name]
    tops = [q["metadata"]["name"] for q in case["snapshot"]["rawObjects"]["queues"] if "parentQueue" not in q["spec"]]
    first = 1 + sorted(tops).index(RANDOM_STARTS[family, name])
    build = allocate.build_order

    def start_with_that_queue(*arguments):
        order = build(*arguments)
        return replace(order, top=order.top.at[0].set(first))

    monkeypatch.setattr(allocate, "build_order", start_with_that_queue)
    _forget_programs()
    differences = list(_run(tmp_path / "snapshot.json", case))
    monkeypatch.undo()
    _forget_programs()
    assert differences == []


def _forget_programs() -> None:
    cycle._program.cache_clear()
    jax.clear_caches()


@cache
def _differences(family: str) -> dict[str, list[str]]:
    """Case -> lines; kept, since two tests look at them."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "snapshot.json"
        return {
            name: list(_run(path, case))
            for name, case in cases.load(family).items()
            if (family, name) not in RANDOM_STARTS
        }


def _run(path: Path, case: cases.Document) -> Iterator[str]:
    path.write_text(json.dumps(case["snapshot"]))
    outcome = cycle.run_file(path, NOW)
    yield from cases.differences(case["expected"], json.loads(json.dumps(as_document(str(path), outcome))))


def _decisive(lines: list[str]) -> list[str]:
    return [line for line in lines if not line.startswith("reasons: ")]
