"""The queue tree of a shard (spec 01 §6.1, spec 02 §1.1)."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from kai_jax.api.numbers import MAX_INT32
from kai_jax.api.objects import Queue as QueueObject
from kai_jax.api.objects import QueueResources, created
from kai_jax.api.usage import Usage
from kai_jax.model.shards import Shard
from kai_jax.tensors.axes import UNLIMITED

GREATEST = 1e290  # amounts of a queue; sums and products of such are still finite
DEFAULT_PRIORITY = 100
MEGABYTE = 10**6
NO_PARENT = -1
FLAT_ROOT = "default"  # the one top queue where the hierarchy counts only half

Triple = tuple[float, float, float]  # cpu milli, memory bytes, gpu devices


@dataclass(frozen=True, slots=True)
class Queue:
    """A queue of the tree; `index` is its place on axis Q, where 0 is the virtual root above all top queues."""

    index: int
    name: str
    display_name: str
    parent: int
    level: int  # virtual root 0, top queues 1
    child_start: int
    child_count: int
    quota: Triple
    limit: Triple
    weight: Triple
    priority: int
    created: int  # Unix seconds
    usage: Triple  # normalised history

    @property
    def leaf(self) -> bool:
        return self.child_count == 0 and self.level > 0


@dataclass(frozen=True, slots=True)
class QueueTree:
    """Queues level by level, siblings contiguous and by name; `index` finds them by name."""

    queues: tuple[Queue, ...]
    index: Mapping[str, int]

    def leaf(self, name: str) -> int:
        """Index of a leaf queue, -1 where the name is unknown or has children."""
        index = self.index.get(name, -1)
        return index if index >= 0 and self.queues[index].leaf else -1


def read_queues(
    objects: Iterable[QueueObject],
    shard: Shard,
    full_hierarchy: bool,
    usage: Usage,
    now: float,
    warnings: list[str],
) -> QueueTree:
    """The tree below the virtual root; queues that do not reach a top queue are dropped with all below them."""
    specs = {queue.metadata.name: queue for queue in objects if shard.has(queue.metadata.labels)}
    parents = {name: queue.spec.parent_queue for name, queue in specs.items()}
    if not full_hierarchy:
        specs, parents = _flattened(specs, parents, warnings)
    tree = _tree(specs, parents, usage, now, warnings)
    warnings += [f"usage: queue {name!r} does not exist" for name in usage if name not in tree.index]
    return tree


def _flattened(
    specs: dict[str, QueueObject], parents: dict[str, str], warnings: list[str]
) -> tuple[dict[str, QueueObject], dict[str, str]]:
    """Top queues go, all others become children of one synthetic, unlimited queue."""
    kept = {name: queue for name, queue in specs.items() if parents[name]}
    if FLAT_ROOT in kept:
        warnings.append(f"queue {FLAT_ROOT}: metadata.name: taken by the queue above all others, dropped")
    return {name: queue for name, queue in kept.items() if name != FLAT_ROOT}, {
        **dict.fromkeys(kept, FLAT_ROOT),
        FLAT_ROOT: "",
    }


def _tree(
    specs: Mapping[str, QueueObject],
    parents: Mapping[str, str],
    usage: Usage,
    now: float,
    warnings: list[str],
) -> QueueTree:
    children: dict[str, list[str]] = {}
    for name, parent in parents.items():
        children.setdefault(parent, []).append(name)
    order = _by_level(children)
    _warn_of_orphans(parents, {name for name, *_ in order}, warnings)
    index = {name: place for place, (name, *_) in enumerate(order, 1)}
    starts: dict[str, int] = {}
    for name, parent, _ in order:
        starts.setdefault(parent, index[name])
    top = len(children.get("", ()))
    root = Queue(0, "", "", NO_PARENT, 0, starts.get("", 0), top, *_unlimited(), DEFAULT_PRIORITY, 0, (0.0, 0.0, 0.0))
    queues = [root]
    for name, parent, level in order:
        spec = specs.get(name)
        numbers = _unlimited() if spec is None else _numbers(name, spec.spec.resources, warnings)
        queues.append(
            Queue(
                index[name],
                name,
                (spec.spec.display_name if spec else "") or name,
                index[parent] if parent else 0,
                level,
                starts.get(name, 0),
                len(children.get(name, ())),
                *numbers,
                DEFAULT_PRIORITY if spec is None else _priority(name, spec.spec.priority, warnings),
                int(now) if spec is None else int(created(spec.metadata, f"queue {name}", warnings)),
                usage.get(name, (0.0, 0.0, 0.0)),
            )
        )
    return QueueTree(tuple(queues), index)


def _by_level(children: Mapping[str, list[str]]) -> list[tuple[str, str, int]]:
    """(name, parent, level) of every queue that is reached from the top, siblings together and by name."""
    order: list[tuple[str, str, int]] = []
    parents, level = [""], 1
    while parents:
        below = [
            (name, parent, level) for parent in parents for name in sorted(children.get(parent, ()), key=str.encode)
        ]
        order += below
        parents, level = [name for name, *_ in below], level + 1
    return order


def _warn_of_orphans(parents: Mapping[str, str], reached: set[str], warnings: list[str]) -> None:
    for name, parent in parents.items():
        if name in reached:
            continue
        if parent not in parents:
            reason = f"parent {parent!r} does not exist"
        elif _on_cycle(name, parents):
            reason = "the queue is its own ancestor"
        else:
            reason = f"parent {parent!r} was dropped"
        warnings.append(f"queue {name}: spec.parentQueue: {reason}, dropped with all queues below it")


def _on_cycle(name: str, parents: Mapping[str, str]) -> bool:
    seen: set[str] = set()
    at = parents[name]
    while at in parents and at not in seen and at != name:
        seen.add(at)
        at = parents[at]
    return at == name


def _numbers(name: str, resources: QueueResources, warnings: list[str]) -> tuple[Triple, Triple, Triple]:
    """Quota, limit and weight; a memory amount below zero is unlimited, others count as written."""
    entries = {"cpu": resources.cpu, "memory": resources.memory, "gpu": resources.gpu}

    def amount(kind: str, field: str, value: float) -> float:
        where = f"queue {name}: spec.resources.{kind}.{field}: {value:g}"
        if value < 0 and (value != UNLIMITED or field == "overQuotaWeight"):
            warnings.append(f"{where} is negative" + ("" if field == "overQuotaWeight" else " (-1: unlimited)"))
        if abs(value) > GREATEST:
            warnings.append(f"{where} is too large, counts as {GREATEST:g}")
        return max(-GREATEST, min(value, GREATEST))

    quota, limit, weight = (
        [amount(kind, field, value(entry)) for kind, entry in entries.items()]
        for field, value in (
            ("quota", lambda entry: entry.quota),
            ("limit", lambda entry: entry.limit),
            ("overQuotaWeight", lambda entry: entry.over_quota_weight),
        )
    )
    return _in_bytes(quota), _in_bytes(limit), (weight[0], weight[1], weight[2])


def _priority(name: str, written: int | None, warnings: list[str]) -> int:
    if written is None:
        return DEFAULT_PRIORITY
    priority = max(-MAX_INT32, min(written, MAX_INT32))
    if priority != written:
        warnings.append(f"queue {name}: spec.priority: {written} does not fit into 32 bits, counts as {priority}")
    return priority


def _in_bytes(amounts: list[float]) -> Triple:
    cpu, megabytes, gpu = amounts
    return cpu, max(UNLIMITED, megabytes * MEGABYTE), gpu


def _unlimited() -> tuple[Triple, Triple, Triple]:
    no_bound = (UNLIMITED, UNLIMITED, UNLIMITED)
    return no_bound, no_bound, (1.0, 1.0, 1.0)
