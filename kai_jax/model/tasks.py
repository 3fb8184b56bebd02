"""Pods as tasks: status, node, request class and shared devices (spec 01 §5)."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from kai_jax.api.config import Params
from kai_jax.api.objects import BindRequest, Pod
from kai_jax.api.times import TimeError, unix
from kai_jax.model.amounts import RequestError
from kai_jax.model.claims import ClaimTable, held_gpus, requested_gpus
from kai_jax.model.requests import RequestTable
from kai_jax.model.shards import Shard
from kai_jax.tensors.state import ACTIVE, ALLOCATED_SET, Status

GROUP_LABEL = "runai-gpu-group"
GROUP_PREFIX = "runai-gpu-group/"
SCALING_POD = "scaling-pod"
NOWHERE = -1

USED = frozenset((*ACTIVE, Status.RELEASING, Status.STUCK_IN_RELEASING))
ALLOCATED = frozenset(ALLOCATED_SET)

NodeIndex = Mapping[str, int]


@dataclass(slots=True)
class Task:
    """A pod that scheduling looks at."""

    pod: Pod
    request: int  # class K
    status: Status
    node: int = NOWHERE  # on axis N, only of statuses in USED on nodes of the shard
    node_name: str = ""  # the node in the pod or its bind request, in the shard or not
    groups: tuple[str, ...] = ()  # shared devices held
    devices: frozenset[tuple[str, str, str]] = field(default=frozenset())  # devices held by claims
    refusal: str = ""  # why it cannot be placed whatever the cluster
    constraint: int = NOWHERE  # class C, of pending tasks

    @property
    def key(self) -> str:
        return f"{self.pod.metadata.namespace}/{self.pod.metadata.name}"


class Bindings:
    """Bind requests of the snapshot: those that bind a pod, and those that stay (spec 01 §1.3, §7)."""

    def __init__(self, objects: Iterable[BindRequest], nodes: NodeIndex, shard: Shard) -> None:
        self.kept: list[BindRequest] = []
        self.of_pod: dict[tuple[str, str], BindRequest] = {}
        for request in objects:
            here = request.spec.selected_node in nodes
            if here and not _failed(request):
                self.of_pod[request.metadata.namespace, request.spec.pod_name] = request
                self.kept.append(request)
            elif not here and not shard.has(request.metadata.labels):
                self.kept.append(request)


class TaskReader:
    """Turns pods into tasks at one moment."""

    def __init__(
        self,
        bindings: Bindings,
        claims: ClaimTable,
        nodes: NodeIndex,
        requests: RequestTable,
        params: Params,
        now: float,
        warnings: list[str],
    ) -> None:
        self._bindings = bindings.of_pod
        self._claims = claims
        self._nodes = nodes
        self._requests = requests
        self._stuck_before = now - params.stuck_in_releasing_threshold
        self._warnings = warnings

    def read(self, pod: Pod) -> Task:
        """The task of a pod; a request that is no request is refused with a warning."""
        metadata, spec = pod.metadata, pod.spec
        binding = self._bindings.get((metadata.namespace, metadata.name)) if self._bindings else None
        status = self._status(pod, binding)
        if status is Status.SUCCEEDED:
            return Task(pod, 0, status)
        if status in (Status.FAILED, Status.UNKNOWN):
            return Task(pod, 0, status, node_name=spec.node_name)
        if status not in USED:
            claims = self._claims.of(pod)
            request, refusal = self._request(pod, requested_gpus(claims) if claims else 0)
            return Task(pod, request, status, refusal=refusal)
        node_name = spec.node_name or (binding.spec.selected_node if binding else "")
        node = self._nodes.get(node_name, NOWHERE)
        claims = self._claims.of(pod) if node != NOWHERE else ()
        request, _ = self._request(pod, requested_gpus(claims) if claims else 0)
        groups = _groups(pod, binding) if node != NOWHERE else ()
        return Task(pod, request, status, node, node_name, groups, held_gpus(claims) if claims else frozenset())

    def _status(self, pod: Pod, binding: BindRequest | None) -> Status:
        """First match wins (pod status)."""
        phase, deleted = pod.status.phase, pod.metadata.deletion_timestamp
        if phase == "Pending":
            if deleted is not None:
                return Status.RELEASING
            if pod.spec.node_name:
                return Status.BOUND
            if binding is not None:
                return Status.BINDING
            return Status.GATED if pod.spec.scheduling_gates else Status.PENDING
        if phase == "Running":
            if deleted is None:
                return Status.RUNNING
            return Status.STUCK_IN_RELEASING if self._stuck(pod, deleted) else Status.RELEASING
        return {"Succeeded": Status.SUCCEEDED, "Failed": Status.FAILED}.get(phase, Status.UNKNOWN)

    def _stuck(self, pod: Pod, deleted: str) -> bool:
        try:
            return unix(deleted) < self._stuck_before
        except TimeError as error:
            self._warnings.append(f"{label_of(pod)}: metadata.deletionTimestamp: {error}, counted as just now")
            return False

    def _request(self, pod: Pod, claimed: int) -> tuple[int, str]:
        """Request class, and why the pod is refused if it is; a refused pod counts as nothing."""
        try:
            return self._requests.of(pod, claimed), ""
        except RequestError as error:
            self._warnings.append(f"{label_of(pod)}: {error}; the pod is not scheduled and counts as nothing")
            return 0, str(error)


def label_of(pod: Pod) -> str:
    """How messages name a pod."""
    return f"pod {pod.metadata.namespace}/{pod.metadata.name}"


def is_helper(pod: Pod, params: Params) -> bool:
    """A reservation pod or a scaling pod: holds no device of its own and is no foreign work."""
    return pod.metadata.labels.get("app") in (params.resource_reservation_app_label, SCALING_POD)


def is_reservation(pod: Pod, params: Params) -> bool:
    """A pod that holds a shared device for others."""
    return pod.metadata.labels.get("app") == params.resource_reservation_app_label


def _failed(request: BindRequest) -> bool:
    limit = request.spec.backoff_limit
    return request.status.phase == "Failed" and (limit is None or request.status.failed_attempts >= limit)


def _groups(pod: Pod, binding: BindRequest | None) -> tuple[str, ...]:
    """Shared devices of a placed pod; labels of several devices count only beside the label of one (spec 01 §4.4)."""
    if binding is not None and binding.spec.selected_gpu_groups:
        return binding.spec.selected_gpu_groups
    labels = pod.metadata.labels
    if GROUP_LABEL not in labels:
        return ()
    others = [value for name, value in labels.items() if name.startswith(GROUP_PREFIX)]
    return tuple(dict.fromkeys((labels[GROUP_LABEL], *others)))
