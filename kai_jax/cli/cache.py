"""The persistent compilation cache: a program compiled once is loaded by every later run of the command."""

import hashlib
import os
import platform
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

# XLA reports differences in mere tuning flags as errors when it loads a program; real ones have folders of their own.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")


def options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds --cache-dir and --no-cache to a verb, as arguments `cache_dir` and `no_cache`."""
    command = click.option("--no-cache", is_flag=True, help="Compile everything anew and keep nothing.")(command)
    return click.option(
        "--cache-dir",
        type=click.Path(file_okay=False, path_type=Path),
        envvar="KAI_JAX_CACHE_DIR",
        show_envvar=True,
        help="Folder of compiled programs.  [default: kai-jax in the user's cache folder]",
    )(command)


def enable(cache_dir: Path | None, no_cache: bool) -> None:
    """Turns the cache on for this process. Imports jax."""
    import jax

    jax.config.update("jax_enable_compilation_cache", not no_cache)
    jax.config.update("jax_compilation_cache_dir", str((cache_dir or default_folder()) / processor()))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)


def default_folder() -> Path:
    """$XDG_CACHE_HOME/kai-jax, or ~/.cache/kai-jax."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "kai-jax"


def processor() -> str:
    """Names what this processor can do: machines that share a home must not share its programs."""
    facts = Path("/proc/cpuinfo")
    lines = facts.read_text().splitlines() if facts.exists() else []
    features = next((line for line in lines if line.startswith(("flags", "Features"))), platform.processor())
    return f"{platform.machine()}-{hashlib.sha256(features.encode()).hexdigest()[:12]}"
