"""The analytic model for GPUs: good enough to rank candidates before anything is built.

A multiprocessor works through its groups, as many at once as are resident. Each takes the longest of what its
instructions, matrix units, shared memory and share of the L2 cache need, and of what it waits: by Little's law, a wait
that r resident groups share costs each a r-th of it (Volkov, "Better Performance at Lower Occupancy", 2010). The
busiest multiprocessor decides, which is DeepGEMM's wave efficiency. Beside all that memory moves what the L2 cache does
not hold. What things cost is data: `gpu_machine.Gpu`, `targets.table` and what a device says or measured of
itself."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass, field, replace
from math import prod

from ....ir.buffer import load_parts
from ....ir.dtypes import index
from ....ir.node import Node, axes_of
from ....opts.axis_plan import Part
from ....opts.nests import Nest
from ....opts.options.grid import clustered, shared
from ....opts.plans import StagePlan, TensorPlan
from ....opts.schedule import Scheduled
from ....opts.staging import tile_width
from ....targets.tensor_rows import rate
from ...machine import DEFAULT, GIB, KIB, MIB, SLOW, Bandwidth, MachineModel
from ..loop_bodies import trips
from .occupancy import Chip, chip_of, kept_arrays, register_limit, resident_groups, thread_registers
from .thread_accesses import (
    GroupFetch,
    accesses,
    direct,
    footprint,
    grid_of,
    loop_trips,
    memory_bytes,
    passes,
    place,
    tile_terms,
    warp_passes,
    warp_sectors,
)

# work -------------------------------------------------------------------------------------------------------
# What one group does: warp instructions, cycles of shared memory and of matrix instructions, and how long it waits.
#
# Instructions are counted as lowering will emit them, each once for every assignment of the register parts it varies
# with, in the innermost loop it varies with. A thread's loads of one step are under way at once, and so are those of a
# few steps where the compiler may spell the loop out; a copy into a ring of d slots is under way while d - 1 others are
# used.


# tensor -----------------------------------------------------------------------------------------------------
# What matrix instructions of a GPU cost: their own cycles, and those of the shared memory that holds their operands.
#
# A unit (a warp, or the four warps of a Hopper instruction) reads its rows of A and its columns of B once for each step
# along the reduction. So the larger its own tile, the fewer bytes an operation takes: 64 × 64 for a warp, 64 × 256 for
# four (DeepGEMM's `heuristics/sm90.hpp` counts both sides the same way).


@dataclass(frozen=True, slots=True)
class TensorWork:
    """Of one group, over its life: cycles of the matrix units, cycles of the shared memory, instructions of each warp,
    and the cycles it would take by itself."""

    cycles: float
    passes: float
    issued: float
    alone: float


@dataclass(frozen=True, slots=True)
class _Unit:
    """What one unit of threads makes in a step of the innermost loop: elements along axes, by the parts it has
    alone."""

    s: Scheduled
    nest: Nest
    t: TensorPlan

    def extent(self, axes: Set[Node]) -> float:
        """Points of a unit's tile along some axes."""
        within = {v for x in self.s.threads if x.stride < self.t.row.unit for v in x.variables}
        parts = [*self.s.registers(self.nest), *(p for p in self.s.shared(self.nest) if p.var in within)]
        return float(prod(p.trips for p in parts if p.axis in axes))


