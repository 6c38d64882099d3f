"""The analytic model: seconds for a schedule, good enough to rank candidates before anything is built.

For each nest the instructions of its innermost body are counted exactly as lowering will emit them (`compute.py`:
each expression once for each assignment of the register parts it varies with), and set against issue width, load
ports, the latency of accumulator chains and the register file. Memory traffic (`traffic.py`) follows Wolf & Lam's
reuse argument: at each cache level, the outermost loop whose working set fits is the one whose data is fetched once. What fits a
cache with all its arrays is there from the call before.
The larger of compute and traffic counts. What anything costs is data: `machine.MachineModel`."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import takewhile
from math import inf, log, prod
from statistics import fmean

from ...ir import index as ix
from ...ir.buffer import Buffer, load_parts
from ...ir.node import Node, axes_of, ordered_axes, walk
from ...opts.access import stride
from ...opts.analysis.contractions import all_contractions
from ...opts.analysis.ragged import ragged_share, row_loops, triangle_share
from ...opts.axis_plan import Part
from ...opts.loop_tree import Folded, Shared, Single, Tree
from ...opts.loop_tree import share as share_run
from ...opts.memory_limits import buffer_bytes, is_far
from ...opts.nests import FoldItem, Nest
from ...opts.options.cache import prefetches
from ...opts.options.early_exit import early_exit
from ...opts.plans import StagePlan
from ...opts.schedule import Scheduled
from ..cache_sets import SetUse, set_use
from ..machine import DEFAULT, Bandwidth, Caches, Core, MachineModel, machine_of
from .arithmetic import compute_cycles
from .gpu.gpu_estimate import estimate_gpu
from .loads import copy_cycles, jump_cycles, turned
from .loop_bodies import one_body, trips
from .shared_work import kept_reads, kept_writes, together

# traffic ----------------------------------------------------------------------------------------------------
# Cycles to bring a nest's data through the caches, and to fill staged tiles.


# staged tiles -----------------------------------------------------------------------------------------------
# Tiles that are staged: the loops around the place where one is filled, and what of it some loops touch.


def loops_around(s: Scheduled, plan: StagePlan) -> list[Part]:
    """The loops around the place where a tile is filled."""
    loops = s.loops(plan.nests[0])
    names = [p.name for p in loops]
    return loops[: names.index(plan.at.name) + 1] if plan.at.kind != "grid" else [p for p in loops if p.kind == "grid"]


def bytes_inside(stage: StagePlan, inner: Collection[str]) -> float:
    """Bytes of a staged tile that the loops inside `inner` touch."""
    if stage.order == "panel":
        return float(prod(p.trips for p, _ in stage.parts if p.name in inner) * stage.buffer.dtype.size)
    size = float(stage.buffer.dtype.size)
    for d, _, extent, _ in stage.box:
        terms, _ = ix.parts(stage.index[d])
        reach = 1 + sum(
            abs(k) * (t.arg.extent - 1)
            for t, k in terms.items()
            if t.op == "axis" and t.arg.name in inner and isinstance(t.arg.extent, int)
        )
        size *= min(extent, reach)
    return size


# refetched --------------------------------------------------------------------------------------------------
# Rows whose lines meet in a set of the first cache, those that a nest stores among them.


def refetched(s: Scheduled, nest: Nest, accesses: Sequence[tuple[SetUse, bool]], machine: MachineModel) -> float:
    """Cycles to fetch again what one pass through a nest's registers reads and, where it is said so, stores, if these are more lines of
    one set than the first cache has ways. (Arrays begin at the same place in a page, as large ones do.)"""
    caches = machine.caches
    lines = met = 0.0
    rows = False
    for use, stored in accesses:
        rows |= use.lines > use.places
        met += use.lines / use.places
        lines += use.lines * (caches.written if stored else 1)
    if not rows or met <= s.target.l1 // machine.core.set_span:
        return 0.0
    return lines * caches.line / caches.l2 * trips(s.loops(nest))


# traffic ----------------------------------------------------------------------------------------------------
NONE: Mapping[str, Set[str]] = {}
"""Nothing was read before."""


@dataclass(frozen=True, slots=True)
class Use:
    """What a nest does with one buffer that is not staged. `near`: it is in the second cache already. `spread`: by how many elements
    reads that count as one differ in each dimension, which are in so many `rows`. `kept`: it is a value that this item keeps, which is in the
    nearest cache that holds it. `read`: bytes that another nest read in the same iteration of a loop, if one did."""

    buffer: Buffer
    indices: tuple[Node, ...]
    stored: bool
    near: bool
    spread: tuple[int, ...] = ()
    rows: int = 1
    kept: bool = False
    read: float = inf


@dataclass(frozen=True, slots=True)
class Traffic:
    """The memory side of the model for one schedule; `dram`: bytes a cycle from memory for one of the `threads` that run; `whole`: bytes of
    all arrays that a call touches."""

    scheduled: Scheduled
    machine: MachineModel
    dram: float
    whole: float = inf
    threads: int = 1
    _reaches: dict[tuple[Node, ...], list[list[tuple[str, float]]]] = field(default_factory=dict)

    def cycles(self, nest: Nest, warm: Mapping[str, Set[str]] = NONE) -> float:
        """Cycles to bring a nest's data through the caches, with that of the stores behind it in one body. What earlier nests of a work
        item read (`warm`: within an iteration of which loops) is not fetched again where it fits the second cache."""
        s = self.scheduled
        uses = list(self._accesses(nest, warm))
        body = one_body(s, nest)
        here = [st for st in s.stages.values() if any(n is m for n in st.nests for m in body)]
        staged, panels = [st for st in here if not st.once], [st for st in here if st.once]
        near = [u.near for u in uses] + [not is_far(s.target, st.buffer.shape, st.buffer.dtype.size) for st in panels]
        found = self._through_caches(nest, uses, staged, panels, near)
        gone, away = self.gone(s.target.l2), self.gone(self.last_cache)
        jumped = sum(
            jump_cycles(s, nest, (u.buffer.shape, u.buffer.dtype.size), u.indices, self.machine, gone=gone, away=away)
            for u in uses
            if not u.near
        )
        fetched = self._fetched(nest)  # (rows come beside what the caches hand on, as lines do that nobody asks for)
        least, most = sorted((found, fetched))
        return most + self.machine.caches.beside * least + self._passed(nest) + jumped

    @property
    def last_cache(self) -> float:
        """Bytes that the last cache keeps from one call to the next."""
        return self.machine.caches.last_cache(self.scheduled.target.l2, self.scheduled.target.l3)

    def gone(self, capacity: float) -> float:
        """The share of the call's data that a cache of so many bytes has lost when the next call begins."""
        return self.machine.caches.gone(self.whole if capacity == self.last_cache else self.whole / self.threads, capacity)

    @property
    def memory(self) -> float:
        """Bytes a cycle of arrays in memory, or in the last cache as far as they are there."""
        share = self.gone(self.last_cache)
        return 1.0 / (share / self.dram + (1.0 - share) / self.machine.caches.l3)

    def _item(self, nest: Nest) -> set[str]:
        """The parts inside one work item."""
        return {p.name for p in self.scheduled.registers(nest)} | {p.name for p in self.scheduled.loops(nest) if p.kind != "grid"}

    def _footprint(self, u: Use, inner: set[str]) -> float:
        """Bytes that an access touches inside a set of parts, in whole lines: all from the first of its rows to the last, or what each row
        touches alone where that is less."""
        whole = self._box(u.buffer, u.indices, inner, u.spread)
        if u.rows == 1:
            return whole
        return min(whole, u.rows * self._box(u.buffer, u.indices, inner, _along(u.spread)))

    def _box(self, buffer: Buffer, indices: tuple[Node, ...], inner: set[str], spread: tuple[int, ...] = ()) -> float:
        """The same of one access; `spread`: of accesses that differ by up to so much."""
        each = []
        for d, parts in enumerate(self._moves(indices)):
            reach = 1.0 + sum([r for name, r in parts if name in inner]) + (spread[d] if spread else 0)
            full = float(ix.upper(buffer.shape[d]))
            each.append((max(1.0, min(reach, full)), full))
        line = float(self.machine.caches.line)
        run = pitch = float(buffer.dtype.size)
        runs = 1.0
        for reach, full in reversed(each):
            if runs == 1 and pitch <= max(line, run):  # rows that share lines, or follow each other
                run += (reach - 1) * pitch
            else:
                runs *= reach
            pitch *= full
        return runs * max(line, run)

    def refetched(self, nest: Nest) -> float:
        """Cycles to fetch again what one pass through the registers of a nest that stores touches, where that is too many lines of a set."""
        if nest.kind != "store":
            return 0.0
        inner = {p.name for p in self.scheduled.registers(nest)}
        return refetched(self.scheduled, nest, [(self._sets(u, inner), u.stored) for u in self._accesses(nest, NONE)], self.machine)

    def _sets(self, u: Use, inner: set[str]) -> SetUse:
        """The sets of the first cache that an access touches inside some parts."""
        line, span = self.machine.caches.line, self.machine.core.set_span
        whole = set_use(0.0, self._steps(u, inner, u.spread), line, span)
        if u.rows == 1:
            return whole
        row = set_use(0.0, self._steps(u, inner, _along(u.spread)), line, span)
        return SetUse(min(whole.lines, u.rows * row.lines), min(whole.places, u.rows * row.places))

    def _steps(self, u: Use, inner: set[str], spread: tuple[int, ...]) -> list[tuple[float, float]]:
        """(stride, trips) in bytes by which an access is repeated inside some parts, in each dimension."""
        pitch, out = float(u.buffer.dtype.size), []
        for d in reversed(range(len(u.indices))):
            full = float(ix.upper(u.buffer.shape[d]))
            moved = sum(r for name, r in self._moves(u.indices)[d] if name in inner) + (spread[d] if spread else 0)
            out.append((pitch, max(1.0, min(1.0 + moved, full))))
            pitch *= full
        return out

    def _moves(self, indices: tuple[Node, ...]) -> list[list[tuple[str, float]]]:
        """How far each part moves each of some indices."""
        found = self._reaches.get(indices)
        if found is None:
            found = self._reaches[indices] = [self._reach(i) for i in indices]
        return found

    def _reach(self, i: Node) -> list[tuple[str, float]]:
        """How far each part moves an index."""
        s, out = self.scheduled, []
        for p in {q.name: q for a in ordered_axes(i) if a in s.plans for q in s.plans[a].parts}.values():
            linear = s.coefficient(i, p.var)
            k = 1 if linear is None else abs(linear)
            if k < self.machine.caches.unbounded:
                out.append((p.name, float(k * (p.trips - 1))))
        return out

    def _accesses(self, nest: Nest, warm: Mapping[str, Set[str]]) -> Iterator[Use]:
        """Loads and stores of buffers that are not staged, but for stores past the caches."""
        s, item, group = self.scheduled, self._item(nest), one_body(self.scheduled, nest)
        if nest is not group[0]:
            return
        # what a nest before has read is in the last cache at least, if that keeps it (operands of products are read many times anyway)
        streams = not all_contractions(s.kernel)
        filled = walk(*nest.filled.values()) if nest.kind == "reduce" else ()
        loads = (load_parts(n) for n in dict.fromkeys((*(n for m in group for n in m.nodes), *filled)) if n.op == "load")
        for x in together(s, ((b, indices) for b, indices, _ in loads if b.name not in s.stages)):
            use = Use(x.buffer, x.indices, False, x.buffer.name in s.prefetched, x.spread, x.rows)
            if x.buffer.name in warm:
                read = self._footprint(use, item - warm[x.buffer.name])
                near = streams and not is_far(s.target, x.buffer.shape, x.buffer.dtype.size)
                near = near or read <= self.machine.caches.warm * s.target.l2
                use = replace(use, near=use.near or near, read=read)
            yield use
        for x in together(s, dict.fromkeys(r for m in group for r in kept_reads(s, m))):
            yield Use(x.buffer, x.indices, False, True, x.spread, x.rows, kept=True)
        for buffer, indices in kept_writes(s, nest):
            yield Use(buffer, indices, True, True, kept=True)
        written = ((m.store.buffer, m.indices) for m in group if m.store is not None and not self._past(m))
        for x in together(s, written):
            yield Use(x.buffer, x.indices, True, x.buffer.name in s.prefetched, x.spread, x.rows)

    def asked(self, nest: Nest) -> float:
        """Cycles for what passes memory whatever the caches hold: stores past them, and rows that are prefetched."""
        return self._passed(nest) + self._fetched(nest)

    def _passed(self, nest: Nest) -> float:
        """Cycles for stores past the caches (written once, and not read before), and for asking for rows far apart."""
        s, item = self.scheduled, self._item(nest)
        items = trips([p for p in s.loops(nest) if p.kind == "grid"])
        asked = 0.0
        if nest.store is not None and self._past(nest):
            slower = self.machine.caches.pieces if self._in_pieces(nest) else 1.0
            asked += slower * self._box(nest.store.buffer, nest.indices, item) * items / (self.dram * self.machine.caches.past)
        for f in prefetches(s).get(nest.name, ()):
            if f.later:  # (rows of outputs are asked for one at a time or along with what is read)
                asked += jump_cycles(s, nest, (f.buffer.shape, f.buffer.dtype.size), f.indices, self.machine, asked=True)
        return asked

    def _fetched(self, nest: Nest) -> float:
        """Cycles for the rows that are prefetched in the loops of a nest."""
        s, item = self.scheduled, self._item(nest)
        items = trips([p for p in s.loops(nest) if p.kind == "grid"])
        rows = ((1 if f.later else self.machine.caches.written, f) for f in prefetches(s).get(nest.name, ()))
        return sum(k * self._box(f.buffer, f.indices, item) * items / self.memory for k, f in rows)

    def _past(self, nest: Nest) -> bool:
        """Whether a nest stores past the caches: only vectors that are known to be aligned are, so rows of any length are not."""
        s = self.scheduled
        if nest.store is None or nest.store.buffer.name not in s.nt:
            return False
        lane, size = s.lanes(nest).lane, nest.store.buffer.dtype.size
        steps = [p for p in (*s.loops(nest), *s.registers(nest)) if p is not lane]
        whole = (stride(s, nest, "", nest.indices, nest.store.buffer.shape, p) or 0 for p in steps)
        return lane is None or all(n * size % s.target.vector_bytes == 0 for n in whole)

    def _in_pieces(self, nest: Nest) -> bool:
        """Whether a nest stores pieces of lines, those of several rows in turns. (Of rows that begin anywhere in a line, each step ends
        within one. What several stores of one body compute comes a vector at a time, each to a row of its own.)"""
        s, line = self.scheduled, self.machine.caches.line
        assert nest.store is not None
        beside = sum(self._past(m) for m in one_body(s, nest))
        if s.target.vector_bytes < line and beside > self.machine.caches.open_lines - beside:  # (others have the rest)
            return True
        lane = s.lanes(nest).lane
        rows = [p for p in s.registers(nest) if (lane is None or p.axis is not lane.axis) and p.trips > 1]
        size = nest.expr.dtype.size * (1 if lane is None else lane.trips)
        pitches = [(stride(s, nest, "", nest.indices, nest.store.buffer.shape, p) or 0) * nest.store.buffer.dtype.size for p in rows]
        return bool(rows) and (bool(size % line) or any(pitch % line for pitch in pitches))

    def _through_caches(self, nest: Nest, uses: list[Use], staged: list[StagePlan], panels: list[StagePlan], near: list[bool]) -> float:
        """Cycles over all cache levels. `near`: which accesses, then which panels, are never fetched from memory."""
        s, caches = self.scheduled, self.machine.caches
        loops = s.loops(nest)
        regs = {p.name for p in s.registers(nest)}
        prints = []
        for depth in range(len(loops) + 1):
            inner = regs | {p.name for p in loops[depth:]}
            per = [self._footprint(u, inner) * (caches.written if u.stored else 1) for u in uses]
            per += [bytes_inside(st, inner) for st in panels]
            prints.append((per, sum(bytes_inside(st, inner) for st in staged)))
        sizes = [(float(s.target.l1), caches.l2), (float(s.target.l2), caches.l3), (self.last_cache, self.dram)]
        levels = []
        for capacity, rate in sizes:
            gone = self.gone(capacity)
            fits = next((d for d, (per, held) in enumerate(prints) if sum(per) + held <= caches.usable * capacity), len(loops))
            # the loop around the working set that fits streams its data once; loops further out fetch it again
            depth = max(fits - 1, 0)
            per, held = prints[depth]
            far = capacity == sizes[-1][0]
            # (what is kept and as large as the cache itself is gone where other data streams by)
            least = caches.usable * capacity
            room = least if sum(prints[0][0]) + prints[0][1] <= least else caches.warm * capacity
            here = [(u.kept and buffer_bytes(u.buffer.shape, u.buffer.dtype.size) <= room) or u.read <= room for u in uses]
            # (rows of outputs that were prefetched are in the second cache)
            here = [h or (u.stored and u.near and capacity > s.target.l1) for h, u in zip(here, uses, strict=True)] + [False] * len(panels)
            passed = sum(p for p, n, inside in zip(per, near, here) if not ((far and n) or inside))
            levels.append((gone * passed + (0.0 if far else held)) * trips(loops[:depth]) / rate)
        return max(levels) + caches.beside * (sum(levels) - max(levels))

    def stage_cycles(self, name: str) -> float:
        """Cycles spent copying a staged tile, every time its loop comes round."""
        s, caches = self.scheduled, self.machine.caches
        plan = s.stages[name]
        if plan.once:
            return 0.0
        around = loops_around(s, plan)
        consecutive = True
        if plan.order == "panel" and plan.parts:
            last = plan.parts[-1][0]
            consecutive = ix.parts(plan.index[-1])[0].get(last.var) == 1
        lanes = s.target.lanes(plan.dtype) if consecutive else 1.0
        if plan.order == "panel" and plan.parts and plan.parts[-1][0].kind == "dot":
            per = plan.elements * self.machine.dots.grouped / plan.parts[-1][0].trips
        else:
            across = caches.turned if turned(plan, self.machine.core.transposed_block) else caches.copied_across
            per = plan.elements / lanes * (caches.copied if consecutive else across)
        whole = buffer_bytes(plan.buffer.shape, plan.buffer.dtype.size)
        # (as what is not staged: the first time it comes from memory)
        once = trips(around) * plan.bytes - whole < whole and whole > s.target.l2
        far = plan.bytes / (self.memory if once or is_far(s.target, plan.buffer.shape, plan.buffer.dtype.size) else caches.l3)
        return trips(around) * max(per, far) + copy_cycles(s, plan, around, self.machine, self.gone(self.last_cache))


