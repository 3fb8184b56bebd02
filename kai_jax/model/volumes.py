"""Persistent volumes: what a pod's claims need of a node (upstream's VolumeBinding rules, spec 04 §1.4)."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from kai_jax.api.objects import (
    CsiStorageCapacity,
    NodeSelector,
    Objects,
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
    Quantity,
    Requirement,
    Volume,
)
from kai_jax.api.quantity import QuantityError, units
from kai_jax.model.columns import Check
from kai_jax.model.selectors import Labelled, requirements_of

BIND_COMPLETED = "pv.kubernetes.io/bind-completed"
SELECTED_NODE = "volume.kubernetes.io/selected-node"
CLASS_ANNOTATION = "volume.beta.kubernetes.io/storage-class"
NO_PROVISIONER = "kubernetes.io/no-provisioner"

NODE_CONFLICT = "node(s) didn't match PersistentVolume's node affinity"
BIND_CONFLICT = "node(s) didn't find available persistent volumes to bind"
NO_SPACE = "node(s) did not have enough free storage"
NO_VOLUME = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"


@dataclass(frozen=True)
class BoundClaim:
    """A claim with a volume: it holds the pod to the nodes that reach the volume."""

    volume_exists: bool
    affinity: NodeSelector | None


@dataclass(frozen=True)
class DelayedClaim:
    """A claim that waits for its first pod: it takes a free volume that the node reaches, or gets one made there."""

    storage_class: str
    size: int | None  # bytes, None when the claim names no size
    access_modes: tuple[str, ...]
    volume_mode: str
    selector: tuple[Requirement, ...]
    reserved_volume: str  # the volume that names this claim, "" without
    selected_node: str | None


ClaimNeed = BoundClaim | DelayedClaim


class ClaimError(Exception):
    """No node can take the pod, because of a claim."""


class VolumeTable:
    """The storage objects of a cluster, asked by pod. `warnings` name the objects that cannot be used."""

    def __init__(self, objects: Objects, nodes: Labelled) -> None:
        self.warnings: list[str] = []
        self._nodes = nodes
        self._claims = {(c.metadata.namespace, c.metadata.name): c for c in objects.persistent_volume_claims}
        self._classes = {c.metadata.name: c for c in objects.storage_classes}
        self._volumes = {v.metadata.name: v for v in objects.persistent_volumes}
        self._reserved = _reservations(objects.persistent_volumes)
        self._sizes = self._readable((v.metadata.name, v.spec.capacity.get("storage")) for v in self._volumes.values())
        free = [v for v in self._volumes.values() if v.metadata.name in self._sizes and _is_free(v)]
        self._free = sorted(free, key=lambda v: (self._sizes[_name(v)], _name(v)))
        self._free_labels = Labelled([_name(v) for v in self._free], [v.metadata.labels for v in self._free])
        self._limited = {d.metadata.name for d in objects.csi_drivers if d.spec.storage_capacity}
        self._rooms = [(c, self._room(c)) for c in objects.csi_storage_capacities]
        self._needs: dict[tuple[str, str], ClaimNeed] = {}

    def needs(self, pod: Pod) -> tuple[ClaimNeed, ...]:
        """What the pod's claims ask of a node, () for most pods. Raises ClaimError where no node can help."""
        claims = [claim for volume in pod.spec.volumes for claim in self._claims_of(pod, volume)]
        return tuple([self._need(claim) for claim in claims])

    def checks(self, needs: Sequence[ClaimNeed]) -> tuple[Check, ...]:
        """Filters over nodes for a pod with these needs; those that all nodes pass are left out."""
        bound = [need for need in needs if isinstance(need, BoundClaim)]
        reached, found, space = self._nodes.all(), self._nodes.all(), self._nodes.all()
        for need in bound:
            reached &= self._reaches(need.affinity)
        for claim, unmatched in self._unmatched(need for need in needs if isinstance(need, DelayedClaim)):
            found &= ~unmatched | self._provisions(claim)
            space &= ~unmatched | self._has_space(claim)
        exist = np.full(len(self._nodes), all(need.volume_exists for need in bound))
        checks = (
            Check(NODE_CONFLICT, reached),
            Check(BIND_CONFLICT, found),
            Check(NO_SPACE, space),
            Check(NO_VOLUME, exist),
        )
        return tuple(check for check in checks if not check.passes.all())

    # ---------------------------------------------------------------- claims of a pod

    def _claims_of(self, pod: Pod, volume: Volume) -> Iterator[PersistentVolumeClaim]:
        """The claim behind a volume, mounted or not; none for volumes of other kinds."""
        ephemeral = volume.ephemeral is not None
        if volume.persistent_volume_claim is not None:
            name = volume.persistent_volume_claim.claim_name
        elif ephemeral:
            name = f"{pod.metadata.name}-{volume.name}"
        else:
            return
        shown = f'persistentvolumeclaim "{name}"'
        claim = self._claims.get((pod.metadata.namespace, name))
        if claim is None and ephemeral:
            raise ClaimError(f"waiting for ephemeral volume controller to create the {shown}")
        if claim is None:
            raise ClaimError(f"{shown} not found")
        if claim.status.phase == "Lost":
            raise ClaimError(f'{shown} bound to non-existent persistentvolume "{claim.spec.volume_name}"')
        if claim.metadata.deletion_timestamp is not None:
            raise ClaimError(f"{shown} is being deleted")
        if ephemeral and all(owner.uid != pod.metadata.uid for owner in claim.metadata.owner_references):
            raise ClaimError(f'{shown} was not created for pod "{pod.metadata.name}"')
        yield claim

    def _need(self, claim: PersistentVolumeClaim) -> ClaimNeed:
        key = (claim.metadata.namespace, claim.metadata.name)
        if key not in self._needs:
            self._needs[key] = self._read(claim)
        return self._needs[key]

    def _read(self, claim: PersistentVolumeClaim) -> ClaimNeed:
        spec = claim.spec
        if spec.volume_name and BIND_COMPLETED in claim.metadata.annotations:
            volume = self._volumes.get(spec.volume_name)
            return BoundClaim(volume is not None, None if volume is None else _affinity(volume))
        storage_class = self._classes.get(_class_name(claim))
        if spec.volume_name or storage_class is None or storage_class.volume_binding_mode != "WaitForFirstConsumer":
            raise ClaimError(f'pod has unbound immediate PersistentVolumeClaims: "{claim.metadata.name}"')
        try:
            size = spec.resources.requests.get("storage")
            size = None if size is None else units(size)
        except QuantityError as error:
            raise ClaimError(f'persistentvolumeclaim "{claim.metadata.name}": requests.storage: {error}') from error
        return DelayedClaim(
            storage_class=_class_name(claim),
            size=size,
            access_modes=spec.access_modes,
            volume_mode=spec.volume_mode,
            selector=() if spec.selector is None else requirements_of(spec.selector),
            reserved_volume=self._reservation(claim),
            selected_node=claim.metadata.annotations.get(SELECTED_NODE),
        )

    def _reservation(self, claim: PersistentVolumeClaim) -> str:
        name, uid = self._reserved.get((claim.metadata.namespace, claim.metadata.name), ("", ""))
        return name if uid in ("", claim.metadata.uid) else ""

    # ---------------------------------------------------------------- delayed claims on nodes

    def _unmatched(self, claims: Iterable[DelayedClaim]) -> Iterator[tuple[DelayedClaim, np.ndarray]]:
        """Each claim with the nodes bool[N] on which it finds no free volume, so that one must be made.

        Claims choose in ascending order of size, each the smallest volume left on that node.
        """
        taken: dict[str, np.ndarray] = {}
        for claim in sorted(claims, key=lambda claim: claim.size or 0):
            unmatched = self._nodes.all()
            for volume in self._candidates(claim):
                used = taken.setdefault(_name(volume), ~self._nodes.all())
                here = unmatched & ~used & self._reaches(_affinity(volume))
                used |= here
                unmatched &= ~here
            yield claim, unmatched

    def _candidates(self, claim: DelayedClaim) -> list[PersistentVolume]:
        """Volumes that can serve the claim, the smallest first, then by name; a reserved volume is the only one."""
        if claim.selected_node is not None:
            return []
        reserved = self._volumes.get(claim.reserved_volume)
        if reserved is not None and self._suits(reserved, claim):
            return [reserved]
        selected = self._free_labels.satisfying(claim.selector)
        return [v for v, wanted in zip(self._free, selected, strict=True) if wanted and self._serves(v, claim)]

    def _serves(self, volume: PersistentVolume, claim: DelayedClaim) -> bool:
        """A free volume suits, and is of the claim's class and access modes."""
        modes = set(claim.access_modes) <= set(volume.spec.access_modes)
        return modes and _class_name(volume) == claim.storage_class and self._suits(volume, claim)

    def _suits(self, volume: PersistentVolume, claim: DelayedClaim) -> bool:
        """The volume is large enough, of the right mode and not going away."""
        large_enough = self._sizes.get(_name(volume), -1) >= (claim.size or 0)
        staying = volume.metadata.deletion_timestamp is None
        return large_enough and staying and volume.spec.volume_mode == claim.volume_mode

    def _reaches(self, affinity: NodeSelector | None) -> np.ndarray:
        return self._nodes.all() if affinity is None else self._nodes.matching(affinity)

    def _provisions(self, claim: DelayedClaim) -> np.ndarray:
        """bool[N] nodes where a volume can be made for the claim."""
        storage_class = self._classes[claim.storage_class]
        if storage_class.provisioner in ("", NO_PROVISIONER):
            return ~self._nodes.all()
        terms = [term.match_label_expressions for term in storage_class.allowed_topologies]
        answer = ~self._nodes.all() if terms else self._nodes.all()
        for term in terms:
            if term:
                answer |= self._nodes.satisfying(tuple(Requirement(each.key, "In", each.values) for each in term))
        return answer if claim.selected_node is None else answer & self._nodes.named(claim.selected_node)

    def _has_space(self, claim: DelayedClaim) -> np.ndarray:
        """bool[N] nodes where the driver reports room; a driver that reports no capacities always has it."""
        if self._classes[claim.storage_class].provisioner not in self._limited or claim.size is None:
            return self._nodes.all()
        answer = ~self._nodes.all()
        for capacity, room in self._rooms:
            if capacity.storage_class_name == claim.storage_class and room >= claim.size and capacity.node_topology:
                answer |= self._nodes.satisfying(requirements_of(capacity.node_topology))
        return answer

    # ---------------------------------------------------------------- sizes

    def _readable(self, sizes: Iterable[tuple[str, Quantity | None]]) -> dict[str, int]:
        """Bytes by volume name, without the volumes whose size cannot be read."""
        read = {}
        for name, size in sizes:
            try:
                read[name] = 0 if size is None else units(size)
            except QuantityError as error:
                self.warnings.append(f"PersistentVolume {name}: spec.capacity.storage: {error}; the volume is not used")
        return read

    def _room(self, capacity: CsiStorageCapacity) -> int:
        """Largest volume [bytes] that can be made; -1 where nothing is reported."""
        limit = capacity.capacity if capacity.maximum_volume_size is None else capacity.maximum_volume_size
        try:
            return -1 if limit is None else units(limit)
        except QuantityError as error:
            self.warnings.append(f"CSIStorageCapacity {capacity.metadata.name}: {error}; the capacity is not used")
            return -1


def _reservations(volumes: Iterable[PersistentVolume]) -> dict[tuple[str, str], tuple[str, str]]:
    """Name of the volume and uid of the claim, by the claim that volumes name; the first by name where several do."""
    reserved: dict[tuple[str, str], tuple[str, str]] = {}
    for volume in sorted(volumes, key=_name):
        claim = volume.spec.claim_ref
        if claim is not None:
            reserved.setdefault((claim.namespace, claim.name), (_name(volume), claim.uid))
    return reserved


def _is_free(volume: PersistentVolume) -> bool:
    return volume.spec.claim_ref is None and volume.status.phase == "Available"


def _affinity(volume: PersistentVolume) -> NodeSelector | None:
    return None if volume.spec.node_affinity is None else volume.spec.node_affinity.required


def _class_name(item: PersistentVolume | PersistentVolumeClaim) -> str:
    return item.metadata.annotations.get(CLASS_ANNOTATION, item.spec.storage_class_name or "")


def _name(volume: PersistentVolume) -> str:
    return volume.metadata.name
