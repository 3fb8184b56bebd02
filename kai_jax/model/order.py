"""Order of tasks inside a podset and of jobs inside a queue (spec 02 §5.1, §5.2)."""

from collections.abc import Sequence

import numpy as np

from kai_jax.api.config import Config
from kai_jax.api.numbers import integer
from kai_jax.api.objects import Pod, created
from kai_jax.model.podgroups import Job
from kai_jax.model.tasks import Task, label_of
from kai_jax.tensors.axes import Elastic
from kai_jax.tensors.state import Status

TASK_PRIORITY = "kai.scheduler/task-priority"
JOB_ROLE = "training.kubeflow.org/job-role"
RAY_NODE = "ray.io/node-type"

Key = tuple[object, ...]


# ------------------------------------------------------------------------------------ tasks


def sort_tasks(job: Job, config: Config, warnings: list[str]) -> None:
    """Orders the tasks of every podset: pending ones first, each part in task order."""
    terms = [_TASK_TERMS[plugin.name] for plugin in config.plugins if plugin.name in _TASK_TERMS]

    def key(task: Task) -> Key:
        pod = task.pod
        own = [term(pod, warnings) for term in terms]
        return (
            task.status is not Status.PENDING,
            *own,
            created(pod.metadata, label_of(pod), warnings),
            pod.metadata.uid,
        )

    for podset in job.podsets:
        if len(podset) > 1:
            podset.sort(key=key)


def _kubeflow(pod: Pod, warnings: list[str]) -> Key:
    return (pod.metadata.labels.get(JOB_ROLE) not in ("master", "launcher"),)


def _ray(pod: Pod, warnings: list[str]) -> Key:
    return (pod.metadata.labels.get(RAY_NODE) != "head",)


def _task_priority(pod: Pod, warnings: list[str]) -> Key:
    """Labelled before unlabelled, larger integers first, anything else last of the labelled."""
    text = pod.metadata.labels.get(TASK_PRIORITY)
    if text is None:
        return (2, 0)
    priority = integer(text)
    if priority is not None:
        return (0, -priority)
    warnings.append(
        f"{label_of(pod)}: metadata.labels[{TASK_PRIORITY}]: {text!r} is no integer, goes after those that are"
    )
    return (1, 0)


_TASK_TERMS = {"kubeflow": _kubeflow, "ray": _ray, "taskorder": _task_priority}


# ------------------------------------------------------------------------------------ jobs


def job_keys(jobs: Sequence[Job], elastic: np.ndarray, config: Config) -> list[np.ndarray]:
    """Keys of the job order for jobs that stand in the classes `elastic` i64[J]; smaller first, first key first."""
    by_plugin = {"priority": lambda: -np.array([job.priority for job in jobs]), "elastic": lambda: elastic}
    keys = [by_plugin[plugin.name]() for plugin in config.plugins if plugin.name in by_plugin]
    names = [(job.name.encode(), job.group.metadata.namespace.encode()) for job in jobs]
    ranks = {name: rank for rank, name in enumerate(sorted(set(names)))}
    return [*keys, np.array([job.created for job in jobs]), np.array([ranks[name] for name in names])]


def elastic_classes(active: np.ndarray, minimum: np.ndarray, starts: np.ndarray) -> np.ndarray:
    """i64[J] class of each job from counts i64[P] of its podsets; a job's podsets begin at `starts` i64[J]."""
    below = np.logical_or.reduceat(active < minimum, starts)
    above = np.logical_or.reduceat(active > minimum, starts)
    return np.where(below, Elastic.BELOW, np.where(above, Elastic.ABOVE, Elastic.EXACT))


def waiting_classes(active: np.ndarray, pending: np.ndarray, minimum: np.ndarray, starts: np.ndarray) -> np.ndarray:
    """bool[J,3] classes in which a job can wait with pending tasks, while tasks are only added to it."""
    present = elastic_classes(active, minimum, starts)
    missing = np.maximum(minimum - active, 0)
    out_of_reach = np.logical_or.reduceat(missing > pending, starts)
    left = np.add.reduceat(pending, starts) - np.add.reduceat(missing, starts)  # once every minimum is just met
    met = elastic_classes(active + missing, minimum, starts)
    classes = np.zeros((len(starts), len(Elastic)), dtype=bool)
    classes[np.arange(len(starts)), present] = np.add.reduceat(pending, starts) > 0
    grows = ~out_of_reach
    classes[:, Elastic.EXACT] |= grows & (met == Elastic.EXACT) & (left > 0)
    classes[:, Elastic.ABOVE] |= grows & ((met == Elastic.ABOVE) & (left > 0) | (met == Elastic.EXACT) & (left > 1))
    return classes
