"""Devices that pods hold or ask for by resource claims: counts only (spec 01 §3.4)."""

from collections.abc import Iterable, Sequence

from kai_jax.api.objects import DeviceClass, DeviceRequest, Pod, ResourceClaim

OF_EXTENDED_RESOURCE = "resource.kubernetes.io/extended-resource-claim"
IMPLICIT_PREFIX = "deviceclass.resource.kubernetes.io/"

_MAX_COUNT = 2**63 - 1


class ClaimTable:
    """Resource claims, found by the pods that use them."""

    def __init__(self, claims: Iterable[ResourceClaim]) -> None:
        self._by_name: dict[tuple[str, str], ResourceClaim] = {}
        self._by_pod: dict[str, list[ResourceClaim]] = {}
        for claim in claims:
            if claim.metadata.annotations.get(OF_EXTENDED_RESOURCE) == "true":
                continue  # counted by the requests of containers
            self._by_name[claim.metadata.namespace, claim.metadata.name] = claim
            user = _user(claim)
            if user:
                self._by_pod.setdefault(user, []).append(claim)

    def of(self, pod: Pod) -> Sequence[ResourceClaim]:
        """Claims made for the pod, claims it holds first, and claims that it names."""
        if not self._by_name:
            return ()
        found = {id(claim): claim for claim in self._by_pod.get(pod.metadata.uid, ())}
        for entry in pod.spec.resource_claims:
            claim = self._by_name.get((pod.metadata.namespace, entry.resource_claim_name))
            if claim is not None:
                found[id(claim)] = claim
        return tuple(found.values())


def requested_gpus(claims: Iterable[ResourceClaim]) -> int:
    """Devices of GPU classes that claims ask for; alternatives count 0, "all" counts 1."""
    total = sum(_count(request) for claim in claims for request in claim.spec.devices.requests)
    return min(total, _MAX_COUNT)


def held_gpus(claims: Iterable[ResourceClaim]) -> frozenset[tuple[str, str, str]]:
    """Devices (driver, pool, name) of GPU drivers that claims were given."""
    return frozenset(
        (result.driver, result.pool, result.device)
        for claim in claims
        if claim.status.allocation is not None
        for result in claim.status.allocation.devices.results
        if _is_gpu(result.driver)
    )


def mapped_resources(classes: Iterable[DeviceClass]) -> frozenset[str]:
    """Extended resources that device classes serve by an explicit name."""
    return frozenset(item.spec.extended_resource_name for item in classes if item.spec.extended_resource_name)


def _user(claim: ResourceClaim) -> str:
    """UID of the pod that owns a claim, else of the first pod that holds it."""
    for owner in claim.metadata.owner_references:
        if owner.kind == "Pod":
            return owner.uid
    return next((user.uid for user in claim.status.reserved_for if user.resource == "pods"), "")


def _count(request: DeviceRequest) -> int:
    exactly = request.exactly
    if exactly is None or not _is_gpu(exactly.device_class_name):
        return 0
    if exactly.allocation_mode == "All":
        return 1
    return max(1, exactly.count) if exactly.allocation_mode in ("ExactCount", "") else 0


def _is_gpu(name: str) -> bool:
    return "gpu" in name.lower()
