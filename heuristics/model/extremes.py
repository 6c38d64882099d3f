"""What the largest and the smallest elements take, and beside their accumulators (`lower/emit/accumulators.py`, `lower/emit/reduce.py`)."""

from __future__ import annotations

from collections.abc import Sequence

from ...ir.node import Node
from ...opts.analysis.extremes import by_bits, combine_of
from ...opts.nests import Nest
from ...opts.schedule import Scheduled
from ...targets import Target
from ..machine import SLOW, Core


def is_noted(n: Nest, target: Target) -> bool:
    """Whether a reduction's extremes have notes beside them of what is no number, on the target."""
    combine = combine_of(n)
    return not target.keeps_nan and n.expr.dtype.is_float and combine in ("max", "min") and not by_bits(n, target, combine)


def beside(s: Scheduled, core: Core, group: Sequence[Nest], steps: int, results: int) -> tuple[float, int]:
    """(instructions of an iteration, registers of vectors) for reductions in one loop, each of which takes so many `steps` in an
    iteration, in vectors, for so many `results`: notes of what is no number, and comparisons and selections of places."""
    masks = "avx512" in s.target.features
    noted = sum(is_noted(n, s.target) for n in group)
    placed = sum(n.name in s.places for n in group)
    each = (core.noted_by_masks, core.placed_by_masks) if masks else (core.noted, core.placed)
    arith = steps * (noted * each[0] + placed * each[1])
    kept = noted * results
    return arith, max(0, kept - core.truths) if masks else kept + core.placing * min(1, placed)


def slow_work(n: Node, target: Target, core: Core) -> float | None:
    """Instructions of an operation that takes several, the larger and the smaller of two floats among them: on x86 these are compared with
    themselves, and chosen. None for any other."""
    if n.op in ("max", "min") and n.dtype.is_float and not target.keeps_nan:
        return core.ordered_by_masks if "avx512" in target.features else core.ordered
    return float(getattr(core, SLOW[n.op])) if n.op in SLOW else None
