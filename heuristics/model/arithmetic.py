"""Cycles that a nest computes on one core, with its data in the first cache; those of matrix instructions too."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from math import prod

from ...ir import index as ix
from ...ir.dtypes import index
from ...ir.node import COMPARE, Node, axes_of
from ...opts.analysis.dot_instructions import GROUP, joined, scheduled_dot
from ...opts.analysis.ragged import masks, ragged_share
from ...opts.axis_plan import Part
from ...opts.nests import Nest
from ...opts.options.early_exit import early_exit
from ...opts.plans import DotPlan
from ...opts.schedule import Scheduled
from ..machine import Core, Dots, MachineModel
from .code_length import added, evaluated
from .loads import evicted, load_work, placed_by_data
from .loop_bodies import Body, BodyWork, one_body, trips, unforeseen
from .pointwise import StoreWork, pointwise, stored
from .shared_work import extreme_work, slow_work, times_computed, vectors_loaded, window_work


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
    shifted = {r.arg for r in nest.refs if r.src and lane is not None and _beside(r.src[-1], lane.axis)}
    out = 0.0
    for maker in (makers[name] for name in sorted(shifted) if name in makers and name not in s.tree.registers):
        mine, its = s.loops(nest), s.loops(maker)
        shared = next((d for d, (a, b) in enumerate(zip(mine, its, strict=False)) if a is not b), min(len(mine), len(its)))
        inside = trips(its[shared:]) * prod(p.trips for p in s.registers(maker)) / max(1, s.lanes(maker).width)
        if shared and inside <= core.on_their_way:
            out += core.stalled * trips(mine[:shared])
    return out


def _beside(i: Node, axis: Node) -> bool:
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
    for n in nodes:
        if n in known:
            continue
        k = shifted.get(n, body.times(n))
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
    steps = accs * unroll
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