def tensor_work(s: Scheduled, n: Nest, chip: Chip) -> TensorWork | None:
    """The matrix instructions of a nest; None where it has none."""
    t = s.tensors.get(n.name)
    if t is None or n.kind != "reduce":
        return None
    g, row = chip.costs, t.row
    unit = _Unit(s, n, t)
    steps = trips([p for p in s.loops(n) if p.kind != "grid"])
    units = max(1, s.group // row.unit)
    instructions = unit.extent(set(n.all_axes)) / (row.m * row.n * row.k)
    speed = rate(row, s.target)
    cycles = steps * units * instructions / speed
    issued, passed = g.overhead + instructions, 0.0
    for x in n.loads:
        more, moved = _operand(unit, x, chip)
        issued, passed = issued + more, passed + moved
    arithmetic = [e for e in n.nodes if e.dtype.is_float and e.op not in ("const", "ref", "load", "mul", "cast", "where")]
    issued += sum(unit.extent(axes_of(e)) for e in arithmetic) / g.warp
    # by itself, a unit keeps the matrix units of one scheduler busy, and waits for what it reads and for its own sums
    chained = unit.extent({t.k}) / row.k * g.product
    shared = g.schedulers if row.unit == g.warp else 1  # a warpgroup has the matrix units of all schedulers
    own = max(instructions * shared / speed * -(-units // shared), chained)
    return TensorWork(cycles, steps * units * passed, steps * issued, steps * (own + g.shared_latency))


def _operand(unit: _Unit, x: Node, chip: Chip) -> tuple[float, float]:
    """(instructions of a warp, cycles of the shared memory) to load the fragments of a unit from one buffer for one
    step."""
    g, s = chip.costs, unit.s
    buffer, indices, _ = load_parts(x)
    elements, size = unit.extent(axes_of(*indices)), buffer.dtype.size
    if unit.t.row.unit > g.warp:  # read from shared memory by the instruction itself
        return 0.0, elements * size / g.shared
    plan = s.stages.get(buffer.name)
    if plan is None or size > g.half_size or not any(stride == 1 for *_, stride in plan.box):
        return elements / g.warp, elements * size / g.sector  # element by element: about a sector for each few of them
    terms = tile_terms(s, plan, indices)
    along = next((p.axis for p in s.registers(unit.nest) if terms.get(p.var) == 1), None)
    if along is not unit.t.k and size != g.half_size:
        return elements / g.warp, elements / g.warp
    # eight rows of 16 bytes come in a cycle if they lie in different banks
    rows = [place(plan, i * plan.pitch) * size for i in range(g.matrix)]
    each = passes(rows, g.access, g)
    return elements * size / (g.access * g.warp) + g.fragment, elements * size / (g.access * g.matrix) * each


# work -------------------------------------------------------------------------------------------------------
@dataclass(slots=True)
class GroupWork:
    """One group, over its whole life. `issued`: instructions of warps; `float32`: those among them that need a unit for
    floats; `passes`: cycles of the shared memory and the first cache; `tensor`: cycles of the matrix units; `alone`:
    cycles that it would take by itself if memory answered at once; `waits`: how often it waits for memory; `ring`: the
    same for its copies through a ring, which go on beside the rest; `near`: bytes that it keeps under way while it
    waits (the most of its nests); `spilled`: bytes of its threads' own arrays that pass the L2; `room`: bytes of the
    first cache that it has."""

    issued: float = 0.0
    float32: float = 0.0
    passes: float = 0.0
    tensor: float = 0.0
    alone: float = 0.0
    waits: float = 0.0
    ring: float = 0.0
    near: float = 0.0
    spilled: float = 0.0
    room: float = 0.0
    fetches: list[GroupFetch] = field(default_factory=list)


def group_work(s: Scheduled, chip: Chip, resident: int) -> GroupWork:
    """The work of one group; `resident`: groups that share a multiprocessor, and its first cache."""
    work = GroupWork(room=chip.costs.kept * chip.l1 / resident)
    for n in s.nests:
        if not n.empty:
            _nest(s, n, chip, work)
    fills: dict[tuple[str, int], list[StagePlan]] = {}
    for st in s.stages.values():
        fills.setdefault((st.at.name, st.depth), []).append(st)
    for (_, depth), plans in sorted(fills.items(), key=lambda f: f[0]):
        _fill(s, plans, depth, chip, work)
    _keep(s, chip, work)
    return work


def _keep(s: Scheduled, chip: Chip, work: GroupWork) -> None:
    """Add reading and writing kept arrays. What threads keep for themselves passes the first cache, and what that does
    not hold the L2."""
    g, warps = chip.costs, _warps(s, chip)
    found = kept_arrays(s).values()
    private = s.group * sum(k.private for k in found)
    for k in found:
        work.issued += k.accesses * warps * (1 + g.addressed)
        work.passes += k.accesses * warps
        work.alone += k.accesses * g.chain
    if private > work.room:
        work.spilled += sum(k.accesses * g.word * s.group for k in found if k.private)


def _warps(s: Scheduled, chip: Chip) -> int:
    return -(-max(1, s.group) // chip.costs.warp)


def _nest(s: Scheduled, n: Nest, chip: Chip, work: GroupWork) -> None:
    """Add a nest to `work`."""
    g, warps = chip.costs, _warps(s, chip)
    found = list(accesses(s, n, g))
    tensor = tensor_work(s, n, chip)
    issued, floats = _evaluated(s, n, chip) if tensor is None else _of_tensor(s, tensor, work)
    passed = waits = 0.0
    for a in found:
        if tensor is not None and not a.stored:
            if a.stage is None:  # fragments are loaded element by element
                work.fetches.append(direct(s, n, a, chip, work.room))
                waits = max(waits, a.times * (1 + a.depth))
            continue
        each = a.instructions * a.times
        issued += each * (1 + g.addressed + (g.masked if a.masked else 0))
        if a.stage is not None:
            passed += each * warps * warp_passes(s, a, g)
            continue
        passed += each * warps * max(1.0, warp_sectors(s, a, g) * g.sector / g.shared)
        work.fetches.append(direct(s, n, a, chip, work.room))
        if not a.stored:
            at_once = 1.0 if a.masked else max(1.0, min(g.loaded / a.instructions, _innermost(s, n)))
            waits = max(waits, a.times * (1 + a.depth) / at_once * (a.instructions if a.masked else 1))
            work.near = max(work.near, s.group * a.copies * a.buffer.dtype.size * at_once)
    work.issued += issued * warps
    work.float32 += floats * warps
    work.passes += passed
    # by itself it issues with as many schedulers as it has warps for, or waits for its own results
    own = issued * -(-warps // g.schedulers)
    work.alone += max(own, _chained(s, n, chip) if tensor is None else tensor.alone)
    work.waits += waits
    work.alone += _combined(s, n, chip, work)


def _of_tensor(s: Scheduled, t: TensorWork, work: GroupWork) -> tuple[float, float]:
    """(instructions of a warp, none on floats), with the rest added to `work`."""
    work.tensor += t.cycles
    work.passes += t.passes
    return t.issued, 0.0


def _innermost(s: Scheduled, n: Nest) -> float:
    """Trips of the innermost loop, which a compiler may spell out where each step is alone."""
    loops = [p for p in s.loops(n) if p.kind != "grid"]
    return float(loops[-1].trips) if loops else 1.0


def _evaluated(s: Scheduled, n: Nest, chip: Chip) -> tuple[float, float]:
    """(instructions of a thread but for loads and stores, those among them on floats) over all its steps."""
    g = chip.costs
    steps = trips([p for p in s.loops(n) if p.kind != "grid"])
    total = steps * g.overhead / max(1.0, min(g.loaded, _innermost(s, n)))
    floats = 0.0
    for e in n.all_nodes:
        if e.op in ("const", "axis", "sym", "ref", "load") or e.dtype is index or (e.op == "mul" and e is n.expr and n.kind == "reduce"):
            continue
        each = getattr(g, SLOW[e.op]) if e.op in SLOW else 1.0
        floats += each * _copies(s, n, e) * loop_trips(s, n, axes_of(e))
    if n.kind == "reduce":
        floats += steps * prod(p.trips for p in s.registers(n))
    if n.store is not None and n.store.buffer.dtype.is_float and n.store.buffer.dtype.size < n.expr.dtype.compute.size:
        total += steps * g.half * prod(p.trips for p in s.registers(n))
    return total + floats, floats


def _copies(s: Scheduled, n: Nest, node: Node) -> float:
    """How often a thread computes `node` in one step."""
    axes = axes_of(node)
    return float(prod(p.trips for p in s.registers(n) if p.axis in axes))


def _chained(s: Scheduled, n: Nest, chip: Chip) -> float:
    """Cycles a thread waits for its own sums: steps of one accumulator follow each other."""
    if n.kind != "reduce":
        return chip.costs.chain
    g = chip.costs
    steps = prod(p.trips for p in s.registers(n) if p.kind == "unroll" and p.axis in n.reduce_axes)
    loops = [p for p in s.loops(n) if p.kind != "grid"]
    staged = any(st.nests and any(m is n for m in st.nests) for st in s.stages.values())
    return trips(loops) * (steps * g.chain + (g.shared_latency if staged else 0.0) / max(1.0, min(g.loaded, _innermost(s, n))))


def _combined(s: Scheduled, n: Nest, chip: Chip, work: GroupWork) -> float:
    """Cycles to combine the partial results of threads that share a reduction; adds the instructions to `work`."""
    shares = s.shared_by(n.reduce_axes) if n.kind == "reduce" else []
    if not shares:
        return 0.0
    g = chip.costs
    outer = prod(max(1, p.trips) for p in s.loops(n) if p.kind != "grid" and p.axis in n.axes)
    results = prod(p.trips for p in s.registers(n) if p.axis in n.axes)
    cycles = 0.0
    for t in shares:
        near = max(1, min(t.count, g.warp // t.stride)) if t.stride < g.warp else 1
        far = t.count // near
        halvings = near.bit_length() - 1
        work.issued += outer * results * _warps(s, chip) * (1 + 1) * (halvings + (far if far > 1 else 0))
        cycles += outer * (halvings * (g.shuffle + g.chain) + ((g.barrier + g.shared_latency + far * g.chain) if far > 1 else 0.0))
    return cycles


def _fill(s: Scheduled, plans: list[StagePlan], depth: int, chip: Chip, work: GroupWork) -> None:
    """Add copying the tiles that are filled at one place, all together."""
    g, warps = chip.costs, _warps(s, chip)
    plan = plans[0]
    around = _around(s, plan)
    fills = trips([p for p in around if p.kind != "grid"])
    chunks = 0.0
    for st in plans:
        width = chunk_width(s, st)
        chunks += st.elements / width
        each = -(-st.elements // (width * max(1, s.group)))
        fetched = _fetched(s, st, fills, chip)
        if st.boxed:  # one thread has TMA copy it; what both groups of a cluster read, each brings half of
            work.issued += fills
            work.passes += fills * st.elements * st.dtype.size / g.shared
            fetched = replace(fetched, taken=fetched.taken / (clustered(s) if st.buffer.name in shared(s) else 1))
        else:
            work.issued += fills * each * warps * (g.asynchronous if st.chunk else g.copied)
            work.passes += fills * each * warps * _stored_passes(s, st, width, chip)
        work.fetches.append(fetched)
    waiting = -(-chunks // max(1, s.group)) / g.loaded  # all loads of a thread are asked for before the first is stored
    work.near = max(work.near, max(1, depth - 1) * sum(st.elements * st.dtype.size for st in plans))
    if depth > 1:
        work.ring += fills / (depth - 1)
        work.alone += fills * (g.barrier + (g.neighbour / (depth - 1) if clustered(s) > 1 else 0))
        work.waits += 1
    else:
        work.alone += fills * (g.barrier + g.barrier)
        work.waits += fills * max(1.0, waiting)


def _around(s: Scheduled, plan: StagePlan) -> list[Part]:
    loops = s.loops(plan.nests[0])
    if plan.at.kind == "grid":
        return [p for p in loops if p.kind == "grid"]
    names = [p.name for p in loops]
    return loops[: names.index(plan.at.name) + 1]


def chunk_width(s: Scheduled, st: StagePlan) -> int:
    """Elements that one instruction copies into a tile."""
    return max(1, st.chunk or tile_width(st, s))


def _stored_passes(s: Scheduled, st: StagePlan, width: int, chip: Chip) -> float:
    """Cycles of the shared memory for one instruction of a warp that copies into a tile: lanes take chunks in the
    buffer's order."""
    g = chip.costs
    dims = sorted(st.box)
    if not dims:
        return 1.0
    sizes = [extent for _, _, extent, _ in dims]
    sizes[-1] //= width
    whole = any(stride == 1 for *_, stride in dims[-1:])
    at = []
    for lane in range(min(g.warp, max(1, s.group))):
        rest, element = lane, 0
        for size, (d, _, _, stride) in zip(reversed(sizes), reversed(dims), strict=True):
            element += rest % max(1, size) * stride * (width if d == dims[-1][0] else 1)
            rest //= max(1, size)
        at.append(place(st, element) * st.dtype.size)
    each = passes(at, st.dtype.size * (width if whole else 1), g)
    return float(each if whole else each * width)


def _fetched(s: Scheduled, st: StagePlan, fills: float, chip: Chip) -> GroupFetch:
    """What a group takes to fill a tile, over all times."""
    g = chip.costs
    dims = sorted(st.box)
    run = next((extent for _, _, extent, _ in reversed(dims)), 1)
    rows = prod(extent for _, _, extent, _ in dims[:-1])
    size = st.buffer.dtype.size
    taken = fills * rows * max(run * size, g.sector)
    inner = [p for p in s.loops(st.nests[0]) if p.kind != "grid"]
    indices = next(i for b, i, _ in map(load_parts, st.nests[0].loads) if b == st.buffer)
    unique = footprint(s, st.buffer, indices, [*inner, *s.registers(st.nests[0]), *s.shared(st.nests[0])], g.sector)
    return GroupFetch(st.buffer, taken, min(taken, unique), grid_of(s, indices), False)


# estimate ---------------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class TimeTerm:
    """One thing that takes time. `seconds`: if nothing else did; `why`: the figures it follows from."""

    name: str
    seconds: float
    why: str


@dataclass(frozen=True, slots=True)
class GpuEstimate:
    """One phase. `terms`: what takes time, the longest first; `launch`: seconds before it; `groups` of `threads`,
    `resident` on each multiprocessor at once (`registers` each); `waves`: how often the multiprocessors are filled;
    `under_way` and `needed`: bytes in flight on a multiprocessor while it waits, and those that keep its memory
    busy."""

    seconds: float
    launch: float
    terms: tuple[TimeTerm, ...]
    groups: int
    threads: int
    resident: int
    registers: int
    waves: float
    under_way: float
    needed: float


def estimate_gpu(s: Scheduled, machine: MachineModel = DEFAULT, limits: Bandwidth | None = None) -> float:
    """Predicted seconds of all phases. Symbolic extents count with their upper bounds."""
    found = estimates(s, machine, limits)
    return sum(e.seconds + e.launch for e in found)


def estimates(s: Scheduled, machine: MachineModel = DEFAULT, limits: Bandwidth | None = None) -> tuple[GpuEstimate, ...]:
    """Every phase, with what decides how long it takes."""
    chip = chip_of(s.target, machine.gpu, limits)
    return tuple(_phase(p, chip, i) for i, p in enumerate(s.phases or (s,)))


def _phase(s: Scheduled, chip: Chip, number: int) -> GpuEstimate:
    g = chip.costs
    registers = thread_registers(s, chip)
    resident = resident_groups(s, chip, registers)
    items = prod(max(1, p.trips) for p in s.grid)
    at_once = max(1, min(items, resident * chip.cores))
    work = group_work(s, chip, resident)
    moved = memory_bytes(s, work.fetches, at_once, chip)
    taken = items * sum(f.taken for f in work.fetches if not f.stored) + 1
    far = min(1.0, moved / taken)
    latency = chip.l2_latency + (chip.latency - chip.l2_latency) * far
    spilled = max(0.0, registers - register_limit(s, g))
    work.issued *= 1 + g.spill * spilled / g.registers
    # the busiest multiprocessor: whole rounds of resident groups, and a last one with fewer
    each = -(-items // chip.cores)
    rounds, rest = divmod(each, resident)
    names: dict[str, float] = {}
    cycles = 0.0
    for count, here in ((rounds, resident), (1 if rest else 0, rest)):
        if count:
            found = {name: count * here * c for name, c in _shares(work, here, latency, chip).items()}
            cycles += max(found.values())
            names = {name: names.get(name, 0.0) + c for name, c in found.items()}
    memory = moved / chip.memory
    names["memory"] = memory
    longest = max(cycles, memory)
    total = longest + g.unhidden * max(0.0, sum(names.values()) - longest) + chip.latency
    waves = items / (resident * chip.cores)
    terms = tuple(
        TimeTerm(name, c / chip.clock, _why(name, work, resident, moved, chip))
        for name, c in sorted(names.items(), key=lambda e: -e[1])
        if c
    )
    launch = g.launch if number == 0 else g.phase
    return GpuEstimate(
        total / chip.clock, launch, terms, items, max(1, s.group), resident, int(registers), waves, resident * work.near, chip.needed
    )  # fmt: skip


def _shares(work: GroupWork, resident: int, latency: float, chip: Chip) -> dict[str, float]:
    """Cycles that each thing takes of a multiprocessor for one group, with `resident` groups at once and loads that
    take `latency`."""
    g = chip.costs
    waits, ring = work.alone + work.waits * latency, work.ring * latency
    taken = work.spilled + sum(f.taken for f in work.fetches)
    return {
        "instructions": max(work.issued / g.schedulers, work.float32 * g.warp / chip.float32),
        "matrix units": work.tensor,
        "shared memory": work.passes,
        "L2": taken / chip.l2,
        "waiting": (max(waits, ring) + g.unhidden * min(waits, ring) + g.entry) / resident,
    }


def _why(name: str, work: GroupWork, resident: int, moved: float, chip: Chip) -> str:
    """What a term follows from, for people."""
    return {
        "instructions": f"{work.issued:.0f} instructions of warps a group",
        "matrix units": f"{work.tensor:.0f} cycles of matrix instructions a group",
        "shared memory": f"{work.passes:.0f} accesses of {chip.costs.shared:.0f} bytes a group",
        "L2": f"{sum(f.taken for f in work.fetches) / KIB:.0f} KiB a group",
        "waiting": f"{resident} groups keep {resident * work.near / KIB:.0f} KiB under way on a multiprocessor; {chip.needed / KIB:.0f} keep memory busy",
        "memory": f"{moved / MIB:.1f} MiB at {chip.memory * chip.clock / GIB:.0f} GiB/s",
    }[name]
