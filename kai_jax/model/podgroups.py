"""Podgroups as jobs: which are scheduled, their tree, priority and pods (spec 01 §6)."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from kai_jax.api.numbers import integer
from kai_jax.api.objects import PodGroup, PriorityClass, created
from kai_jax.api.plain import some_of
from kai_jax.api.times import TimeError, seconds, unix
from kai_jax.model.queues import QueueTree
from kai_jax.model.shards import Shard
from kai_jax.model.subgroups import DEFAULT_PODSET, Tree, TreeError, flat_tree, read_tree
from kai_jax.model.tasks import Task
from kai_jax.tensors.state import ACTIVE, Status

SUBGROUP = "kai.scheduler/subgroup-name"
LAST_EVICTION = "kai.scheduler/last-eviction-timestamp"

DEFAULT_PRIORITY = 50
PREEMPTIBLE_BELOW = 100
NO_BACKOFF = -1

_ACTIVE = frozenset(ACTIVE)


@dataclass(slots=True)
class Job:
    """A podgroup of the shard with its pods, by podset."""

    group: PodGroup
    name: str
    queue: int  # on axis Q, -1 where the job cannot wait: unknown queue, or one with children
    queue_name: str
    queue_exists: bool
    priority: int
    preemptible: bool
    created: float  # Unix seconds
    preemption_delay: float  # seconds
    tree: Tree
    podsets: list[list[Task]]
    refusal: str = ""  # the feature that keeps it from being scheduled

    @property
    def key(self) -> str:
        return f"{self.group.metadata.namespace}/{self.name}"

    @property
    def may_evict_from(self) -> float:
        """Unix seconds from which on the job may trigger evictions."""
        written = self.group.metadata.annotations.get(LAST_EVICTION)
        try:
            evicted = unix(written) if written else self.created
        except TimeError:
            evicted = self.created  # unparsable is absent
        return max(self.created, evicted) + self.preemption_delay

    def tasks(self) -> Iterable[Task]:
        return (task for podset in self.podsets for task in podset)


class Jobs:
    """Jobs in the order of the podgroups; pods find theirs by the podgroup's name."""

    def __init__(self) -> None:
        self.jobs: list[Job] = []
        self._by_name: dict[str, Job] = {}
        self._by_key: dict[tuple[str, str], Job] = {}  # only names that several namespaces use

    def add(self, job: Job) -> None:
        self.jobs.append(job)
        first = self._by_name.setdefault(job.name, job)
        if first is not job:
            for each in (first, job):
                self._by_key[each.group.metadata.namespace, each.name] = each

    def of(self, name: str, namespace: str) -> Job | None:
        """The podgroup of that name in any namespace; the pod's own where several have one."""
        job = self._by_name.get(name)
        if self._by_key and job is not None:
            return self._by_key.get((namespace, name), job)
        return job


def read_jobs(
    groups: Iterable[PodGroup], classes: Iterable[PriorityClass], queues: QueueTree, shard: Shard, warnings: list[str]
) -> Jobs:
    """Podgroups of the shard that are not backing off, without pods yet."""
    priorities = _Priorities(classes)
    jobs = Jobs()
    for group in groups:
        if shard.has(group.metadata.labels) and not _backs_off(group, shard):
            jobs.add(_read(group, priorities, queues, warnings))
    warnings += priorities.warnings()
    return jobs


def join(job: Job, task: Task, warnings: list[str]) -> None:
    """Adds a pod to its podset; a pod of a podset that does not exist is left out."""
    name = task.pod.metadata.labels.get(SUBGROUP) or DEFAULT_PODSET
    place = job.tree.podsets.get(name)
    if place is None:
        warnings.append(
            f"pod {task.key}: metadata.labels[{SUBGROUP}]: podgroup {job.key} has no subgroup {name!r}, not scheduled"
        )
    else:
        job.podsets[place].append(task)


def is_ready(job: Job) -> bool:
    """Enough pods are alive and not gated to reach every minimum that the tree requires (readiness)."""
    tree = job.tree
    ready = [
        minimum <= sum(task.status in _ACTIVE or task.status is Status.PENDING for task in podset)
        for podset, minimum in zip(job.podsets, tree.minimums, strict=True)
    ]
    return ready[0] if tree.simple else tree.required(ready)


# ------------------------------------------------------------------------------------ one podgroup


class _Priorities:
    """Values of priority classes by name; remembers which podgroups named one that does not exist."""

    def __init__(self, classes: Iterable[PriorityClass]) -> None:
        self._values: dict[str, int] = {}
        self._default = DEFAULT_PRIORITY
        self._missing: dict[str, list[str]] = {}
        for item in classes:
            self._values[item.metadata.name] = item.value
            if item.global_default:
                self._default = item.value

    def of(self, name: str, job: str) -> int:
        if name and name not in self._values:
            self._missing.setdefault(name, []).append(job)
        return self._values.get(name, self._default)

    def warnings(self) -> Iterator[str]:
        for name, keys in self._missing.items():
            missing = f"spec.priorityClassName: priority class {name!r} does not exist, {self._default} counts"
            yield f"podgroup {some_of(keys)}: {missing}"


def _read(group: PodGroup, priorities: _Priorities, queues: QueueTree, warnings: list[str]) -> Job:
    spec = group.spec
    key = f"{group.metadata.namespace}/{group.metadata.name}"
    label = f"podgroup {key}"
    exists = spec.queue in queues.index
    if not exists:
        warnings.append(f"{label}: spec.queue: queue {spec.queue!r} does not exist")
    priority = priorities.of(spec.priority_class_name, key) if exists else 0
    try:
        tree = read_tree(group)
    except TreeError as error:
        warnings.append(f"{label}: {error}; the subgroups are ignored")
        tree = flat_tree(1)
    return Job(
        group=group,
        name=group.metadata.name,
        queue=queues.leaf(spec.queue),
        queue_name=spec.queue,
        queue_exists=exists,
        priority=priority,
        preemptible=exists and _preemptible(spec.preemptibility, priority, label, warnings),
        created=created(group.metadata, label, warnings),
        preemption_delay=_delay(group, label, warnings) if spec.preemption_delay is not None else 0.0,
        tree=tree,
        podsets=[[] for _ in tree.minimums],
    )


def _preemptible(written: str, priority: int, label: str, warnings: list[str]) -> bool:
    if written in ("preemptible", "non-preemptible"):
        return written == "preemptible"
    if written:
        warnings.append(f"{label}: spec.preemptibility: unknown value {written!r}, the priority decides")
    return priority < PREEMPTIBLE_BELOW


def _delay(group: PodGroup, label: str, warnings: list[str]) -> float:
    try:
        return max(0.0, seconds(group.spec.preemption_delay or 0))
    except TimeError as error:
        warnings.append(f"{label}: spec.preemptionDelay: {error}, ignored")
        return 0.0


def _backs_off(group: PodGroup, shard: Shard) -> bool:
    """The last attempt in this node pool failed and the group asks not to be tried again (backoff)."""
    backoff, conditions = group.spec.scheduling_backoff, group.status.scheduling_conditions
    if backoff is None or backoff == NO_BACKOFF or not conditions:
        return False
    last = max(conditions, key=lambda condition: _transition(condition.transition_id))
    return last.node_pool == shard.pool_of(group.metadata.labels)


def _transition(text: str) -> int:
    number = integer(text)
    return -1 if number is None else number
