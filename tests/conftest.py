"""What all tests share: where compiled programs are kept, and how random examples are drawn."""

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from kai_jax.cli import cache

_UNTIMED = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow, HealthCheck.data_too_large]}
settings.register_profile("repeatable", **_UNTIMED, derandomize=True, database=None)
settings.register_profile("explore", **_UNTIMED, print_blob=True)
settings.load_profile("repeatable")  # --hypothesis-profile explore looks at other examples


def pytest_configure(config: pytest.Config) -> None:
    """Programs compiled by the tests are kept beside pytest's own cache, so that a second run compiles little."""
    folder = Path(config.rootpath) / ".pytest_cache" / "programs"
    os.environ["KAI_JAX_CACHE_DIR"] = str(folder)  # of the command, in this process and in others
    cache.enable(folder, no_cache=False)
