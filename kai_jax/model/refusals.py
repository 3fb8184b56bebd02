"""Features that scheduling does not know yet: the podgroups that carry them are refused by name, never half served."""

from collections.abc import Iterable, Mapping, Sequence

from kai_jax.api.config import Config, Params
from kai_jax.api.objects import LabelSelector, Objects, Pod, PodAffinityTerm, Requirement
from kai_jax.model.claims import IMPLICIT_PREFIX, mapped_resources
from kai_jax.model.podgroups import Job
from kai_jax.model.tasks import Task
from kai_jax.tensors.state import Status

DEVICE_CLAIMS = "device claims"
POD_AFFINITY = "inter-pod affinity"
NUMA = "NUMA placement"
STORAGE_CAPACITY = "CSI storage capacity"


def refuse(
    jobs: Iterable[Job], placed: Sequence[Task], objects: Objects, config: Config, params: Params, warnings: list[str]
) -> None:
    """Marks every job with a pending pod that needs a missing feature, and says so."""
    rules = _Rules(placed, objects, config, params)
    for job in jobs:
        for podset in job.podsets:
            for task in podset:
                if task.status is Status.PENDING and not job.refusal:
                    job.refusal = rules.missing(task.pod)
        if job.refusal:
            warnings.append(f"podgroup {job.key}: {job.refusal}: not supported yet, not scheduled")


class _Rules:
    """Which feature a pod needs that is not there."""

    def __init__(self, placed: Sequence[Task], objects: Objects, config: Config, params: Params) -> None:
        self._mapped = mapped_resources(objects.device_classes)
        self._numa = config.has("numa") and bool(objects.node_resource_topologies)
        self._storage = params.schedule_csi_storage
        self._affinity = config.has("predicates")
        self._preferences = config.has("podaffinity")
        self._terms = [(task.pod, term) for task in placed for term in self._felt_by_others(task.pod)]

    def missing(self, pod: Pod) -> str:
        """The name of the feature, "" where all are there."""
        spec = pod.spec
        if spec.resource_claims or self._extended(pod):
            return DEVICE_CLAIMS
        if spec.affinity is not None and self._asks(pod):
            return POD_AFFINITY
        if self._terms and any(_concerns(owner, term, pod) for owner, term in self._terms):
            return POD_AFFINITY
        if self._numa:
            return NUMA
        if self._storage and any(volume.persistent_volume_claim or volume.ephemeral for volume in spec.volumes):
            return STORAGE_CAPACITY
        return ""

    def _extended(self, pod: Pod) -> bool:
        """Asks for a resource that a device class serves."""
        for container in pod.spec.all_containers:
            for name in container.resources.requests:
                if name.startswith(IMPLICIT_PREFIX) or name in self._mapped:
                    return True
        return False

    def _asks(self, pod: Pod) -> bool:
        """The pod has terms that a configured plugin reads."""
        affinity = pod.spec.affinity
        parts = [part for part in (affinity.pod_affinity, affinity.pod_anti_affinity) if part] if affinity else []
        return any((part.required and self._affinity) or (part.preferred and self._preferences) for part in parts)

    def _felt_by_others(self, pod: Pod) -> list[PodAffinityTerm]:
        """Terms of a placed pod that decide about others: required anti-affinity, and every preference."""
        affinity = pod.spec.affinity
        if affinity is None:
            return []
        terms: list[PodAffinityTerm] = []
        if affinity.pod_anti_affinity is not None and self._affinity:
            terms += affinity.pod_anti_affinity.required
        for part in (affinity.pod_affinity, affinity.pod_anti_affinity):
            if part is not None and self._preferences:
                terms += [weighted.pod_affinity_term for weighted in part.preferred]
        return terms


def _concerns(owner: Pod, term: PodAffinityTerm, pod: Pod) -> bool:
    """Whether a term of a placed pod may select the pod; where namespaces are chosen by label, it may."""
    if term.namespace_selector is None:
        namespaces = term.namespaces or (owner.metadata.namespace,)
        if pod.metadata.namespace not in namespaces:
            return False
    return term.label_selector is not None and _selects(term.label_selector, pod.metadata.labels)


def _selects(selector: LabelSelector, labels: Mapping[str, str]) -> bool:
    return all(labels.get(key) == value for key, value in selector.match_labels.items()) and all(
        _meets(expression, labels.get(expression.key)) for expression in selector.match_expressions
    )


def _meets(requirement: Requirement, value: str | None) -> bool:
    match requirement.operator:
        case "In":
            return value in requirement.values
        case "NotIn":
            return value not in requirement.values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
    return True  # unknown operators may select anything
