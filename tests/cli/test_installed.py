"""The README's first command, in a fresh virtual environment with nothing but what pip installs."""

import json
import os
import subprocess
import sys
import venv
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
MINUTES = 60.0


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of programs of a fresh environment; skips where pip cannot reach its index."""
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder, with_pip=True)
    programs = folder / ("Scripts" if sys.platform == "win32" else "bin")
    pip = subprocess.run(
        [programs / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", ROOT],
        capture_output=True, text=True, check=False, timeout=5 * MINUTES,
    )  # fmt: skip
    if pip.returncode and ("Could not find a version" in pip.stderr or "Connection" in pip.stderr):
        pytest.skip(f"pip cannot install the dependencies here: {pip.stderr.strip().splitlines()[-1]}")
    assert pip.returncode == 0, pip.stderr
    return programs


def _environment(folder: Path) -> dict[str, str]:
    """No path into the checkout, and an empty cache."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "KAI_", "JAX_"))}
    return kept | {"XDG_CACHE_HOME": str(folder)}


def test_the_installed_command_decides_the_example_and_keeps_its_programs(installed: Path, tmp_path: Path) -> None:
    command = [installed / "kai-jax", "schedule", "--output", "json"]
    documents = []
    for _ in range(2):
        done = subprocess.run(
            command, cwd=tmp_path, env=_environment(tmp_path), capture_output=True, text=True, check=True, timeout=60
        )
        documents.append(json.loads(done.stdout))
    first, second = documents
    assert first["final"] == second["final"]
    assert first["final"]["training/pretraining-0"][0] == "Binding"
    assert list((tmp_path / "kai-jax").iterdir()), "no compiled program was kept"
    assert second["timings_ms"]["compile"] < first["timings_ms"]["compile"]


def test_the_installed_command_finds_its_configuration(installed: Path, tmp_path: Path) -> None:
    command = [installed / "kai-jax", "bench", "--show-config"]
    done = subprocess.run(
        command, cwd=tmp_path, env=_environment(tmp_path), capture_output=True, text=True, check=True, timeout=60
    )
    assert "fill-single" in done.stdout
