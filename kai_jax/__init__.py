"""kai_jax: an exact, tensor-based batch scheduler for GPU clusters."""
