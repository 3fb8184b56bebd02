"""Worked examples of the fair share, and laws that every division keeps."""

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kai_jax.kernels.fair_share import fair_share
from kai_jax.tensors import Queues

GPU = 2
SIZE = 16


@dataclass(frozen=True)
class Queue:
    quota: float
    weight: float
    request: float
    limit: float = -1
    priority: int = 100
    created: int = 0
    usage: float = 0
    children: tuple["Queue", ...] = ()


def tensors(total: float, tops: tuple[Queue, ...], resource: int = GPU) -> Queues:
    """The tree breadth first, which keeps siblings together; all resources but one are zero."""
    listed: list[tuple[int, int, Queue]] = [(-1, 0, Queue(0, 0, 0, children=tops))]
    starts = []
    for index, (_, level, queue) in enumerate(listed):  # grows while it is walked
        starts.append(len(listed))
        listed += [(index, level + 1, child) for child in queue.children]
    padding = SIZE - len(listed)
    assert padding > 0

    def column(values, dtype, fill=0):
        return np.array([*values, *[fill] * padding], dtype)

    def amounts(name):
        rows = np.zeros((3, SIZE))
        rows[resource] = column([getattr(queue, name) for _, _, queue in listed], float)
        return rows

    limit = amounts("limit")
    limit[[r for r in range(3) if r != resource]] = -1
    return Queues(
        parent=column([parent for parent, _, _ in listed], np.int32, -1),
        level=column([level for _, level, _ in listed], np.int32),
        child_start=column(starts, np.int32),
        child_count=column([len(queue.children) for _, _, queue in listed], np.int32),
        slot_start=np.zeros(SIZE, np.int32),
        slot_end=np.zeros(SIZE, np.int32),
        quota=amounts("quota"),
        limit=limit,
        weight=amounts("weight"),
        priority=column([queue.priority for _, _, queue in listed], np.int32),
        created=column([queue.created for _, _, queue in listed], np.int64),
        uid_rank=column(range(len(listed)), np.int32),
        usage=amounts("usage"),
        request=amounts("request"),
        total=np.array([total if r == resource else 0.0 for r in range(3)]),
    )


def shares(total: float, *tops: Queue, k: float = 0, resource: int = GPU) -> list[float]:
    """Shares in breadth-first order."""
    queues = tensors(total, tops, resource)
    result = np.asarray(fair_share(queues, k))
    assert result[resource, 0] == total
    count = int((queues.parent >= 0).sum()) + 1
    assert not result[:, count:].any()
    return result[resource, 1:count].tolist()


def test_over_quota_follows_weights():
    assert shares(8, Queue(2, 1, 6), Queue(2, 3, 6)) == [3, 5]


def test_lost_fraction_goes_to_the_larger_remainder():
    assert shares(11, Queue(2, 1, 10), Queue(2, 4, 10)) == [3, 8]


def test_equal_remainders_go_to_the_older_then_to_the_first_name():
    assert shares(11, Queue(2, 2, 6, created=5), Queue(2, 2, 6, created=4)) == [5, 6]
    assert shares(5, Queue(2, 2, 3), Queue(2, 2, 3)) == [3, 2]


def test_limit_leaves_a_unit_unallocated():
    assert shares(12, Queue(2, 2, 6, limit=5), Queue(2, 2, 6)) == [5, 6]


def test_quota_comes_before_priority():
    first, second = Queue(2, 100, 6, priority=1), Queue(2, 1, 6, priority=2)
    assert shares(6, first, second) == [2, 4]
    assert shares(4, first, second) == [2, 2]


def test_fractional_requests_are_met_exactly():
    queues = (Queue(12, 12, 32.54999999999996), Queue(7, 7, 9.5), Queue(2, 2, 1.65, limit=2))
    assert shares(45, *queues) == [32.54999999999996, 9.5, 1.65]


def test_exact_satisfaction_ends_the_rounds():
    assert shares(5, Queue(0, 1, 2.5), Queue(0, 1, 2.5)) == [2.5, 2.5]
    # another round would offer the lost unit again, by weight: 5, 1, 4
    assert shares(10, Queue(0, 5, 5), Queue(0, 1.9, 9), Queue(0, 3.1, 9)) == [5, 2, 3]


def test_lower_priorities_are_filled_before_fractions_are_handed_out():
    older, newer = Queue(2, 2, 5, priority=2), Queue(2, 2, 5, priority=2, created=1)
    assert shares(5, older, newer, Queue(1, 2, 0, priority=1)) == [3, 2, 0]
    high, low = Queue(0, 1, 5, priority=2), Queue(0, 1, 5, priority=1)
    assert shares(3, high, high, low) == [1, 1, 1]


def test_fractions_of_a_higher_priority_come_first():
    older, urgent = Queue(0, 1, 5, priority=1), Queue(0, 1, 5, priority=2, created=1)
    assert shares(1, older, older, urgent, urgent) == [0, 0, 1, 0]


def test_lost_fraction_ignores_the_request():
    assert shares(1, Queue(0, 1, 0.6), Queue(0, 1, 0.6)) == [1, 0]


def test_quotas_may_exceed_the_total():
    assert shares(1000, Queue(3000, 3000, 2000), resource=0) == [2000]
    assert shares(10000, *[Queue(5000, 5000, 5000)] * 3, resource=0) == [5000] * 3
    assert shares(8, Queue(-1, 1, 6), Queue(-1, 1, 6)) == [6, 6]


