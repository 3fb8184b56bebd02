"""The comparison itself: it sees every kind of difference, and nothing else."""

from copy import deepcopy
from typing import Any

import pytest
from conformance import cases

DECIDED: dict[str, Any] = {
    "initial": {"a/p": ["Pending"]},
    "queues": {"q": {"fair_share": [1000, 0, 0.3], "deserved": [-1, -1, 1], "allocated": [0, 0, 0]}},
    "actions": [{"action": "allocate", "changed": {"a/p": ["Binding", "n"]}}],
    "final": {"a/p": ["Binding", "n"]},
    "bind_requests": {"a/p": ["n", "Regular", 1, "1.00"]},
    "shared_devices": [["a/p", "a/q"], ["a/p", "a/q"]],
    "reasons": {"a/g": ["OverLimit"]},
}


def _changed(part: str, value: Any) -> dict[str, Any]:
    return DECIDED | {part: value}


def test_equal_decisions_do_not_differ() -> None:
    got = deepcopy(DECIDED)
    got["queues"]["q"]["fair_share"][2] = 0.1 + 0.2  # the recorded sums have no fixed order
    got["shared_devices"] = [["a/q", "a/p"], ["a/p", "a/q"]]
    assert list(cases.differences(DECIDED, got)) == []


@pytest.mark.parametrize(
    ("part", "value", "line"),
    [
        ("initial", {"a/p": ["Gated"]}, "initial: a/p: ['Pending'] -> ['Gated']"),
        ("final", {}, "final: a/p: ['Binding', 'n'] -> None"),
        ("actions", [], "actions: allocate a/p: ['Binding', 'n'] -> None"),
        ("bind_requests", {"a/p": ["n", "Regular", 2, "1.00"]}, "bind_requests: a/p: "),
        ("shared_devices", [["a/p", "a/q"]], "shared_devices: device shared by ['a/p', 'a/q']: 2 -> 1"),
        ("reasons", {}, "reasons: a/g: ['OverLimit'] -> None"),
    ],
)
def test_a_difference_is_told_with_its_key(part: str, value: Any, line: str) -> None:
    (told,) = cases.differences(DECIDED, _changed(part, value))
    assert told.startswith(line)


def test_a_fair_share_differs_by_a_unit() -> None:
    queues = {"q": DECIDED["queues"]["q"] | {"fair_share": [1001, 0, 0.3]}}
    (told,) = cases.differences(DECIDED, _changed("queues", queues))
    assert told == "queues: q.fair_share: [1000, 0, 0.3] -> [1001, 0, 0.3]"


def test_where_other_actions_follow_only_what_precedes_them_counts() -> None:
    recorded = _changed("actions", [*DECIDED["actions"], {"action": "reclaim", "changed": {"a/v": ["Releasing", "n"]}}])
    recorded["final"] = {"a/p": ["Releasing", "n"]}
    assert list(cases.differences(recorded, DECIDED)) == []
    got = _changed("actions", [{"action": "allocate", "changed": {}}])
    assert len(list(cases.differences(recorded, got))) == 1


def test_cases_that_need_what_is_refused_are_left_out_by_what_their_pods_ask_for() -> None:
    def snapshot(spec: dict[str, Any]) -> dict[str, Any]:
        return {"rawObjects": {"pods": [{"spec": {}}, {"spec": spec}]}}

    assert not cases._needs_more(snapshot({"affinity": {"nodeAffinity": {}}}))
    assert cases._needs_more(snapshot({"affinity": {"podAntiAffinity": {"x": 1}}}))
    assert cases._needs_more(snapshot({"resourceClaims": [{"name": "c"}]}))


def test_the_families_are_there() -> None:
    assert len(cases.families()) == 21
    assert sum(len(cases.load(family)) for family in cases.families()) == 747
