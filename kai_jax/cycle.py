"""One scheduling cycle, once through: objects -> model -> tensors -> decisions, with the time of every step.

The controller, the command line, tests and benchmarks all call `run`. It reads no clock but to time itself: the
moment of the cycle is an argument.
"""

import gc
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import jax

from kai_jax.actions.allocate import allocate, no_attempts
from kai_jax.api import documents
from kai_jax.api.config import Settings
from kai_jax.api.usage import NO_USAGE, Usage
from kai_jax.encode.buckets import MAX_DEVICES
from kai_jax.encode.decode import Decisions, decode
from kai_jax.encode.encode import Encoded, encode
from kai_jax.kernels.fair_share import fair_share
from kai_jax.model import cluster as model
from kai_jax.tensors import Attempts, Policy, Snapshot, State

ACTIONS = {"allocate": allocate}
STEPS = ("read", "parse", "encode", "compile", "core", "decode")

Observer = Callable[[str], None]


@dataclass(frozen=True)
class Timings:
    """Milliseconds of each step; `core` is tensors in, decisions out, device done, no compilation."""

    read: float = 0.0
    parse: float = 0.0
    encode: float = 0.0
    compile: float = 0.0
    core: float = 0.0
    decode: float = 0.0
    total: float = 0.0


@dataclass(frozen=True)
class Outcome:
    """What one cycle decided, and what it was decided from (for explanations)."""

    decisions: Decisions
    timings: Timings
    warnings: tuple[str, ...]
    encoded: Encoded
    state: State  # after the last action, on the host
    attempts: Attempts  # of the last action, on the host

    @property
    def cluster(self) -> model.Cluster:
        return self.encoded.cluster


def _ignore(step: str) -> None:
    """The observer of a run that nobody watches."""


class Stopwatch:
    """Sums the time of each step; a step may come more than once."""

    def __init__(self, observe: Observer | None = None) -> None:
        self._observe = observe or _ignore
        self._started = time.perf_counter()
        self._laps = dict.fromkeys(STEPS, 0.0)

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        self._observe(name)
        start = time.perf_counter()
        yield
        self._laps[name] += 1000 * (time.perf_counter() - start)

    def timings(self) -> Timings:
        return replace(Timings(**self._laps), total=1000 * (time.perf_counter() - self._started))


@contextmanager
def _collector_paused() -> Iterator[None]:
    """A garbage collection in the midst of a cycle visits every object of the cluster, and finds nothing."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


@_collector_paused()
def run_file(
    path: Path, now: float, overrides: Settings | None = None, usage: Usage = NO_USAGE, observe: Observer | None = None
) -> Outcome:
    """Runs one cycle on a snapshot file or a folder of objects, some of its settings overridden; the rest as `run`.

    Raises documents.DocumentError for an input that cannot be used at all.
    """
    clock = Stopwatch(observe)
    with clock.step("read"):
        document = documents.read(path, overrides)
    return _run(document, now, usage, clock)


@_collector_paused()
def run(document: documents.Document, now: float, usage: Usage = NO_USAGE, observe: Observer | None = None) -> Outcome:
    """Runs one cycle on a document at `now`, in Unix seconds.

    `usage` is the past usage of queues by name, and `observe` is told the name of every step as it starts.
    """
    return _run(document, now, usage, Stopwatch(observe))


def compilations() -> int:
    """Programs compiled in this process so far: one for each policy and bucket of shapes."""
    return _program.cache_info().misses


@dataclass(frozen=True)
class Prepared:
    """A cycle before it is decided: tensors on the device, and the program for their bucket."""

    encoded: Encoded
    arguments: tuple[Any, ...]
    program: Any

    def decide(self) -> tuple[jax.Array, State, Attempts]:
        """Fair shares f64[3,Q], the state after the last action, its attempts; returns when the device is done."""
        decided: tuple[jax.Array, State, Attempts] = jax.block_until_ready(self.program(*self.arguments))
        return decided


def prepare(cluster: model.Cluster, clock: Stopwatch | None = None, devices: int = 0) -> Prepared:
    """Encodes a cluster and finds or compiles its program; with room for `devices` shared devices on a node or more."""
    clock = clock or Stopwatch()
    with clock.step("encode"):
        encoded = encode(cluster, devices)
        arguments = jax.block_until_ready(jax.device_put((encoded.k_value, encoded.snapshot, encoded.state)))
    with clock.step("compile"):
        leaves, structure = jax.tree.flatten(arguments)
        shapes = tuple(jax.ShapeDtypeStruct(leaf.shape, leaf.dtype) for leaf in leaves)
        actions = tuple(name for name in cluster.config.actions if name in ACTIONS)
        program = _program(actions, encoded.policy, structure, shapes)
    return Prepared(encoded, arguments, program)


def _run(document: documents.Document, now: float, usage: Usage, clock: Stopwatch) -> Outcome:
    with clock.step("parse"):
        cluster = model.build(document, now, usage)
    prepared, decided = _decide_in_bucket(cluster, clock)
    with clock.step("decode"):
        shares, state, attempts = jax.device_get(decided)
        decisions = decode(prepared.encoded, shares, state, attempts)
    warnings = (
        *document.warnings,
        *cluster.warnings,
        *_missing_actions(document.config.actions),
        *_full_nodes(cluster, state, attempts),
    )
    return Outcome(decisions, clock.timings(), warnings, prepared.encoded, state, attempts)


def _missing_actions(actions: Iterable[str]) -> Iterator[str]:
    missing = [name for name in actions if name not in ACTIONS]
    if missing:
        yield f"config.actions: {', '.join(missing)}: not supported yet, skipped"


def _full_nodes(cluster: model.Cluster, state: State, attempts: Attempts) -> Iterator[str]:
    if attempts.overflow:
        full = [node.name for node in cluster.nodes if state.device_taken[:, node.index].all()]
        limit = f"more than {MAX_DEVICES} shared devices are not supported, no further one is opened"
        yield f"node {', '.join(full)}: {limit}"


def _decide_in_bucket(cluster: model.Cluster, clock: Stopwatch) -> tuple[Prepared, tuple[jax.Array, State, Attempts]]:
    """Decides; a bucket that turns out too small for the shared devices of a node is doubled, as far as that goes."""
    devices = 0
    while True:
        prepared = prepare(cluster, clock, devices)
        with clock.step("core"):
            decided = prepared.decide()
        _, state, attempts = decided
        had, devices = state.device_taken.shape[0], 2 * state.device_taken.shape[0]
        if not attempts.overflow or had >= MAX_DEVICES:
            return prepared, decided


@lru_cache(maxsize=64)
def _program(actions: tuple[str, ...], policy: Policy, structure: Any, shapes: tuple[Any, ...]) -> Any:
    """The compiled cycle for one policy and one bucket."""
    return jax.jit(partial(_decide, actions, policy)).lower(*jax.tree.unflatten(structure, shapes)).compile()


def _decide(
    actions: tuple[str, ...], policy: Policy, k_value: jax.Array, snapshot: Snapshot, state: State
) -> tuple[jax.Array, State, Attempts]:
    """The pure function: fair shares, then every action in order on the state that the one before left."""
    shares, attempts = fair_share(snapshot.queues, k_value), no_attempts(snapshot)
    for name in actions:
        state, attempts = ACTIONS[name](policy, snapshot, shares, state)
    return shares, state, attempts
