"""Plain values (dicts, lists, strings, numbers) as read from YAML and JSON, before they become typed objects."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import yaml

T = TypeVar("T")


class InputError(ValueError):
    """Input that cannot be read, with a message for the one who wrote it."""


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """YAML as Kubernetes reads it: timestamps stay text."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}

_LOCATION = re.compile(r"^(.*) - at `(?:key in )?\$\.?(.*)`$", re.DOTALL)


def load_yaml(content: bytes) -> list[Any]:
    """All documents of a YAML stream. Raises InputError with a message on one line."""
    try:
        return list(yaml.load_all(content, Loader=_Loader))  # noqa: S506 (a safe loader)
    except RecursionError as error:
        raise InputError("not YAML: nested too deeply") from error
    except (yaml.YAMLError, ValueError) as error:
        raise InputError(f"not YAML: {' '.join(str(error).split())}") from error


def read_yaml(path: Path) -> Any:
    """The one document of a YAML file. Raises InputError with a message that leaves the file to the caller."""
    try:
        documents = load_yaml(path.read_bytes())
    except OSError as error:
        raise InputError(error.strerror or str(error)) from error
    if len(documents) != 1:
        raise InputError(f"expected one YAML document, found {len(documents)}")
    return documents[0]


def load_json(content: bytes | msgspec.Raw) -> Any:
    """A JSON value. Raises InputError with a message."""
    try:
        return msgspec.json.decode(content)
    except RecursionError as error:
        raise InputError("not JSON: nested too deeply") from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InputError(f"not JSON: {error}") from error


def without_nulls(value: Any) -> Any:
    """`value` with every null field and list entry left out, as Kubernetes reads them."""
    if isinstance(value, dict):
        return {key: without_nulls(entry) for key, entry in value.items() if entry is not None}
    if isinstance(value, list):
        return [without_nulls(entry) for entry in value if entry is not None]
    return value


def some_of(names: Sequence[str], shown: int = 5) -> str:
    """The first names, and how many there are beside them: "a, b and 3 more"."""
    more = f" and {len(names) - shown} more" if len(names) > shown else ""
    return ", ".join(names[:shown]) + more


def typed(value: Any, kind: type[T]) -> T:
    """A plain value as a `kind`. Raises InputError that names the field."""
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        raise InputError(describe(error)) from error


def describe(error: Exception) -> str:
    """The message of msgspec with the field first: "spec.minMember: expected `int`, got `str`"."""
    match = _LOCATION.match(str(error))
    message, field = match.groups() if match else (str(error), "")
    message = message[:1].lower() + message[1:]
    return f"{field}: {message}" if field else message
