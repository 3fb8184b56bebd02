"""The capacity gate: equality passes, leaf before root, limits before quotas."""

import jax
import numpy as np

from kai_jax.kernels.gate import check_capacity
from kai_jax.tensors import Queues, Reason

CPU, MEMORY, GPU = 0, 1, 2
TOP, MID, LEAF = 1, 2, 3
PATH = np.array([LEAF, MID, TOP, -1], np.int32)
compiled = jax.jit(check_capacity)


def table(values: dict[tuple[int, int], float], fill: float = 0.0) -> np.ndarray:
    """f64[3,4] by (resource, queue)."""
    out = np.full((3, 4), fill)
    for place, value in values.items():
        out[place] = value
    return out


def queues(limit: np.ndarray, quota: np.ndarray) -> Queues:
    zeros = {name: np.zeros(4, np.int32) for name in Queues.__dataclass_fields__}
    return Queues(**{**zeros, "limit": limit, "quota": quota})


def gate(amount, *, limit=None, allocated=None, quota=None, fixed=None, preemptible=True):
    """(reason, queue, resource, [requested, allocated, bound]), None when the job passes."""
    bounds = queues(table(limit or {}, -1.0), table(quota or {}, -1.0))
    return judge(bounds, table(allocated or {}), table(fixed or {}), preemptible, np.array(amount, float))


def judge(bounds, allocated, fixed, preemptible, amount):
    verdict = compiled(bounds, allocated, fixed, PATH, np.bool_(preemptible), amount)
    if not verdict.reason:
        return None
    return Reason(int(verdict.reason)), int(verdict.queue), int(verdict.resource), verdict.amounts.tolist()


def test_only_the_top_is_over_its_limit():
    limit = {(GPU, TOP): 3, (GPU, MID): 2, (GPU, LEAF): 1}
    allocated = {(GPU, TOP): 3, (GPU, MID): 1}
    assert gate([0, 0, 1], limit=limit, allocated=allocated) == (Reason.OVER_LIMIT, TOP, GPU, [1, 3, 3])
    allocated[GPU, TOP] = 2  # equality everywhere
    assert gate([0, 0, 1], limit=limit, allocated=allocated) is None
    assert gate([0, 0, 1.01], limit=limit, allocated=allocated) == (Reason.OVER_LIMIT, LEAF, GPU, [1.01, 0, 1])


def test_a_passed_limit_of_what_is_not_asked_for_does_not_block():
    limit, allocated = {(CPU, LEAF): 1000, (GPU, LEAF): 2}, {(CPU, LEAF): 1500}
    assert gate([0, 0, 1], limit=limit, allocated=allocated) is None
    assert gate([1, 0, 1], limit=limit, allocated=allocated) == (Reason.OVER_LIMIT, LEAF, CPU, [1, 1500, 1000])


def test_quota_binds_the_non_preemptible_by_their_own_part():
    quota, fixed = {(GPU, MID): 2}, {(GPU, MID): 1}
    args = {"quota": quota, "allocated": {(GPU, MID): 90}, "fixed": fixed}
    assert gate([0, 0, 2], **args) is None
    assert gate([0, 0, 1], **args, preemptible=False) is None
    expected = (Reason.NON_PREEMPTIBLE_OVER_QUOTA, MID, GPU, [2, 1, 2])
    assert gate([0, 0, 2], **args, preemptible=False) == expected


def test_a_limit_at_the_top_comes_before_a_quota_at_the_leaf():
    found = gate([0, 0, 1], limit={(GPU, TOP): 0}, quota={(GPU, LEAF): 0}, preemptible=False)
    assert found == (Reason.OVER_LIMIT, TOP, GPU, [1, 0, 0])


def plain(bounds, allocated, fixed, preemptible, amount):
    """Spec 02 §6 as it reads."""
    checks = [(Reason.OVER_LIMIT, bounds.limit, allocated)]
    if not preemptible:
        checks.append((Reason.NON_PREEMPTIBLE_OVER_QUOTA, bounds.quota, fixed))
    for reason, bound, used in checks:
        for queue in PATH[:3]:
            for r in (CPU, MEMORY, GPU):
                if amount[r] and bound[r, queue] != -1 and bound[r, queue] < used[r, queue] + amount[r]:
                    return reason, queue, r, [amount[r], used[r, queue], bound[r, queue]]
    return None


def test_equals_the_walk_from_leaf_to_root():
    random = np.random.default_rng(1)
    seen = set()
    for _ in range(300):
        bounds = queues(random.choice([-1, -1, 0, 2, 3], (3, 4)) * 1.0, random.choice([-1, -1, 0, 2, 3], (3, 4)) * 1.0)
        allocated, fixed = random.integers(0, 3, (2, 3, 4)) * 1.0
        case = (bounds, allocated, fixed, random.random() < 0.5, random.choice([0, 0, 1], 3) * 1.0)
        assert judge(*case) == plain(*case)
        seen.add(plain(*case) and plain(*case)[:2])
    assert len(seen) == 7  # passes, and each reason at each queue
