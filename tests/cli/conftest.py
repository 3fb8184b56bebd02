"""A small cluster in three forms, and a way to run the command on it."""

import json
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from kai_jax.cli.main import main
from kai_jax.sim.snapshot import NodeShape, SnapshotWriter

Run = Callable[..., Result]


@pytest.fixture
def run() -> Run:
    """Runs `kai-jax` with these arguments in this process."""
    return lambda *arguments: CliRunner().invoke(main, [str(argument) for argument in arguments])


@pytest.fixture
def snapshot(tmp_path: Path) -> Path:
    """Two nodes of two devices: a pod of two devices and two halves fit, a gang of two whole nodes does not."""
    writer = SnapshotWriter(NodeShape(gpus=2), actions="allocate")
    for index in range(2):
        writer.node(index)
    writer.queue("top")
    writer.queue("leaf", "top", gpu=4)
    writer.job("whole", "leaf", gpus=2)
    writer.job("halves", "leaf", pods=2, gpus=0, fraction=0.5)
    writer.job("gang", "leaf", pods=2, gpus=2)
    path = tmp_path / "cluster.json"
    path.write_text(json.dumps(writer.document()))
    return path


@pytest.fixture
def archive(snapshot: Path, tmp_path: Path) -> Path:
    path = tmp_path / "cluster.zip"
    with zipfile.ZipFile(path, "w") as file:
        file.write(snapshot, "snapshot.json")
    return path
