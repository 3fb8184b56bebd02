"""Why podgroups wait: reason bits and counts of an outcome as sentences and numbers (spec 02 §6, spec 03 §2.5)."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from kai_jax.cycle import Outcome
from kai_jax.encode.decode import STATUS_NAMES, waiting_pods
from kai_jax.model.podgroups import Job, is_ready
from kai_jax.model.resources import CPU, GPU, MEMORY, Kind, Requirement
from kai_jax.model.shards import DEFAULT_POOL
from kai_jax.model.subgroups import DEFAULT_PODSET
from kai_jax.model.tasks import USED, Task
from kai_jax.tensors import ACTIVE, MISCONFIGURED_TOPOLOGY, NONE, UNLIMITED, Cause, Reason, Status

HELD = {STATUS_NAMES[status] for status in USED}
NOT_LOADED = "no such podgroup in this shard, or it backs off after its last failed attempt (schedulingBackoff)"

CAUSE_TEXTS = {
    Cause.OUTSIDE: "outside the topology domain tried",
    Cause.CPU: "not enough CPU cores",
    Cause.MEMORY: "not enough memory",
    Cause.PODS: "no free pod slot",
    Cause.PORTS: "node(s) didn't have free ports for the requested pod ports",
    Cause.CAPACITY: "the devices there would exceed a queue's limit or quota",
}
LARGEST = {GPU: ("GPU", "", 1), CPU: ("CPU", " cores", 1000), MEMORY: ("memory", " GB", 10**9)}


@dataclass(frozen=True)
class Explanation:
    """What became of one podgroup: a sentence, details, and the numbers that they are made of."""

    podgroup: str  # namespace/name
    headline: str
    lines: tuple[str, ...]
    numbers: dict[str, Any]


def explain(outcome: Outcome, podgroup: str) -> Explanation:
    """Explains one podgroup, "namespace/name"."""
    for case in _cases(outcome):
        if case.job.key == podgroup:
            return case.explanation()
    return Explanation(podgroup, NOT_LOADED, (), {})


def explain_pending(outcome: Outcome) -> tuple[Explanation, ...]:
    """Explains every podgroup that has pods without a node, in the order of the podgroups."""
    return tuple(case.explanation() for case in _cases(outcome) if case.waiting)


def gate_sentence(reason: Reason, queue: str, resource: int, amounts: tuple[float, float, float]) -> str:
    """A capacity gate as the reference words it; `resource` 0 cpu, 1 memory, 2 gpu; amounts as Attempts.gate_amounts.

    Amounts are in millicores, bytes and devices: requested, allocated, limit or quota.
    """
    name, unit, scale = (("CPU cores", "cores", 1000), ("memory", "GB", 10**9), ("GPUs", "GPUs", 1))[resource]
    requested, allocated, bound = (shown(amount, scale) for amount in amounts)
    if reason is Reason.OVER_LIMIT:
        return (
            f"{queue} quota has reached the allowable limit of {name}. Limit is {bound} {unit}, "
            f"currently {allocated} {unit} allocated and workload requested {requested} {unit}"
        )
    asked = ("CPU cores", "GB memory", "GPUs")[resource]
    return (
        f"Non-preemptible workload is over quota. Workload requested {requested} {asked}, but {queue} quota is "
        f"{bound} {unit}, while {allocated} {unit} are already allocated for non-preemptible pods. "
        "Use a preemptible workload to go over quota."
    )


def shown(amount: float, scale: float) -> str:
    """`amount / scale` cut, not rounded, to three decimals, without trailing zeros (interface strings)."""
    if amount == UNLIMITED:
        return "Unlimited"
    return f"{amount / scale:.6f}"[:-3].rstrip("0").rstrip(".")


def counted(number: int, noun: str) -> str:
    """So many of them: "1 node", "1,000 nodes"."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _cases(outcome: Outcome) -> "Iterator[_Case]":
    return (_Case(outcome, index, job) for index, job in enumerate(outcome.encoded.layout.jobs))


