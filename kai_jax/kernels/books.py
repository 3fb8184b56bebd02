"""The working state of an action: what one placement touches, each row in place.

Axes as in `kai_jax.tensors.snapshot`. `free` is idle + releasing; both are sums of whole numbers, so that undoing a
placement by the inverse arithmetic restores them bit for bit. Queue amounts are fractional and are restored from a
saved path instead, the whole devices of a node with shared ones from what each task found.
"""

import jax.numpy as jnp
from jax import Array

from kai_jax.tensors import Snapshot, State
from kai_jax.tensors.pytree import pytree


@pytree
class Books:
    """State in the form the kernels carry; see State for the fields not described."""

    idle: Array  # f64[R,N]
    free: Array  # f64[R,N] idle + releasing
    used_gpu: Array  # f64[N]
    device_used: Array  # i64[G,N]
    device_allocated: Array  # i64[G,N]
    device_releasing: Array  # i64[G,N]
    device_marked: Array  # bool[G,N]
    device_seen: Array  # bool[G,N]
    device_holders: Array  # i32[G,N] tasks of this cycle on the slot, plus one when it was taken before
    widest_gap: Array  # i64[N] most MiB that a task could still join on one shared device, -1 none
    ports: Array  # bool[X,N]
    task_status: Array  # i8[T]
    task_node: Array  # i32[T]
    task_devices: Array  # u64[T]
    before_gpus: Array  # f64[2,T] idle and free devices of its node before the task took shared ones
    before_marks: Array  # u64[2,T] likewise the slots that were marked and seen, a bit each
    active: Array  # i32[P]
    allocated: Array  # i32[P]
    remaining: Array  # i32[P] pending tasks not placed yet
    queue_allocated: Array  # f64[3,Q]
    queue_fixed: Array  # f64[3,Q]


def open_books(snapshot: Snapshot, state: State, window: int) -> Books:
    """State -> Books; per-podset counters get a tail of `window`, so that the podsets of any job fit a window."""
    tail = (0, window)
    gaps = device_gaps(
        state.device_used, state.device_allocated, state.device_releasing, snapshot.nodes.gpu_memory[None, :]
    )
    return Books(
        idle=state.idle,
        free=state.idle + state.releasing,
        used_gpu=state.used_gpu,
        device_used=state.device_used,
        device_allocated=state.device_allocated,
        device_releasing=state.device_releasing,
        device_marked=state.device_marked,
        device_seen=state.device_seen,
        device_holders=state.device_taken.astype(jnp.int32),
        widest_gap=jnp.max(gaps, axis=0),
        ports=snapshot.nodes.ports_taken,
        task_status=state.task_status,
        task_node=state.task_node,
        task_devices=state.task_devices,
        before_gpus=jnp.zeros((2, state.task_node.shape[0])),
        before_marks=jnp.zeros((2, state.task_node.shape[0]), jnp.uint64),
        active=jnp.pad(state.active, tail),
        allocated=jnp.pad(state.allocated, tail),
        remaining=jnp.pad(snapshot.podsets.pending, tail),
        queue_allocated=state.queue_allocated,
        queue_fixed=state.queue_fixed,
    )


def close_books(books: Books, state: State) -> State:
    """Books -> State after the action."""
    podsets = state.active.shape[0]
    active = books.active[:podsets]
    return State(
        idle=books.idle,
        releasing=books.free - books.idle,
        used_gpu=books.used_gpu,
        device_used=books.device_used,
        device_allocated=books.device_allocated,
        device_releasing=books.device_releasing,
        device_marked=books.device_marked,
        device_seen=books.device_seen,
        device_taken=books.device_holders > 0,
        device_numbered=state.device_numbered,
        task_status=books.task_status,
        task_node=books.task_node,
        task_devices=books.task_devices,
        active=active,
        allocated=books.allocated[:podsets],
        used=state.used + active - state.active,
        queue_allocated=books.queue_allocated,
        queue_fixed=books.queue_fixed,
    )


def device_gaps(used: Array, allocated: Array, releasing: Array, memory: Array) -> Array:
    """i64 MiB that a task could join with, per shared device; -1 for one that is empty or emptying (spec 04 §3.2)."""
    joinable = (used != 0) & (allocated != releasing)
    return jnp.where(joinable, memory - allocated + releasing, -1)
