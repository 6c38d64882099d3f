"""What matrix instructions of a GPU cost: their own cycles, and those of the shared memory that holds their operands.

A unit (a warp, or the four warps of a Hopper instruction) reads its rows of A and its columns of B once for each step
along the reduction. So the larger its own tile, the fewer bytes an operation takes: 64 × 64 for a warp, 64 × 256 for
four (DeepGEMM's `heuristics/sm90.hpp` counts both sides the same way)."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass
from math import prod

from ....ir.buffer import load_parts
from ....ir.node import Node, axes_of
from ....opts.nests import Nest
from ....opts.plans import TensorPlan
from ....opts.schedule import Scheduled
from ....targets.tensor_rows import rate
from ..trips import trips
from .access import place, tile_terms
from .chip import Chip
from .warp import passes


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