def _along(spread: tuple[int, ...]) -> tuple[int, ...]:
    """How far accesses of one row differ."""
    return (*[0] * (len(spread) - 1), *spread[-1:])


# warm -------------------------------------------------------------------------------------------------------
# What earlier nests of a work item left in the caches for later ones, and how long ago: within which loops.


Around = tuple[str, ...]
"""The loops around a nest that it shares with others, outer to inner, each with its number: loops of one name may open twice."""


@dataclass(eq=False)
class Warm:
    """The buffers that nests have read, in the order in which a work item runs them."""

    scheduled: Scheduled
    _read: dict[str, list[Around]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._around = {n.name: loops for n, loops in _around(self.scheduled.tree.items, ())}

    def add(self, nest: Nest) -> None:
        """Note what a nest reads."""
        for n in nest.nodes:
            if n.op == "load":
                self._read.setdefault(load_parts(n)[0].name, []).append(self._around.get(nest.name, ()))

    def since(self, nest: Nest) -> dict[str, frozenset[str]]:
        """The buffers that were read before a nest, each with the loops of which the last reader was in the same iteration."""
        here = self._around.get(nest.name, ())
        return {b: frozenset(n.split(" ")[0] for n in max((_common(here, o) for o in other), key=len)) for b, other in self._read.items()}


def _common(one: Around, two: Around) -> Around:
    return tuple(a for a, _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, two, strict=False)))


