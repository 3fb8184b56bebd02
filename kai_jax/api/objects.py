"""The Kubernetes objects that scheduling reads, with only the fields it reads.

Attribute names are the wire names in snake case. Objects are immutable; unknown fields are skipped; a list that is
absent is `()` and a map that is absent is an empty mapping, never None. Quantities, durations and timestamps stay as
written (see `kai_jax.api.quantity` and `kai_jax.api.times`), so that reading a large cluster stays cheap. An explicit
null means "absent": the reader (`kai_jax.api.kinds`) takes care of it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Annotated, Any

import msgspec
from msgspec import field

from kai_jax.api.times import TimeError, unix

Quantity = str | int | float  # as written; parsed by kai_jax.api.quantity
Duration = str | int  # "1h30m", or nanoseconds
Count = Annotated[int, msgspec.Meta(ge=0, lt=2**31)]
Name = Annotated[str, msgspec.Meta(min_length=1, pattern=r"^[^\x00-\x1f\x7f]+$")]  # nothing a terminal would obey
Attributes = dict[str, Any]  # a structure that is carried but seldom looked into

POD_GROUP = "pod-group-name"  # annotation of a pod

NOTHING: Mapping[str, Any] = MappingProxyType({})  # one shared empty map for all absent ones


class Wire(msgspec.Struct, rename="camel", frozen=True, gc=False):
    """Base of all objects; instances hold no cycles, so the garbage collector need not visit them."""


# ------------------------------------------------------------------------------------ shared pieces


class OwnerReference(Wire, frozen=True):
    kind: str = ""
    name: str = ""
    uid: str = ""


class Metadata(Wire, frozen=True):
    name: Name
    namespace: str = ""
    uid: str = ""
    creation_timestamp: str | None = None  # RFC3339
    deletion_timestamp: str | None = None  # RFC3339
    labels: Mapping[str, str] = NOTHING
    annotations: Mapping[str, str] = NOTHING
    owner_references: tuple[OwnerReference, ...] = ()


def created(metadata: Metadata, label: str, warnings: list[str]) -> float:
    """Unix seconds of creation, 0 where it is not said; unreadable is as old, with a warning about `label`."""
    written = metadata.creation_timestamp
    try:
        return 0.0 if written is None else unix(written)
    except TimeError as error:
        warnings.append(f"{label}: metadata.creationTimestamp: {error}, counted as the oldest")
        return 0.0


class Condition(Wire, frozen=True):
    type: str = ""
    status: str = ""


class Requirement(Wire, frozen=True):
    """One expression of a selector: `key operator values`."""

    key: str = ""
    operator: str = ""
    values: tuple[str, ...] = ()


class LabelSelector(Wire, frozen=True):
    match_labels: Mapping[str, str] = NOTHING
    match_expressions: tuple[Requirement, ...] = ()


class NodeSelectorTerm(Wire, frozen=True):
    match_expressions: tuple[Requirement, ...] = ()
    match_fields: tuple[Requirement, ...] = ()


class NodeSelector(Wire, frozen=True):
    """Terms are alternatives."""

    node_selector_terms: tuple[NodeSelectorTerm, ...] = ()


# ------------------------------------------------------------------------------------ pods


class NodeAffinity(Wire, frozen=True):
    required: NodeSelector | None = field(default=None, name="requiredDuringSchedulingIgnoredDuringExecution")


class PodAffinityTerm(Wire, frozen=True):
    label_selector: LabelSelector | None = None
    namespaces: tuple[str, ...] = ()
    namespace_selector: LabelSelector | None = None


class WeightedPodAffinityTerm(Wire, frozen=True):
    weight: int = 0
    pod_affinity_term: PodAffinityTerm = PodAffinityTerm()


class PodAffinity(Wire, frozen=True):
    """Also the shape of anti-affinity."""

    required: tuple[PodAffinityTerm, ...] = field(default=(), name="requiredDuringSchedulingIgnoredDuringExecution")
    preferred: tuple[WeightedPodAffinityTerm, ...] = field(
        default=(), name="preferredDuringSchedulingIgnoredDuringExecution"
    )


class Affinity(Wire, frozen=True):
    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAffinity | None = None


class Toleration(Wire, frozen=True):
    key: str = ""
    operator: str = ""  # "" means Equal
    value: str = ""
    effect: str = ""  # "" means every effect


class ResourceRequirements(Wire, frozen=True):
    """Scheduling reads `requests`; manifests get theirs completed from `limits` where they are read."""

    requests: Mapping[str, Quantity] = NOTHING
    limits: Mapping[str, Quantity] = NOTHING


class ContainerPort(Wire, frozen=True):
    host_port: int = 0
    host_ip: str = field(default="", name="hostIP")
    protocol: str = "TCP"


class ConfigMapReference(Wire, frozen=True):
    name: str = ""
    optional: bool = False


class EnvSource(Wire, frozen=True):
    config_map_key_ref: ConfigMapReference | None = None


class EnvVar(Wire, frozen=True):
    name: str = ""
    value_from: EnvSource | None = None


class EnvFrom(Wire, frozen=True):
    config_map_ref: ConfigMapReference | None = None


class VolumeMount(Wire, frozen=True):
    name: str = ""


class Container(Wire, frozen=True):
    name: str = ""
    resources: ResourceRequirements = ResourceRequirements()
    restart_policy: str = ""  # "Always" on an init container makes it a sidecar
    ports: tuple[ContainerPort, ...] = ()
    env: tuple[EnvVar, ...] = ()
    env_from: tuple[EnvFrom, ...] = ()
    volume_mounts: tuple[VolumeMount, ...] = ()


class ClaimVolume(Wire, frozen=True):
    claim_name: str = ""


class ProjectedSource(Wire, frozen=True):
    config_map: ConfigMapReference | None = None


class ProjectedVolume(Wire, frozen=True):
    sources: tuple[ProjectedSource, ...] = ()


class Volume(Wire, frozen=True):
    name: str = ""
    persistent_volume_claim: ClaimVolume | None = None
    config_map: ConfigMapReference | None = None
    projected: ProjectedVolume | None = None
    ephemeral: Attributes | None = None  # its claim is named <pod>-<volume>


class SchedulingGate(Wire, frozen=True):
    name: str = ""


class PodResourceClaim(Wire, frozen=True):
    name: str = ""
    resource_claim_name: str = ""


class PodSpec(Wire, frozen=True):
    node_name: str = ""
    scheduler_name: str = ""
    priority_class_name: str = ""
    containers: tuple[Container, ...] = ()
    init_containers: tuple[Container, ...] = ()
    overhead: Mapping[str, Quantity] = NOTHING
    node_selector: Mapping[str, str] = NOTHING
    affinity: Affinity | None = None
    tolerations: tuple[Toleration, ...] = ()
    volumes: tuple[Volume, ...] = ()
    scheduling_gates: tuple[SchedulingGate, ...] = ()
    resource_claims: tuple[PodResourceClaim, ...] = ()

    @property
    def all_containers(self) -> tuple[Container, ...]:
        return self.containers + self.init_containers if self.init_containers else self.containers


class PodStatus(Wire, frozen=True):
    phase: str = ""
    nominated_node_name: str = ""
    conditions: tuple[Condition, ...] = ()


class Pod(Wire, frozen=True):
    metadata: Metadata
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()


# ------------------------------------------------------------------------------------ nodes


class Taint(Wire, frozen=True):
    key: str = ""
    value: str = ""
    effect: str = ""


class NodeSpec(Wire, frozen=True):
    unschedulable: bool = False
    taints: tuple[Taint, ...] = ()


class NodeStatus(Wire, frozen=True):
    """Scheduling reads `allocatable`; manifests get theirs from `capacity` where they are read."""

    allocatable: Mapping[str, Quantity] = NOTHING
    capacity: Mapping[str, Quantity] = NOTHING
    conditions: tuple[Condition, ...] = ()


class Node(Wire, frozen=True):
    metadata: Metadata
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()


class NodeResourceTopology(Wire, frozen=True):
    metadata: Metadata


# ------------------------------------------------------------------------------------ KAI's own kinds


class QueueResource(Wire, frozen=True):
    """-1 is unlimited, for quota and for limit. gpu in devices, cpu in millicores, memory in 10^6 bytes."""

    quota: float = 0.0
    over_quota_weight: float = 0.0
    limit: float = 0.0


class QueueResources(Wire, frozen=True):
    gpu: QueueResource = QueueResource()
    cpu: QueueResource = QueueResource()
    memory: QueueResource = QueueResource()


class QueueSpec(Wire, frozen=True):
    display_name: str = ""
    parent_queue: str = ""
    priority: int | None = None
    resources: QueueResources = QueueResources()


class Queue(Wire, frozen=True):
    metadata: Metadata
    spec: QueueSpec = QueueSpec()


class TopologyConstraint(Wire, frozen=True):
    topology: str = ""
    required_topology_level: str = ""
    preferred_topology_level: str = ""


class SubGroup(Wire, frozen=True):
    name: Name
    parent: str | None = None
    min_member: Count | None = None
    min_sub_group: Count | None = None
    topology_constraint: TopologyConstraint | None = None


class PodGroupSpec(Wire, frozen=True):
    queue: str = ""
    min_member: Count | None = None
    min_sub_group: Count | None = None
    priority_class_name: str = ""
    preemptibility: str = ""
    topology_constraint: TopologyConstraint | None = None
    sub_groups: tuple[SubGroup, ...] = ()
    scheduling_backoff: int | None = None
    preemption_delay: Duration | None = None


class SchedulingCondition(Wire, frozen=True):
    node_pool: str = ""
    transition_id: str = field(default="", name="transitionID")


class PodGroupStatus(Wire, frozen=True):
    scheduling_conditions: tuple[SchedulingCondition, ...] = ()


class PodGroup(Wire, frozen=True):
    """`scheduling.run.ai/v2alpha2`, the one dialect that leaves the reader."""

    metadata: Metadata
    spec: PodGroupSpec = PodGroupSpec()
    status: PodGroupStatus = PodGroupStatus()


class ReceivedGpu(Wire, frozen=True):
    count: int = 0
    portion: Quantity = ""


class BindRequestSpec(Wire, frozen=True):
    pod_name: str = ""
    selected_node: str = ""
    received_resource_type: str = ""
    received_gpu: ReceivedGpu | None = field(default=None, name="receivedGPU")
    selected_gpu_groups: tuple[str, ...] = field(default=(), name="selectedGPUGroups")
    backoff_limit: int | None = None


class BindRequestStatus(Wire, frozen=True):
    phase: str = ""
    failed_attempts: int = 0


class BindRequest(Wire, frozen=True):
    metadata: Metadata
    spec: BindRequestSpec = BindRequestSpec()
    status: BindRequestStatus = BindRequestStatus()


class TopologyLevel(Wire, frozen=True):
    node_label: str = ""
    alias: str = ""


class TopologySpec(Wire, frozen=True):
    levels: tuple[TopologyLevel, ...] = ()


class Topology(Wire, frozen=True):
    metadata: Metadata
    spec: TopologySpec = TopologySpec()


# ------------------------------------------------------------------------------------ small kinds


class PriorityClass(Wire, frozen=True):
    metadata: Metadata
    value: int = 0
    global_default: bool = False


class ConfigMap(Wire, frozen=True):
    metadata: Metadata


# ------------------------------------------------------------------------------------ storage


class ClaimReference(Wire, frozen=True):
    namespace: str = ""
    name: str = ""
    uid: str = ""


class VolumeNodeAffinity(Wire, frozen=True):
    required: NodeSelector | None = None


class PersistentVolumeSpec(Wire, frozen=True):
    capacity: Mapping[str, Quantity] = NOTHING
    access_modes: tuple[str, ...] = ()
    volume_mode: str = "Filesystem"
    storage_class_name: str = ""
    claim_ref: ClaimReference | None = None
    node_affinity: VolumeNodeAffinity | None = None


class PersistentVolumeStatus(Wire, frozen=True):
    phase: str = ""


class PersistentVolume(Wire, frozen=True):
    metadata: Metadata
    spec: PersistentVolumeSpec = PersistentVolumeSpec()
    status: PersistentVolumeStatus = PersistentVolumeStatus()


class ClaimResources(Wire, frozen=True):
    requests: Mapping[str, Quantity] = NOTHING


class PersistentVolumeClaimSpec(Wire, frozen=True):
    access_modes: tuple[str, ...] = ()
    volume_mode: str = "Filesystem"
    storage_class_name: str | None = None
    volume_name: str = ""
    resources: ClaimResources = ClaimResources()
    selector: LabelSelector | None = None


class PersistentVolumeClaimStatus(Wire, frozen=True):
    phase: str = ""


class PersistentVolumeClaim(Wire, frozen=True):
    metadata: Metadata
    spec: PersistentVolumeClaimSpec = PersistentVolumeClaimSpec()
    status: PersistentVolumeClaimStatus = PersistentVolumeClaimStatus()


class TopologySelectorTerm(Wire, frozen=True):
    match_label_expressions: tuple[Requirement, ...] = ()  # the operator is always In


class StorageClass(Wire, frozen=True):
    metadata: Metadata
    provisioner: str = ""
    volume_binding_mode: str = "Immediate"
    allowed_topologies: tuple[TopologySelectorTerm, ...] = ()


class CsiDriverSpec(Wire, frozen=True):
    storage_capacity: bool = False


class CsiDriver(Wire, frozen=True):
    metadata: Metadata
    spec: CsiDriverSpec = CsiDriverSpec()


class CsiStorageCapacity(Wire, frozen=True):
    metadata: Metadata
    storage_class_name: str = ""
    capacity: Quantity | None = None
    maximum_volume_size: Quantity | None = None
    node_topology: LabelSelector | None = None


# ------------------------------------------------------------------------------------ device claims


class Device(Wire, frozen=True):
    name: str = ""


class ResourcePool(Wire, frozen=True):
    name: str = ""


class ResourceSliceSpec(Wire, frozen=True):
    driver: str = ""
    node_name: str = ""
    pool: ResourcePool = ResourcePool()
    devices: tuple[Device, ...] = ()


class ResourceSlice(Wire, frozen=True):
    metadata: Metadata
    spec: ResourceSliceSpec = ResourceSliceSpec()


class ExactDeviceRequest(Wire, frozen=True):
    device_class_name: str = ""
    allocation_mode: str = "ExactCount"
    count: int = 0


class DeviceRequest(Wire, frozen=True):
    name: str = ""
    exactly: ExactDeviceRequest | None = None


class DeviceClaim(Wire, frozen=True):
    requests: tuple[DeviceRequest, ...] = ()


class ResourceClaimSpec(Wire, frozen=True):
    devices: DeviceClaim = DeviceClaim()


class DeviceResult(Wire, frozen=True):
    request: str = ""
    driver: str = ""
    pool: str = ""
    device: str = ""


class DeviceAllocation(Wire, frozen=True):
    results: tuple[DeviceResult, ...] = ()


class ClaimAllocation(Wire, frozen=True):
    devices: DeviceAllocation = DeviceAllocation()
    node_selector: NodeSelector | None = None


class ConsumerReference(Wire, frozen=True):
    resource: str = ""
    name: str = ""
    uid: str = ""


class ResourceClaimStatus(Wire, frozen=True):
    allocation: ClaimAllocation | None = None
    reserved_for: tuple[ConsumerReference, ...] = ()


class ResourceClaim(Wire, frozen=True):
    metadata: Metadata
    spec: ResourceClaimSpec = ResourceClaimSpec()
    status: ResourceClaimStatus = ResourceClaimStatus()


class DeviceClassSpec(Wire, frozen=True):
    extended_resource_name: str = ""


class DeviceClass(Wire, frozen=True):
    metadata: Metadata
    spec: DeviceClassSpec = DeviceClassSpec()


# ------------------------------------------------------------------------------------ all of them


@dataclass(frozen=True)
class Objects:
    """The objects of one cluster, by kind, in the order read; attribute names are those of `rawObjects`."""

    pods: tuple[Pod, ...] = ()
    nodes: tuple[Node, ...] = ()
    queues: tuple[Queue, ...] = ()
    pod_groups: tuple[PodGroup, ...] = ()
    bind_requests: tuple[BindRequest, ...] = ()
    priority_classes: tuple[PriorityClass, ...] = ()
    config_maps: tuple[ConfigMap, ...] = ()
    persistent_volumes: tuple[PersistentVolume, ...] = ()
    persistent_volume_claims: tuple[PersistentVolumeClaim, ...] = ()
    csi_storage_capacities: tuple[CsiStorageCapacity, ...] = ()
    storage_classes: tuple[StorageClass, ...] = ()
    csi_drivers: tuple[CsiDriver, ...] = ()
    resource_claims: tuple[ResourceClaim, ...] = ()
    resource_slices: tuple[ResourceSlice, ...] = ()
    device_classes: tuple[DeviceClass, ...] = ()
    topologies: tuple[Topology, ...] = ()
    node_resource_topologies: tuple[NodeResourceTopology, ...] = ()