class _Case:
    """One podgroup of an outcome."""

    def __init__(self, outcome: Outcome, index: int, job: Job) -> None:
        self.job = job
        self._outcome = outcome
        self._cluster = outcome.encoded.cluster
        self._attempts = outcome.attempts
        self._index = index
        places = {task.key: outcome.decisions.final[task.key] for task in job.tasks()}
        self.waiting = len(waiting_pods(places))
        self._counts = Counter(place[0] for place in places.values())
        self._reasons = int(self._attempts.reasons[index])
        failed = int(self._attempts.failed_task[index])
        self._failed: Task | None = None if failed == NONE else outcome.encoded.layout.tasks[failed]

    def explanation(self) -> Explanation:
        headline, *details = self._sentences()
        warnings = [text for text in self._warnings() if headline not in text]
        return Explanation(self.job.key, headline, (*details, *warnings), self._numbers())

    def _sentences(self) -> Iterator[str]:
        """What keeps a podgroup from being tried comes before what its trials ran into."""
        job = self.job
        if not self.waiting:
            pods = ", ".join(f"{count} {status}" for status, count in self._counts.items())
            yield f"no pod waits: {pods or 'the podgroup has no pods'}"
        elif job.refusal:
            yield f"{job.refusal}: not supported yet"
        elif not job.queue_exists:
            yield f"queue {job.queue_name!r} does not exist"
        elif job.queue == NONE:
            yield f"queue {job.queue_name!r} has child queues; only leaf queues take podgroups"
        elif self._reasons:
            yield from self._gate()
            yield from self._placement()
            yield from self._topology()
        elif not is_ready(job):
            yield f"not ready: {'; '.join(self._missing_pods())}"
        elif self.waiting == self._counts["Gated"]:
            yield f"{counted(self.waiting, 'pod')} held back by scheduling gates"
        elif self._misconfigured():
            yield "its topology constraint cannot be followed"
        else:
            yield "not tried in this cycle: its queue tries only its first podgroups (queueDepthPerAction)"

    def _misconfigured(self) -> bool:
        placements = self._cluster.placements.get(self._index, ())
        return any(placement.topology == MISCONFIGURED_TOPOLOGY for placement in placements)

    def _gate(self) -> Iterator[str]:
        for reason in (Reason.OVER_LIMIT, Reason.NON_PREEMPTIBLE_OVER_QUOTA):
            if self._reasons & reason:
                queue = self._cluster.queues.queues[self._attempts.gate_queue[self._index]].name
                requested, allocated, bound = self._attempts.gate_amounts[self._index].tolist()
                yield gate_sentence(
                    reason, queue, int(self._attempts.gate_resource[self._index]), (requested, allocated, bound)
                )

    def _placement(self) -> Iterator[str]:
        """The sentence of the failed attempt, then the nodes lost to each cause."""
        task = self._failed
        if task is None:
            return
        failure = task.refusal or self._cluster.constraints.failure(task.constraint)
        lost = [] if failure else [f"{counted(count, 'node')}: {text}" for text, count in self._lost(task)]
        if failure:
            cause = f"Scheduling conditions were not met for pod {task.key}: {failure}"
        else:
            cause = f"no nodes with enough resources were found: {'; '.join(lost) or 'the shard has no nodes'}"
        yield f"{self._shortage(task)} {cause}"
        yield from lost
        yield from self._too_large(self._cluster.requests.requirement(task.request))

    def _shortage(self, task: Task) -> str:
        """How far the attempt came (explanations)."""
        job, minimums = self.job, self.job.tree.minimums
        podset = next(index for index, tasks in enumerate(job.podsets) if any(each is task for each in tasks))
        held = sum(self._outcome.decisions.final[each.key][0] in HELD for each in job.podsets[podset])
        found = int(self._attempts.placed_before[self._index])
        if max(minimums) <= 1 or held >= minimums[podset]:
            return f"Resources were not found for pod {task.key} due to:"
        name = next(name for name, index in job.tree.podsets.items() if index == podset)
        if list(job.tree.podsets) == [DEFAULT_PODSET]:
            return (
                f"Resources were found for {found} pods while {minimums[podset]} are required for gang scheduling. "
                "Additional pods cannot be scheduled due to:"
            )
        return (
            f"Resources were found for {found} pods from all sub-groups while sub-group {name} requires "
            f"{minimums[podset]} pods for gang scheduling. "
            "Additional pods cannot be scheduled in this sub-group due to:"
        )

    def _lost(self, task: Task) -> Iterator[tuple[str, int]]:
        """Causes with the number of nodes lost to each, a node counted for the first filter that it fails."""
        requirement = self._cluster.requests.requirement(task.request)
        for cause, count in self._lost_counts().items():
            if cause is Cause.CONSTRAINT:
                yield from self._constraints(task, count)
            elif cause is Cause.GPU:
                yield "not enough GPU memory" if requirement.kind is Kind.MEMORY else "not enough GPUs", count
            elif cause is Cause.OTHER:
                yield f"not enough {' or '.join(_others(requirement))}", count
            else:
                yield CAUSE_TEXTS[cause], count

    def _constraints(self, task: Task, count: int) -> Iterator[tuple[str, int]]:
        """Static filters by name; they are known for all nodes, the count only for those that failed nothing else."""
        causes = self._cluster.constraints.causes(task.constraint)
        if sum(causes.values()) == count:
            yield from causes.items()
        elif len(causes) == 1:
            yield next(iter(causes)), count
        else:
            everywhere = ", ".join(f"{text}: {nodes}" for text, nodes in causes.items())
            yield f"refused by constraints (in the whole shard {everywhere})", count

    def _too_large(self, requirement: Requirement) -> Iterator[str]:
        """Resources of which no node has as much, however empty."""
        pool = self._cluster.params.node_pool_label_value or DEFAULT_POOL
        asked = {GPU: requirement.requested_gpu, **dict(requirement.amounts)}
        for name, amount in asked.items():
            most = max((node.amounts.get(name, 0) for node in self._cluster.nodes), default=0)
            label, unit, scale = LARGEST.get(name, (name, "", 0))
            if amount > most and most and scale:
                yield (
                    f"Max {label} resources available in a single node in the {pool} node-pool is topped at "
                    f"{shown(most, scale)}{unit}"
                )
            elif amount > most:
                yield f"No node in the {pool} node-pool has {'as much ' if most else ''}{label} resources"

    def _topology(self) -> Iterator[str]:
        unplaced = self._reasons & Reason.POD_SCHEDULING_ERRORS and self._failed is None
        if not self._reasons & Reason.TOPOLOGY_NOT_ENOUGH and not unplaced:
            return
        for node in self.job.tree.nodes:
            constraint = node.constraint
            if constraint is not None:
                level = constraint.required_topology_level or constraint.preferred_topology_level
                where = f"sub-group {node.name}" if node.name else "the podgroup"
                yield f"no domain of topology {constraint.topology} at level {level} has room for {where}"

    def _missing_pods(self) -> Iterator[str]:
        for name, index in self.job.tree.podsets.items():
            tasks, minimum = self.job.podsets[index], self.job.tree.minimums[index]
            alive = sum(task.status in ACTIVE or task.status is Status.PENDING for task in tasks)
            gated = sum(task.status is Status.GATED for task in tasks)
            if alive < minimum:
                where = "" if name == DEFAULT_PODSET else f"sub-group {name}: "
                yield f"{where}{alive} of {minimum} pods exist" + (f", {gated} more are gated" if gated else "")

    def _warnings(self) -> Iterator[str]:
        """What was wrong with the podgroup's objects."""
        named = (f"podgroup {self.job.key}:", f"podgroup {self.job.key} ")
        return (text for text in self._outcome.warnings if any(name in text for name in named))

    def _numbers(self) -> dict[str, Any]:
        numbers: dict[str, Any] = {
            "pods": dict(self._counts),
            "minimum": {name: self.job.tree.minimums[index] for name, index in self.job.tree.podsets.items()},
        }
        if self._attempts.gate_queue[self._index] != NONE:
            requested, allocated, bound = self._attempts.gate_amounts[self._index].tolist()
            numbers["gate"] = {
                "queue": self._cluster.queues.queues[self._attempts.gate_queue[self._index]].name,
                "resource": ("cpu", "memory", "gpu")[self._attempts.gate_resource[self._index]],
                "requested": requested,
                "allocated": allocated,
                "bound": bound,
                "short": allocated + requested - bound,
            }
        if self._failed is not None:
            requirement = self._cluster.requests.requirement(self._failed.request)
            numbers["failed_pod"] = self._failed.key
            numbers["request"] = {GPU: requirement.requested_gpu, **dict(requirement.amounts)}
            numbers["placed_before"] = int(self._attempts.placed_before[self._index])
            numbers["lost"] = {cause.name.lower(): count for cause, count in self._lost_counts().items()}
        return numbers

    def _lost_counts(self) -> dict[Cause, int]:
        counts = {cause: int(self._attempts.lost[self._index][cause]) for cause in Cause}
        return {cause: count for cause, count in counts.items() if count}


def _others(requirement: Requirement) -> list[str]:
    return [name for name, _ in requirement.amounts if name not in (CPU, MEMORY)]