def _around(items: Sequence[Tree], loops: Around) -> Iterator[tuple[Nest, Around]]:
    for i, item in enumerate(items):
        if isinstance(item, Single):
            yield item.nest, loops
        elif isinstance(item, Shared):
            yield from _around(item.body, (*loops, f"{item.part.name} {i}"))
        elif isinstance(item, Folded):
            yield from _around(item.body, loops)
        else:
            yield from ((n, loops) for n in item.nests)


# own --------------------------------------------------------------------------------------------------------
# What a scatter into owned blocks costs in the analytic model: every item looks at every index, and one of the items
# does the work of a point.


def owned_work(s: Scheduled, nest: Nest, compute: float, dram: float, costs: Caches) -> tuple[float, float]:
    """(cycles of arithmetic, cycles of traffic) over all items, from the `compute` that every item would have if it
    did all points. `dram`: bytes a cycle from memory."""
    assert nest.store is not None and nest.store.own is not None and nest.mask is not None
    axis, d, rows = nest.store.own
    shape = [ix.upper(size) for size in nest.store.buffer.shape]
    blocks = axis.arg.extent
    read = 0.0
    for n in nest.nodes:
        if n.op == "load":
            buffer, indices, _ = load_parts(n)
            whole = prod(ix.upper(size) for size in buffer.shape) * buffer.dtype.size
            everyone = axes_of(*indices) <= axes_of(nest.mask)  # what decides; the rest is read by the item that adds it
            read += whole * (blocks if everyone else 1) / (costs.l3 if whole < s.target.l2 else dram)
    size = nest.store.buffer.dtype.size
    moved = float(costs.written) * size * prod(ix.upper(a.arg.extent) for a in nest.axes if a is not axis)
    near = costs.written * size * rows * prod(shape) // shape[d] <= s.target.l2 and nest.store.buffer.name not in s.nt
    return compute / blocks, read + moved / (costs.l3 if near else dram)


