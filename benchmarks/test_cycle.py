"""Times the inputs whose times another scheduler recorded, and the growth of one of them.

    pytest benchmarks --benchmark-json report.json && python benchmarks/report.py report.json

`core`: tensors in, decisions out, device done, nothing compiled. `cycle`: bytes of a file in, decisions out.
"""

import json
import lzma
import time
from pathlib import Path

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from kai_jax import cycle
from kai_jax.api import documents
from kai_jax.model import cluster
from kai_jax.sim import scenarios

RECORDED = Path(__file__).parent.parent / "tests" / "conformance" / "data" / "openb.json.xz"
TRACES = {"openb": "0000", "openb-models": "0033"}
CORE = (
    "fill-single:500",
    "fill-single:1000",
    "fill-single:5000",
    "fill-mixed:500",
    "fill-mixed:1000",
    "many-queues:500",
    "fractions:250",
    "topology-gang:512",
    "idle-cycle:500",
    *TRACES,
)
CYCLE = ("fill-single:500", "fill-mixed:1000", "many-queues:500", "fractions:250", "topology-gang:512")


@pytest.mark.parametrize("name", CORE)
def test_core(name: str, benchmark: BenchmarkFixture, tmp_path: Path) -> None:
    document = documents.read(_write(name, tmp_path))
    prepared = cycle.prepare(cluster.build(document, time.time()))
    benchmark.extra_info["input"] = name
    benchmark.pedantic(prepared.decide, rounds=5, warmup_rounds=1)


@pytest.mark.parametrize("name", CYCLE)
def test_cycle(name: str, benchmark: BenchmarkFixture, tmp_path: Path) -> None:
    path = _write(name, tmp_path)
    benchmark.extra_info["input"] = name
    benchmark.pedantic(lambda: cycle.run_file(path, time.time()), rounds=5, warmup_rounds=1)


def _write(name: str, folder: Path) -> Path:
    if name in TRACES:
        with lzma.open(RECORDED, "rt", encoding="utf-8") as file:
            document = json.load(file)[TRACES[name]]["snapshot"]
    else:
        document = scenarios.document(*scenarios.parse(name))
    path = folder / "snapshot.json"
    path.write_text(json.dumps(document))
    return path
