"""Cycles of the bodies that store or keep each element they compute."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import log2, prod
from typing import Protocol

from ...ir import index as ix
from ...ir.body import Scan, tuple_scan
from ...ir.node import Node, walk
from ...opts.access import interleaved_step, rows, shuffles
from ...opts.access import stride as stride_of
from ...opts.analysis.write_order import scatter_ordered
from ...opts.axis_plan import Part
from ...opts.nests import Nest
from ...opts.schedule import Scheduled
from ..machine import Core
from .code_length import evaluated
from .loop_bodies import Body, BodyWork, trips

# scans ------------------------------------------------------------------------------------------------------
# What a scan costs beside its elements: combinations, prefixes of vectors, and states in memory.


class Copies(Protocol):
    """What is asked of a nest's innermost body."""

    @property
    def regs(self) -> Sequence[Part]:
        """Its register parts."""

    @property
    def lane(self) -> Part | None:
        """The part that lanes run over."""

    @property
    def width(self) -> int:
        """The lanes."""

    def count(self, parts: Sequence[Part]) -> int:
        """The copies that some register parts make together."""


@dataclass(frozen=True, slots=True)
class ScanWork:
    """Of one body: `arith` operations more than the elements take; `chain`: cycles from one state to the next; `states`: vectors that
    are read from memory and written to it."""

    arith: float
    chain: float
    states: float


def scan_work(s: Scheduled, nest: Nest, results: float, body: Copies, core: Core) -> ScanWork:
    """The work of a scan with so many vectors of `results` in its body."""
    assert nest.value is not None and isinstance(nest.value.expr, Scan)
    axis = nest.value.expr.axis
    steps = body.count([p for p in body.regs if p.axis is axis])
    loops = [p.axis is axis for p in s.loops(nest)]
    # the value carried from one vector or element to the next; a vector of prefixes takes a shift and a combination for each doubling
    along = body.lane is not None and body.lane.axis is axis
    doubled = core.scanned * (body.width.bit_length() - 1) + core.scanned if along else 0
    rule, arith = 1, results * doubled
    if nest.expr.op == "tuple":
        rule = max(1, len({n for m in tuple_scan(nest.expr).merge for n in walk(m) if n.src}))
        arith = results * rule * (1 + doubled)
    if loops == sorted(loops):
        return ScanWork(arith, core.latency * steps * rule, 0.0)
    # each point of the loops inside has a state in memory, and does not wait for its neighbours
    return ScanWork(arith, 1.0, results / max(1, steps) + _handed_on(s, nest, results, core))


def _handed_on(s: Scheduled, nest: Nest, results: float, core: Core) -> float:
    """Vectors without a register of what a body's scan hands on to others in it: results, and loads that are used there again. All states
    are stored before any of it is used."""
    if nest.name not in s.tree.registers:
        return 0.0
    readers = [n for n in s.nests if any(r.arg == nest.name for r in n.refs)]
    again = {x for n in readers for x in n.loads} & set(nest.loads)
    return max(0.0, results * (1 + len(again)) + core.operands - s.target.registers)


# pointwise --------------------------------------------------------------------------------------------------
def pointwise(bodies: Sequence[Body], work: BodyWork) -> float:
    """Cycles of a nest that stores or keeps each element it computes, or of several that store, in one body."""
    s, nest, core = bodies[0].scheduled, bodies[0].nest, bodies[0].core
    arith, loads, kept, chain, waits = work.arith, work.loads, 0.0, 1.0, 0.0
    for body in bodies:
        done = stored(body)
        arith, kept, waits = arith + done.arith, kept + done.stores, waits + done.waits
        if body.nest.kind == "scan":
            found = scan_work(s, body.nest, done.stores, body, core)
            arith, chain = arith + found.arith, max(chain, found.chain)
            loads, kept = loads + found.states, kept + found.states - (done.stores if body.nest.name in s.tree.registers else 0.0)
    size = arith + loads + kept + core.overhead
    cycles = max(arith / core.ports, loads / core.load_ports, kept, size / core.issue, chain)
    return trips(s.loops(nest)) * (cycles * _lengthy(bodies[0], size) + core.spill * _spilled(bodies) + core.branch + waits)


def _lengthy(body: Body, size: float) -> float:
    """How much dearer the instructions of a body of so many are where vectors as long as a line have more copies than the processor needs
    to be busy: it sees no more than a part of them at a time, and compilers spill between them."""
    core = body.core
    if body.scheduled.target.vector_bytes < body.machine.caches.line or prod(body.copies.values()) <= core.load_ports:
        return 1.0
    return 1.0 + core.lengthy * max(0.0, log2(size / core.long_body))


def _spilled(bodies: Sequence[Body]) -> float:
    """Vectors of several stores in one body that have no register. Compilers put off the last operations and the stores of all copies:
    what is shared by several stores on the way to the results, or these themselves, are held until then."""
    if len(bodies) == 1 or bodies[0].nest.kind == "scan":
        return 0.0
    s = bodies[0].scheduled
    sets = [set(evaluated(s, b.nest, [*b.nest.evaluated])) for b in bodies]
    users: dict[Node, set[int]] = {}
    for i, nodes in enumerate(sets):
        for n in nodes:
            users.setdefault(n, set()).add(i)
    ends = {x for n, its in users.items() for x in n.src if len(its) == 1 and len(users.get(x, its)) > 1}
    held = max(len(bodies), len(ends)) * prod(bodies[0].copies.values())
    return max(0.0, held - s.target.registers)


@dataclass(frozen=True, slots=True)
class StoreWork:
    """Stores of a body, the instructions that bring their lanes in order, and the cycles that they wait."""

    stores: float
    arith: float = 0.0
    waits: float = 0.0


def stored(body: Body) -> StoreWork:
    """The stores of a body, nothing for one that stores nothing."""
    s, nest, lane = body.scheduled, body.nest, body.lane
    copies = float(prod(body.copies.values()))
    if nest.store is None:
        return StoreWork(copies if nest.kind in ("point", "scan") else 0.0)
    stride = stride_of(s, nest, "", nest.indices, nest.store.buffer.shape, lane) if lane is not None else 0
    step = interleaved_step(s, nest, lane) if lane is not None else None
    if step is None:
        stores = copies * (body.width if lane is not None and stride != 1 else 1.0)
        return StoreWork(stores, 0.0, stores * _waits(body))
    return StoreWork(copies * rows(step, body.width), copies * shuffles(step, body.width), copies * rows(step, body.width) * _waits(body))


def _waits(body: Body) -> float:
    """Cycles that a point of a scatter waits for one shortly before it that wrote to the same place: the more often, the fewer places
    there are, and copies of the output there are none of."""
    store = body.nest.store
    if store is None or not scatter_ordered(store):
        return 0.0
    each = [(ix.upper(d), i.op == "axis") for d, i in zip(store.buffer.shape, store.indices, strict=True)]
    free = all(axis for _, axis in each)  # (nothing decides where: a point is written again after all others have been)
    places = prod(d for d, axis in each if free or not axis)
    return body.core.latency * min(1.0, body.core.met / max(1, places))