# early exits ------------------------------------------------------------------------------------------------
# The share of a reduction's elements before its results are known (`EARLY_EXIT`).


def early_exit_share(s: Scheduled, nest: Nest, core: Core) -> float:
    """The share that is computed: the more results share an iteration, the later the last of them is known (of values that are spread like
    waiting times, by the logarithm of how many there are)."""
    if early_exit(s, nest) is None:
        return 1.0
    results = prod(p.trips for p in s.registers(nest) if p.axis in nest.axes)
    return min(1.0, core.exited * (1.0 + log(results)))


# cpu --------------------------------------------------------------------------------------------------------
def estimate(scheduled: Scheduled, threads: int = 1, limits: Bandwidth | None = None, machine: MachineModel | None = None) -> float:
    """Predicted seconds on `threads` threads of `machine` (the one of the schedule's target), whose bandwidth is that of `limits` where given.
    Symbolic extents count with their upper bounds."""
    given, machine = machine, machine or _counted_as(scheduled.target.cpu)
    if scheduled.target.kind == "gpu":
        return estimate_gpu(scheduled, machine, limits)
    phases = scheduled.phases or (scheduled,)
    arrays = {b.name: buffer_bytes(b.shape, b.dtype.size) for p in phases for b in p.kernel.buffers}
    dram = machine.caches.dram if limits is None else limits.bandwidth(1) / machine.core.clock
    whole, total = float(sum(arrays.values())), 0.0
    asked = whole, threads, dram, given
    for p in phases:
        if (seconds := p.told.get(asked)) is None:
            seconds = p.told[asked] = _phase(p, whole, threads, dram, machine)
        total += seconds
    return total


