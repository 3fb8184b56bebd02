"""The kinds that are read, and their objects decoded so that a malformed one stays out alone."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import msgspec

from kai_jax.api import objects
from kai_jax.api.plain import InputError, describe, load_json, without_nulls


@dataclass(frozen=True)
class Kind:
    """`attribute` names it in `Objects`; the first of `api_versions` is the one written, the others are read too."""

    name: str
    attribute: str
    type: type[msgspec.Struct]
    api_versions: tuple[str, ...]
    namespaced: bool = False

    @property
    def key(self) -> str:
        """Its name in `rawObjects`: "podGroups"."""
        first, *others = self.attribute.split("_")
        return first + "".join(word.capitalize() for word in others)

    @cached_property
    def decoder(self) -> msgspec.json.Decoder[tuple[Any, ...]]:
        return msgspec.json.Decoder(tuple[self.type, ...])  # type: ignore[name-defined]


KINDS = (
    Kind("Pod", "pods", objects.Pod, ("v1",), namespaced=True),
    Kind("Node", "nodes", objects.Node, ("v1",)),
    Kind("Queue", "queues", objects.Queue, ("scheduling.run.ai/v2",)),
    Kind(
        "PodGroup",
        "pod_groups",
        objects.PodGroup,
        ("scheduling.run.ai/v2alpha2", "scheduling.kai-scheduler.io/v1alpha1"),
        namespaced=True,
    ),
    Kind("BindRequest", "bind_requests", objects.BindRequest, ("scheduling.run.ai/v1alpha2",), namespaced=True),
    Kind("PriorityClass", "priority_classes", objects.PriorityClass, ("scheduling.k8s.io/v1",)),
    Kind("ConfigMap", "config_maps", objects.ConfigMap, ("v1",), namespaced=True),
    Kind("PersistentVolume", "persistent_volumes", objects.PersistentVolume, ("v1",)),
    Kind("PersistentVolumeClaim", "persistent_volume_claims", objects.PersistentVolumeClaim, ("v1",), namespaced=True),
    Kind(
        "CSIStorageCapacity",
        "csi_storage_capacities",
        objects.CsiStorageCapacity,
        ("storage.k8s.io/v1",),
        namespaced=True,
    ),
    Kind("StorageClass", "storage_classes", objects.StorageClass, ("storage.k8s.io/v1",)),
    Kind("CSIDriver", "csi_drivers", objects.CsiDriver, ("storage.k8s.io/v1",)),
    Kind(
        "ResourceClaim",
        "resource_claims",
        objects.ResourceClaim,
        ("resource.k8s.io/v1", "resource.k8s.io/v1beta2"),
        namespaced=True,
    ),
    Kind("ResourceSlice", "resource_slices", objects.ResourceSlice, ("resource.k8s.io/v1", "resource.k8s.io/v1beta2")),
    Kind("DeviceClass", "device_classes", objects.DeviceClass, ("resource.k8s.io/v1", "resource.k8s.io/v1beta2")),
    Kind("Topology", "topologies", objects.Topology, ("kai.scheduler/v1alpha1",)),
    Kind(
        "NodeResourceTopology",
        "node_resource_topologies",
        objects.NodeResourceTopology,
        ("topology.node.k8s.io/v1alpha2", "topology.node.k8s.io/v1alpha1"),
    ),
)
KINDS_BY_NAME = {kind.name: kind for kind in KINDS}
KINDS_BY_KEY = {kind.key: kind for kind in KINDS}


def decode_array(kind: Kind, content: msgspec.Raw, warnings: list[str]) -> tuple[Any, ...]:
    """All well-formed objects of a JSON array; a warning for each of the others.

    Raises InputError where the content is no array.
    """
    try:
        return kind.decoder.decode(content)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return _decode_singly(kind, content, warnings)


def convert(kind: Kind, plain: Any, place: str, warnings: list[str]) -> Any | None:
    """One object from plain values; None, and a warning, where it is malformed. `place` names one without a name."""
    try:
        return msgspec.convert(without_nulls(plain), kind.type)
    except msgspec.ValidationError as error:
        warnings.append(f"{kind.name} {_label(plain) or place} left out: {describe(error)}")
    except RecursionError:
        warnings.append(f"{kind.name} {_label(plain) or place} left out: nested too deeply")
    return None


def without_duplicates(kind: Kind, entries: tuple[Any, ...], warnings: list[str]) -> tuple[Any, ...]:
    """The first object of each namespace and name, and a warning for each other."""
    keys = [(entry.metadata.namespace, entry.metadata.name) for entry in entries]
    if len(set(keys)) == len(keys):
        return entries
    first: dict[tuple[str, str], Any] = {}
    for key, entry in zip(keys, entries, strict=True):
        if first.setdefault(key, entry) is not entry:
            warnings.append(f"{kind.name} {'/'.join(filter(None, key))} left out: there is an earlier one of this name")
    return tuple(first.values())


def _decode_singly(kind: Kind, content: msgspec.Raw, warnings: list[str]) -> tuple[Any, ...]:
    try:
        elements = msgspec.json.decode(content, type=list[msgspec.Raw] | None) or []
    except msgspec.ValidationError as error:
        raise InputError(f"rawObjects.{kind.key}: {describe(error)}") from error
    decoded = (_decode_element(kind, element, f"{kind.key}[{i}]", warnings) for i, element in enumerate(elements))
    return tuple(entry for entry in decoded if entry is not None)


def _decode_element(kind: Kind, content: msgspec.Raw, place: str, warnings: list[str]) -> Any | None:
    try:
        return msgspec.json.decode(content, type=kind.type)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        reason = describe(error)
    try:
        plain = load_json(content)
    except InputError:
        warnings.append(f"{kind.name} {_named(content) or place} left out: {reason}")
        return None
    return convert(kind, plain, place, warnings)  # what was wrong may have been a null


class _Header(objects.Wire, frozen=True):
    metadata: dict[str, Any]


def _named(content: msgspec.Raw) -> str:
    """The label of an object that is not readable as a whole."""
    try:
        return _label({"metadata": msgspec.json.decode(content, type=_Header).metadata})
    except (msgspec.DecodeError, UnicodeDecodeError):
        return ""


def _label(plain: Any) -> str:
    """namespace/name as far as an object has them as text."""
    metadata = plain.get("metadata") if isinstance(plain, Mapping) else None
    named = metadata if isinstance(metadata, Mapping) and isinstance(metadata.get("name"), str) else {}
    return "/".join(str(named[key]) for key in ("namespace", "name") if named.get(key))
