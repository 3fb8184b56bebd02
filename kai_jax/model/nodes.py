"""Nodes of the shard as scheduling sees them (spec 01 §4)."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from kai_jax.api.config import Params
from kai_jax.api.numbers import integer
from kai_jax.api.objects import Node as NodeObject
from kai_jax.api.objects import ResourceSlice
from kai_jax.model.amounts import Amounts, node_amounts
from kai_jax.model.conditions import node_problems
from kai_jax.model.resources import GPU, MIG_PREFIX
from kai_jax.model.shards import Shard

GPU_MEMORY_LABEL = "nvidia.com/gpu.memory"
GPU_COUNT_LABEL = "nvidia.com/gpu.count"
MIG_STRATEGY_LABEL = "nvidia.com/mig.strategy"
UNKNOWN_GPU_MEMORY = 100  # MiB; fractions still work in hundredths of it

_BYTES_FROM = 1 << 20  # a label as large as this is in bytes, not in MiB
_TRUE = ("1", "t", "T", "true", "TRUE", "True")


@dataclass(frozen=True, slots=True)
class Node:
    """A node of the shard; `index` is its place on axis N."""

    index: int
    name: str
    object: NodeObject
    ready: bool
    amounts: Amounts  # allocatable by resource name, devices of slices included, without zeros
    gpu_memory: int  # MiB of one device, a multiple of 100
    gpu_memory_known: bool
    gpu_count: int
    mig: bool
    mig_strategy: str  # "single", "mixed" or "" for any other, and where the node is no MIG node
    claimed_gpus: int  # devices published in slices

    @property
    def labels(self) -> Mapping[str, str]:
        return self.object.metadata.labels

    @property
    def cpu_only(self) -> bool:
        """No devices of any kind."""
        return not self.mig and self.amounts.get(GPU, 0) <= 0


def read_nodes(
    objects: Iterable[NodeObject], slices: Iterable[ResourceSlice], shard: Shard, params: Params, warnings: list[str]
) -> tuple[Node, ...]:
    """Nodes of the shard in ascending byte order of names, those that accept work of neither kind left out."""
    devices = _slice_devices(slices)
    chosen = [node for node in objects if shard.has(node.metadata.labels) and _admitted(node, params)]
    chosen.sort(key=lambda node: node.metadata.name.encode())
    return tuple(
        _read(index, node, devices.get(node.metadata.name, 0), params, warnings) for index, node in enumerate(chosen)
    )


def _admitted(node: NodeObject, params: Params) -> bool:
    labels = node.metadata.labels
    return (
        not params.restrict_scheduling_nodes
        or params.gpu_worker_node_label_key in labels
        or params.cpu_worker_node_label_key in labels
    )


def _read(index: int, node: NodeObject, claimed: int, params: Params, warnings: list[str]) -> Node:
    name, labels = node.metadata.name, node.metadata.labels
    amounts, errors = node_amounts(node.status.allocatable)
    warnings.extend(f"node {name}: {field}: {error}, counted as 0" for field, error in errors.items())
    if not node.status.allocatable:
        warnings.append(f"node {name}: status.allocatable: missing, the node takes no pods")
    if claimed:
        amounts[GPU] = amounts.get(GPU, 0) + claimed
    memory, known = _gpu_memory(name, labels, warnings)
    mig = _is_mig(labels.get(params.mig_worker_node_label_key), amounts)
    strategy = labels.get(MIG_STRATEGY_LABEL, "") if mig else ""
    return Node(
        index=index,
        name=name,
        object=node,
        ready=not node_problems(node),
        amounts=amounts,
        gpu_memory=memory,
        gpu_memory_known=known,
        gpu_count=_gpu_count(name, labels, amounts, warnings),
        mig=mig,
        mig_strategy=strategy if strategy in ("single", "mixed") else "",
        claimed_gpus=claimed,
    )


def _gpu_memory(name: str, labels: Mapping[str, str], warnings: list[str]) -> tuple[int, bool]:
    """MiB of one device, rounded down to hundreds, and whether the node tells it (device memory)."""
    text = labels.get(GPU_MEMORY_LABEL)
    memory = integer(text or "")
    if memory is not None and memory > 0:
        mebibytes = memory // _BYTES_FROM if memory >= _BYTES_FROM else memory
        if mebibytes >= UNKNOWN_GPU_MEMORY:
            return mebibytes - mebibytes % 100, True
    if text is not None:
        warnings.append(f"node {name}: metadata.labels[{GPU_MEMORY_LABEL}]: {text!r} is no device memory, unknown")
    return UNKNOWN_GPU_MEMORY, False


def _gpu_count(name: str, labels: Mapping[str, str], amounts: Amounts, warnings: list[str]) -> int:
    text = labels.get(GPU_COUNT_LABEL)
    count = integer(text or "")
    if count is not None and count >= 0:
        return count
    if text is not None:
        warnings.append(f"node {name}: metadata.labels[{GPU_COUNT_LABEL}]: {text!r} is no number of devices, ignored")
    return amounts.get(GPU, 0)


def _is_mig(label: str | None, amounts: Amounts) -> bool:
    """The label decides where it exists; anything but a true boolean is false."""
    return label in _TRUE if label is not None else any(name.startswith(MIG_PREFIX) for name in amounts)


def _slice_devices(slices: Iterable[ResourceSlice]) -> dict[str, int]:
    """Devices of GPU drivers by the node whose slices publish them."""
    devices: dict[str, int] = {}
    for item in slices:
        if item.spec.node_name and "gpu" in item.spec.driver.lower():
            devices[item.spec.node_name] = devices.get(item.spec.node_name, 0) + len(item.spec.devices)
    return devices
