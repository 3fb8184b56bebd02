"""Sizes of tensors: few shapes, so that few programs are compiled.

Every cluster that fits the smallest bucket shares one shape with all features on. Beyond it an axis grows by its own
steps, and only what the cluster needs is compiled in.
"""

from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields, replace

from kai_jax.model.books import MAX_SHARED_DEVICES
from kai_jax.tensors import Bounds, Features

MAX_DEVICES = MAX_SHARED_DEVICES  # one bit each in State.task_devices


@dataclass(frozen=True)
class Sizes:
    """Entries on each axis, and the widths of Bounds."""

    nodes: int
    resources: int
    tasks: int
    podsets: int
    jobs: int
    tree_nodes: int
    queues: int
    slots: int
    requests: int
    constraints: int
    devices: int
    ports: int
    domains: int
    levels: int
    topologies: int
    children: int
    window: int
    queue_levels: int
    frames: int


@dataclass(frozen=True)
class Bucket:
    """The shape of all tensors and the static part of the policy that belongs to it."""

    sizes: Sizes
    features: Features

    @property
    def bounds(self) -> Bounds:
        sizes = self.sizes
        return Bounds(sizes.children, sizes.window, sizes.queue_levels, sizes.frames)


SMALLEST = Sizes(
    nodes=64, resources=8, tasks=256, podsets=256, jobs=128, tree_nodes=512, queues=64, slots=512, requests=64,
    constraints=64, devices=16, ports=4, domains=256, levels=4, topologies=4,
    children=16, window=16, queue_levels=4, frames=4,
)  # fmt: skip
NONE_NEEDED = Sizes(
    nodes=64, resources=4, tasks=256, podsets=256, jobs=256, tree_nodes=256, queues=64, slots=256, requests=64,
    constraints=64, devices=1, ports=1, domains=1, levels=1, topologies=1,
    children=16, window=2, queue_levels=4, frames=1,
)  # fmt: skip

_STEP = {"resources": 2, "devices": 2, "ports": 2, "domains": 2, "levels": 2, "topologies": 2,
         "queue_levels": 2, "frames": 2}  # fmt: skip
_USUAL_STEP = 4
_PADDED = ("tasks", "podsets", "jobs", "tree_nodes", "queues", "slots", "requests", "constraints")


def choose_bucket(needed: Sizes, features: Features) -> Bucket:
    """The bucket for so many entries; the axes that need one get at least one entry of padding."""
    padded = replace(needed, **{name: getattr(needed, name) + 1 for name in _PADDED})
    if all(size <= most for size, most in zip(_values(padded), _values(SMALLEST), strict=True)):
        return Bucket(SMALLEST, Features())
    grown = {name: _grown(name, size) for name, size in asdict(padded).items()}
    grown["devices"] = _devices(needed.devices) if features.shared else 1
    return Bucket(Sizes(**grown), features)


def _grown(name: str, size: int) -> int:
    """The first step that holds `size`."""
    if name == "nodes":
        return next(step for step in _node_steps() if step >= size)
    most = getattr(NONE_NEEDED, name)
    if size > most:
        most = max(most, getattr(SMALLEST, name))
    while most < size:
        most *= _STEP.get(name, _USUAL_STEP)
    return most


def _node_steps() -> Iterator[int]:
    """64, 80, 96, 112, 128, 160, ...: every step is paid for at each placement."""
    step = SMALLEST.nodes
    while True:
        yield from (step, step * 5 // 4, step * 3 // 2, step * 7 // 4)
        step *= 2


def _devices(needed: int) -> int:
    """A multiple of 8."""
    return min(MAX_DEVICES, -(-max(needed, 1) // 8) * 8)


def _values(sizes: Sizes) -> list[int]:
    return [getattr(sizes, field.name) for field in fields(sizes)]
