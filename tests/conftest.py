"""Programs compiled by the tests are kept beside pytest's own cache, so that a second run compiles little."""

import os
from pathlib import Path

import pytest

from kai_jax.cli import cache


def pytest_configure(config: pytest.Config) -> None:
    folder = Path(config.rootpath) / ".pytest_cache" / "programs"
    os.environ["KAI_JAX_CACHE_DIR"] = str(folder)  # of the command, in this process and in others
    cache.enable(folder, no_cache=False)
