"""Small clusters from wire objects, for tests of the model and of the encoding."""

from typing import Any

import msgspec

from kai_jax.api.config import Config, Params, Plugin
from kai_jax.api.documents import Document
from kai_jax.api.kinds import KINDS
from kai_jax.api.objects import Objects, Pod
from kai_jax.model.cluster import Cluster, build

NOW = 1_790_000_000.0
UNLIMITED = {"quota": -1, "overQuotaWeight": 1, "limit": -1}
TYPES = {kind.attribute: kind.type for kind in KINDS}


def a_node(
    name: str = "n1", gpus: int = 4, labels: dict | None = None, allocatable: dict | None = None, **more
) -> dict:
    labels = {"nvidia.com/gpu.memory": "40960", "nvidia.com/gpu.count": str(gpus)} if labels is None else labels
    if allocatable is None:
        allocatable = {"cpu": "64", "memory": "512Gi", "pods": "110", "nvidia.com/gpu": str(gpus)}
    return {"metadata": {"name": name, "labels": labels}, "status": {"allocatable": allocatable}, **more}


def a_queue(name: str = "leaf", parent: str = "", gpu: dict | None = None, **spec) -> dict:
    resources = {"cpu": UNLIMITED, "memory": UNLIMITED, "gpu": gpu or UNLIMITED}
    return {"metadata": {"name": name}, "spec": {"parentQueue": parent, "resources": resources, **spec}}


def a_group(name: str = "job", namespace: str = "team", queue: str = "leaf", **spec) -> dict:
    return {"metadata": {"name": name, "namespace": namespace}, "spec": {"queue": queue, **spec}}


def a_pod(
    name: str,
    group: str = "job",
    requests: dict | None = None,
    node: str = "",
    phase: str = "",
    labels: dict | None = None,
    annotations: dict | None = None,
    metadata: dict | None = None,
    namespace: str = "team",
    **spec,
) -> dict:
    """A pending pod, or a running one where a node is named."""
    requests = {"cpu": "1", "nvidia.com/gpu": "1"} if requests is None else requests
    joined = {"pod-group-name": group} if group else {}
    return {
        "metadata": {
            "name": name,
            "namespace": namespace,
            "uid": name,
            "labels": labels or {},
            "annotations": {**joined, **(annotations or {})},
            **(metadata or {}),
        },
        "spec": {
            "schedulerName": "kai-scheduler",
            "nodeName": node,
            "containers": [{"name": "main", "resources": {"requests": requests}}],
            **spec,
        },
        "status": {"phase": phase or ("Running" if node else "Pending")},
    }


def pod_object(name: str = "pod", **wire: Any) -> Pod:
    return msgspec.convert(a_pod(name, **wire), Pod)


def with_plugins(*names: str) -> Config:
    return Config(plugins=tuple(Plugin(name) for name in names))


def a_cluster(
    nodes: list[dict],
    pods: list[dict],
    groups: list[dict] | None = None,
    queues: list[dict] | None = None,
    config: Config | None = None,
    params: Params | None = None,
    **others: list[dict],
) -> Cluster:
    """One podgroup `job` in the queue `leaf` unless others are named."""
    wires = {
        "nodes": nodes,
        "pods": pods,
        "pod_groups": [a_group()] if groups is None else groups,
        "queues": [a_queue()] if queues is None else queues,
        **others,
    }
    objects = Objects(**{kind: msgspec.convert(wire, tuple[TYPES[kind], ...]) for kind, wire in wires.items()})
    return build(Document(config or Config(), params or Params(), objects), NOW)


def statuses(cluster: Cluster) -> dict[str, str]:
    """Status names of all tasks by the pod's name."""
    return {task.pod.metadata.name: task.status.name for job in cluster.jobs for task in job.tasks()}
