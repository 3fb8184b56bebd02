"""Entry point: `kai-jax VERB`. Verbs import what they run only when they run, so that --help answers at once."""

import click

from kai_jax.cli.bench import bench
from kai_jax.cli.schedule import schedule
from kai_jax.cli.snapshot import snapshot


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(package_name="kai-jax")
def main() -> None:
    """Batch scheduling for GPU clusters on Kubernetes.

    \b
    kai-jax schedule                   decide an example cluster, and see why one gang waits
    kai-jax schedule cluster.zip       decide a snapshot; nothing is changed anywhere
    kai-jax schedule manifests/        decide a folder of Kubernetes YAML
    kai-jax bench workload=fractions   measure a synthetic cluster at several sizes
    """


main.add_command(schedule)
main.add_command(bench)
main.add_command(snapshot)

if __name__ == "__main__":
    main()
