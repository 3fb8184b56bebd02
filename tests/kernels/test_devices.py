"""Shared devices of a node: worked examples of the ledger and of the choice, and a plain ledger."""

from dataclasses import dataclass, field, fields
from random import Random

import jax
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from kernels.snapshots import same

from kai_jax.kernels.books import Books, device_gaps
from kai_jax.kernels.devices import (
    Ask,
    Hold,
    choose_devices,
    leave_devices,
    return_devices,
    take_devices,
    take_undoably,
)
from kai_jax.tensors import Nodes

SLOTS, NODES, NODE, TASKS = 6, 3, 1, 6
RELEASING, PIPELINED, OTHER = "releasing", "pipelined", "other"
take, leave = jax.jit(take_devices), jax.jit(leave_devices)
take_noted, give_back = jax.jit(take_undoably), jax.jit(return_devices)
choose = jax.jit(choose_devices, static_argnums=6)


@dataclass
class Device:
    used: int = 0
    rel: int = 0
    alloc: int = 0
    marked: bool = False
    seen: bool = False
    pods: int = 0


@dataclass
class Node:
    """The ledger of one node as spec 04 §3.2 tells it; `whole` devices are used by pods of their own."""

    count: int
    memory: int = 100
    whole: int = 0
    idle: float = field(init=False)
    releasing: float = 0
    devices: list[Device] = field(default_factory=lambda: [Device() for _ in range(SLOTS)])

    def __post_init__(self):
        self.idle = self.count - self.whole

    def low(self) -> bool:
        return self.count < int(self.idle) + self.whole + sum(d.used > 0 for d in self.devices)

    def add(self, status: str, slot: int, m: int) -> "Node":
        d = self.devices[slot]
        d.used += m
        d.pods += 1
        if status == PIPELINED:
            d.rel -= m
            if d.used - m == d.rel + m:
                self.releasing -= 1
            return self
        d.alloc += m
        d.seen = True
        if status == RELEASING:
            d.rel += m
            if d.used == d.rel:
                if not d.marked:
                    self.releasing += 1
                    d.marked = True
                if self.low():
                    self.idle -= 1
            return self
        if d.used <= m and self.low():
            self.idle -= 1
        if d.marked:
            self.releasing -= 1
            d.marked = False
        return self

    def remove(self, status: str, slot: int, m: int) -> "Node":
        d = self.devices[slot]
        d.used -= m
        d.pods -= 1
        if status == PIPELINED:
            d.rel += m
            if d.used + m == d.rel - m or d.used == d.rel == 0:
                self.releasing += 1
            return self
        d.alloc -= m
        if d.used <= 0 and not self.low():
            self.idle += 1
        if d.used > 0 and d.rel == d.used and not d.marked:
            self.releasing += 1
            d.marked = True
        return self

    def books(self) -> Books:
        """Arrays of three nodes, this one in the middle; what stands beside it must stay."""

        def row(name: str, dtype, beside):
            out = np.full((SLOTS, NODES), beside, dtype)
            out[:, NODE] = [getattr(device, name) for device in self.devices]
            return out

        gpus = np.full((2, NODES), 8.0)
        idle, free = gpus.copy(), gpus.copy()
        idle[0, NODE], free[0, NODE] = self.idle, self.idle + self.releasing
        used, alloc, rel = row("used", np.int64, 3), row("alloc", np.int64, 3), row("rel", np.int64, 1)
        others = {f.name: np.zeros(1) for f in fields(Books)}
        devices = {
            "device_used": used,
            "device_allocated": alloc,
            "device_releasing": rel,
            "device_marked": row("marked", bool, True),
            "device_seen": row("seen", bool, True),
            "device_holders": row("pods", np.int32, 1),
            "widest_gap": np.asarray(device_gaps(used, alloc, rel, np.full(NODES, self.memory))).max(axis=0),
            "used_gpu": np.full(NODES, float(self.whole)),
            "before_gpus": np.zeros((2, TASKS)),
            "before_marks": np.zeros((2, TASKS), np.uint64),
        }
        return Books(**{**others, **devices, "idle": idle, "free": free})

    def nodes(self) -> Nodes:
        """The facts of the three nodes that devices read."""
        unread = dict.fromkeys((f.name for f in fields(Nodes)), np.zeros(NODES))
        sizes = {"gpu_count": np.full(NODES, self.count), "gpu_memory": np.full(NODES, self.memory)}
        return Nodes(**{**unread, **sizes})

    def fits(self, d: Device, m: int) -> bool:
        return d.used != 0 and self.memory - d.alloc + d.rel - m >= 0 and d.alloc != d.rel

    def idle_enough(self, d: Device, m: int) -> bool:
        return d.seen and self.memory - d.alloc - m >= 0

    def markers(self) -> int:
        return int(self.idle) + int(self.releasing) if self.idle > 0 or self.releasing > 0 else 0


