"""Reads the requirement of a pod from its containers and annotations (spec 01 §3.2, §3.3)."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from kai_jax.api.numbers import MAX_INT32, MAX_INT64, decimal, integer
from kai_jax.api.objects import POD_GROUP, Container, Pod, Quantity
from kai_jax.api.quantity import QuantityError
from kai_jax.model.amounts import Amounts, RequestError, bounded, checked_nanos, scale_of, scaled
from kai_jax.model.resources import DEVICE_NAMES, MIG_PREFIX, PODS, Kind, Requirement

FRACTION = "gpu-fraction"
DEVICE_MEMORY = "gpu-memory"
DEVICE_COUNT = "gpu-fraction-num-devices"


def requirement_of(pod: Pod, claimed: int = 0) -> Requirement:
    """The requirement of a pod that claims so many devices. Raises RequestError naming the field (pod request)."""
    spec = pod.spec
    total = _pod_total(spec.containers, spec.init_containers)
    overhead = _convert(spec.overhead, "spec.overhead").amounts
    amounts = {name: bounded(total.amounts.get(name, 0) + overhead.get(name, 0), name)
               for name in total.amounts.keys() | overhead.keys()}  # fmt: skip
    return replace(_with_annotations(total, amounts, pod.metadata.annotations), claimed=claimed)


def request_key(pod: Pod) -> tuple[object, ...]:
    """Pods with equal keys have equal requirements; cheap, and finer than need be."""
    spec = pod.spec
    key: tuple[object, ...] = tuple([tuple(container.resources.requests.items()) for container in spec.containers])
    if spec.init_containers:
        key += ("init", *[(c.restart_policy, *c.resources.requests.items()) for c in spec.init_containers])
    if spec.overhead:
        key += ("overhead", *spec.overhead.items())
    annotations = pod.metadata.annotations
    if len(annotations) > 1 or POD_GROUP not in annotations:
        key += tuple([item for item in annotations.items() if _asks_for_devices(item[0])])
    return key


# ------------------------------------------------------------------------------------ containers


@dataclass(frozen=True, slots=True)
class _Part:
    """Amounts and devices of some containers; `portion` is 0 for an explicit request of no device."""

    amounts: Amounts
    devices: int = 0
    portion: float = 0.0

    @property
    def empty(self) -> bool:
        return self.devices == 0

    @property
    def gpus(self) -> float:
        return self.devices * self.portion

    def plus(self, other: "_Part") -> "_Part":
        amounts = {
            name: self.amounts.get(name, 0) + other.amounts.get(name, 0)
            for name in self.amounts.keys() | other.amounts.keys()
        }
        if self.empty:
            return _Part(amounts, other.devices, other.portion)
        if other.empty or other.portion == self.portion:
            return _Part(amounts, self.devices + other.devices, self.portion)
        kept = {name: amount for name, amount in amounts.items() if not name.startswith(MIG_PREFIX)}
        kept |= {name: amount for name, amount in self.amounts.items() if name.startswith(MIG_PREFIX)}
        return _Part(kept, self.devices, self.portion)  # no devices beside devices: the operand's are dropped

    def most(self, other: "_Part") -> "_Part":
        amounts = {
            name: max(self.amounts.get(name, 0), other.amounts.get(name, 0))
            for name in self.amounts.keys() | other.amounts.keys()
        }
        larger = other if other.gpus > self.gpus or self.empty else self
        return _Part(amounts, larger.devices, larger.portion)


def _pod_total(containers: Iterable[Container], init_containers: Iterable[Container]) -> _Part:
    """The larger of the steady state and the peak while starting (aggregation order)."""
    steady = _sum(containers)
    sidecars, peak = _Part({}), _Part({})
    for container in init_containers:
        part = _convert(container.resources.requests, f"spec.initContainers[{container.name}].resources.requests")
        if container.restart_policy == "Always":
            sidecars = sidecars.plus(part)
        else:
            peak = peak.most(part.plus(sidecars))
    return steady.plus(sidecars).most(peak)


def _sum(containers: Iterable[Container]) -> _Part:
    """Sums the quantities of the main containers before they are rounded."""
    total: dict[str, int] = {}
    for container in containers:
        for name, quantity in container.resources.requests.items():
            amount = _checked(quantity, f"spec.containers[{container.name}].resources.requests[{name}]")
            total[name] = total.get(name, 0) + amount
    return _part(total)


def _convert(quantities: Mapping[str, Quantity], field: str) -> _Part:
    return _part({name: _checked(quantity, f"{field}[{name}]") for name, quantity in quantities.items()})


def _part(amounts_in_nanos: Mapping[str, int]) -> _Part:
    amounts: Amounts = {}
    devices, portion = 0, 0.0
    for name, amount in amounts_in_nanos.items():
        if name in DEVICE_NAMES:
            count = scaled(amount, 1, name)
            if count:
                devices, portion = (devices if portion else 0) + count, 1.0
            elif not devices:
                devices = 1  # an explicit 0 is one device of portion 0
        elif name != PODS and (scale := scale_of(name)):
            amounts[name] = scaled(amount, scale, name)
    return _Part(amounts, devices, portion)


# ------------------------------------------------------------------------------------ annotations


def _with_annotations(total: _Part, amounts: Amounts, annotations: Mapping[str, str]) -> Requirement:
    """Annotations override the devices of containers (annotation overrides)."""
    mig = any(name.startswith(MIG_PREFIX) for name in total.amounts)
    result = Requirement(
        amounts=_sorted(amounts),
        kind=Kind.MIG if mig else Kind.REGULAR,
        devices=total.devices,
        portion=total.portion,
    )
    fraction, memory = annotations.get(FRACTION), annotations.get(DEVICE_MEMORY)
    if memory is not None:
        result = replace(result, kind=Kind.MEMORY, devices=1, portion=0.0, memory=_positive(memory, DEVICE_MEMORY))
    if fraction is not None:
        result = replace(result, kind=Kind.FRACTION, devices=1, portion=_portion(fraction), memory=0)
    if result.shared and (count := annotations.get(DEVICE_COUNT)) is not None:
        result = replace(result, devices=_positive(count, DEVICE_COUNT, MAX_INT32))
    for name, value in annotations.items():
        if name.startswith(MIG_PREFIX) and integer(value) is not None:
            amounts = {**amounts, name: _positive(value, name)}
            result = replace(
                result, amounts=_sorted(amounts), kind=Kind.MIG, devices=0, portion=0.0, memory=0, legacy_mig=True
            )
    return result


def _portion(text: str) -> float:
    portion = decimal(text)
    if portion is None or not 0 < portion <= 1:
        raise RequestError(f"metadata.annotations[{FRACTION}]: {text!r} is not a number above 0 and at most 1")
    return portion


def _positive(text: str, annotation: str, most: int = MAX_INT64) -> int:
    number = integer(text)
    if number is None or not 0 < number <= most:
        bits = most.bit_length() + 1
        raise RequestError(f"metadata.annotations[{annotation}]: {text!r} is not a positive integer of {bits} bits")
    return number


def _asks_for_devices(annotation: str) -> bool:
    return annotation in (FRACTION, DEVICE_MEMORY, DEVICE_COUNT) or annotation.startswith(MIG_PREFIX)


# ------------------------------------------------------------------------------------ quantities


def _checked(quantity: Quantity, field: str) -> int:
    try:
        return checked_nanos(quantity)
    except (QuantityError, RequestError) as error:
        raise RequestError(f"{field}: {error}") from error


def _sorted(amounts: Amounts) -> tuple[tuple[str, int], ...]:
    return tuple(sorted((name, amount) for name, amount in amounts.items() if amount))
