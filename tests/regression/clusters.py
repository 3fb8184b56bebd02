"""Small clusters written in a few words, and whole cycles over them through the public reader.

Devices have 80 GiB, CPU and memory are ample, queues have no bound on either, jobs are preemptible and older ones come
first, unless said otherwise.
"""

import json
import tempfile
from copy import deepcopy
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from kai_jax import cycle
from kai_jax.cycle import Outcome

NOW = 1_790_000_000.0
GPU = "nvidia.com/gpu"
MEMORY = 81920  # MiB of one device
EPOCH = datetime(2026, 3, 1, tzinfo=UTC)

Wire = dict[str, Any]


@dataclass
class Cluster:
    """Collects objects as a snapshot document holds them; names must be unique."""

    objects: dict[str, list[Wire]] = field(default_factory=dict)
    config: Wire = field(default_factory=lambda: {"actions": "allocate"})
    params: Wire = field(default_factory=dict)

    def node(
        self,
        name: str,
        gpus: int = 0,
        *,
        cpu: str = "64",
        memory: str = "512Gi",
        pods: int = 110,
        device_memory: int | None = MEMORY,
        more: Wire | None = None,
        **labels: str,
    ) -> "Cluster":
        """A node; `more` are further allocatable amounts."""
        allocatable = {"cpu": cpu, "memory": memory, "pods": str(pods), **(more or {})}
        if gpus:
            allocatable[GPU] = str(gpus)
            labels["nvidia.com/gpu.count"] = str(gpus)
            if device_memory is not None:
                labels["nvidia.com/gpu.memory"] = str(device_memory)
        return self.add("nodes", _metadata(name, labels=labels), status={"allocatable": allocatable})

    def queue(
        self,
        name: str,
        quota: float = 0,
        limit: float = -1,
        weight: float = 1,
        *,
        priority: int = 100,
        parent: str = "",
        created: int = 0,
    ) -> "Cluster":
        """A queue with a quota, limit and weight of devices; `created` in seconds after the epoch of these clusters."""
        unlimited = {"quota": -1, "limit": -1, "overQuotaWeight": 1}
        gpu = {"quota": quota, "limit": limit, "overQuotaWeight": weight}
        spec = {"parentQueue": parent, "priority": priority,
                "resources": {"gpu": gpu, "cpu": unlimited, "memory": unlimited}}  # fmt: skip
        return self.add("queues", _metadata(name, created=created), spec=spec)

    def group(
        self, name: str, queue: str, minimum: int | None = None, *, preemptible: bool = True, **spec: Any
    ) -> "Cluster":
        kind = "preemptible" if preemptible else "non-preemptible"
        spec = {"queue": queue, "preemptibility": kind, "minMember": minimum, **spec}
        created = len(self.objects.get("podGroups", ()))
        return self.add("podGroups", _metadata(name, namespace="team", created=created), spec=spec)

    def pod(
        self,
        name: str,
        group: str,
        gpus: int = 0,
        *,
        on: str = "",
        phase: str = "",
        deleted: float | None = None,
        cpu: str = "1",
        memory: str = "1Gi",
        requests: Wire | None = None,
        fraction: float | str | None = None,
        device_memory: int | None = None,
        devices: int | None = None,
        device: str | None = None,
        subgroup: str | None = None,
        **spec: Any,
    ) -> "Cluster":
        """A pod of a group, waiting or running `on` a node; `deleted` seconds ago it was told to end.

        `fraction` or `device_memory` [MiB] of each of `devices` devices; `device` names the shared one that it holds.
        """
        asked = {"cpu": cpu, "memory": memory, **({GPU: str(gpus)} if gpus else {})} if requests is None else requests
        wanted = {"pod-group-name": group or None, "gpu-fraction": fraction, "gpu-memory": device_memory,
                  "gpu-fraction-num-devices": devices}  # fmt: skip
        labels = {"runai-gpu-group": device, "kai.scheduler/subgroup-name": subgroup}
        metadata = _metadata(
            name,
            namespace="team",
            created=len(self.objects.get("pods", ())),
            labels={key: value for key, value in labels.items() if value is not None},
            annotations={key: str(value) for key, value in wanted.items() if value is not None},
        )
        if deleted is not None:
            metadata["deletionTimestamp"] = _stamp(datetime.fromtimestamp(NOW - deleted, UTC))
        containers = [{"name": "main", "resources": {"requests": asked}}]
        spec = {"schedulerName": "kai-scheduler", "nodeName": on, "containers": containers, **spec}
        status = {"phase": phase or ("Running" if on else "Pending")}
        return self.add("pods", metadata, spec=spec, status=status)

    def job(
        self,
        name: str,
        queue: str,
        pods: int = 1,
        gpus: int = 1,
        *,
        minimum: int | None = None,
        preemptible: bool = True,
        group: Wire | None = None,
        **pod: Any,
    ) -> "Cluster":
        """A group and its equal pods NAME-0, NAME-1, ...; its minimum is all of them; `group` is more of its spec."""
        minimum = pods if minimum is None else minimum
        self.group(name, queue, minimum, preemptible=preemptible, **(group or {}))
        if any(pod.get(shared) is not None for shared in ("fraction", "device_memory")):
            gpus = 0
        for index in range(pods):
            self.pod(f"{name}-{index}", name, gpus, **pod)
        return self

    def topology(self, name: str, *levels: str) -> "Cluster":
        return self.add("topologies", _metadata(name), spec={"levels": [{"nodeLabel": level} for level in levels]})

    def add(self, kind: str, metadata: Wire, **parts: Any) -> "Cluster":
        self.objects.setdefault(kind, []).append({"metadata": metadata, **parts})
        return self

    def copy(self) -> "Cluster":
        return deepcopy(self)

    def run(self) -> Outcome:
        """One cycle at NOW."""
        text = json.dumps({"config": self.config, "schedulerParams": self.params, "rawObjects": self.objects})
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "cluster.json"
            path.write_text(text)
            return cycle.run_file(path, NOW)


def below(*, required: str = "", preferred: str = "", topology: str = "t") -> Wire:
    """The part of a group's spec that keeps it inside one domain of a level."""
    constraint = {"topology": topology, "requiredTopologyLevel": required, "preferredTopologyLevel": preferred}
    return {"topologyConstraint": constraint}


def bound(outcome: Outcome) -> dict[str, str]:
    """Pods that got a node in this cycle, and the node."""
    return _changed(outcome, "Binding")


def pipelined(outcome: Outcome) -> dict[str, str]:
    """Pods that were promised a node on which something must end first."""
    return _changed(outcome, "Pipelined")


def reasons(outcome: Outcome, job: str) -> list[str]:
    return outcome.decisions.reasons.get(f"team/{job}", [])


def _changed(outcome: Outcome, status: str) -> dict[str, str]:
    (action,) = outcome.decisions.actions
    return {
        pod.removeprefix("team/"): place[1] for pod, place in sorted(action["changed"].items()) if place[0] == status
    }


def _metadata(name: str, created: int = 0, **more: Any) -> Wire:
    return {"name": name, "uid": name, "creationTimestamp": _stamp(EPOCH + timedelta(seconds=created)), **more}


def _stamp(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")
