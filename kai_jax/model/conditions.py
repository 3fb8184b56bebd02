"""Conditions of a node that keep all pods away (spec 01 §4.1)."""

from kai_jax.api.objects import Node

PRESSURES = ("MemoryPressure", "DiskPressure", "PIDPressure", "NetworkUnavailable")


def node_problems(node: Node) -> tuple[str, ...]:
    """Why a node takes no pods at all; () when it is ready."""
    problems = ["node is unschedulable"] if node.spec.unschedulable else []
    for condition in node.status.conditions:
        if condition.type == "Ready" and condition.status != "True":
            problems.append("node has NotReady condition")
        elif condition.type in PRESSURES and condition.status != "False":
            problems.append(f"node has {condition.type} condition")
    return tuple(problems)
