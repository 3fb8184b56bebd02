"""What changes the compiled program: static, hashable, part of the compile key."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Features:
    """Parts of the program that a bucket needs; a part that is off is not compiled."""

    shared: bool = True  # some pod holds or asks for a part of a device
    topology: bool = True  # some podgroup has a topology constraint
    trees: bool = True  # some podgroup has more than its default podset
    ports: bool = True  # some pending pod asks for a host port
    nominated: bool = True  # some pod of a podgroup carries a nominated node
    releasing: bool = True  # some node holds releasing resources, so that a task may be pipelined


@dataclass(frozen=True)
class Bounds:
    """Static widths that no array shape tells; bucketed like the axes."""

    children: int  # most children of a queue
    window: int  # most tree nodes of a podgroup
    queue_levels: int  # most levels of queues, the virtual root left out
    frames: int  # most topology constraints on a path of a subgroup tree


@dataclass(frozen=True)
class Policy:
    """Scoring configuration of one shard (spec 04 §2) and the static part of its bucket.

    `score_terms` lists the node-score plugins in the configured order, out of: nodeavailability, gpusharingorder,
    resourcetype, nominatednode, nodeplacement, topology. `device_terms` lists gpupack / gpuspread as configured.
    """

    score_terms: tuple[str, ...]
    device_terms: tuple[str, ...]
    subgroup_order: bool  # plugin subgrouporder is on; names alone decide otherwise
    capacity: bool  # plugin proportion is on: queue order by shares, limits and quotas
    features: Features
    bounds: Bounds
