"""The capacity gate of a job: limits and quotas from its leaf queue to the root (spec 02 §6)."""

import jax.numpy as jnp
from jax import Array

from kai_jax.kernels.vector import first_true
from kai_jax.tensors import NONE, UNLIMITED, Queues, Reason
from kai_jax.tensors.pytree import pytree


@pytree
class Verdict:
    """The first violation from leaf to root, in the order CPU, memory, GPU; limits before quotas."""

    reason: Array  # i32[] 0 passes, else a Reason
    queue: Array  # i32[]
    resource: Array  # i32[]
    amounts: Array  # f64[3] requested, allocated (of non-preemptible jobs for quotas), bound


def check_capacity(
    queues: Queues, allocated: Array, fixed: Array, path: Array, preemptible: Array, amount: Array
) -> Verdict:
    """May a job use `amount` f64[3] more in the queues of `path` (leaf to top, -1 beyond)? Equality passes."""
    limit = _first_over(queues.limit, allocated, path, amount)
    quota = _first_over(queues.quota, fixed, path, amount)
    over_limit, over_quota = limit[0] >= 0, ~preemptible & (quota[0] >= 0)
    reason = jnp.where(over_quota, Reason.NON_PREEMPTIBLE_OVER_QUOTA, 0)
    return Verdict(
        jnp.where(over_limit, Reason.OVER_LIMIT, reason).astype(jnp.int32),
        *(jnp.where(over_limit, a, b) for a, b in zip(limit, quota, strict=True)),
    )


def _first_over(bounds: Array, used: Array, path: Array, amount: Array) -> tuple[Array, Array, Array]:
    """(queue, resource, amounts) of the first bound that would be passed, queue -1 when none is."""
    at = jnp.maximum(path, 0)
    bound, have = bounds[:, at].T, used[:, at].T
    over = (path >= 0)[:, None] & (bound != UNLIMITED) & (bound < have + amount) & (amount != 0)
    first = first_true(over.ravel())
    found = first < over.size
    first = jnp.minimum(first, over.size - 1)
    level, resource = first // 3, first % 3
    amounts = jnp.stack([amount[resource], have[level, resource], bound[level, resource]])
    return jnp.where(found, path[level], NONE), jnp.where(found, resource, NONE), amounts
