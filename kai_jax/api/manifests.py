"""Kubernetes manifests: files and folders of YAML and JSON objects, read as the API server would create them.

What the API server adds on creation is added here: namespaces, requests from limits, the phase Pending.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from kai_jax.api.kinds import KINDS_BY_NAME, Kind, convert
from kai_jax.api.objects import Container, Node, Pod
from kai_jax.api.plain import InputError, load_json, load_yaml

SUFFIXES = (".yaml", ".yml", ".json")


def read_folder(folder: Path, warnings: list[str]) -> dict[str, tuple[Any, ...]]:
    """Objects by kind of all manifests below a folder, in the order of their paths.

    A file that cannot be read is left out with a warning. Raises InputError where nothing is left.
    """
    plain: list[tuple[str, Any]] = []
    for path in sorted(entry for entry in folder.rglob("*") if entry.suffix.lower() in SUFFIXES and entry.is_file()):
        name = str(path.relative_to(folder))
        try:
            plain.extend(_plain_objects(path.read_bytes(), name))
        except OSError as error:
            warnings.append(f"{name} left out: {error.strerror or error}")
        except InputError as error:
            warnings.append(f"{name} left out: {error}")
    return _by_kind(plain, warnings)


def read_manifest(content: bytes, name: str, warnings: list[str]) -> dict[str, tuple[Any, ...]]:
    """Objects by kind of one file called `name`. Raises InputError where it is unreadable or holds none."""
    return _by_kind(_plain_objects(content, name), warnings)


def _plain_objects(content: bytes, name: str) -> Iterable[tuple[str, Any]]:
    """Every object of a file, with the place where it was found."""
    documents = [load_json(content)] if name.lower().endswith(".json") else load_yaml(content)
    if documents and not any(isinstance(document, dict | None) for document in documents):
        raise InputError("expected Kubernetes objects")
    return [
        (f"{name}[{i}]", entry)
        for i, entry in enumerate(entry for document in documents for entry in _listed(document))
    ]


def _listed(document: Any) -> Iterator[Any]:
    """The objects of a List, or the document itself; nothing of an empty document."""
    if document is None:
        return
    if not isinstance(document, dict):
        yield document
        return
    kind, items = document.get("kind"), document.get("items")
    if not (isinstance(kind, str) and kind.endswith("List") and isinstance(items, list)):
        yield document
        return
    inherited = {"apiVersion": document.get("apiVersion"), "kind": kind.removesuffix("List")} if kind != "List" else {}
    for item in items:
        yield {**inherited, **item} if isinstance(item, dict) else item


def _by_kind(entries: Iterable[tuple[str, Any]], warnings: list[str]) -> dict[str, tuple[Any, ...]]:
    found: dict[str, list[Any]] = {}
    unread: Counter[str] = Counter()
    for place, plain in entries:
        name, version = (plain.get("kind"), plain.get("apiVersion")) if isinstance(plain, dict) else (None, None)
        kind = KINDS_BY_NAME.get(name) if isinstance(name, str) else None
        if kind is None or version not in kind.api_versions:
            unread[_what(place, name, version, kind)] += 1
            continue
        entry = convert(kind, plain, place, warnings)
        if entry is not None:
            found.setdefault(kind.name, []).append(_as_created(kind, entry))
    warnings.extend(f"{what}: {count} object{'s'[: count > 1]} not read" for what, count in unread.items())
    if not found:
        raise InputError("; ".join(("no object that scheduling reads, such as Node, Pod, PodGroup, Queue", *warnings)))
    return {name: tuple(objects) for name, objects in found.items()}


def _what(place: str, name: Any, version: Any, kind: Kind | None) -> str:
    if not isinstance(name, str):
        return f"{place} (without a kind)"
    expected = f", expected {' or '.join(kind.api_versions)}" if kind else ""
    return f"{name} ({version}{expected})"


def _as_created(kind: Kind, entry: Any) -> Any:
    if kind.namespaced and not entry.metadata.namespace:
        entry = replace(entry, metadata=replace(entry.metadata, namespace="default"))
    if isinstance(entry, Pod):
        return _created_pod(entry)
    if isinstance(entry, Node) and not entry.status.allocatable:
        return replace(entry, status=replace(entry.status, allocatable=entry.status.capacity))
    return entry


def _created_pod(pod: Pod) -> Pod:
    spec = replace(
        pod.spec,
        containers=tuple(map(_with_requests, pod.spec.containers)),
        init_containers=tuple(map(_with_requests, pod.spec.init_containers)),
    )
    return replace(pod, spec=spec, status=replace(pod.status, phase=pod.status.phase or "Pending"))


def _with_requests(container: Container) -> Container:
    """A limit stands in for a request of the same resource that is absent."""
    resources = container.resources
    requests: Mapping[str, Any] = {**resources.limits, **resources.requests}
    return replace(container, resources=replace(resources, requests=requests))