def slots_of(slots) -> np.ndarray:
    return np.isin(np.arange(SLOTS), list(slots))


def hold(status: str, slots, m: int) -> Hold:
    return Hold(np.int32(NODE), slots_of(slots), np.int64(m), np.bool_(status == PIPELINED))


def taken(books: Books, node: Node, status: str, slots, m: int, task: int = 0) -> Books:
    noted = take_noted(books, node.nodes(), hold(status, slots, m), np.int32(task))
    same(noted, take(books, node.nodes(), hold(status, slots, m)))
    return noted


def returned(books: Books, node: Node, status: str, slots, m: int, task: int = 0) -> Books:
    return give_back(books, node.nodes(), hold(status, slots, m), np.int32(task))


def left(books: Books, node: Node, status: str, slots, m: int) -> Books:
    return leave(books, node.nodes(), hold(status, slots, m))


def gpus(books: Books) -> tuple[float, float]:
    """(idle, releasing) whole devices."""
    return float(books.idle[0, NODE]), float(books.free[0, NODE] - books.idle[0, NODE])


def device(books: Books, slot: int) -> tuple[int, int, int, bool]:
    names = ("device_used", "device_releasing", "device_allocated", "device_marked")
    return tuple(getattr(books, name)[slot, NODE].item() for name in names)


def test_a_pipelined_pod_on_a_new_device_takes_the_releasing_one():
    node = Node(1).add(RELEASING, 0, 50)
    before = node.books()
    assert gpus(before) == (0, 1)
    books = taken(before, node, PIPELINED, [1], 50)
    assert gpus(books) == (0, 0)
    assert device(books, 1) == (50, -50, 0, False)
    same(returned(books, node, PIPELINED, [1], 50), before)
    same(left(books, node, PIPELINED, [1], 50), before)


def test_joining_an_emptying_device():
    node = Node(1).add(RELEASING, 0, 50)
    first = node.books()
    books = taken(first, node, OTHER, [0], 20)
    assert gpus(books) == (0, 0)
    same(books, node.add(OTHER, 0, 20).books())
    books = taken(books, node, PIPELINED, [0], 50, task=1)
    assert device(books, 0) == (120, 0, 70, False)
    assert gpus(books) == (0, 0)
    same(returned(returned(books, node, PIPELINED, [0], 50, task=1), node, OTHER, [0], 20, task=0), first)
    same(left(left(books, node, PIPELINED, [0], 50), node, OTHER, [0], 20), first)
    assert gpus(first) == (0, 1)


def test_waiting_on_an_emptying_device_takes_it():
    node = Node(1).add(RELEASING, 0, 50)
    books = taken(node.books(), node, PIPELINED, [0], 30)
    assert gpus(books) == (0, 0)
    assert device(books, 0) == (80, 20, 50, True)


def four_devices() -> Node:
    node = Node(4, memory=40900, whole=1)
    return node.add(OTHER, 0, 20450).add(OTHER, 0, 10225).add(RELEASING, 1, 20450)


def test_four_devices():
    node = four_devices()
    books = node.books()
    assert gpus(books) == (1, 1)
    assert device(books, 0) == (30675, 0, 30675, False)
    assert device(books, 1) == (20450, 20450, 20450, True)
    pipelined = taken(books, node, PIPELINED, [2], 20450)
    assert gpus(pipelined) == (1, 0)
    assert device(pipelined, 2) == (20450, -20450, 0, False)
    same(returned(pipelined, node, PIPELINED, [2], 20450), books)


