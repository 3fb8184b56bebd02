"""Times cycles on inputs of growing size: the numbers that `kai-jax bench` prints."""

import json
import statistics
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from msgspec import Meta

from kai_jax import cycle
from kai_jax.encode.decode import waiting_pods
from kai_jax.sim import scenarios
from kai_jax.sim.snapshot import NodeShape, Scheduler

Positive = Annotated[int, Meta(ge=1)]


@dataclass(frozen=True)
class Workload:
    """A scenario at several sizes, or snapshot files."""

    name: str = "files"
    sizes: list[Positive] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        if not self.sizes and not self.paths:
            raise ValueError("neither sizes nor paths are given: nothing to measure")


@dataclass(frozen=True)
class Policy:
    """What a policy changes in the list of plugins."""

    arguments: dict[str, dict[str, str]] = field(default_factory=dict)
    replace: dict[str, str] = field(default_factory=dict)
    without: list[str] = field(default_factory=list)
    queue_depth: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Plugins:
    names: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Device:
    platform: str = "cpu"


@dataclass(frozen=True)
class Settings:
    """The composed configuration of a benchmark; the groups of `configs/`."""

    cluster: NodeShape
    workload: Workload
    policy: Policy
    plugins: Plugins
    device: Device
    repeats: Positive


@dataclass(frozen=True)
class Measurement:
    """Medians over the repeats [ms]; `compile_ms` is of the first cycle, which loads or compiles the program."""

    input: str
    nodes: int
    pending: int  # pods that waited before the cycle
    placed: int  # pods that it gave a place
    compile_ms: float
    read_ms: float
    parse_ms: float
    encode_ms: float
    core_ms: float
    decode_ms: float
    slope: float | None  # growth of core time over growth of pending pods, since the first input

    @property
    def pods_per_second(self) -> float:
        """Pods decided per second of core time."""
        return 1000 * self.pending / self.core_ms


def measure(settings: Settings, observe: Callable[[str], None] = lambda text: None) -> Iterator[Measurement]:
    """One measurement per size of the workload, as they are done; `observe` is told what is running.

    Raises InputError for an unknown scenario and for a file that cannot be read.
    """
    first: Measurement | None = None
    with tempfile.TemporaryDirectory() as folder:
        for path in _inputs(settings, Path(folder)):
            observe(path.name)
            measurement = _measure_one(path, settings.repeats, first)
            first = first or measurement
            yield measurement


def _inputs(settings: Settings, folder: Path) -> Iterable[Path]:
    yield from map(Path, settings.workload.paths)
    for size in settings.workload.sizes:
        document = scenarios.document(settings.workload.name, size, settings.cluster, _scheduler(settings))
        path = folder / f"{settings.workload.name}:{size}"
        path.with_suffix(".json").write_text(json.dumps(document))
        yield path.with_suffix(".json")


def _scheduler(settings: Settings) -> Scheduler:
    policy = settings.policy
    names = [policy.replace.get(name, name) for name in settings.plugins.names if name not in policy.without]
    return Scheduler({name: policy.arguments.get(name, {}) for name in names}, policy.queue_depth)


def _measure_one(path: Path, repeats: int, first: Measurement | None) -> Measurement:
    cold = cycle.run_file(path, time.time())
    warm = [cycle.run_file(path, time.time()).timings for _ in range(repeats)]
    medians: dict[str, Any] = {
        f"{step}_ms": statistics.median(getattr(timings, step) for timings in warm)
        for step in cycle.STEPS
        if step != "compile"
    }
    decisions = cold.decisions
    pending = len(waiting_pods(decisions.initial))
    slope = None
    if first:
        slope = (medians["core_ms"] / first.core_ms) / (max(pending, 1) / max(first.pending, 1))
    return Measurement(
        input=path.stem,
        nodes=len(cold.cluster.nodes),
        pending=pending,
        placed=len(decisions.placed),
        compile_ms=cold.timings.compile,
        slope=slope,
        **medians,
    )
