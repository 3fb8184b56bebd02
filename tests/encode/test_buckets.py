"""Buckets: few shapes, each large enough."""

from dataclasses import asdict, fields, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kai_jax.encode.buckets import MAX_DEVICES, NONE_NEEDED, SMALLEST, Sizes, choose_bucket
from kai_jax.tensors import Features

NONE = Features(shared=False, topology=False, trees=False, ports=False, nominated=False, releasing=False)
SMALL = replace(SMALLEST, **dict.fromkeys(asdict(SMALLEST), 1))


def test_small_clusters_share_one_bucket_with_all_features() -> None:
    bucket = choose_bucket(SMALL, NONE)
    assert (bucket.sizes, bucket.features) == (SMALLEST, Features())
    most = replace(
        SMALLEST, tasks=255, podsets=255, jobs=127, tree_nodes=511, queues=63, slots=511, requests=63, constraints=63
    )
    assert choose_bucket(most, Features()) == bucket


@pytest.mark.parametrize(
    "axis", ["tasks", "podsets", "jobs", "tree_nodes", "queues", "slots", "requests", "constraints"]
)
def test_a_full_axis_leaves_no_room_for_padding_and_grows(axis: str) -> None:
    full = replace(SMALL, **{axis: getattr(SMALLEST, axis)})
    assert getattr(choose_bucket(full, NONE).sizes, axis) > getattr(SMALLEST, axis)


@pytest.mark.parametrize(("nodes", "size"), [(65, 80), (97, 112), (113, 128), (129, 160), (500, 512), (5000, 5120)])
def test_steps_of_nodes(nodes: int, size: int) -> None:
    assert choose_bucket(replace(SMALL, nodes=nodes), NONE).sizes.nodes == size


def test_larger_buckets_hold_only_what_is_needed() -> None:
    bucket = choose_bucket(
        replace(SMALL, tasks=4000, domains=0, levels=0, topologies=0, frames=0, ports=0, window=2), NONE
    )
    assert bucket.features == NONE
    assert bucket.sizes == replace(NONE_NEEDED, tasks=4096)


@pytest.mark.parametrize(("devices", "size"), [(1, 8), (17, 24), (32, 32), (100, MAX_DEVICES)])
def test_device_slots_are_a_multiple_of_eight(devices: int, size: int) -> None:
    bucket = choose_bucket(replace(SMALL, nodes=100, devices=devices), Features())
    assert bucket.sizes.devices == size


@given(st.lists(st.integers(0, 5000), min_size=len(fields(Sizes)), max_size=len(fields(Sizes))))
def test_every_axis_holds_what_is_needed(counts: list[int]) -> None:
    needed = Sizes(*counts)
    chosen = choose_bucket(needed, Features()).sizes
    for name, count in asdict(needed).items():
        assert getattr(chosen, name) >= (min(count, MAX_DEVICES) if name == "devices" else count), name
