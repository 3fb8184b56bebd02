"""`kai-jax snapshot`: writes the synthetic clusters that `kai-jax bench` runs."""

import json
from pathlib import Path

import click


def _list(context: click.Context, _: click.Parameter, wanted: bool) -> None:
    from kai_jax.sim import scenarios

    if wanted and not context.resilient_parsing:
        width = max(len(f"{scenario.name}:{scenario.size}") for scenario in scenarios.SCENARIOS.values())
        for scenario in scenarios.SCENARIOS.values():
            click.echo(f"{f'{scenario.name}:{scenario.size}':{width}}  {scenario.summary}")
        context.exit()


@click.command()
@click.option("--list", is_flag=True, callback=_list, expose_value=False, is_eager=True, help="Name the scenarios.")
@click.argument("scenario", metavar="NAME[:NODES]")
@click.argument("out", type=click.Path(dir_okay=False, writable=True, path_type=Path))
def snapshot(scenario: str, out: Path) -> None:
    """Write a synthetic cluster as a snapshot document to OUT ("-" for stdout).

    NODES is the size of the cluster; the same name and size always give the same document.
    """
    from kai_jax.sim import scenarios

    try:
        document = scenarios.document(*scenarios.parse(scenario))
    except scenarios.ScenarioError as error:
        raise click.BadParameter(str(error), param_hint="NAME[:NODES]") from error
    text = json.dumps(document, separators=(",", ":"))
    with click.open_file(str(out), "w", encoding="utf-8") as file:
        file.write(text)