def departments(first: Queue, second: Queue) -> tuple[Queue, Queue]:
    leaf = (Queue(2, 1, 100),)
    return tuple(Queue(q.quota, q.weight, 100, priority=q.priority, children=leaf) for q in (first, second))


@pytest.mark.parametrize(
    ("total", "first", "second", "expected"),
    [
        (4, Queue(3, 1, 0), Queue(1, 1, 0), [3, 1, 3, 2]),
        (12, Queue(3, 1, 0), Queue(1, 1, 0), [7, 5, 7, 5]),
        (12, Queue(3, 1, 0), Queue(1, 7, 0), [4, 8, 4, 8]),
        (12, Queue(3, 7, 0), Queue(1, 1, 0), [10, 2, 10, 2]),
        (12, Queue(1, 7, 0, priority=1), Queue(1, 1, 0, priority=2), [1, 11, 2, 11]),
    ],
)
def test_children_divide_the_share_of_their_parent(total, first, second, expected):
    assert shares(total, *departments(first, second)) == expected


def test_limits_and_missing_weights_leave_amounts_unallocated():
    assert shares(1000, Queue(250, 1, 5000), Queue(150, 2, 5000, limit=400)) == [600, 400]
    assert shares(9999, Queue(0, 6, 9999), Queue(0, 2, 9999), Queue(0, 1, 9999)) == [6666, 2222, 1111]
    assert shares(10, Queue(3, 0, 5), Queue(3, 1, 3)) == [3, 3]


@pytest.mark.parametrize(
    ("usage", "expected"), [((0.5, 0), [5, 11]), ((0.25, 0), [7, 9]), ((0.6, 0.4), [6, 10]), ((1, 0), [0, 16])]
)
def test_history_shifts_over_quota(usage, expected):
    assert shares(16, *[Queue(0, 1, 1600, usage=u) for u in usage], k=1) == expected


def test_history_can_stop_a_priority():
    heavy = Queue(0, 1, 1600, usage=2, priority=2)
    assert shares(10, heavy, heavy, k=1) == [0, 0]
    assert shares(10, heavy, heavy, Queue(0, 1, 1600, priority=1), k=1) == [0, 0, 10]


def test_history_is_ignored_with_k_zero():
    assert shares(10, Queue(0, 1, 10, usage=5), Queue(0, 1, 10)) == [5, 5]


def test_empty_cluster_without_queues():
    assert shares(8) == []


queue = st.builds(
    Queue,
    quota=st.sampled_from([-1, 0, 1, 2, 3.5, 8]),
    weight=st.sampled_from([0, 1, 2, 5]),
    request=st.sampled_from([0, 0.5, 1, 4, 7.25, 30]),
    limit=st.sampled_from([-1, 0, 2, 6]),
    priority=st.integers(1, 3),
    created=st.integers(0, 2),
    usage=st.sampled_from([0, 0.25, 1]),
)


@settings(max_examples=150)
@given(st.integers(0, 40), st.lists(queue, min_size=1, max_size=6), st.sampled_from([0.0, 1.0, 2.5]))
def test_equals_division_queue_by_queue(total, level, k):
    assert shares(total, *level, k=k) == one_level(total, level, k)


def one_level(total: int, level: list[Queue], k: float) -> list[float]:
    """Spec 02 §2.2 as it reads, one queue after the other."""
    wanted = [q.request if q.limit < 0 else min(q.request, q.limit) for q in level]
    share = [float(min(total if q.quota < 0 else q.quota, w)) for q, w in zip(level, wanted, strict=True)]
    remaining = total - sum(share)
    if remaining <= 0:
        return share
    lost: dict[int, float] = {}
    for priority in sorted({queue.priority for queue in level}, reverse=True):
        again = True
        while again and remaining != 0:
            offered, again = remaining, False
            hungry = {i for i, q in enumerate(level) if q.priority == priority and wanted[i] > share[i]}
            weights = sum(level[i].weight for i in hungry)
            if weights == 0:
                break
            normal = {i: level[i].weight / weights for i in hungry}
            pull = {i: max(0.0, n + k * (n - level[i].usage)) for i, n in normal.items()}
            pulls = paired_sum([pull.get(i, 0.0) for i in range(len(level))])
            if pulls == 0:
                break
            for i in sorted(hungry):
                if level[i].weight == 0:
                    continue
                offer, need = offered * (pull[i] / pulls), wanted[i] - share[i]
                amount = need if need <= offer else float(int(offer))
                if need <= offer:
                    lost.pop(i, None)
                elif offer > amount:
                    lost[i] = offer - amount
                share[i] += amount
                remaining -= amount
                again |= amount != 0 and need < offer
    for i in sorted(lost, key=lambda i: (-level[i].priority, -lost[i], level[i].created, i)):
        amount = min(1.0, max(remaining, 0.0))
        share[i] += amount
        remaining -= amount
    return share


def paired_sum(values: list[float]) -> float:
    """The halves first, counted from the end: the order that decides the last bit."""
    if len(values) < 2:
        return sum(values)
    half = 1 << (len(values) - 1).bit_length() - 1
    return paired_sum(values[-half:]) + paired_sum(values[:-half])
