"""Cycles that a nest computes on one core, with its data in the first cache; those of matrix instructions too."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from math import log2, prod
from typing import Protocol

from ...ir import index as ix
from ...ir.body import Scan, tuple_scan
from ...ir.buffer import load_parts
from ...ir.dtypes import bool_, index
from ...ir.node import COMPARE, Node, axes_of, walk
from ...opts.access import interleaved_step, rows, shuffles
from ...opts.access import stride as stride_of
from ...opts.analysis.dot_instructions import GROUP, joined, scheduled_dot
from ...opts.analysis.ragged import masks, ragged_share
from ...opts.analysis.write_order import scatter_ordered
from ...opts.axis_plan import Part
from ...opts.nests import Nest
from ...opts.options.early_exit import early_exit
from ...opts.plans import DotPlan
from ...opts.schedule import Scheduled
from ..machine import Core, Dots, MachineModel
from .code_length import added, evaluated
from .loads import addresses, evicted, load_work, placed_by_data
from .loop_bodies import Body, BodyWork, one_body, trips, unforeseen
from .shared_work import extreme_work, slow_work, times_computed, vectors_loaded, window_work

# Bodies that store or keep each element they compute.

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
    return trips(s.loops(nest)) * (cycles * _lengthy(bodies[0], size) + core.spill * _spilled_results(bodies) + core.branch + waits)


def _lengthy(body: Body, size: float) -> float:
    """How much dearer the instructions of a body of so many are where vectors as long as a line have more copies than the processor needs
    to be busy: it sees no more than a part of them at a time, and compilers spill between them."""
    core = body.core
    if body.scheduled.target.vector_bytes < body.machine.caches.line or prod(body.copies.values()) <= core.load_ports:
        return 1.0
    return 1.0 + core.lengthy * max(0.0, log2(size / core.long_body))


def _spilled_results(bodies: Sequence[Body]) -> float:
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


# arithmetic -----------------------------------------------------------------------------------------------------------


def dot_work(s: Scheduled, nest: Nest, dot: DotPlan, copies: Mapping[str, int], costs: Dots) -> tuple[float, float]:
    """(arithmetic instructions but for the accumulating ones, loads) of the innermost body. `copies`: of each register part."""
    words, vectors = (_times(s, nest, x, copies) for x in (dot.a, dot.b))
    return words * costs.broadcast, words + vectors


def _times(s: Scheduled, nest: Nest, x: Node, copies: Mapping[str, int]) -> int:
    axes, out = axes_of(*x.src), 1
    for p in s.registers(nest):
        if p.axis in axes and p.kind != "dot":
            out *= copies[p.name]
    return out


# stalled ----------------------------------------------------------------------------------------------------
# What reads cost of vectors that were stored a moment ago, at other places: a load gets its bytes from one store that
# is on its way, or waits until all of them are in the first cache.


def stalled(s: Scheduled, nest: Nest, core: Core) -> float:
    """Cycles, over all its iterations, that a nest waits for short rows which another one has just kept for it, and which it reads shifted."""
    lane = s.lanes(nest).lane
    makers = {n.name: n for n in s.nests}
    shifted = {r.arg for r in nest.refs if r.src and lane is not None and _shifted(r.src[-1], lane.axis)}
    out = 0.0
    for maker in (makers[name] for name in sorted(shifted) if name in makers and name not in s.tree.registers):
        mine, its = s.loops(nest), s.loops(maker)
        shared = next((d for d, (a, b) in enumerate(zip(mine, its, strict=False)) if a is not b), min(len(mine), len(its)))
        inside = trips(its[shared:]) * prod(p.trips for p in s.registers(maker)) / max(1, s.lanes(maker).width)
        if shared and inside <= core.on_their_way:
            out += core.stalled * trips(mine[:shared])
    return out


def _shifted(i: Node, axis: Node) -> bool:
    """Whether an index goes along an axis, but not just where the axis goes."""
    return i is not axis and axis in axes_of(i)


# compute ----------------------------------------------------------------------------------------------------
def compute_cycles(s: Scheduled, nest: Nest, machine: MachineModel) -> float:
    """Cycles of a nest on one core, over all its iterations, data in L1. Reductions in one loop, and stores in it, count with the first."""
    group = s.together(nest) if nest.kind == "reduce" else one_body(s, nest)
    if nest is not group[0]:
        return 0.0
    body = _body(s, nest, machine)
    work = _work(body)
    known = set(evaluated(s, nest, [*nest.evaluated])) if len(group) > 1 else set()
    for other in group[1:]:
        more = _work(_body(s, other, machine), known)
        work = BodyWork(work.arith + more.arith, work.loads + more.loads, work.latency, work.shuffles + more.shuffles)
        known |= set(evaluated(s, other, [*other.evaluated]))
    if nest.kind == "reduce":
        done = [stored(_body(s, n, machine)) for n in group if n.store is not None]
        done += [StoreWork(float(body.times(e))) for e in nest.filled.values()]
        return _reduction(body, work, [n for n in group if n.store is None], done)
    return pointwise([_body(s, n, machine) for n in group], work) + sum(stalled(s, n, machine.core) for n in group)


def accumulators(s: Scheduled, nest: Nest, machine: MachineModel) -> int:
    """Vectors (or numbers, without lanes) in which the sums of a nest are, and of those in the same loop."""
    return sum(
        b.count([p for p in b.regs if p.kind != "unroll"]) for n in s.together(nest) if n.store is None for b in (_body(s, n, machine),)
    )


def _body(s: Scheduled, nest: Nest, machine: MachineModel) -> Body:
    regs = s.registers(nest)
    found = s.lanes(nest)
    lane, width = found.lane, found.width
    copies = {p.name: p.trips // width if p is lane else p.trips for p in regs}
    dot = s.dots.get(nest.name)
    if dot is not None:
        copies |= {p.name: 1 for p in regs if p.kind == "dot"}
    return Body(s, nest, machine, tuple(regs), lane, width, copies, dot)


def _work(body: Body, known: Collection[Node] = ()) -> BodyWork:
    """The instructions of a body but for a reduction's accumulating ones and stores, and for nodes that are `known` already."""
    s, nest, core = body.scheduled, body.nest, body.core
    arith = loads = shuffles = 0.0
    latency: float = core.latency
    roots = [*nest.evaluated]
    if body.dot is not None:
        roots, latency = [], body.dot.row.latency
        arith, loads = dot_work(s, nest, body.dot, body.copies, body.machine.dots)
    twos = nest.kind == "reduce" and body.dot is None and joined(s, nest, body.lane, body.width)
    fours = nest.kind == "reduce" and body.dot is None and scheduled_dot(s, nest, body.lane) is not None
    shifted = vectors_loaded(s, nest, body.regs, body.copies, (body.lane, body.width))
    loads += sum(k for n, k in shifted.items() if n.op == "ref")
    nodes = evaluated(s, nest, roots)
    shifted |= times_computed(s, nest, nodes, body.regs, body.copies, body.lane) if shifted else {}
    known = {*known, *masks(s, nest)}
    kept = body.kept()
    steps = {p.axis for p in s.loops(nest) if p.axis in nest.reduce_axes}
    for n in nodes:
        if n in known or (kept < 1.0 and n.dtype in (bool_, index) and axes_of(n).isdisjoint(steps)):
            continue  # (where copies are told apart, what is left of the masks is computed before the sum)
        k = shifted.get(n, body.times(n)) * (kept if n.op == "load" else 1.0)
        if fours and body.lane is not None and body.lane.axis in axes_of(n):  # a group at once, in bytes until it is added
            k = 0 if n.op == "cast" and n.src[0].op == "load" else -(-k * body.width // GROUP)
        if twos and n.op in ("load", "cast"):
            loads += k / core.neighbours if n.op == "load" else 0.0  # two vectors by one load, and nothing is widened
        elif n.op == "load":
            more_arith, more_loads = load_work(body, n, k, loads)
            arith, loads, shuffles = arith + more_arith, more_loads, shuffles + more_arith
        elif n.op == "ref":  # (data says which element)
            loads += k * (body.width * core.gathered if placed_by_data(body, n) else 1.0)
        elif (slow := slow_work(n, s.target, core)) is not None:
            arith += k * slow
        elif n.op in COMPARE and n.src[0].dtype is index:
            arith += k * (core.compared if body.lane is not None and body.lane.axis in axes_of(n) else core.compared_once)
        elif not (n.op == "mul" and n is nest.expr and nest.kind == "reduce"):
            arith += k
        elif n.dtype.is_int and not (twos or fours):
            arith += k * core.whole_product * (core.wide_product if s.target.vector_bytes > core.shared_product else 1)
    return BodyWork(arith, loads, latency, shuffles)


def _reduction(body: Body, work: BodyWork, group: Sequence[Nest], stored: Sequence[StoreWork]) -> float:
    """Cycles of a reduction, or of several of a `group` in one loop, and of what is `stored` there: the innermost loops over its axes, and what
    is done around them."""
    s, nest, core, dot, lane, arith = body.scheduled, body.nest, body.core, body.dot, body.lane, work.arith
    together, stores = len(group), sum(x.stores for x in stored)
    arith += sum(x.arith for x in stored)
    space = [p for p in body.regs if p.axis in nest.axes]
    partial = [p for p in body.parts("upcast") if p.axis in nest.reduce_axes]
    accs, unroll = together * body.count([*space, *partial]), body.count(body.parts("unroll"))
    steps = round(accs * unroll * body.kept())
    sums = steps + work.shuffles if dot is None else 0.0
    arith += steps if dot is None else steps * core.ports / dot.row.rate
    compared, flags = extreme_work(s, core, group, steps // together, body.count(space))
    windows = [window_work(s, n, body.regs, body.copies, (lane, body.width)) for n in group] if dot is None else [None]
    if None in windows:
        arith += compared
    else:
        arith, flags, unroll, sums = arith - steps + sum(w for w in windows if w is not None), 0, 1, 0.0
    loops = s.loops(nest)
    inner = [p for p in loops if p.axis in nest.reduce_axes or p.kind == "fold"]
    last_spatial = max((i for i, p in enumerate(loops) if p.axis in nest.axes), default=-1)
    rest = loops[last_spatial + 1 :]
    again = any(p in inner for p in loops[: last_spatial + 1])
    visits = core.revisited + core.across * _across_lines(body) if again else 1.0
    visits *= core.abreast if again and not rest and _abreast(body) else 1.0
    combined = core.combined if nest.expr.dtype.is_float else core.combined_whole
    halvings = together * combined * body.width.bit_length() * body.count(space) if lane is not None and lane in partial else 0
    once = accs * visits + halvings
    # (chains wait for nothing that was before: of short sums the processor has several in sight)
    sight = max(1.0, core.window / max(1.0, (arith + work.loads) * trips(rest) * ragged_share(s, nest)))
    chain = work.latency * unroll / sight
    issued = arith + work.loads - _broadcast(body, steps) + stores + core.overhead
    busy = max(arith / core.ports, sums * body.pieces / core.ports, work.loads / core.load_ports, stores, chain, issued / core.issue)
    plain = not inner and nest.expr.op == "load"  # what has no register is part of the instruction that uses it, in memory
    cycles = busy + (0.0 if plain else _spilled(body, space, accs + flags, unroll) * unroll)
    cycles += (core.branch if cycles < core.short or stored else 0.0) + unroll * unforeseen(s, nest, core)
    cycles += evicted(body) + (core.final if early_exit(s, nest) is not None else 0.0)
    hidden = trips(rest[-1:]) * cycles >= core.short  # (short inner loops are entered as often as those around them have iterations)
    entered = sum(trips(rest[:k]) for k in range(1 if hidden else max(1, len(rest)))) if rest or not again else 0
    return trips(loops[: last_spatial + 1]) * (trips(rest) * cycles + once + core.entry * entered)


def _abreast(body: Body) -> bool:
    """Whether long rows are gone through several vectors at a time: a line of each at a time, they are streams that the processor fetches ahead."""
    lane, size = body.lane, body.nest.expr.dtype.size
    return lane is not None and body.copies[lane.name] > 1 and ix.upper(lane.axis.arg.extent) * size >= body.machine.jumps.page


def _across_lines(body: Body) -> float:
    """The share of the vectors of an array of sums that lie across two lines, because its rows do not begin where lines do."""
    nest, lane = body.nest, body.lane
    if lane is None or lane.axis is not nest.axes[-1] or len(nest.axes) == 1 or not isinstance(lane.axis.arg.extent, int):
        return 0.0
    size = nest.expr.dtype.size
    return body.width * size / body.machine.caches.line if lane.axis.arg.extent * size % (body.width * size) else 0.0


def _broadcast(body: Body, steps: int) -> int:
    """The loads that are part of a product and its addition: of elements that one vector each is multiplied by, where these instructions
    broadcast what they read (AVX-512)."""
    nest, lane = body.nest, body.lane
    dtype = nest.expr.dtype
    if (
        body.dot is not None
        or lane is None
        or body.copies[lane.name] > 1
        or not dtype.is_float
        or not body.scheduled.target.broadcasts_operands
    ):
        return 0
    alike = (n for n in nest.loads if n.dtype is dtype and lane.axis not in axes_of(n) and body.times(n) == steps)
    return steps if next(alike, None) is not None else 0


def _spilled(body: Body, space: list[Part], accs: int, unroll: int) -> float:
    """Cycles a step for accumulators that have no register: each is stored and loaded again, in the middle of its chain."""
    core, dots, registers = body.core, body.machine.dots, body.scheduled.target.registers
    lanes = [p for p in space if p is body.lane]
    # a product has a register before it is added, where that is not one instruction
    apart = body.nest.expr.op == "mul" and body.nest.expr.dtype.is_float and "fma" not in body.scheduled.target.features
    if body.dot is None:
        reads = sum(body.copies[p.name] for p in lanes or _held(body, space))  # (what no other copy reads is soon gone, or in memory)
        product = (1 if unroll == 1 else core.products) if apart else 0
        live = accs + core.operands + product + (min(reads, 1) if body.count(space) == reads and added(body.nest) else reads)
    else:  # a matrix instruction reads its panel from memory
        live = accs + (dots.held + (body.dot.row.halves - 1) * (dots.narrow + body.count(lanes)))
    # (where elements that lanes share have more addresses than registers, those of several steps are read before the first is used)
    read = [(b, at) for b, at, _ in map(load_parts, body.nest.loads) if body.dot is None and unroll > 1]
    apiece = [addresses(body, b, at) for b, at in read]
    live += sum(unroll * n for n in apiece if n > 1 and unroll * n > core.addresses)
    large, spare = registers // core.large_file, core.spare_registers - body.scheduled.target.broadcasts_operands
    over = max(0, live - (registers - large * spare))
    # where steps are unrolled, the compiler moves the loads of one before the last products of another, and then
    # about all of them are spilled as soon as the file is nearly full
    hidden = large * (core.product_file - core.large_file) if all(x.op == "load" for x in body.nest.expr.src) else 0
    each = core.spill_apart * over if apart else core.spill * max(0, over - hidden)
    return max(each, core.spill_unrolled * accs if over and unroll > 1 else 0.0)


def _held(body: Body, space: list[Part]) -> list[Part]:
    """The inner ones of two axes of results whose vectors along a sum are read for every outer one."""
    order = body.nest.axes
    axes = sorted({p.axis for p in space if p.trips > 1}, key=order.index)
    along = body.lane is not None and body.lane.axis in body.nest.reduce_axes
    return [p for p in space if p.axis is axes[-1]] if along and len(axes) > 1 else []
