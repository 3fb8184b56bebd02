"""Constraint classes: pods that the same static filters let onto the same nodes (spec 04 §1.2, §1.4).

Static filters do not change while a cycle places pods: device type, node conditions, taints, selectors, node affinity,
volumes, config maps, restricted nodes. They are evaluated once per distinct need, for all nodes at once.
"""

from collections.abc import Callable, Hashable, Sequence, Set
from typing import NamedTuple, TypeVar

import numpy as np

from kai_jax.api.config import Params
from kai_jax.api.objects import Node as NodeObject
from kai_jax.api.objects import NodeSelector, Objects, Pod, Requirement, Taint, Toleration
from kai_jax.model.columns import Check, Column, first_causes, passing
from kai_jax.model.conditions import node_problems
from kai_jax.model.config_maps import missing_config_maps
from kai_jax.model.nodes import Node
from kai_jax.model.selectors import Labelled, requirements_of_map
from kai_jax.model.volumes import ClaimError, ClaimNeed, VolumeTable

N = TypeVar("N", bound=Hashable)  # a need

HARD_EFFECTS = ("NoSchedule", "NoExecute")
AFFINITY_MISMATCH = "node(s) didn't match Pod's node affinity/selector"


class NodeDevices(NamedTuple):
    """What the device filter asks of a node."""

    mig: bool
    mig_strategy: str  # "single", "mixed", anything else is none
    memory_known: bool  # the label of the device memory was read
    claimed: bool  # has devices published in slices
    legacy_mig: bool  # runs a pod that asks for a MIG profile by annotation


class ClassKey(NamedTuple):
    """Pods with equal keys are of one class; `failure` tells why no node at all can take them."""

    device: str  # as Requirement.device_kind: cpu, whole, fraction, memory, mig, legacy-mig
    tolerations: tuple[Toleration, ...]
    labels: tuple[Requirement, ...]
    affinity: NodeSelector | None
    claims: tuple[ClaimNeed, ...]
    failure: str


class ConstraintTable:
    """Classes C over nodes N, in the order in which pods brought them."""

    def __init__(self, nodes: Sequence[Node], objects: Objects, params: Params, legacy_mig: Set[int]) -> None:
        """`nodes` as on axis N; `legacy_mig`: indices of the nodes that run pods with MIG profiles by annotation."""
        self._params = params
        self._labels = Labelled([node.name for node in nodes], [node.labels for node in nodes])
        self._devices = Column(_devices(node, node.index in legacy_mig) for node in nodes)
        self._taints = Column(_hard_taints(node.object) for node in nodes)
        self._conditions = Column(node_problems(node.object) for node in nodes).checks(", ".join)
        self._volumes = VolumeTable(objects, self._labels)
        self._config_maps = {(c.metadata.namespace, c.metadata.name) for c in objects.config_maps}
        self._classes: dict[ClassKey, int] = {}
        self._keys: list[ClassKey] = []
        self._checks: dict[tuple[str, Hashable], tuple[Check, ...]] = {}

    @property
    def warnings(self) -> Sequence[str]:
        """Objects that could not be used."""
        return self._volumes.warnings

    def __len__(self) -> int:
        """C, the number of classes seen."""
        return len(self._keys)

    def class_of(self, pod: Pod, device: str) -> int:
        """Index of the pod's class, a new one when no pod before it had the same needs."""
        spec = pod.spec
        node_affinity = spec.affinity.node_affinity if spec.affinity is not None else None
        claims, failure = self._needs(pod)
        key = ClassKey(
            device,
            spec.tolerations,
            requirements_of_map(spec.node_selector) if spec.node_selector else (),
            node_affinity.required if node_affinity is not None else None,
            claims,
            failure,
        )
        index = self._classes.get(key)
        if index is None:
            index = self._classes[key] = len(self._keys)
            self._keys.append(key)
        return index

    def allowed(self) -> np.ndarray:
        """bool[C,N] nodes that each class may use."""
        nodes = len(self._labels)
        allowed = np.zeros((len(self), nodes), dtype=bool)
        for index, key in enumerate(self._keys):
            if not key.failure:
                allowed[index] = passing(self._filters(key), nodes)
        return allowed

    def failure(self, index: int) -> str:
        """Why no node at all can take pods of this class, "" when that depends on the node."""
        return self._keys[index].failure

    def causes(self, index: int) -> dict[str, int]:
        """Nodes lost to each reason by pods of this class; a node counts for the first filter that it fails."""
        key = self._keys[index]
        if key.failure:
            return {key.failure: len(self._labels)}
        return first_causes(self._filters(key), len(self._labels))

    def _needs(self, pod: Pod) -> tuple[tuple[ClaimNeed, ...], str]:
        """Claims of the pod, or the text of the pre-filters that it fails."""
        failures: list[str] = []
        claims: tuple[ClaimNeed, ...] = ()
        if pod.spec.volumes:
            try:
                claims = self._volumes.needs(pod)
            except ClaimError as error:
                failures.append(str(error))
        missing = missing_config_maps(pod, self._config_maps)
        if missing:
            failures.append(f"Missing required configmaps: [{' '.join(missing)}]")
        return (() if failures else claims), "; ".join(failures)

    def _filters(self, key: ClassKey) -> list[Check]:
        """The checks of a class in the order in which a node is asked."""
        return [
            *self._once("device", key.device, self._device),
            *self._conditions,
            *self._once("taints", key.tolerations, self._untolerated),
            *self._once("affinity", (key.labels, key.affinity), self._affinity),
            *self._once("volumes", key.claims, self._volumes.checks),
            *self._once("restriction", key.device == "cpu", self._restricted),
        ]

    def _once(self, name: str, need: N, evaluate: Callable[[N], tuple[Check, ...]]) -> tuple[Check, ...]:
        if (name, need) not in self._checks:
            self._checks[name, need] = evaluate(need)
        return self._checks[name, need]

    def _device(self, pod: str) -> tuple[Check, ...]:
        return self._devices.checks(lambda node: device_problem(pod, node))

    def _untolerated(self, tolerations: tuple[Toleration, ...]) -> tuple[Check, ...]:
        return self._taints.checks(lambda taints: untolerated(taints, tolerations))

    def _affinity(self, wanted: tuple[tuple[Requirement, ...], NodeSelector | None]) -> tuple[Check, ...]:
        labels, affinity = wanted
        passes = self._labels.satisfying(labels)
        if affinity is not None:
            passes = passes & self._labels.matching(affinity)
        return (Check(AFFINITY_MISMATCH, passes),)

    def _restricted(self, cpu_only: bool) -> tuple[Check, ...]:
        if not self._params.restrict_scheduling_nodes:
            return ()
        kind = "cpu" if cpu_only else "gpu"
        label = self._params.cpu_worker_node_label_key if cpu_only else self._params.gpu_worker_node_label_key
        workers = self._labels.satisfying((Requirement(label, "Exists"),))
        return (Check(f"{kind} task can't run on non {kind} nodes", workers),)


