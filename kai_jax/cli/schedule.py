"""`kai-jax schedule`: one cycle on each input, printed; nothing is changed anywhere."""

import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from importlib.resources import as_file, files
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kai_jax.cli import cache

if TYPE_CHECKING:
    from kai_jax.api.config import Settings
    from kai_jax.api.usage import Usage
    from kai_jax.cli.outputs import Result

EXAMPLE = "example"


@click.command()
@click.option(
    "--config",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Scheduler configuration (YAML) that overrides the one of the snapshots.",
)
@click.option(
    "--usage",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="What queues used in the past, as parts of the cluster (YAML or JSON: 'team-a: {gpu: 0.4}'); lowers shares.",
)
@click.option(
    "-o", "--output", type=click.Choice(["table", "json", "jsonl", "yaml"]), default="table", show_default=True,
    help="jsonl: one document per snapshot and line, in order.",
)  # fmt: skip
@click.option("--explain", metavar="NAMESPACE/PODGROUP", help="Also say in full what became of this podgroup, and why.")
@cache.options
@click.argument("snapshots", nargs=-1, type=click.Path(path_type=Path), metavar="[SNAPSHOT]...")
def schedule(
    config: Path | None,
    usage: Path | None,
    output: str,
    explain: str | None,
    cache_dir: Path | None,
    no_cache: bool,
    snapshots: tuple[Path, ...],
) -> None:
    """Decide which pods go where, and say why the others wait.

    SNAPSHOT is a snapshot document (.json, or a .zip that holds snapshot.json), a file of Kubernetes YAML, or a folder
    of such files. Without one, an example cluster that comes with the program is decided.

    Exit status: 0 every snapshot was decided, 1 some could not be read, 2 the command line is wrong.
    """
    from kai_jax.api.config import ConfigError, read_settings
    from kai_jax.api.plain import InputError
    from kai_jax.api.usage import NO_USAGE, read_usage
    from kai_jax.cli import outputs
    from kai_jax.cli.screen import printable

    if explain is not None and "/" not in explain:
        raise click.BadParameter(f"{explain!r} is not NAMESPACE/PODGROUP", param_hint="--explain")
    try:
        overrides = read_settings(config) if config else None
    except ConfigError as error:
        raise click.BadParameter(printable(str(error)), param_hint="--config") from error
    try:
        past = read_usage(usage) if usage else NO_USAGE
    except InputError as error:
        raise click.BadParameter(printable(str(error)), param_hint="--usage") from error
    cache.enable(cache_dir, no_cache)
    with ExitStack() as stack:
        inputs = [(str(path), path) for path in snapshots]
        if not inputs:
            folder = stack.enter_context(as_file(files("kai_jax.cli") / "examples"))
            inputs = [(EXAMPLE, folder)]
        failures: list[str] = []
        outputs.WRITERS[output](_results(inputs, overrides, past, failures), explain)
    if failures:
        sys.exit(1)


def _results(
    inputs: list[tuple[str, Path]], overrides: "Settings | None", usage: "Usage", failures: list[str]
) -> Iterator["Result"]:
    """Decides one input after the other; a failure goes to stderr and is yielded in its place."""
    from rich.console import Console

    from kai_jax import cycle
    from kai_jax.api.documents import DocumentError
    from kai_jax.cli.outputs import Result
    from kai_jax.cli.progress import StepProgress
    from kai_jax.cli.screen import printable

    with StepProgress(len(inputs), Console(stderr=True)) as progress:
        for name, path in inputs:
            progress.begin(name)
            try:
                result = Result(name, cycle.run_file(path, time.time(), overrides, usage, progress.step))
            except DocumentError as error:
                failures.append(name)
                click.echo(f"kai-jax: {printable(str(error))}", err=True)
                result = Result(name, error=str(error))
            progress.end()
            yield result
