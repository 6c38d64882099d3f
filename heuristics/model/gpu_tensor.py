"""What matrix instructions of a GPU cost: their own cycles, and those of the shared memory that holds their operands.

A warp (or the four warps of a Hopper instruction) reads its rows of A and its columns of B once for each step along the reduction. So
the larger its own tile, the fewer bytes an operation takes: 64 × 64 for a warp, 64 × 256 for four (DeepGEMM's
`heuristics/sm90.hpp` counts both sides the same way)."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from ...ir.buffer import load_parts
from ...ir.node import axes_of
from ...opts.nests import Nest
from ...opts.schedule import Scheduled
from ..gpu_machine import Gpu
from .gpu_chip import Chip
from .trips import trips


@dataclass(frozen=True, slots=True)
class TensorWork:
    """Of one group, over its life: cycles of the matrix units, cycles of the shared memory, instructions of each warp, and the
    cycles it would take by itself."""

    cycles: float
    passes: float
    issued: float
    alone: float


def tensor_work(s: Scheduled, n: Nest, chip: Chip) -> TensorWork | None:
    """The matrix instructions of a nest; None where it has none."""
    dot = s.dots.get(n.name)
    row = dot.row if dot is not None and s.target.kind == "gpu" else None
    if row is None or n.kind != "reduce":
        return None
    g = chip.costs
    unit = int(getattr(row, "unit", g.warp))
    steps = trips([p for p in s.loops(n) if p.kind != "grid"])
    own = {p.name: p.trips for p in s.registers(n)} | {p.name: p.trips for p in s.shared(n) if _inside(s, p.var, unit)}
    units = max(1, s.group // unit)
    parts = [*s.registers(n), *s.shared(n)]
    volume = prod(p.trips for p in parts if p.name in own)
    instructions = volume / (row.m * row.n * row.k)
    rate = chip.tensor * speed(row, g) * (1 if unit > g.warp else chip.mma)
    cycles = g.operations * steps * units * volume / max(1.0, rate)
    moved = fragments = 0.0
    for x in n.loads:
        buffer, indices, _ = load_parts(x)
        side = prod(p.trips for p in parts if p.name in own and p.axis in axes_of(*indices))
        moved += side * buffer.dtype.size
        fragments += side * buffer.dtype.size / (g.access * g.warp)
    passes = steps * units * moved / g.shared
    issued = steps * (instructions + g.fragment * fragments * (0 if unit > g.warp else 1) + g.overhead)
    alone = steps * (g.shared_latency + g.chain * row.k) + cycles / min(units * unit / g.warp, g.schedulers) * g.schedulers
    return TensorWork(cycles, passes, issued, alone)


def speed(row: object, g: Gpu) -> float:
    """How many times as many operations a row does in a cycle as one of 16-bit floats: types of half the size twice as many."""
    size: int = getattr(getattr(row, "a", None), "size", g.half_size)
    return g.half_size / size


def _inside(s: Scheduled, var: object, unit: int) -> bool:
    """Whether a dimension of the group lies inside what does one instruction."""
    return any(t.var is var and t.stride < unit for t in s.threads)
