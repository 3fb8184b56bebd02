"""What one cycle decided, for people: queues, what was placed where, and why the rest waits."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

from rich import box
from rich.console import Console
from rich.padding import Padding
from rich.table import Table

from kai_jax.api.plain import some_of
from kai_jax.cli.screen import markup
from kai_jax.cycle import Outcome
from kai_jax.encode.decode import Decisions, waiting_pods
from kai_jax.explain import Explanation, counted, explain_pending
from kai_jax.explain import explain as explain_podgroup
from kai_jax.model.queues import Queue
from kai_jax.tensors import QUEUE_CPU, QUEUE_GPU, QUEUE_MEMORY

GIB = 2**30
UNLIMITED = "∞"
NAMES_SHOWN = 3  # pods of one kind on one node that are named; the others are counted
PIPELINED = "Pipelined"


def print_outcome(console: Console, snapshot: str, outcome: Outcome, explain: str | None) -> None:
    """Prints one snapshot; `explain` names a podgroup to explain in full."""
    decisions = outcome.decisions
    placed, waiting = decisions.placed, waiting_pods(decisions.final)
    console.print(_headline(snapshot, outcome, len(placed), len(waiting)))
    for warning in outcome.warnings:
        console.print(f"[yellow]warning[/] {markup(warning)}", highlight=False)
    console.print(_queues(outcome))
    if placed:
        console.print(_placed(outcome, placed))
    if waiting:
        console.print(_waiting(outcome, waiting))
    if explain is not None:
        _print_explanation(console, explain_podgroup(outcome, explain))


def _headline(snapshot: str, outcome: Outcome, placed: int, waiting: int) -> str:
    timings = outcome.timings
    return (
        f"[bold]{markup(snapshot)}[/]: {counted(len(outcome.cluster.nodes), 'node')}, "
        f"{counted(placed, 'pod')} placed, {waiting} waiting; "
        f"{timings.total:,.0f} ms, of which {timings.compile:,.0f} compiling and {timings.core:,.1f} deciding"
    )


def _queues(outcome: Outcome) -> Table:
    """The queue tree: quota, fair share, and what is allocated after the cycle."""
    table = Table(box=box.SIMPLE_HEAD, title="Queues", title_justify="left", title_style="bold")
    table.add_column("queue", overflow="fold")
    for unit in ("GPUs", "cores", "GiB"):
        table.add_column(f"{unit}:\nquota", justify="right")
        table.add_column("fair\nshare", justify="right")
        table.add_column("allo-\ncated", justify="right", style="bold")
    for queue in _depth_first(outcome.cluster.queues.queues):
        given = outcome.decisions.queues[queue.name]
        after = outcome.state.queue_allocated[:, queue.index]
        cells = [
            _amount(float(amounts[resource]), unit)
            for resource, unit in ((QUEUE_GPU, 1), (QUEUE_CPU, 1000), (QUEUE_MEMORY, GIB))
            for amounts in (given["deserved"], given["fair_share"], after)
        ]
        table.add_row("  " * (queue.level - 1) + markup(queue.display_name), *cells)
    return table


def _depth_first(queues: Sequence[Queue], parent: int = 0) -> Iterator[Queue]:
    start = queues[parent].child_start
    for queue in queues[start : start + queues[parent].child_count]:
        yield queue
        yield from _depth_first(queues, queue.index)


def _placed(outcome: Outcome, placed: set[str]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, title="Placed", title_justify="left", title_style="bold")
    for name in ("podgroup", "queue", "pods", "where"):
        table.add_column(name, overflow="fold")
    shared = _shared_devices(outcome.decisions)
    for job in outcome.cluster.jobs:
        pods = [task.key for task in job.tasks()]
        now = [pod for pod in pods if pod in placed]
        if now:
            where = "\n".join(_places(outcome.decisions, now, shared))
            table.add_row(markup(job.key), markup(job.queue_name), f"{len(now)} of {len(pods)}", where)
    return table


def _places(decisions: Decisions, pods: Iterable[str], shared: dict[str, list[int]]) -> Iterator[str]:
    """One line for the pods of one kind on one node."""
    groups: dict[tuple[str, str], list[str]] = defaultdict(list)
    for pod in pods:
        status, node = decisions.final[pod]
        groups[node, _holding(decisions, pod, status, shared)].append(pod.rpartition("/")[2])
    for (node, holding), names in groups.items():
        yield f"[bold]{markup(node)}[/] {markup(some_of(names, NAMES_SHOWN))}{holding}"


def _holding(decisions: Decisions, pod: str, status: str, shared: dict[str, list[int]]) -> str:
    """Which devices a pod gets: how many, or which part of which shared one; or that it has to wait for them."""
    if status == PIPELINED:
        return " [yellow]when pods there have ended[/]"
    _, kind, count, portion = decisions.bind_requests[pod]
    if kind == "Fraction":
        devices = ", ".join(f"#{number}" for number in shared.get(pod, ()))
        return f": {portion} of shared device {devices}"
    return f": {counted(count, 'device')}" if count else ""


def _shared_devices(decisions: Decisions) -> dict[str, list[int]]:
    """Pod -> numbers of the shared devices that it holds a part of, counted on each node."""
    numbers: dict[str, list[int]] = defaultdict(list)
    on_node: dict[str, int] = defaultdict(int)
    for pods in decisions.shared_devices:
        node = decisions.final[pods[0]][1]
        for pod in pods:
            numbers[pod].append(on_node[node])
        on_node[node] += 1
    return numbers


def _waiting(outcome: Outcome, waiting: set[str]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, title="Waiting", title_justify="left", title_style="bold")
    for name in ("podgroup", "queue", "pods", "why"):
        table.add_column(name, overflow="fold")
    jobs = {job.key: job for job in outcome.cluster.jobs}
    for explanation in explain_pending(outcome):
        job = jobs[explanation.podgroup]
        pods = sum(task.key in waiting for task in job.tasks())
        why = "\n".join(map(markup, (explanation.headline, *_details(explanation))))
        table.add_row(markup(job.key), markup(job.queue_name), str(pods), why)
    return table


def _print_explanation(console: Console, explanation: Explanation) -> None:
    console.print(f"[bold]{markup(explanation.podgroup)}[/]: {markup(explanation.headline)}", highlight=False)
    for line in _details(explanation):
        console.print(Padding(markup(line), (0, 0, 0, 2)), highlight=False)
    for name, number in explanation.numbers.items():
        text = ", ".join(f"{key} {value}" for key, value in number.items()) if isinstance(number, dict) else number
        console.print(Padding(markup(f"{name}: {text}"), (0, 0, 0, 2)), highlight=False)
    console.print()


def _details(explanation: Explanation) -> Iterator[str]:
    """The lines that the headline does not hold."""
    return (line for line in explanation.lines if line not in explanation.headline)


def _amount(value: float, unit: int) -> str:
    return UNLIMITED if value < 0 else f"{value / unit:,.2f}".rstrip("0").rstrip(".")
