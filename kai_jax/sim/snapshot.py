"""Writes snapshot documents object by object; the result depends on the calls alone."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from kai_jax.api.config import DEFAULT_ACTIONS, DEFAULT_PLUGINS
from kai_jax.api.kinds import KINDS

GPU = "nvidia.com/gpu"
NAMESPACE = "team"
EPOCH = datetime(2026, 3, 1, tzinfo=UTC)
OBJECTS_PER_SECOND = 4  # so that creation times have ties, as in real clusters
PRIORITIES = {"train": 50, "build": 100, "inference": 125}
EVERY_ACTION = ", ".join(DEFAULT_ACTIONS)
PLUGINS: Mapping[str, Mapping[str, str]] = {plugin.name: plugin.arguments for plugin in DEFAULT_PLUGINS}

Object = dict[str, Any]


@dataclass(frozen=True)
class NodeShape:
    """What every node of a synthetic cluster offers; memory as a quantity, device memory in MiB."""

    gpus: int = 8
    cpu: int = 64
    memory: str = "512Gi"
    pods: int = 110
    gpu_memory: int = 40960


@dataclass(frozen=True)
class Scheduler:
    """The part of a document that configures the scheduler; `plugins` in order, name to arguments."""

    plugins: Mapping[str, Mapping[str, str]] = field(default_factory=lambda: PLUGINS)
    queue_depth: Mapping[str, int] = field(default_factory=dict)


DEFAULT_SHAPE = NodeShape()
BUILT_IN = Scheduler()


@dataclass
class SnapshotWriter:
    """Collects objects; names, uids and creation times count up in the order of the calls."""

    shape: NodeShape = DEFAULT_SHAPE
    scheduler: Scheduler = BUILT_IN
    actions: str = EVERY_ACTION
    parameters: Object = field(default_factory=dict)
    _written: int = 0
    _objects: dict[str, list[Object]] = field(default_factory=lambda: {kind.key: [] for kind in KINDS})

    def __post_init__(self) -> None:
        for name, value in PRIORITIES.items():
            self._objects["priorityClasses"].append({"metadata": {"name": name, "uid": name}, "value": value})

    def node(self, index: int, labels: Mapping[str, str] | None = None) -> None:
        """A ready node of the shape, with `labels` beside those of its name and devices; jobs run `on` its index."""
        shape, name = self.shape, _node_name(index)
        amounts = {"cpu": str(shape.cpu), "memory": shape.memory, "pods": str(shape.pods)}
        facts = {"kubernetes.io/hostname": name}
        if shape.gpus:
            amounts[GPU] = str(shape.gpus)
            facts |= {"nvidia.com/gpu.count": str(shape.gpus), "nvidia.com/gpu.memory": str(shape.gpu_memory)}
        ready = [{"type": "Ready", "status": "True"}]
        self._add(
            "nodes",
            self._metadata(name, labels=facts | dict(labels or {})),
            spec={},
            status={"allocatable": amounts, "capacity": amounts, "conditions": ready},
        )

    def topology(self, name: str, levels: Sequence[str]) -> None:
        """A topology over labels of nodes, the widest level first."""
        self._add("topologies", self._metadata(name), spec={"levels": [{"nodeLabel": level} for level in levels]})

    def queue(
        self,
        name: str,
        parent: str | None = None,
        gpu: int = -1,
        weight: int = 1,
        *,
        limit: int = -1,
        priority: int = 0,
    ) -> None:
        """A queue with a quota, weight and limit of devices; CPU and memory are unlimited, priority 0 stays unset."""
        unlimited = {"quota": -1, "overQuotaWeight": 1, "limit": -1}
        devices = {"quota": gpu, "overQuotaWeight": weight, "limit": limit}
        resources = {"gpu": devices, "cpu": unlimited, "memory": unlimited}
        spec: Object = {"resources": resources}
        if parent:
            spec["parentQueue"] = parent
        if priority:
            spec["priority"] = priority
        self._add("queues", self._metadata(name), spec=spec)

    def job(
        self,
        name: str,
        queue: str,
        pods: int = 1,
        gpus: int = 1,
        *,
        on: int | None = None,
        priority: str = "train",
        minimum: int | None = None,
        cpu: str = "500m",
        fraction: float | None = None,
        topology: Object | None = None,
        annotations: Mapping[str, str] | None = None,
        deleted: str | None = None,
    ) -> None:
        """A podgroup and its pods, running on node `on` or pending; `minimum` defaults to all pods.

        `annotations` go on every pod, and so does `deleted`, the time (RFC 3339) by which they are to have ended.
        """
        minimum = pods if minimum is None else minimum
        spec: Object = {"queue": queue, "priorityClassName": priority, "minMember": minimum}
        if topology:
            spec["topologyConstraint"] = topology
        self._add("podGroups", self._metadata(name, namespace=NAMESPACE), spec=spec)
        amounts = {"cpu": cpu, "memory": "1Gi"} | ({GPU: str(gpus)} if gpus else {})
        part = {"gpu-fraction": str(fraction)} if fraction else {}
        notes = {"pod-group-name": name, **part, **(annotations or {})}
        ending = {"deletionTimestamp": deleted} if deleted else {}
        for index in range(pods):
            container = {"name": "main", "resources": {"requests": amounts, "limits": amounts}}
            body: Object = {"schedulerName": "kai-scheduler", "containers": [container]}
            if on is not None:
                body["nodeName"] = _node_name(on)
            metadata = self._metadata(f"{name}-{index}", namespace=NAMESPACE, annotations=notes, labels={}, **ending)
            self._add("pods", metadata, spec=body, status={"phase": "Pending" if on is None else "Running"})

    def document(self) -> Object:
        """The whole snapshot: configuration, parameters, objects."""
        return {"config": self._config(), "schedulerParams": self._parameters(), "rawObjects": self._objects}

    def _config(self) -> Object:
        plugins: list[Object] = []
        for name, arguments in self.scheduler.plugins.items():
            plugins.append({"name": name, "arguments": dict(arguments)} if arguments else {"name": name})
        unlimited = {
            "maxActionSearchDuration": {"default": "0s"},
            "maxJobSearchDuration": "0s",
            "minJobSearchDuration": "0s",
            "maxGeneratorSearchDuration": {"default": "0s", "NodeLocalGreedy": "0s", "MultiNodeGang": "0s"},
        }
        config: Object = {"actions": self.actions, "tiers": [{"plugins": plugins}], "scenarioSearchBudgets": unlimited}
        if self.scheduler.queue_depth:
            config["queueDepthPerAction"] = dict(self.scheduler.queue_depth)
        return config

    def _parameters(self) -> Object:
        second = 1_000_000_000
        return {
            "schedulerName": "kai-scheduler",
            "partitionParams": {"NodePoolLabelKey": "kai.scheduler/node-pool", "NodePoolLabelValue": ""},
            "maxNumberConsolidationPreemptees": 16,
            "useSchedulingSignatures": True,
            "fullHierarchyFairness": True,
            "allowConsolidatingReclaim": True,
            "numOfStatusRecordingWorkers": 1,
            "globalDefaultStalenessGracePeriod": 60 * second,
            "schedulePeriod": second,
            "stuckInReleasingThreshold": 120 * second,
            "queueLabelKey": "kai.scheduler/queue",
        } | self.parameters

    def _metadata(self, name: str, **more: Any) -> Object:
        self._written += 1
        created = EPOCH + timedelta(seconds=self._written // OBJECTS_PER_SECOND)
        uid, stamp = f"u{self._written:08d}", created.strftime("%Y-%m-%dT%H:%M:%SZ")
        return {"name": name, "uid": uid, "creationTimestamp": stamp, **more}

    def _add(self, kind: str, metadata: Object, **parts: Any) -> None:
        self._objects[kind].append({"metadata": metadata, **parts})


def _node_name(index: int) -> str:
    return f"n{index:06d}"
