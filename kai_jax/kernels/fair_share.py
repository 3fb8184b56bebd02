"""How much of the cluster each queue may claim: quota first, then what is left by weight (fair share)."""

import jax
import jax.numpy as jnp
from jax import Array, lax

from kai_jax.kernels.exact import ascending_rank, descending_rank, positions, rounded
from kai_jax.tensors import UNLIMITED, Queues
from kai_jax.tensors.pytree import pytree


@pytree
class Division:
    """What a level has handed out so far; every array but `share` means something for queues of that level only."""

    share: Array  # f64[3,Q]
    remaining: Array  # f64[3,Q] what the parent still has to give
    leftover: Array  # f64[3,Q] fraction of a unit lost to rounding down, 0 when none is recorded


@jax.jit
def fair_share(queues: Queues, k_value: float | Array) -> Array:
    """f64[3,Q] fair share of every queue, cpu milli, memory bytes, devices; the virtual root holds the cluster total.

    Levels follow each other from the top, each divides the shares of the one above (spec 02 §2.1); resources and
    the children of different parents never interact and are divided at once. `k_value` weighs historical usage.
    """
    exists = queues.parent >= 0
    levels = jnp.max(jnp.where(exists, queues.level, 0))
    shares = jnp.zeros_like(queues.quota).at[:, 0].set(queues.total)
    return lax.fori_loop(
        1, levels + 1, lambda level, shares: divide(queues, k_value, exists & (queues.level == level), shares), shares
    )


def divide(queues: Queues, k_value: float | Array, here: Array, shares: Array) -> Array:
    """Shares after one level: quotas, over-quota by descending priority, then the lost fractions (spec 02 §2.2)."""
    total = shares[:, queues.parent]
    deserved = jnp.where(queues.quota == UNLIMITED, total, queues.quota)
    within_quota = jnp.where(here, jnp.minimum(deserved, requestable(queues)), 0.0)
    division = Division(
        share=shares + within_quota,
        remaining=total - sibling_total(queues, within_quota),
        leftover=jnp.zeros_like(shares),
    )
    open_ = here & (division.remaining > 0)
    division = fill_by_priority(queues, k_value, open_, division)
    return division.share + fractions(queues, open_, division)


def fill_by_priority(queues: Queues, k_value: float | Array, open_: Array, division: Division) -> Division:
    """Over-quota of every parent's children, one priority after the other."""

    def bucket(carry: tuple[Array, Division]) -> tuple[Array, Division]:
        waiting, division = carry
        current = waiting & (queues.priority == highest_sibling(queues, waiting, queues.priority))
        return waiting & ~current, fill(queues, k_value, open_ & current, division)

    _, division = lax.while_loop(lambda carry: carry[0].any(), bucket, (open_.any(axis=0), division))
    return division


def fill(queues: Queues, k_value: float | Array, bucket: Array, division: Division) -> Division:
    """Rounds of one priority: each gives whole units in proportion to weight and history, until none changes more.

    A round satisfies a queue or is the last, so their number is bounded by that of the queues (spec 02 §2.2).
    """

    def another(carry: tuple[Array, Array, Division]) -> Array:
        rounds, going, _ = carry
        return going.any() & (rounds < 2 * going.shape[1] + 4)

    def round_(carry: tuple[Array, Array, Division]) -> tuple[Array, Array, Division]:
        rounds, going, division = carry
        going, division = fill_once(queues, k_value, going, division)
        return rounds + 1, going, division

    return lax.while_loop(another, round_, (jnp.int32(0), bucket, division))[2]


def fill_once(queues: Queues, k_value: float | Array, going: Array, division: Division) -> tuple[Array, Division]:
    """One round for the queues in `going` [3,Q]; returns those that need another one."""
    share, remaining = division.share, division.remaining
    need = jnp.maximum(0.0, requestable(queues) - share)
    at_limit = (queues.limit != UNLIMITED) & (queues.limit <= share)
    unsatisfied = going & ~((queues.request <= share) | at_limit)

    weights = sibling_total(queues, jnp.where(going & (need > 0), queues.weight, 0.0))
    normal = queues.weight / jnp.where(weights == 0, 1.0, weights)
    pull = jnp.where(unsatisfied, jnp.maximum(0.0, normal + rounded(k_value * (normal - queues.usage))), 0.0)
    pulls = sibling_total(queues, pull)
    going = going & (weights != 0) & (pulls != 0)

    offer = rounded(remaining * (pull / jnp.where(pulls == 0, 1.0, pulls)))
    offered = going & unsatisfied
    served = offered & (need <= offer)
    floored = jnp.where(offer < 1, 0.0, jnp.floor(offer))
    given = jnp.where(served, need, jnp.where(offered, floored, 0.0))
    lost = offer - given
    # a share that happens to be whole leaves an older entry in place (quirk)
    leftover = jnp.where(served, 0.0, jnp.where(offered & (lost > 0), lost, division.leftover))

    remaining = remaining - sibling_total(queues, given)
    overserved = highest_sibling(queues, offered, (offered & (given != 0) & (need < offer)).astype(jnp.int32)) > 0
    return going & overserved & (remaining != 0), Division(share + given, remaining, leftover)


def fractions(queues: Queues, open_: Array, division: Division) -> Array:
    """f64[3,Q] one unit each, by priority, lost fraction, age and name, while the parent has any left.

    Neither request nor limit caps it (quirk).
    """
    size = queues.parent.shape[0]
    entry = open_ & (division.leftover > 0)
    priority = ascending_rank(-queues.priority.astype(jnp.int64))
    age = ascending_rank(ascending_rank(queues.created) * size + queues.uid_rank)
    within = (priority * size + descending_rank(division.leftover)) * size + age
    family = queues.parent.astype(jnp.int64) * size**3
    keys = jnp.where(entry, family + within, jnp.iinfo(jnp.int64).max)
    earlier = positions(keys, keys) - positions(keys, jnp.broadcast_to(family, keys.shape))
    return jnp.where(entry, jnp.clip(division.remaining - earlier, 0.0, 1.0), 0.0)


def requestable(queues: Queues) -> Array:
    """f64[3,Q] request within the limit."""
    return jnp.where(queues.limit == UNLIMITED, queues.request, jnp.minimum(queues.limit, queues.request))


def highest_sibling(queues: Queues, mask: Array, values: Array) -> Array:
    """i32[...,Q] largest value of the masked children of each queue's parent, the least integer where none is."""
    lowest = jnp.iinfo(values.dtype).min
    best = jnp.full_like(values, lowest).at[..., queues.parent].max(jnp.where(mask, values, lowest))
    return best[..., queues.parent]


def sibling_total(queues: Queues, values: Array) -> Array:
    """f64[3,Q] sum over the children of each queue's parent, in an order that no backend changes."""
    index = jnp.arange(values.shape[1])
    offset = index - queues.child_start[queues.parent]  # siblings are contiguous

    def double(carry: tuple[Array, Array]) -> tuple[Array, Array]:
        reach, sums = carry
        return 2 * reach, sums + jnp.where(offset >= reach, jnp.roll(sums, reach, axis=1), 0.0)

    widest = jnp.max(queues.child_count)
    _, sums = lax.while_loop(lambda carry: carry[0] < widest, double, (jnp.int32(1), values))
    last = queues.child_start + queues.child_count - 1
    return sums[:, last[queues.parent]]
