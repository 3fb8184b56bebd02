"""The import contract of pyproject.toml: cli -> cycle -> actions -> kernels -> tensors, encode -> model -> api."""

import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
CONTRACTS = 4


def test_imports_point_inward() -> None:
    command = shutil.which("lint-imports", path=Path(sys.executable).parent)
    assert command, "import-linter is not installed beside this Python"
    checked = subprocess.run([command, "--no-cache"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stdout
    assert f"{CONTRACTS} kept, 0 broken" in checked.stdout


def test_the_command_answers_help_without_loading_the_kernels() -> None:
    probe = "import sys, kai_jax.cli.main; print(sorted({'jax', 'hydra', 'rich'} & sys.modules.keys()))"
    loaded = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True)
    assert loaded.stdout.strip() == "[]"
