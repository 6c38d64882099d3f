"""Which register part of a nest becomes vector lanes: a fixed rule, not searched."""

from __future__ import annotations

from collections.abc import Sequence

from ..ir import index as ix
from ..ir.node import Node, axes_of, load_parts, walk
from ..opts.axis_plan import Part
from ..opts.layout import picks
from ..opts.nests import Nest
from .indices import Vectors
from .lowering import Lowering
from .part_index import over_parts
from .storage import Array


def width(low: Lowering, part: Part) -> int:
    """Lanes along `part`: the largest power of two that divides it, up to the machine's vector."""
    return min(low.ctx.width, part.trips & -part.trips)


def choose(low: Lowering, nest: Nest, extra: Sequence[Node] = ()) -> Vectors:
    """The register parts and the lanes of a nest; `extra`: further expressions that are evaluated in it."""
    regs = low.sched.registers(nest)
    lane = _choose(low, nest, regs, extra)
    return Vectors(regs) if lane is None else Vectors(regs, lane, width(low, lane))


def _choose(low: Lowering, nest: Nest, regs: Sequence[Part], extra: Sequence[Node]) -> Part | None:
    """The UPCAST part along which most accesses are consecutive (a store counts twice); None if most would be strided.

    Staged panels are laid out for their readers, so they count as consecutive along their innermost part. The lanes of a matrix
    instruction are given."""
    dot = low.sched.dots.get(nest.name)
    if dot is not None and nest.kind == "reduce":
        return next(p for p in regs if p.axis is dot.n and p.kind == "upcast")
    best, best_score = None, 0.0
    for p in regs:
        if p.kind != "upcast" or width(low, p) < 2:
            continue
        score = _score(low, nest, p, [*nest.roots, *extra])
        if score > best_score or (score == best_score and best is not None and (width(low, p), p.trips) > (width(low, best), best.trips)):
            best, best_score = p, score
    return best


def _score(low: Lowering, nest: Nest, part: Part, roots: list[Node]) -> float:
    score = 0.0
    for n in walk(*roots, *nest.filled.values()):
        if n.op == "load":
            buffer, indices, mask = load_parts(n)
            score += _access(low, nest, part, buffer.name, indices, mask is not None)
        elif n.op == "ref" and isinstance(low.storage.values.get(n.arg), Array):
            score += _stride(low, part, n.src, low.storage.values[n.arg].strides)  # type: ignore[union-attr]
    if nest.store is not None:
        score += 2 * _stride(low, part, nest.indices, low.ctx.strides[nest.store.buffer.name])
    elif nest.kind in ("reduce", "point", "scan"):
        # a value kept in registers is free to have any lanes: a small push towards spatial ones
        score += 0.25 if part.axis in nest.axes else 0.125
    return score


def _access(low: Lowering, nest: Nest, part: Part, buffer: str, indices: tuple[Node, ...], masked: bool) -> float:
    # the plan, not what is active: the choice must not depend on where the nest is asked from
    staged = low.sched.stages.get(buffer)
    if staged is not None and staged.order == "panel" and any(n is nest for n in staged.nests):
        strides = {p.name: s for p, s in staged.parts}
        return 0.0 if part.name not in strides else 1.0 if strides[part.name] == 1 else -1.0
    row = staged is not None and any(n is nest for n in staged.nests)
    safe = row or not (masked or low.sched.plans[part.axis].masked)
    return _stride(low, part, indices, low.ctx.strides[buffer], safe and low.sched.target.kind != "gpu")


def _stride(low: Lowering, part: Part, indices: tuple[Node, ...], strides: tuple[int | Node, ...], picked: bool = False) -> float:
    """1 where an access is consecutive along `part`, 0 where it does not vary, or is `picked` from whole vectors; else -1."""
    total = 0
    for i, stride in zip(indices, strides):
        if part.axis not in axes_of(i):
            continue
        terms, _ = ix.parts(over_parts(i, low.ctx.axis_index))
        k = terms.get(part.var)
        if k is None or not isinstance(stride, int):
            return -1.0
        total += k * stride
    return 1.0 if total == 1 else 0.0 if total == 0 or (picked and picks(total)) else -1.0