def device_problem(pod: str, node: NodeDevices) -> str:
    """Why the node's kind of devices cannot serve the pod, "" if it can (spec 04 §1.2, rows 2a to 3)."""
    if pod == "legacy-mig":
        return "legacy MIG jobs cannot be scheduled"
    if pod == "cpu":
        return ""
    if pod in ("fraction", "memory") and node.claimed:
        return "fractional/shared GPU pods are not yet supported on DRA-only nodes"
    if pod == "mig" and not node.mig:
        return "MIG job cannot be scheduled on non-MIG node"
    if pod == "mig" and node.legacy_mig:
        return "MIG job cannot be scheduled on node with legacy MIG jobs"
    if node.mig and node.mig_strategy == "single" and pod != "whole":
        return "only whole gpu jobs can run on a node with MigStrategy='single'"
    if node.mig and node.mig_strategy == "mixed" and pod != "mig":
        return "non MIG jobs cant run on a node with MigStrategy='mixed'"
    if pod == "memory" and not node.memory_known:
        return "node is not a gpu node or the gpu memory count on the node was not synced yet"
    return ""


def untolerated(taints: Sequence[Taint], tolerations: Sequence[Toleration]) -> str:
    """The reason that names the first taint that no toleration covers, "" if all are covered."""
    for taint in taints:
        if not any(_tolerates(toleration, taint) for toleration in tolerations):
            return f"node(s) had untolerated taint {{{taint.key}: {taint.value}}}"
    return ""


def _tolerates(toleration: Toleration, taint: Taint) -> bool:
    if toleration.effect not in ("", taint.effect) or toleration.key not in ("", taint.key):
        return False
    return toleration.operator == "Exists" or (toleration.operator in ("", "Equal") and toleration.value == taint.value)


def _devices(node: Node, legacy_mig: bool) -> NodeDevices:
    return NodeDevices(node.mig, node.mig_strategy, node.gpu_memory_known, node.claimed_gpus > 0, legacy_mig)


def _hard_taints(node: NodeObject) -> tuple[Taint, ...]:
    return tuple(taint for taint in node.spec.taints if taint.effect in HARD_EFFECTS)
