"""Shared devices of one node: which ones a task takes, and what taking or leaving them does to the node.

A slot g of a node is one physical device that pods share. Rules and their quirks: spec 04 §3.2 and §3.3.
"""

import dataclasses
from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
from jax import Array, lax

from kai_jax.kernels.books import Books, device_gaps
from kai_jax.kernels.exact import quotient
from kai_jax.kernels.vector import add, element, first_true, largest, put
from kai_jax.tensors import Nodes
from kai_jax.tensors.pytree import pytree


@pytree
class Hold:
    """A task's part of shared devices of a node."""

    node: Array  # i32[]
    slots: Array  # bool[G]
    memory: Array  # i64[] MiB of each
    waits: Array  # bool[] pipelined


@pytree
class Ask:
    """A task's request for parts of devices on one node."""

    devices: Array  # i32[] how many
    memory: Array  # i64[] MiB of each


@pytree
class Choice:
    """Devices chosen on a node."""

    ok: Array  # bool[] enough devices were found
    slots: Array  # bool[G]
    waits: Array  # bool[] some device, or the node itself, must be released first
    opens: Array  # bool[] the pod slot of a reservation pod is needed (quirk Q6)
    overflow: Array  # bool[] no slot was left for a new device


@pytree
class _Row:
    """The device part of one node."""

    used: Array  # i64[G]
    allocated: Array  # i64[G]
    releasing: Array  # i64[G]
    marked: Array  # bool[G]
    seen: Array  # bool[G]
    holders: Array  # i32[G]
    idle: Array  # f64[] whole devices
    free: Array  # f64[] idle + releasing
    whole: Array  # f64[] whole devices in use
    count: Array  # f64[] devices of the node


def choose_devices(
    books: Books, nodes: Nodes, numbered: Array, node: Array, ask: Ask, fits_idle: Array, terms: tuple[str, ...]
) -> Choice:
    """The best `ask.devices` of shared devices and whole ones; equal scores take shared ones first."""
    row = _read(books, nodes, node)
    memory = element(nodes.gpu_memory, node)
    gaps = device_gaps(row.used, row.allocated, row.releasing, memory)
    joinable = gaps >= ask.memory
    releasing = row.free - row.idle
    whole = jnp.where((row.idle > 0) | (releasing > 0), jnp.trunc(row.idle) + jnp.trunc(releasing), 0.0)
    pack, spread = "gpupack" in terms, "gpuspread" in terms
    share = quotient(row.used.astype(jnp.float64), memory.astype(jnp.float64))
    score = share * pack + (1.0 - share) * spread
    whole_score = jnp.float64(spread)
    scored = (memory >= 100) | (not terms)
    enough_idle = row.seen & (memory - row.allocated - ask.memory >= 0)

    def take(carry: Any) -> Any:
        left, joinable, whole, empty, choice = carry
        best = largest(jnp.where(joinable, score, -jnp.inf))
        join = (best > -jnp.inf) & ~((whole >= 1) & (whole_score > best))
        opened = first_true(empty)
        found = join | (whole >= 1)
        lacking = found & ~join & (opened == empty.shape[0])
        slot = jnp.where(join, first_true(joinable & (score == best)), jnp.minimum(opened, empty.shape[0] - 1))
        choice = Choice(
            ok=choice.ok & found & ~lacking,
            slots=put(choice.slots, slot, found | element(choice.slots, slot)),
            waits=choice.waits | (join & ~element(enough_idle, slot)),
            opens=choice.opens | ~join | ~element(element(numbered, node), slot),
            overflow=choice.overflow | lacking,
        )
        joinable = put(joinable, slot, False)
        empty = put(empty, slot, False)
        return left - 1, joinable, whole - jnp.where(join, 0.0, 1.0), empty, choice

    none = Choice(
        ok=jnp.asarray(scored),
        slots=jnp.zeros(gaps.shape[0], bool),
        waits=~fits_idle,
        opens=jnp.bool_(False),
        overflow=jnp.bool_(False),
    )
    start = (ask.devices, joinable, whole, row.holders == 0, none)
    return lax.while_loop(lambda c: (c[0] > 0) & c[4].ok, take, start)[4]


def take_devices(books: Books, nodes: Nodes, hold: Hold) -> Books:
    """Books after a task is added to shared devices."""
    return _write(books, nodes, hold.node, _taken(_read(books, nodes, hold.node), hold))


def take_undoably(books: Books, nodes: Nodes, hold: Hold, task: Array) -> Books:
    """As `take_devices`; the task keeps what `return_devices` cannot compute from the ledger (quirk Q17)."""
    row = _read(books, nodes, hold.node)
    books = dataclasses.replace(
        books,
        before_gpus=put(books.before_gpus, task, jnp.stack([row.idle, row.free])),
        before_marks=put(books.before_marks, task, jnp.stack([pack(row.marked), pack(row.seen)])),
    )
    return _write(books, nodes, hold.node, _taken(row, hold))


def return_devices(books: Books, nodes: Nodes, hold: Hold, task: Array) -> Books:
    """The inverse of `take_undoably`, newest task first: the row of the node is again what it was, bit for bit."""
    row = _read(books, nodes, hold.node)
    slots = hold.slots
    idle, free = element(books.before_gpus, task)
    marked, seen = element(books.before_marks, task)
    amount = jnp.where(slots, hold.memory, 0)
    row = dataclasses.replace(
        row,
        used=row.used - amount,
        allocated=row.allocated - jnp.where(hold.waits, 0, amount),
        releasing=row.releasing + jnp.where(hold.waits, amount, 0),
        marked=unpack(marked, slots.shape[0]),
        seen=unpack(seen, slots.shape[0]),
        holders=row.holders - slots.astype(row.holders.dtype),
        idle=idle,
        free=free,
    )
    return _write(books, nodes, hold.node, row)


