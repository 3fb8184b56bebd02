"""Synthetic clusters: the shapes that batch schedulers are judged on, as snapshot documents."""
