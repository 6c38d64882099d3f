"""The analytic model: seconds for a schedule, good enough to rank candidates before anything is built.

For each nest the instructions of its innermost body are counted exactly as lowering will emit them (each expression once
for each assignment of the register parts it varies with), and set against issue width, load ports, the latency of
accumulator chains and the register file. Memory traffic follows Wolf & Lam's reuse argument: at each cache level, the
outermost loop whose working set fits is the one whose data is fetched once. The larger of compute and traffic counts."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from math import gcd
from typing import Protocol

from ...ir import index as ix
from ...ir.body import Scan
from ...ir.buffer import load_parts
from ...ir.dtypes import index
from ...ir.node import Node, axes_of, walk
from ...opts.axis_plan import Part
from ...opts.fold_tiles import share as share_run
from ...opts.nests import FoldItem, Nest
from ...opts.options.fetch import fetches
from ...opts.pages import copy_cycles, is_far, jump_cycles
from ...opts.plans import StagePlan
from ...opts.schedule import Scheduled
from ...opts.strides import picked, strides
from ...opts.strides import stride as stride_of
from .dots import dot_work, weave
from .gpu import estimate_gpu
from .own import owned_work

CLOCK = 3.0e9
"""Cycles a second the model assumes; only ratios matter for ranking."""
POLYNOMIAL = {"exp": 16, "log": 20, "tanh": 26, "erf": 26}
"""Vector instructions of an elementary function."""
SLOW = {"div": 8.0, "sqrt": 10.0}
FMA_LATENCY = 4
ISSUE = 3.1
"""Instructions a cycle that are reached in practice."""
L2_BYTES, L3_BYTES, DRAM_BYTES = 32.0, 12.0, 4.0
"""Bytes a cycle into the next inner level, one core."""
WAKE = 4e-5
"""Seconds to wake a cold pool."""


class Bandwidth(Protocol):
    """What the model asks of a device's measured limits."""

    def bandwidth(self, threads: int, nt: bool = False) -> float:
        """Bytes a second of a streaming kernel."""
        ...