def leave_devices(books: Books, nodes: Nodes, hold: Hold) -> Books:
    """Books after a task is removed from shared devices (spec 04 §3.2).

    An emptied device keeps its entry in the allocated book, as in the peer.
    """
    return _write(books, nodes, hold.node, _left(_read(books, nodes, hold.node), hold))


def pack(slots: Array) -> Array:
    """u64[] with bit g set where slot g is."""
    bits = jnp.uint64(1) << jnp.arange(slots.shape[0], dtype=jnp.uint64)
    return jnp.sum(jnp.where(slots, bits, 0), dtype=jnp.uint64)


def unpack(bits: Array, count: int) -> Array:
    """bool[G] of the `count` lowest bits."""
    return (bits >> jnp.arange(count, dtype=jnp.uint64)) & jnp.uint64(1) != 0


def _taken(row: _Row, hold: Hold) -> _Row:
    memory, waits = hold.memory, hold.waits

    def step(row: _Row, slot: Array) -> _Row:
        before = element(row.used, slot)
        used = put(row.used, slot, before + memory)
        allocated = add(row.allocated, slot, jnp.where(waits, 0, memory))
        releasing = add(row.releasing, slot, jnp.where(waits, -memory, 0))
        low = row.count < jnp.trunc(row.idle) + row.whole + jnp.sum(used > 0)
        first = ~waits & (before + memory <= memory) & low
        unmark = ~waits & element(row.marked, slot)
        claims = waits & (before == element(releasing, slot) + memory)
        idle_change = jnp.where(first, -1.0, 0.0)
        return dataclasses.replace(
            row,
            used=used,
            allocated=allocated,
            releasing=releasing,
            marked=put(row.marked, slot, element(row.marked, slot) & ~unmark),
            seen=put(row.seen, slot, element(row.seen, slot) | ~waits),
            holders=add(row.holders, slot, 1),
            idle=row.idle + idle_change,
            free=row.free + idle_change - jnp.where(unmark | claims, 1.0, 0.0),
        )

    return _each_slot(row, hold.slots, step)


def _left(row: _Row, hold: Hold) -> _Row:
    memory, waits = hold.memory, hold.waits

    def step(row: _Row, slot: Array) -> _Row:
        after = element(row.used, slot) - memory
        used = put(row.used, slot, after)
        allocated = add(row.allocated, slot, jnp.where(waits, 0, -memory))
        releasing = add(row.releasing, slot, jnp.where(waits, memory, 0))
        released = element(releasing, slot)
        low = row.count < jnp.trunc(row.idle) + row.whole + jnp.sum(used > 0)
        last = ~waits & (after <= 0) & ~low
        emptying = ~waits & (after != 0) & (released == after) & ~element(row.marked, slot)
        yields = waits & ((after + memory == released - memory) | ((after == 0) & (released == 0)))
        idle_change = jnp.where(last, 1.0, 0.0)
        return dataclasses.replace(
            row,
            used=used,
            allocated=allocated,
            releasing=releasing,
            marked=put(row.marked, slot, element(row.marked, slot) | emptying),
            holders=add(row.holders, slot, -1),
            idle=row.idle + idle_change,
            free=row.free + idle_change + jnp.where(emptying | yields, 1.0, 0.0),
        )

    return _each_slot(row, hold.slots, step)


def _each_slot(row: _Row, slots: Array, step: Callable[[_Row, Array], _Row]) -> _Row:
    def body(carry: Any) -> Any:
        left, row = carry
        slot = first_true(left)
        return put(left, slot, False), step(row, slot)

    return lax.while_loop(lambda c: jnp.any(c[0]), body, (slots, row))[1]


def _read(books: Books, nodes: Nodes, node: Array) -> _Row:
    return _Row(
        used=element(books.device_used, node),
        allocated=element(books.device_allocated, node),
        releasing=element(books.device_releasing, node),
        marked=element(books.device_marked, node),
        seen=element(books.device_seen, node),
        holders=element(books.device_holders, node),
        idle=element(books.idle[0], node),
        free=element(books.free[0], node),
        whole=jnp.trunc(element(books.used_gpu, node)),
        count=element(nodes.gpu_count, node).astype(jnp.float64),
    )


def _write(books: Books, nodes: Nodes, node: Array, row: _Row) -> Books:
    gaps = device_gaps(row.used, row.allocated, row.releasing, element(nodes.gpu_memory, node))
    return dataclasses.replace(
        books,
        device_used=put(books.device_used, node, row.used),
        device_allocated=put(books.device_allocated, node, row.allocated),
        device_releasing=put(books.device_releasing, node, row.releasing),
        device_marked=put(books.device_marked, node, row.marked),
        device_seen=put(books.device_seen, node, row.seen),
        device_holders=put(books.device_holders, node, row.holders),
        idle=lax.dynamic_update_slice(books.idle, row.idle[None, None], (jnp.int32(0), node)),
        free=lax.dynamic_update_slice(books.free, row.free[None, None], (jnp.int32(0), node)),
        widest_gap=put(books.widest_gap, node, largest(gaps)),
    )
