"""The document that `schedule` prints for one snapshot; other programs read it."""

from dataclasses import asdict
from typing import Any

from kai_jax.cycle import Outcome

PARTS = ("initial", "queues", "actions", "final", "bind_requests", "shared_devices", "claim_devices", "reasons")


def as_document(snapshot: str, outcome: Outcome) -> dict[str, Any]:
    """Everything that one cycle decided, as plain lists and mappings."""
    return {
        "snapshot": snapshot,
        **{part: getattr(outcome.decisions, part) for part in PARTS},
        "warnings": list(outcome.warnings),
        "certificates": {},
        "timings_ms": {step: round(ms, 3) for step, ms in asdict(outcome.timings).items()},
    }


def as_error(snapshot: str, message: str) -> dict[str, Any]:
    """The document of a snapshot that cannot be used."""
    return {"snapshot": snapshot, "error": message}
