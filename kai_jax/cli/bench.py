"""`kai-jax bench`: composes a benchmark from `configs/` and prints what it measures."""

import json
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kai_jax.cli import cache

if TYPE_CHECKING:
    from omegaconf import DictConfig

    from kai_jax.cli.measure import Measurement, Settings


@click.command(context_settings={"ignore_unknown_options": True})
@click.option("-o", "--output", type=click.Choice(["table", "json"]), default="table", show_default=True)
@click.option("--show-config", is_flag=True, help="Print the composed configuration and stop.")
@cache.options
@click.argument("overrides", nargs=-1, metavar="[GROUP=CHOICE | KEY=VALUE]...")
def bench(output: str, show_config: bool, cache_dir: Path | None, no_cache: bool, overrides: tuple[str, ...]) -> None:
    """Time whole cycles on synthetic clusters of several sizes.

    \b
    Groups and their choices (the first is the default):
      cluster   eight four plain
      workload  fill-single fill-mixed topology-gang fractions many-queues idle-cycle
                reclaim-large-gang reclaim-many-single infeasible-gang consolidate-gangs
                preempt-priority files
      policy    binpack spread
      plugins   builtin deployed
      device    cpu gpu

    \b
    kai-jax bench workload=fill-mixed
    kai-jax bench workload=fractions "workload.sizes=[50,500]" policy=spread repeats=9
    kai-jax bench workload=files "workload.paths=[cluster.zip]"
    """
    composed = _compose(overrides)
    if show_config:
        from omegaconf import OmegaConf

        click.echo(OmegaConf.to_yaml(composed), nl=False)
        return
    settings = _settings(composed)
    from rich.console import Console

    from kai_jax.api.plain import InputError
    from kai_jax.cli.measure import measure
    from kai_jax.cli.screen import markup, printable

    _run_on(settings.device.platform)
    cache.enable(cache_dir, no_cache)
    with Console(stderr=True).status("starting") as status:
        try:
            measurements = list(measure(settings, lambda text: status.update(f"measuring {markup(text)}")))
        except InputError as error:
            raise click.ClickException(printable(str(error))) from error
    if output == "json":
        rows = [{**asdict(row), "pods_per_second": row.pods_per_second} for row in measurements]
        click.echo(json.dumps(rows, indent=2))
    else:
        _print_table(measurements)


def _compose(overrides: tuple[str, ...]) -> "DictConfig":
    """The configuration with the choices of the command line, as it is written."""
    from hydra import compose, initialize_config_dir
    from hydra.errors import HydraException
    from omegaconf.errors import OmegaConfBaseException

    try:
        with initialize_config_dir(str(_config_folder()), version_base="1.3"):
            return compose("bench", overrides=list(overrides))
    except (HydraException, OmegaConfBaseException) as error:
        raise click.UsageError(str(error).splitlines()[0]) from error


def _settings(composed: "DictConfig") -> "Settings":
    """The composed configuration, checked."""
    from omegaconf import OmegaConf
    from omegaconf.errors import OmegaConfBaseException

    from kai_jax.api.plain import InputError, typed
    from kai_jax.cli.measure import Settings

    try:
        return typed(OmegaConf.to_container(composed, resolve=True, throw_on_missing=True), Settings)
    except OmegaConfBaseException as error:
        raise click.UsageError(str(error).splitlines()[0]) from error
    except InputError as error:
        raise click.UsageError(str(error)) from error


def _run_on(platform: str) -> None:
    """Has jax use this platform alone, before it runs anything."""
    import jax

    jax.config.update("jax_platforms", platform)
    try:
        jax.devices(platform)
    except (RuntimeError, AssertionError) as error:  # jax asserts where it skips cuda for want of a GPU
        reason = str(error).partition("\n")[0] or "no such device is visible"
        raise click.UsageError(
            f"device: jax cannot use {platform!r} here: {reason}; choose device=cpu, "
            "or for an NVIDIA GPU install the extra: pip install 'kai-jax[gpu]'"
        ) from error


def _config_folder() -> Path:
    """`configs/` beside the package in a checkout, inside it once installed."""
    here = Path(__file__).parent
    installed = here / "configs"
    return installed if installed.is_dir() else here.parent.parent / "configs"


def _print_table(measurements: Iterable["Measurement"]) -> None:
    from rich import box
    from rich.table import Table

    from kai_jax.cli.screen import markup, screen
    from kai_jax.cycle import STEPS

    table = Table(box=box.SIMPLE_HEAD, caption="milliseconds; core: tensors in, decisions out, nothing compiled")
    table.add_column("input")
    for name in ("nodes", "pending", "placed", *STEPS, "pods/s", "slope"):
        table.add_column(name, justify="right")
    for row in measurements:
        steps = (getattr(row, f"{step}_ms") for step in STEPS)
        table.add_row(
            markup(row.input),
            *(f"{count:,}" for count in (row.nodes, row.pending, row.placed)),
            *(f"{step:,.1f}" for step in steps),
            f"{row.pods_per_second:,.0f}",
            "" if row.slope is None else f"{row.slope:.2f}",
        )
    screen().print(table)