_ITS_OWN = "div", "sqrt", "whole", "product_file", "spill_unrolled"
"""What each processor has its own numbers of."""


@cache
def _counted_as(cpu: str) -> MachineModel:
    """The machine of a processor: most instructions are counted from options as a Xeon takes them."""
    mine = machine_of(cpu)
    core = replace(DEFAULT.core, **{name: getattr(mine.core, name) for name in _ITS_OWN})
    return replace(DEFAULT, core=core, caches=mine.caches, jumps=mine.jumps)


def _phase(scheduled: Scheduled, whole: float, threads: int, dram: float, machine: MachineModel) -> float:
    """Seconds of a phase of a call that touches `whole` bytes; `dram`: bytes a cycle from memory."""
    clock, caches = machine.core.clock, machine.caches
    items = 1
    for p in scheduled.grid:
        items *= p.trips
    threads = max(1, min(threads, items))
    dram /= max(1.0, caches.scaling * threads)
    traffic = Traffic(scheduled, machine, dram, whole, threads)
    total = 0.0
    run = {n.name: part for i in scheduled.items if isinstance(i, FoldItem) for part in (share_run(scheduled, i),) for n in i.nests}
    warm = Warm(scheduled)
    for nest in scheduled.nests:
        compute, memory = _work(scheduled, nest, traffic, warm.since(nest))
        if nest.name in scheduled.rings:  # far caches are asked once for what blocks share, with or without a ring; near ones are not
            share = scheduled.rings[nest.name].computed
            compute, memory = compute * share, memory * fmean((1.0, share))
        again = trips(p for p in scheduled.grid if p.axis not in nest.all_axes)  # what every item computes for itself
        part = run.get(nest.name, ragged_share(scheduled, nest) * triangle_share(scheduled, nest))
        part *= early_exit_share(scheduled, nest, machine.core)
        total += (max(compute, memory) + caches.unhidden * min(compute, memory)) * part * again
        rows, unforeseen = row_loops(scheduled, nest)
        total += (machine.core.row * rows + machine.core.mispredicted * unforeseen) * again
        warm.add(nest)
    total += sum(traffic.stage_cycles(name) for name in scheduled.stages)
    return total * _share(scheduled, items, threads) / clock + caches.dispatch(items, threads)


