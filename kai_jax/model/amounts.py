"""Quantities as amounts of the resource axis (spec 01 §3.1).

Amounts are integers: cpu in millicores, memory and storage in bytes, devices and MIG profiles in pieces, other named
resources in thousandths.
"""

from collections.abc import Mapping

from kai_jax.api.numbers import MAX_INT64
from kai_jax.api.objects import Quantity
from kai_jax.api.quantity import QuantityError, nanos
from kai_jax.model.resources import CPU, DEVICE_NAMES, GPU, MEMORY, MIG_PREFIX, PODS

_BYTES = (MEMORY, "ephemeral-storage", "storage")

Amounts = dict[str, int]


class RequestError(ValueError):
    """A request that cannot be scheduled; the message names the field."""


def node_amounts(allocatable: Mapping[str, Quantity]) -> tuple[Amounts, dict[str, str]]:
    """Amounts of axis R that a node offers, and the fields that are no amounts, with the reason (node vector)."""
    amounts: Amounts = {}
    errors: dict[str, str] = {}
    for name, quantity in allocatable.items():
        try:
            entry = GPU if name in DEVICE_NAMES else name
            scale = 1 if entry in (GPU, PODS) else scale_of(name)
            if scale:
                amount = scaled(checked_nanos(quantity), scale, name)
                if amount:
                    amounts[entry] = amounts.get(entry, 0) + amount
        except (QuantityError, RequestError) as error:
            errors[f"status.allocatable[{name}]"] = str(error)
    return amounts, errors


def scale_of(name: str) -> int:
    """Thousandths or pieces of a resource: 1000 or 1; 0 for names that scheduling ignores (units of the axis)."""
    if name == CPU:
        return 1000
    if name in _BYTES or name.startswith(MIG_PREFIX):
        return 1
    named = "/" in name or name.startswith(("hugepages-", "attachable-volumes-"))
    return 1000 if named else 0


def checked_nanos(quantity: Quantity) -> int:
    """A quantity in 10^-9. Raises QuantityError for a text that is none, RequestError for a negative one."""
    amount = nanos(quantity)
    if amount < 0:
        raise RequestError(f"quantity {quantity!r} is negative")
    return amount


def scaled(amount_in_nanos: int, scale: int, name: str) -> int:
    """10^-9 units as whole parts, `scale` of them a unit, rounded up. Raises RequestError beyond 64 bits."""
    return bounded(-(-amount_in_nanos * scale // 10**9), name)


def bounded(amount: int, name: str) -> int:
    """The amount itself. Raises RequestError naming the resource where 64 bits do not hold it."""
    if amount > MAX_INT64:
        raise RequestError(f"the amount of {name} does not fit into 64 bits")
    return amount