def estimate(scheduled: Scheduled, threads: int = 1, limits: Bandwidth | None = None) -> float:
    """Predicted seconds on `threads` threads. Symbolic extents count with their upper bounds."""
    if scheduled.target.kind == "gpu":
        return estimate_gpu(scheduled)
    if scheduled.phases:
        return sum(estimate(p, threads, limits) for p in scheduled.phases)
    dram = DRAM_BYTES
    if limits is not None:
        dram = limits.bandwidth(1) / CLOCK
    tasks = 1
    for p in scheduled.grid:
        tasks *= p.trips
    threads = max(1, min(threads, tasks))
    dram /= max(1.0, 0.75 * threads)
    rounds = -(-tasks // threads)
    whole = 1.0  # of an axis that does not divide, the last item is a small one, but the others take a round each
    for p in scheduled.grid:
        whole *= min(p.trips, p.axis.arg.extent / p.stride) if isinstance(p.axis.arg.extent, int) and p.axis.arg.extent else p.trips
    share = rounds / whole
    total = 0.0
    run = {n.name: part for i in scheduled.items if isinstance(i, FoldItem) for part in (share_run(scheduled, i),) for n in i.nests}
    warm: set[str] = set()
    for nest in scheduled.nests:
        compute = _compute(scheduled, nest)
        if nest.kind == "store" and nest.store is not None and nest.store.own is not None:
            compute, memory = owned_work(scheduled, nest, compute, L3_BYTES, dram)
        else:
            memory = _traffic(scheduled, nest, dram, warm)
        total += (max(compute, memory) + 0.2 * min(compute, memory)) * run.get(nest.name, 1.0)
        warm |= {load_parts(n)[0].name for n in walk(*nest.roots) if n.op == "load"}
    total += sum(_stage(scheduled, name, dram) for name in scheduled.stages)
    return total * share / CLOCK + (WAKE if threads > 1 else 0.0) + tasks * 5e-8


def _trips(parts: Iterable[Part]) -> float:
    out = 1.0
    for p in parts:
        if p.clip and isinstance(p.size, int) and isinstance(p.axis.arg.extent, int) and p.axis.arg.extent:
            blocks = p.axis.arg.extent / (p.stride * p.size)
            out *= p.size * blocks / max(1.0, -(-p.axis.arg.extent // (p.stride * p.size)))
        else:
            out *= p.trips
    return max(out, 1.0)


def _compute(s: Scheduled, nest: Nest) -> float:
    """Cycles of a nest on one core, data in L1."""
    regs = s.registers(nest)
    found = s.lanes(nest)
    lane, width = found.lane, found.width
    copies = {p.name: p.trips // width if p is lane else p.trips for p in regs}

    def times(node: Node) -> int:
        axes = axes_of(node)
        out = 1
        for p in regs:
            if p.axis in axes:
                out *= copies[p.name]
        return out

    ports = 2.0
    arith = loads = 0.0
    latency: float = FMA_LATENCY
    roots = [*nest.evaluated]
    dot = s.dots.get(nest.name)
    if dot is not None:
        copies |= {p.name: 1 for p in regs if p.kind == "dot"}
        roots, latency = [], dot.row.latency
        arith, loads = dot_work(s, nest, dot, copies)
    for n in _evaluated(s, nest, roots):
        k = times(n)
        if n.op == "load":
            buffer, indices, mask = load_parts(n)
            stride = stride_of(s, nest, buffer.name, indices, buffer.shape, lane) if lane is not None else 0
            gathered = stride is None or stride not in (0, 1)
            step = picked(s, nest, n, lane) if lane is not None else None
            if step is not None:
                loads, arith, gathered = loads + k * (step - 1), arith + k * (step - 1), False
            if gathered and any(p is not lane and p.trips % 4 == 0 and stride_of(s, nest, buffer.name, indices, buffer.shape, p) == 1 for p in regs):
                arith, gathered = arith + 4 * k, False  # read along that part, and turned
            if _apart(s, indices, lane, regs) > 8:  # copies that are held inside an extent have an address each, more than there are registers for
                k *= 2
            loads += k * (width * (2.4 if mask is None else 5.0) if gathered else 1.0) * _aliasing(
                s, nest, buffer.name, indices, buffer.shape, buffer.dtype.size, regs, lane
            ) + (k * (0.5 if lane is not None else 8.0) if mask is not None and buffer.name not in s.stages else 0)
        elif n.op in POLYNOMIAL:
            arith += k * POLYNOMIAL[n.op]
        elif n.op in ("lt", "le", "eq", "ne") and n.src[0].dtype is index:
            arith += k * (1.0 if lane is not None and lane.axis in axes_of(n) else 0.25)
        elif n.op in SLOW:
            arith += k * SLOW[n.op]
        elif not (n.op == "mul" and n is nest.expr and nest.kind == "reduce"):
            arith += k
    space = [p for p in regs if p.axis in nest.axes]
    partial = [p for p in regs if p.axis in nest.reduce_axes and p.kind == "upcast"]
    accs = _product(copies[p.name] for p in [*space, *partial])
    unroll = _product(copies[p.name] for p in regs if p.kind == "unroll")
    steps = accs * unroll
    stores = 0.0
    if nest.kind == "reduce":
        arith += steps if dot is None else steps * ports / dot.row.rate
        loops = s.loops(nest)
        inner = [p for p in loops if p.axis in nest.reduce_axes or p.kind == "fold"]
        last_spatial = max((i for i, p in enumerate(loops) if p.axis in nest.axes), default=-1)
        rest = loops[last_spatial + 1 :]
        # a matrix instruction reads its panel from memory
        live = accs + (
            sum(copies[p.name] for p in space if p is lane) + 1
            if dot is None
            else 3 + (dot.row.halves - 1) * (2 + _product(copies[p.name] for p in space if p is lane))
        )
        if unroll > 1 and dot is None and _slides(s, nest, regs, lane):  # what one step reads is read again by the next, and kept
            live += (unroll - 1) * _product(copies[p.name] for p in space if p is lane) // 2
        # each spilled accumulator is stored and loaded again, in the middle of its chain; where steps are spelled out, the compiler moves the loads of
        # one before the last products of another, and then about all of them are spilled as soon as the file is nearly full
        over = max(0, live - (s.target.registers - s.target.registers // 32 * 2))
        spill = max(1.5 * over, accs if over and unroll > 1 else 0.0)
        once = accs * (2.0 if any(p in inner for p in loops[: last_spatial + 1]) else 1.0) + (
            3 * (width.bit_length()) * _product(copies[p.name] for p in space) if lane is not None and lane in partial else 0
        )
        body = max(arith / ports, loads / 2.0, latency * unroll, (arith + loads + 2) / ISSUE) + spill * unroll
        body += 0.4 if body < 8 else 0.0
        cycles = _trips(rest) * body + once + 4
        outer = _trips(loops[: last_spatial + 1])
        return outer * cycles
    if nest.store is not None:
        stride = dict(enumerate(x for x, w in (strides(s, nest, lane) if lane is not None else []) if w == 2.0)).get(0, 0)
        stores = _product(copies.values()) * (width if lane is not None and stride != 1 else 1.0)
    elif nest.kind in ("point", "scan"):
        stores = _product(copies.values())
    chain = 1.0
    if nest.value is not None and isinstance(nest.value.expr, Scan):
        # the value carried from one vector or element to the next; a vector of prefixes takes a shift and a combination for each doubling
        axis = nest.value.expr.axis
        chain = FMA_LATENCY * _product(copies[p.name] for p in regs if p.axis is axis)
        arith += stores * (2 * (width.bit_length() - 1) + 2 if lane is not None and lane.axis is axis else 0)
    body = max(arith / ports, loads / 2.0, stores, (arith + loads + stores + 2) / ISSUE, chain)
    return _trips(s.loops(nest)) * (body + 0.4)


def _slides(s: Scheduled, nest: Nest, regs: list[Part], lane: Part | None) -> bool:
    """Whether steps that are spelled out read what other copies read one step before."""
    steps, copies = [p.var for p in regs if p.kind == "unroll"], [p.var for p in regs if p.kind == "upcast" and p is not lane]
    found = [ix.parts(s.at_parts(i))[0] for n in walk(*nest.evaluated) if n.op == "load" for i in load_parts(n)[1]]
    return any(terms.get(u) and terms.get(u) == terms.get(c) for terms in found for u in steps for c in copies)


def _apart(s: Scheduled, indices: tuple[Node, ...], lane: Part | None, regs: list[Part]) -> int:
    """How many addresses an access takes where register copies, other than lanes, reach past an extent that is not known (whole steps of others are apart)."""
    symbolic = [p for p in regs if p is not lane and s.plans[p.axis].masked and (s.target.groups or not isinstance(s.plans[p.axis].extent, int))]
    return _product(p.trips for p in symbolic if p.axis in axes_of(*indices))


def _evaluated(s: Scheduled, nest: Nest, roots: list[Node]) -> list[Node]:
    """The nodes that cost an instruction: not indices, nor the masks of staged tiles."""
    out: dict[Node, None] = {}
    stack = [r for r in roots if r.dtype is not index]
    while stack:
        n = stack.pop()
        if n in out or n.op in ("const", "axis", "sym", "ref") or (n.dtype is index and n.op in ("sum", "prod", "div", "mod", "min", "max")):
            continue
        out[n] = None
        if n.op == "load":
            buffer, _, mask = load_parts(n)
            if mask is not None and buffer.name not in s.stages:
                stack.append(mask)
        elif not (n.op in ("lt", "le", "eq", "ne") and n.src[0].dtype is index):
            stack.extend(n.src)
    return list(out)


def _aliasing(
    s: Scheduled, nest: Nest, name: str, indices: tuple[Node, ...], shape: tuple[int | Node, ...], size: int, regs: list[Part], lane: Part | None
) -> float:
    """How much dearer loads become when register copies read rows of a pitch that maps them to few sets of the L1."""
    if name in s.stages:
        return 1.0
    worst = 1.0
    ways = max(4, s.target.l1 // 4096)
    for p in regs:
        if p is lane or p.kind != "upcast":
            continue
        pitch = (stride_of(s, nest, name, indices, shape, p) or 0) * size
        if pitch >= 512:
            sets = 4096 // gcd(pitch, 4096)
            if p.trips / sets > ways - 2:
                worst = max(worst, 1.0 + 0.15 * (p.trips / sets - ways + 2))
    return worst


def _product(xs: Iterable[int]) -> int:
    out = 1
    for x in xs:
        out *= x
    return out


def _footprint(s: Scheduled, indices: tuple[Node, ...], shape: tuple[int | Node, ...], inner: set[str], size: int) -> tuple[float, float]:
    """(bytes touched in whole lines, elements) of an access inside a set of parts."""
    elements, contiguous = 1.0, 1.0
    for d, i in enumerate(indices):
        reach = 1.0
        for p in {q.name: q for a in axes_of(i) if a in s.plans for q in s.plans[a].parts}.values():
            if p.name in inner:
                k = abs(ix.parts(s.at_parts(i))[0].get(p.var, 1))
                reach += k * (p.trips - 1) if k < 1 << 20 else 0
        full = shape[d]
        reach = min(reach, float(full if isinstance(full, int) else ix.bounds(full)[1]))
        elements *= max(1.0, reach)
        if d == len(indices) - 1:
            contiguous = max(1.0, reach)
    line = max(64.0, contiguous * size)
    return elements / contiguous * line, elements


def _traffic(s: Scheduled, nest: Nest, dram: float, warm: Collection[str] = ()) -> float:
    """Cycles to bring a nest's data through the caches. What earlier nests of a work item read (`warm`) is not fetched again where it fits the second cache."""
    loops = s.loops(nest)
    regs = {p.name for p in s.registers(nest)}
    item = regs | {p.name for p in loops if p.kind != "grid"}
    uses: list[tuple[tuple[Node, ...], tuple[int | Node, ...], int, bool]] = []
    near: list[bool] = []
    for n in walk(*nest.roots):
        if n.op == "load":
            buffer, indices, _ = load_parts(n)
            if buffer.name not in s.stages:
                uses.append((indices, buffer.shape, buffer.dtype.size, False))
                near.append(
                    buffer.name in s.marked("FETCH")
                    or (buffer.name in warm and _footprint(s, indices, buffer.shape, item, buffer.dtype.size)[0] <= 0.5 * s.target.l2)
                )
    asked = 0.0
    if nest.store is not None and nest.store.buffer.name in s.nt:  # past the caches: written once, and not read before
        asked += (
            _footprint(s, nest.indices, nest.store.buffer.shape, item, nest.store.buffer.dtype.size)[0] * _trips([p for p in loops if p.kind == "grid"]) / dram
        )
    elif nest.store is not None:
        uses.append((nest.indices, nest.store.buffer.shape, nest.store.buffer.dtype.size, True))
        near.append(nest.store.buffer.name in s.marked("FETCH"))
    for f in fetches(s).get(nest.name, ()):
        row = _footprint(s, f.indices, f.buffer.shape, item, f.buffer.dtype.size)[0]
        asked += (1 if f.later else 2) * row * _trips([p for p in loops if p.kind == "grid"]) / dram
    held_here = [st for st in s.stages.values() if any(n is nest for n in st.nests)]
    staged, panels = [st for st in held_here if not st.once], [st for st in held_here if st.once]
    sizes = [(s.target.l1, L2_BYTES), (s.target.l2, L3_BYTES), (max(s.target.l3, s.target.l2), dram)]
    prints = []
    for depth in range(len(loops) + 1):
        inner = regs | {p.name for p in loops[depth:]}
        per = [_footprint(s, i, sh, inner, sz)[0] * (2 if st else 1) for i, sh, sz, st in uses] + [_staged_inside(st, inner) for st in panels]
        held = sum(_staged_inside(st, inner) for st in staged)
        prints.append((per, held))
    near += [not is_far(s.target, st.buffer.shape, st.buffer.dtype.size) for st in panels]
    cycles = 0.0
    for capacity, rate in sizes:
        fits = next((d for d, (per, held) in enumerate(prints) if sum(per) + held <= 0.8 * capacity), len(loops))
        # the loop around the working set that fits streams its data once; loops further out fetch it again
        depth = max(fits - 1, 0)
        per, held = prints[depth]
        far = capacity == sizes[-1][0]
        cycles += (sum(p for p, n in zip(per, near) if not (far and n)) + (0.0 if far else held)) * _trips(loops[:depth]) / rate
    return cycles + asked + sum(jump_cycles(s, nest, (shape, size), indices) for (indices, shape, size, _), n in zip(uses, near) if not n)


def _staged_inside(stage: StagePlan, inner: set[str]) -> float:
    """Bytes of a staged tile that the loops inside `inner` touch."""
    if stage.order == "panel":
        return float(_product(p.trips for p, _ in stage.parts if p.name in inner) * stage.buffer.dtype.size)
    size = float(stage.buffer.dtype.size)
    for d, _, extent, _ in stage.box:
        terms, _ = ix.parts(stage.index[d])
        reach = 1 + sum(abs(k) * (t.arg.extent - 1) for t, k in terms.items() if t.op == "axis" and t.arg.name in inner and isinstance(t.arg.extent, int))
        size *= min(extent, reach)
    return size


def _stage(s: Scheduled, name: str, dram: float) -> float:
    """Cycles spent copying a staged tile, every time its loop comes round."""
    plan = s.stages[name]
    if plan.once:
        return 0.0
    nest = plan.nests[0]
    loops = s.loops(nest)
    names = [p.name for p in loops]
    around = loops[: names.index(plan.at.name) + 1] if plan.at.kind != "grid" else [p for p in loops if p.kind == "grid"]
    fills = _trips(around)
    consecutive = True
    if plan.order == "panel" and plan.parts:
        last = plan.parts[-1][0]
        consecutive = ix.parts(plan.index[-1])[0].get(last.var) == 1
    lanes = s.target.lanes(plan.dtype) if consecutive else 1.0
    woven = weave(s, plan)
    per = plan.elements / lanes * (1.5 if consecutive else 1.3) if woven is None else plan.elements * woven
    far = plan.bytes / (dram if is_far(s.target, plan.buffer.shape, plan.buffer.dtype.size) else L3_BYTES)
    return fills * max(per, far) + copy_cycles(s, plan, around)