@dataclass(frozen=True)
class Chosen:
    slots: tuple[int, ...]
    waits: bool
    opens: bool = True


def chosen(node: Node, m: int, devices: int = 1, terms=("gpupack",), fits_idle=True, numbered=()) -> Chosen | None:
    numbers = np.zeros((SLOTS, NODES), bool)
    numbers[list(numbered), NODE] = True
    ask = Ask(np.int32(devices), np.int64(m))
    choice = choose(node.books(), node.nodes(), numbers, np.int32(NODE), ask, np.bool_(fits_idle), terms)
    if not choice.ok:
        return None
    return Chosen(tuple(np.flatnonzero(choice.slots).tolist()), bool(choice.waits), bool(choice.opens))


PACK, SPREAD = ("gpupack",), ("gpuspread",)


@pytest.mark.parametrize(("count", "terms", "slot"), [(2, PACK, 0), (8, PACK, 0), (2, SPREAD, 1), (8, SPREAD, 2)])
def test_pack_joins_the_fuller_device_spread_a_new_one(count, terms, slot):
    node = Node(count).add(OTHER, 0, 70).add(OTHER, 1, 50)
    assert chosen(node, 20, terms=terms) == Chosen((slot,), waits=False)


def test_choices():
    assert chosen(Node(2).add(OTHER, 0, 60), 50) == Chosen((1,), waits=False)
    assert chosen(Node(1).add(OTHER, 0, 60), 50) is None
    # packing waits for the emptying half rather than opening the free device
    assert chosen(Node(2).add(OTHER, 0, 50).add(RELEASING, 0, 50), 50) == Chosen((0,), waits=True)
    assert chosen(Node(3).add(OTHER, 0, 50).add(RELEASING, 0, 50), 50, 2) == Chosen((0, 1), waits=True)
    # an emptying device is a whole one, taken under a new name
    emptying = Node(1).add(RELEASING, 0, 50)
    assert chosen(emptying, 50, fits_idle=False) == Chosen((1,), waits=True)
    assert chosen(emptying, 50, devices=2, fits_idle=False) is None


def test_choices_on_four_devices():
    node = four_devices()
    assert chosen(node, 10225) == Chosen((0,), waits=False)
    assert chosen(node, 10226) == Chosen((2,), waits=False)
    assert chosen(node, 10225, devices=3) == Chosen((0, 2, 3), waits=False)
    assert chosen(node, 10225, devices=4) is None


def test_a_device_that_only_waiting_pods_hold_is_waited_for():
    assert chosen(Node(1).add(RELEASING, 0, 50).add(PIPELINED, 1, 50), 50) == Chosen((1,), waits=True)


def test_small_devices_are_no_choice_for_device_scores():
    assert chosen(Node(1, memory=99), 50, terms=PACK) is None
    assert chosen(Node(1, memory=99), 50, terms=()) == Chosen((0,), waits=False)


def test_only_numbered_devices_need_no_reservation():
    node = Node(2).add(OTHER, 0, 50)
    assert chosen(node, 50) == Chosen((0,), waits=False, opens=True)
    assert chosen(node, 50, numbered=[0]) == Chosen((0,), waits=False, opens=False)
    assert chosen(node, 50, devices=2, numbered=[0]) == Chosen((0, 1), waits=False, opens=True)


def listed(node: Node, m: int, devices: int, terms: tuple[str, ...], fits_idle: bool) -> Chosen | None:
    """Spec 04 §3.3: shared devices that fit, then whole ones, stably sorted by score."""
    entries = [(d.used / node.memory, slot) for slot, d in enumerate(node.devices) if node.fits(d, m)]
    entries = [(1 - share if terms == SPREAD else share, slot) for share, slot in entries]
    entries += [(float(terms == SPREAD), -1)] * node.markers()
    best = sorted(entries, key=lambda entry: -entry[0])[:devices]
    if len(best) < devices:
        return None
    free = iter([slot for slot, d in enumerate(node.devices) if not d.pods])
    slots = [next(free, None) if slot < 0 else slot for _, slot in best]
    if None in slots:
        return None  # reported as an overflow of slots
    waits = not fits_idle or any(slot >= 0 and not node.idle_enough(node.devices[slot], m) for _, slot in best)
    return Chosen(tuple(sorted(slots)), waits)


