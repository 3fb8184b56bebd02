"""What a decision changes, and what an action says about its attempts. Axes as in `snapshot`."""

from enum import IntEnum

from jax import Array

from kai_jax.tensors.pytree import pytree


class Status(IntEnum):
    """Task status (spec 03 §0.1)."""

    PENDING = 0
    GATED = 1
    ALLOCATED = 2
    PIPELINED = 3
    BINDING = 4
    BOUND = 5
    RUNNING = 6
    RELEASING = 7
    STUCK_IN_RELEASING = 8
    SUCCEEDED = 9
    FAILED = 10
    UNKNOWN = 11


ALLOCATED_SET = (Status.ALLOCATED, Status.BINDING, Status.BOUND, Status.RUNNING)
ACTIVE = (*ALLOCATED_SET, Status.PIPELINED)


@pytree
class State:
    """Node books, task places, counters and queue usage."""

    idle: Array  # f64[R,N]
    releasing: Array  # f64[R,N] may be negative
    used_gpu: Array  # f64[N] whole devices in use (gpu entry of Used)
    device_used: Array  # i64[G,N] MiB in use per shared device, slots in creation order
    device_allocated: Array  # i64[G,N] MiB
    device_releasing: Array  # i64[G,N] MiB, may be negative
    device_marked: Array  # bool[G,N] counted as a whole releasing device
    device_seen: Array  # bool[G,N] the allocated book has an entry (not pipelined only)
    device_taken: Array  # bool[G,N] the slot belongs to a group
    device_numbered: Array  # bool[G,N] the group id is an integer (spec 04 Q6)
    task_status: Array  # i8[T] Status
    task_node: Array  # i32[T] -> N or -1
    task_devices: Array  # u64[T] bit g is set when the task holds device slot g of its node
    active: Array  # i32[P] tasks in ACTIVE
    allocated: Array  # i32[P] tasks in ALLOCATED_SET
    used: Array  # i32[P] tasks in ACTIVE, Releasing or StuckInReleasing
    queue_allocated: Array  # f64[3,Q] ancestors included
    queue_fixed: Array  # f64[3,Q] the part of non-preemptible jobs


@pytree
class Attempts:
    """Why attempts of a job failed; all but `reasons` and `overflow` tell of the last one that did."""

    reasons: Array  # i32[J] bits of Reason, of all failed attempts
    failed_task: Array  # i32[J] -> T, the task that found no node, -1 none
    placed_before: Array  # i32[J] tasks of the failing podset placed before it in that attempt
    lost: Array  # i32[J,H] nodes lost to each Cause for the failing task
    gate_queue: Array  # i32[J] -> Q whose limit or quota refused the job, -1 none
    gate_resource: Array  # i32[J] 0 cpu, 1 memory, 2 gpu, -1 none
    gate_amounts: Array  # f64[J,3] requested, allocated (or its non-preemptible part), bound
    overflow: Array  # bool[] a device slot was missing: encode again in a larger bucket


class Reason(IntEnum):
    """Bits of Attempts.reasons."""

    OVER_LIMIT = 1
    NON_PREEMPTIBLE_OVER_QUOTA = 2
    POD_SCHEDULING_ERRORS = 4
    TOPOLOGY_NOT_ENOUGH = 8


class Cause(IntEnum):
    """Columns of Attempts.lost: the first filter that a node fails, in the order of spec 04 §1."""

    OUTSIDE = 0  # not in the node set of the topology domain
    CONSTRAINT = 1  # static filters: selector, taints, readiness, volumes ... (the host names them)
    GPU = 2
    CPU = 3
    MEMORY = 4
    PODS = 5
    OTHER = 6  # another named resource
    PORTS = 7
    CAPACITY = 8  # queue limit or quota on this node
