"""The four ways to print results: a table for people, and three encodings of one document for programs."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import click
import msgspec
import yaml

from kai_jax.cli.contract import as_document, as_error
from kai_jax.cli.screen import screen
from kai_jax.cli.tables import print_outcome
from kai_jax.cycle import Outcome
from kai_jax.explain import explain as explain_podgroup


@dataclass(frozen=True)
class Result:
    """One input: decided, or the error that kept it from being read."""

    snapshot: str
    outcome: Outcome | None = None
    error: str = ""


def write_table(results: Iterator[Result], explain: str | None) -> None:
    """Tables of each input that was decided; what could not be read has its line on stderr alone."""
    console = screen()
    for result in results:
        if result.outcome:
            print_outcome(console, result.snapshot, result.outcome, explain)


def write_jsonl(results: Iterator[Result], explain: str | None) -> None:
    """One JSON document per input and line, as they are decided; `explain` adds a podgroup's explanation to each."""
    for result in results:
        click.echo(msgspec.json.encode(_document(result, explain)))


def write_json(results: Iterator[Result], explain: str | None) -> None:
    """One document as it is, several as an array, when all are decided. Takes one result at least."""
    documents = [_document(result, explain) for result in results]
    encoded = msgspec.json.encode(documents if len(documents) > 1 else documents[0])
    click.echo(msgspec.json.format(encoded, indent=2))


def write_yaml(results: Iterator[Result], explain: str | None) -> None:
    """One YAML document per input, as they are decided."""
    dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
    for result in results:
        document = msgspec.to_builtins(_document(result, explain))
        click.echo(yaml.dump(document, Dumper=dumper, sort_keys=False, explicit_start=True), nl=False)


WRITERS: dict[str, Callable[[Iterator[Result], str | None], None]] = {
    "table": write_table,
    "jsonl": write_jsonl,
    "json": write_json,
    "yaml": write_yaml,
}


def _document(result: Result, explain: str | None) -> dict[str, Any]:
    if result.outcome is None:
        return as_error(result.snapshot, result.error)
    document = as_document(result.snapshot, result.outcome)
    if explain is not None:
        document["explanation"] = explain_podgroup(result.outcome, explain)
    return document