amounts = st.sampled_from([10, 20, 25, 30, 50, 50, 60, 100])
some_slots = st.sets(st.integers(0, SLOTS - 1), min_size=1, max_size=3)
wishes = st.tuples(some_slots, amounts, st.sampled_from([OTHER, PIPELINED]))
some_wishes = st.lists(wishes, max_size=6)


@st.composite
def nodes(draw) -> Node:
    """Pods of all kinds, each where the scheduler could have put it."""
    count = draw(st.integers(1, 5))
    node = Node(count, whole=draw(st.integers(0, 1)))
    for slot, m, status in draw(st.lists(st.tuples(st.integers(0, 3), amounts, st.sampled_from([RELEASING, OTHER])))):
        d = node.devices[slot]
        if d.alloc + m <= 100 and (d.used or node.idle >= 1):
            node.add(status, slot, m)
    return node


def place(node: Node, wish) -> tuple[str, list[int], int] | None:
    """How the scheduler would take these devices, None when it could not."""
    slots, m, status = wish
    new = [slot for slot in slots if not node.devices[slot].pods]
    old = [node.devices[slot] for slot in slots if node.devices[slot].pods]
    if len(new) > node.markers() or not all(node.fits(d, m) for d in old):
        return None
    if len(new) > node.idle or not all(node.idle_enough(d, m) for d in old):
        status = PIPELINED
    return status, sorted(slots), m


def take_all(node: Node, wanted) -> tuple[Books, list[tuple[tuple[str, list[int], int], Books]]]:
    """Books and ledger with what could be taken; with each of them the books before it."""
    books, history = node.books(), []
    for wish in wanted:
        if (placed := place(node, wish)) is None:
            continue
        status, slots, m = placed
        history.append((placed, books))
        books = taken(books, node, *placed, task=len(history) - 1)
        for slot in slots:
            node.add(status, slot, m)
        same(books, node.books())
    return books, history


WAITING_ON_FREE_DEVICES = ({0, 1}, 10, PIPELINED), ({0}, 10, OTHER), ({2}, 10, OTHER)


@settings(max_examples=60)
@given(nodes(), some_wishes)
@example(Node(3), WAITING_ON_FREE_DEVICES)
def test_takes_follow_the_ledger_and_are_undone_bit_for_bit(node, wanted):
    books, history = take_all(node, wanted)
    for task, (placed, before) in reversed(list(enumerate(history))):
        books = returned(books, node, *placed, task)
        same(books, before)


@settings(max_examples=60)
@given(nodes(), some_wishes, st.randoms(use_true_random=False))
@example(Node(3), WAITING_ON_FREE_DEVICES, Random(0))
def test_leaving_in_any_order_follows_the_ledger(node, wanted, random):
    books, history = take_all(node, wanted)
    placements = [placed for placed, _ in history]
    random.shuffle(placements)
    for status, slots, m in placements:
        books = left(books, node, status, slots, m)
        for slot in slots:
            node.remove(status, slot, m)
        same(books, node.books())


@settings(max_examples=60)
@given(nodes(), some_wishes)
def test_without_waiting_pods_the_closed_form_holds(node, wanted):
    books = node.books()
    for wish in wanted:
        placed = place(node, wish)
        if placed is None or placed[0] == PIPELINED:
            continue
        _, slots, m = placed
        books = take(books, node.nodes(), hold(OTHER, slots, m))
        for slot in slots:
            node.add(OTHER, slot, m)
        used, rel = np.asarray(books.device_used)[:, NODE], np.asarray(books.device_releasing)[:, NODE]
        in_use = used > 0
        assert gpus(books) == (node.count - node.whole - in_use.sum(), (in_use & (rel == used)).sum())


@settings(max_examples=100)
@given(nodes(), some_wishes, amounts, st.integers(1, 3), st.sampled_from([PACK, SPREAD]), st.booleans())
def test_choice_equals_the_sorted_list(node, wanted, m, devices, terms, fits_idle):
    for wish in wanted:
        if placed := place(node, wish):
            for slot in placed[1]:
                node.add(placed[0], slot, placed[2])
    assert chosen(node, m, devices, terms, fits_idle) == listed(node, m, devices, terms, fits_idle)
