"""The command `kai-jax`: thin verbs over the cycle."""
