"""Cycles that a nest computes on one core, with its data in the first cache."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from math import gcd, prod

from ...ir import index as ix
from ...ir.buffer import Buffer, load_parts
from ...ir.dtypes import index
from ...ir.node import Node, axes_of
from ...ir.op_names import COMPARE
from ...opts.analysis.neighbours import joined
from ...opts.analysis.thresholds import holds_inside
from ...opts.analysis.triangles import masks
from ...opts.axis_plan import Part
from ...opts.nests import Nest, scatter_ordered
from ...opts.plans import DotPlan
from ...opts.schedule import Scheduled
from ...opts.strides import grouped, picked, rows, shuffles, turns, weaves
from ...opts.strides import stride as stride_of
from ..machine import Core, MachineModel
from .alike import times_computed
from .dots import dot_work
from .evaluated import added, evaluated
from .extremes import beside, slow_work
from .scans import scan_work
from .shifted import vectors_loaded
from .trips import trips, unforeseen
from .windows import window_work


@dataclass(frozen=True, slots=True)
class Body:
    """The innermost body of a nest: its register parts, how many copies each makes (of whole vectors along the lanes), and the lanes."""

    scheduled: Scheduled
    nest: Nest
    machine: MachineModel
    regs: tuple[Part, ...]
    lane: Part | None
    width: int
    copies: Mapping[str, int]
    dot: DotPlan | None

    @property
    def core(self) -> Core:
        """What instructions cost."""
        return self.machine.core

    def times(self, node: Node) -> int:
        """How often `node` is computed: once for each assignment of the register parts it varies with."""
        axes = axes_of(node)
        return prod(self.copies[p.name] for p in self.regs if p.axis in axes)

    def parts(self, kind: str) -> list[Part]:
        """The register parts of one kind."""
        return [p for p in self.regs if p.kind == kind]

    def count(self, parts: Sequence[Part]) -> int:
        """The copies that some register parts make together."""
        return prod(self.copies[p.name] for p in parts)

    def stride(self, buffer: Buffer, indices: tuple[Node, ...], part: Part) -> int | None:
        """The element stride of a load along `part`."""
        return stride_of(self.scheduled, self.nest, buffer.name, indices, buffer.shape, part)


@dataclass(frozen=True, slots=True)
class BodyWork:
    """Instructions of a body."""

    arith: float
    loads: float
    latency: float


def compute_cycles(s: Scheduled, nest: Nest, machine: MachineModel) -> float:
    """Cycles of a nest on one core, over all its iterations, data in L1. Reductions in one loop count with the first of them."""
    group = s.together(nest)
    if nest is not group[0]:
        return 0.0
    body = _body(s, nest, machine)
    work = _work(body)
    if nest.kind != "reduce":
        return _pointwise(body, work)
    known = set(evaluated(s, nest, [*nest.evaluated])) if len(group) > 1 else set()
    for other in group[1:]:
        more = _work(_body(s, other, machine), known)
        work = BodyWork(work.arith + more.arith, work.loads + more.loads, work.latency)
        known |= set(evaluated(s, other, [*other.evaluated]))
    return _reduction(body, work, group)


def accumulators(s: Scheduled, nest: Nest, machine: MachineModel) -> int:
    """Vectors (or numbers, without lanes) in which the sums of a nest are, and of those in the same loop."""
    return sum(b.count([p for p in b.regs if p.kind != "unroll"]) for n in s.together(nest) for b in (_body(s, n, machine),))


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
    arith = loads = 0.0
    latency: float = core.latency
    roots = [*nest.evaluated]
    if body.dot is not None:
        roots, latency = [], body.dot.row.latency
        arith, loads = dot_work(s, nest, body.dot, body.copies, body.machine.dots)
    twos = nest.kind == "reduce" and body.dot is None and joined(s, nest, body.lane, body.width)
    shifted = vectors_loaded(s, nest, body.regs, body.copies, (body.lane, body.width))
    loads += sum(k for n, k in shifted.items() if n.op == "ref")
    nodes = evaluated(s, nest, roots)
    shifted |= times_computed(s, nest, nodes, body.regs, body.copies, body.lane) if shifted else {}
    known = {*known, *masks(s, nest)}
    for n in nodes:
        if n in known:
            continue
        k = shifted.get(n, body.times(n))
        if twos and n.op in ("load", "cast"):
            loads += k / core.neighbours if n.op == "load" else 0.0  # two vectors by one load, and nothing is widened
        elif n.op == "load":
            more_arith, more_loads = _load(body, n, k, loads)
            arith, loads = arith + more_arith, more_loads
        elif (slow := slow_work(n, s.target, core)) is not None:
            arith += k * slow
        elif n.op in COMPARE and n.src[0].dtype is index:
            arith += k * (core.compared if body.lane is not None and body.lane.axis in axes_of(n) else core.compared_once)
        elif not (n.op == "mul" and n is nest.expr and nest.kind == "reduce"):
            arith += k
        elif n.dtype.is_int and not twos:
            arith += k * core.whole_product * (core.wide_product if s.target.vector_bytes > core.shared_product else 1)
    return BodyWork(arith, loads, latency)


def _load(body: Body, n: Node, k: int, loads: float) -> tuple[float, float]:
    """(arithmetic that a load of `k` vectors takes, `loads` with what it adds)."""
    s, core, lane, arith = body.scheduled, body.core, body.lane, 0.0
    buffer, indices, mask = load_parts(n)
    if mask is not None and holds_inside(s, body.nest, mask):
        mask = None
    stride = body.stride(buffer, indices, lane) if lane is not None else 0
    gathered = stride is None or stride not in (0, 1)
    step = picked(s, body.nest, n, lane) if lane is not None else None
    if step is not None:
        # what other components of the same groups load as well is loaded once
        more = (rows(step, body.width) - 1, shuffles(step, body.width)) if _from_groups(body, n, lane, step) else (step - 1, step - 1)
        loads, arith, gathered = loads + k * more[0], arith + k * more[1], False
    if gathered and any(p is not lane and p.trips % core.transposed_block == 0 and body.stride(buffer, indices, p) == 1 for p in body.regs):
        arith, gathered = arith + core.transposed * k, False  # read along that part, and transposed
    # copies held inside an extent have an address each: if there are more than registers for them, they are computed again
    k *= core.recomputed if _apart(body, indices) > core.addresses else 1
    each = body.width * (core.gathered if mask is None else core.gathered_masked) if gathered else 1.0
    masked = mask is not None and buffer.name not in s.stages
    mask_cost = core.masked_vector if lane is not None else core.masked_scalar
    return arith, loads + k * each * _aliasing(body, buffer, indices) + (k * mask_cost if masked else 0)


def _from_groups(body: Body, n: Node, lane: Part | None, step: int) -> bool:
    """Whether a load picks one component of groups whose others are loaded as well, or turns them."""
    buffer = load_parts(n)[0]
    return turns(step, buffer.dtype.size) or (grouped(buffer.shape, step) and _components(body, n, lane))


def _components(body: Body, n: Node, lane: Part | None) -> bool:
    """Whether a body reads other components of the groups that a load picks one of: by another load, or by copies beside it."""
    buffer, indices, _ = load_parts(n)
    beside = any(p is not lane and p.trips > 1 and body.stride(buffer, indices, p) == 1 for p in body.regs)
    return beside or any(m is not n and load_parts(m)[0] is buffer for m in body.nest.loads)


def _reduction(body: Body, work: BodyWork, group: Sequence[Nest]) -> float:
    """Cycles of a reduction, or of several of a `group` in one loop: the innermost loops over its axes, and what is done around them."""
    s, nest, core, dot, lane, arith = body.scheduled, body.nest, body.core, body.dot, body.lane, work.arith
    together = len(group)
    space = [p for p in body.regs if p.axis in nest.axes]
    partial = [p for p in body.parts("upcast") if p.axis in nest.reduce_axes]
    accs, unroll = together * body.count([*space, *partial]), body.count(body.parts("unroll"))
    steps = accs * unroll
    arith += steps if dot is None else steps * core.ports / dot.row.rate
    compared, flags = beside(s, core, group, steps // together, body.count(space))
    windows = [window_work(s, n, body.regs, body.copies, (lane, body.width)) for n in group] if dot is None else [None]
    if None in windows:
        arith += compared
    else:
        arith, flags, unroll = arith - steps + sum(w for w in windows if w is not None), 0, 1
    loops = s.loops(nest)
    inner = [p for p in loops if p.axis in nest.reduce_axes or p.kind == "fold"]
    last_spatial = max((i for i, p in enumerate(loops) if p.axis in nest.axes), default=-1)
    rest = loops[last_spatial + 1 :]
    visits = core.revisited if any(p in inner for p in loops[: last_spatial + 1]) else 1.0
    combined = core.combined if nest.expr.dtype.is_float else core.combined_whole
    halvings = together * combined * body.width.bit_length() * body.count(space) if lane is not None and lane in partial else 0
    once = accs * visits + halvings
    # (without a loop, chains wait for nothing that was before: the processor has several bodies in sight)
    sight = max(1.0, core.window / max(1.0, (arith + work.loads) * trips(rest)))
    chain = work.latency * unroll / sight
    busy = max(arith / core.ports, work.loads / core.load_ports, chain, (arith + work.loads + core.overhead) / core.issue)
    plain = not inner and nest.expr.op == "load"  # what has no register is part of the instruction that uses it, in memory
    cycles = busy + (0.0 if plain else _spilled(body, space, accs + flags, unroll) * unroll)
    cycles += (core.branch if cycles < core.short else 0.0) + unroll * unforeseen(s, nest, core)
    return trips(loops[: last_spatial + 1]) * (trips(rest) * cycles + once + core.entry)


def _spilled(body: Body, space: list[Part], accs: int, unroll: int) -> float:
    """Cycles a step for accumulators that have no register: each is stored and loaded again, in the middle of its chain."""
    core, dots, registers = body.core, body.machine.dots, body.scheduled.target.registers
    lanes = [p for p in space if p is body.lane]
    if body.dot is None:
        reads = sum(body.copies[p.name] for p in lanes)  # (what no other copy reads is part of the instruction that uses it, or soon gone)
        live = accs + core.operands + (min(reads, 1) if body.count(space) == reads and added(body.nest) else reads)
    else:  # a matrix instruction reads its panel from memory
        live = accs + (dots.held + (body.dot.row.halves - 1) * (dots.narrow + body.count(lanes)))
    if unroll > 1 and body.dot is None and _slides(body):  # what one step reads is read again by the next, and kept
        live += (unroll - 1) * body.count(lanes) // core.overlap
    over = max(0, live - (registers - registers // core.large_file * core.spare_registers))
    # where steps are spelled out, the compiler moves the loads of one before the last products of another, and then
    # about all of them are spilled as soon as the file is nearly full
    return max(core.spill * over, core.spill_unrolled * accs if over and unroll > 1 else 0.0)


def _pointwise(body: Body, work: BodyWork) -> float:
    """Cycles of a nest that stores or keeps each element it computes."""
    s, nest, core, lane, arith = body.scheduled, body.nest, body.core, body.lane, work.arith
    stores, chain, waits = 0.0, 1.0, 0.0
    if nest.store is not None:
        stride = stride_of(s, nest, "", nest.indices, nest.store.buffer.shape, lane) if lane is not None else 0
        step = weaves(s, nest, lane) if lane is not None else None
        stores = prod(body.copies.values()) * (body.width if lane is not None and stride != 1 and step is None else 1.0)
        arith += stores * shuffles(step, body.width) if step is not None else 0.0
        stores *= rows(step, body.width) if step is not None else 1
        waits = stores * _waits(body)
    elif nest.kind in ("point", "scan"):
        stores = prod(body.copies.values())
    kept, loads = stores, work.loads
    if nest.kind == "scan":
        found = scan_work(s, nest, stores, body, core)
        arith, chain = arith + found.arith, found.chain
        loads, kept = loads + found.states, (0.0 if nest.name in s.tree.registers else stores) + found.states
    cycles = max(arith / core.ports, loads / core.load_ports, kept, (arith + loads + kept + core.overhead) / core.issue, chain)
    return trips(s.loops(nest)) * (cycles + core.branch + waits)


def _waits(body: Body) -> float:
    """Cycles that a point of a scatter waits for one shortly before it that wrote to the same place: the more often, the fewer places
    there are, and copies of the output there are none of."""
    store = body.nest.store
    if store is None or not scatter_ordered(store):
        return 0.0
    places = prod(ix.upper(d) for d, i in zip(store.buffer.shape, store.indices, strict=True) if i.op != "axis")
    return body.core.latency * min(1.0, body.core.met / max(1, places))


def _slides(body: Body) -> bool:
    """Whether steps that are spelled out read what other copies read one step before."""
    steps, copies = [p.var for p in body.parts("unroll")], [p.var for p in body.parts("upcast") if p is not body.lane]
    found = [body.scheduled.terms(i) for n in body.nest.loads for i in load_parts(n)[1]]
    return any(terms.get(u) and terms.get(u) == terms.get(c) for terms in found for u in steps for c in copies)


def _apart(body: Body, indices: tuple[Node, ...]) -> int:
    """How many addresses an access takes where register copies, other than lanes, reach past an extent that is not
    known (whole steps of others are apart)."""
    s = body.scheduled
    symbolic = [
        p
        for p in body.regs
        if p is not body.lane and s.plans[p.axis].masked and (s.target.groups or not isinstance(s.plans[p.axis].extent, int))
    ]
    return prod(p.trips for p in symbolic if p.axis in axes_of(*indices))


def _aliasing(body: Body, buffer: Buffer, indices: tuple[Node, ...]) -> float:
    """How much dearer loads become when register copies read rows of a pitch that maps them to few sets of the L1."""
    core = body.core
    if buffer.name in body.scheduled.stages:
        return 1.0
    worst = 1.0
    ways = max(core.ways, body.scheduled.target.l1 // core.set_span)
    for p in body.parts("upcast"):
        if p is body.lane:
            continue
        pitch = (body.stride(buffer, indices, p) or 0) * buffer.dtype.size
        if pitch >= core.spread:
            sets = core.set_span // gcd(pitch, core.set_span)
            if p.trips / sets > ways - core.spare_ways:
                worst = max(worst, 1.0 + core.conflict * (p.trips / sets - ways + core.spare_ways))
    return worst