def _work(s: Scheduled, nest: Nest, traffic: Traffic, warm: Mapping[str, Set[str]]) -> tuple[float, float]:
    """(cycles of arithmetic, cycles of traffic) of a nest over all items, on one core."""
    compute = compute_cycles(s, nest, traffic.machine)
    if nest.kind == "store" and nest.store is not None and nest.store.own is not None:
        return owned_work(s, nest, compute, traffic.dram, traffic.machine.caches)
    group = s.together(nest)
    before = list(takewhile(lambda n: n is not nest, group)) if group[-1].store is None else []  # (with stores they count with the first)
    if before and {load_parts(n)[0] for n in nest.loads} <= {load_parts(n)[0] for m in before for n in m.loads}:
        return compute, traffic.asked(nest)  # what siblings read in the same loop
    # (the second cache is near: what comes from there again comes beside other work, for the most part)
    again = traffic.refetched(nest)
    again = max(0.0, again - compute) + traffic.machine.caches.unhidden * min(again, compute)
    return compute, traffic.cycles(nest, warm) + again


def _share(s: Scheduled, items: int, threads: int) -> float:
    """The part of the work that the busiest thread does."""
    rounds = -(-items // threads)
    whole = 1.0  # of an axis that does not divide, the last item is a small one, but the others take a round each
    for p in s.grid:
        extent = p.axis.arg.extent
        whole *= min(p.trips, extent / p.stride) if isinstance(extent, int) and extent else p.trips
    return rounds / whole if whole else 0.0  # (an empty axis has no items)
