"""Cycles of the bodies that store or keep each element they compute."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import log2, prod

from ...ir import index as ix
from ...ir.node import Node
from ...opts.meeting import scatter_ordered
from ...opts.strides import rows, shuffles, weaves
from ...opts.strides import stride as stride_of
from .body import Body, BodyWork
from .evaluated import evaluated
from .scans import scan_work
from .trips import trips


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
    step = weaves(s, nest, lane) if lane is not None else None
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
