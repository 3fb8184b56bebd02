"""The one door for input: a snapshot document (JSON, or zipped), or Kubernetes manifests (a file or a folder)."""

import codecs
import io
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

import msgspec
from msgspec.structs import replace

from kai_jax.api.config import Config, Params, Settings, document_settings, resolve
from kai_jax.api.kinds import KINDS, KINDS_BY_KEY, decode_array, without_duplicates
from kai_jax.api.manifests import SUFFIXES, read_folder, read_manifest
from kai_jax.api.objects import POD_GROUP, Objects, Pod, Wire
from kai_jax.api.plain import InputError, describe, load_json

POD_GROUP_LABEL = "scheduling.kai-scheduler.io/pod-group"  # of the dialect scheduling.kai-scheduler.io/v1alpha1

_SNAPSHOT_NAME = "snapshot.json"
_ZIP_START = b"PK\x03\x04"
_EMPTY = (b"null", b"[]")
_EXPECTED = (
    "expected a snapshot document (.json with rawObjects, or a .zip that holds snapshot.json), "
    "or Kubernetes objects (.yaml, .yml, .json, or a folder of them)"
)

Found = dict[str, tuple[Any, ...]]  # objects by the name of their kind


class DocumentError(InputError):
    """Input that cannot be used at all."""


class _Snapshot(Wire, frozen=True):
    """The members of a snapshot document, not yet decoded."""

    raw_objects: Mapping[str, msgspec.Raw]
    config: msgspec.Raw = msgspec.Raw(b"null")
    scheduler_params: msgspec.Raw = msgspec.Raw(b"null")


@dataclass(frozen=True)
class Document:
    """One cluster as read, its scheduler configuration, and what was left out on the way."""

    config: Config
    params: Params
    objects: Objects
    warnings: tuple[str, ...] = ()


def read(path: Path | str, overrides: Settings | None = None) -> Document:
    """The document at `path`, its settings overridden by those of `overrides`.

    A malformed object is left out with a warning. Raises DocumentError where the input cannot be used at all.
    """
    path = Path(path)
    warnings: list[str] = []
    try:
        settings, found = _read(path, warnings)
        config, params, config_warnings = resolve(settings.overridden_by(overrides or Settings()))
    except OSError as error:
        raise DocumentError(f"{path}: {error.strerror or error}") from error
    except InputError as error:
        raise DocumentError(f"{path}: {error}") from error
    objects = {kind.attribute: without_duplicates(kind, found.get(kind.name, ()), warnings) for kind in KINDS}
    objects["pods"] = tuple(_member(pod, params.scheduler_name) for pod in objects["pods"])
    return Document(config, params, Objects(**objects), (*config_warnings, *warnings))


def _read(path: Path, warnings: list[str]) -> tuple[Settings, Found]:
    if path.is_dir():
        return Settings(), read_folder(path, warnings)
    content = path.read_bytes().removeprefix(codecs.BOM_UTF8)
    if not content or content.isspace():
        raise InputError(f"the file is empty, {_EXPECTED}")
    if content.startswith(_ZIP_START):
        return _snapshot(_unzipped(content), warnings)
    suffix = path.suffix.lower()
    if suffix == ".json" and b'"rawObjects"' in content:
        return _snapshot(content, warnings)
    if suffix in SUFFIXES:
        return Settings(), read_manifest(content, path.name, warnings)
    raise InputError(f"unknown kind of file, {_EXPECTED}")


def _snapshot(content: bytes, warnings: list[str]) -> tuple[Settings, Found]:
    try:
        snapshot = msgspec.json.decode(content, type=_Snapshot)
    except msgspec.ValidationError as error:
        raise InputError(f"no snapshot document: {describe(error)}, {_EXPECTED}") from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InputError(f"not JSON: {error}, {_EXPECTED}") from error
    found = {}
    for key, raw in snapshot.raw_objects.items():
        kind = KINDS_BY_KEY.get(key)
        if kind is not None:
            found[kind.name] = decode_array(kind, raw, warnings)
        elif bytes(raw) not in _EMPTY:
            warnings.append(f"rawObjects.{key} is not read")
    return document_settings(load_json(snapshot.config), load_json(snapshot.scheduler_params)), found


def _unzipped(content: bytes) -> bytes:
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            name = next((name for name in archive.namelist() if PurePosixPath(name).name == _SNAPSHOT_NAME), None)
            if name is None:
                raise InputError(f"the archive holds no {_SNAPSHOT_NAME}")
            return archive.read(name)
    except (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError) as error:  # RuntimeError: encrypted, unknown method
        raise InputError(f"not a readable archive: {error}") from error


def _member(pod: Pod, scheduler_name: str) -> Pod:
    """A pod that joins its podgroup by label, as one that joins by annotation and names our scheduler."""
    group = pod.metadata.labels.get(POD_GROUP_LABEL)
    if group is None:
        return pod
    annotations = {POD_GROUP: group, **pod.metadata.annotations}
    return replace(
        pod,
        metadata=replace(pod.metadata, annotations=annotations),
        spec=replace(pod.spec, scheduler_name=scheduler_name),
    )
