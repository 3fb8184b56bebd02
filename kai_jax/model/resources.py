"""Requirements: what a pod asks for, and the devices that it counts for here and there (spec 01 §3)."""

import math
import re
from dataclasses import dataclass
from enum import StrEnum

GPU, CPU, MEMORY, PODS = "gpu", "cpu", "memory", "pods"  # the first four of axis R, in this order
FIXED = (GPU, CPU, MEMORY, PODS)

DEVICE_NAMES = ("nvidia.com/gpu", "amd.com/gpu")
MIG_PREFIX = "nvidia.com/mig-"

_MIG_SIZE = re.compile(r"nvidia\.com/mig-([0-9]+)g\.([0-9]+)gb")


class Kind(StrEnum):
    """How a pod gets its devices, as written into bind requests."""

    REGULAR = "Regular"
    FRACTION = "Fraction"
    MEMORY = "GpuMemory"
    MIG = "MigInstance"


@dataclass(frozen=True, slots=True)
class Requirement:
    """The request of a pod; pods with equal requirements are one request class."""

    amounts: tuple[tuple[str, int], ...] = ()  # everything but devices and pod slots, by name, without zeros
    kind: Kind = Kind.REGULAR
    devices: int = 0
    portion: float = 0.0  # of each device; 0 for memory requests
    memory: int = 0  # MiB of each device, for memory requests
    claimed: int = 0  # devices by claims
    legacy_mig: bool = False

    @property
    def shared(self) -> bool:
        """Asks for a part of a device."""
        return self.kind in (Kind.FRACTION, Kind.MEMORY)

    @property
    def gpus(self) -> float:
        """Devices by count and portion, portions in hundredths; 0 for memory requests."""
        return round_half_away(self.portion * 100) * self.devices / 100

    @property
    def requested_gpu(self) -> float:
        """The gpu entry of the request vector."""
        return self.gpus + self.claimed

    @property
    def node_gpu(self) -> float:
        """Devices charged to the gpu entry of a node; parts of devices and MIG profiles are charged elsewhere."""
        return self.gpus + self.claimed if self.kind is Kind.REGULAR else 0.0

    @property
    def mig_gpu(self) -> int:
        """Devices that the MIG profiles count for in queues."""
        return sum(amount * mig_size(name) for name, amount in self.amounts)

    @property
    def accepted_gpu(self) -> float:
        """Devices that queue usage grows by once placed; a memory request's depend on the node (0 here)."""
        return self.mig_gpu + (0.0 if self.kind is Kind.MIG else self.requested_gpu)

    @property
    def cpu_only(self) -> bool:
        return self.requested_gpu == 0 and self.kind not in (Kind.MEMORY, Kind.MIG)

    @property
    def device_kind(self) -> str:
        """Which device filters apply to the pod."""
        if self.legacy_mig:
            return "legacy-mig"
        if self.cpu_only:
            return "cpu"
        return {Kind.REGULAR: "whole", Kind.FRACTION: "fraction", Kind.MEMORY: "memory", Kind.MIG: "mig"}[self.kind]

    def demand_gpu(self, device_memory: int | None) -> float:
        """Devices in queue demand, memory requests measured by a device of `device_memory` MiB (None: nothing)."""
        if self.kind is Kind.MEMORY:
            return self.mig_gpu + (self.devices * self.memory / device_memory if device_memory else 0.0)
        return self.mig_gpu + self.requested_gpu

    def portion_on(self, device_memory: int) -> float:
        """The part of each device of a node with `device_memory` MiB per device."""
        return hundredths(self.memory, device_memory) if self.memory > 0 else self.portion

    def memory_on(self, device_memory: int) -> int:
        """MiB of each device of a node with `device_memory` MiB per device."""
        return self.memory if self.memory > 0 else int(self.portion * device_memory)

    def accepted_on(self, device_memory: int) -> float:
        """Devices that queue usage grows by on a node with `device_memory` MiB per device."""
        if self.kind is Kind.MEMORY:
            return self.mig_gpu + round_half_away(self.portion_on(device_memory) * 100) * self.devices / 100
        return self.accepted_gpu


NOTHING = Requirement()


def mig_size(name: str) -> int:
    """Devices that one profile counts for in queues: `nvidia.com/mig-3g.20gb` is 3, other names 0."""
    match = _MIG_SIZE.fullmatch(name) if name.startswith(MIG_PREFIX) else None
    return int(match[1]) if match else 0


def round_half_away(number: float) -> int:
    """Nearest integer, halves away from zero."""
    return math.floor(number + 0.5) if number >= 0 else -math.floor(0.5 - number)


def hundredths(memory: int, device_memory: int) -> float:
    """The part of a device that `memory` MiB are, rounded up to hundredths."""
    return math.ceil(memory / device_memory * 100) / 100
