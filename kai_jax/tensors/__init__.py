"""The pytrees that cross the host/device door; axes and one line per field, no logic."""

from kai_jax.tensors.policy import Bounds, Features, Policy
from kai_jax.tensors.snapshot import (
    Constraints,
    Jobs,
    Nodes,
    Podsets,
    Queues,
    Requests,
    Snapshot,
    Tasks,
    Topology,
    TreeNodes,
)
from kai_jax.tensors.state import (
    ACTIVE,
    ALLOCATED_SET,
    NONE,
    UNLIMITED,
    Attempts,
    Cause,
    Reason,
    State,
    Status,
)

__all__ = [
    "ACTIVE",
    "ALLOCATED_SET",
    "Attempts",
    "Bounds",
    "Cause",
    "Constraints",
    "Features",
    "Jobs",
    "NONE",
    "Nodes",
    "Podsets",
    "Policy",
    "Queues",
    "Reason",
    "Requests",
    "Snapshot",
    "State",
    "Status",
    "Tasks",
    "Topology",
    "UNLIMITED",
    "TreeNodes",
]
