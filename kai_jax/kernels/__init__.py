"""Jitted parts of a scheduling cycle, one idea a file; decisions need float64 and int64."""

import os

import jax

jax.config.update("jax_enable_x64", True)

# The CPU compiler turns loops over small buffers into one function and runs larger ones operation by operation, at
# 40 ns each; our loops have hundreds of tiny steps, so every loop is small. Read once, before the first compilation.
_LOOPS = "--xla_backend_extra_options=xla_cpu_small_while_loop_byte_threshold=2000000000"
if "xla_backend_extra_options" not in os.environ.get("XLA_FLAGS", ""):
    os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {_LOOPS}".strip()
