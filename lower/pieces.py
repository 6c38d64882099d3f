"""Loops whose last step reaches past an axis' extent, in pieces: the whole steps, which need no masks, and the last one.

A mask costs an operation for every vector, and a masked store many cycles where the processor has no mask registers. Whole steps
are nearly all of a loop, so they get code of their own. The last step has a known place: its masks are constants, most of them true
or false throughout, so that little of it is left. While the last step of an axis' innermost loop is open, other axes are not split:
the corner in which they meet is small, and there would be four versions of it. Extents that are symbols, and languages with groups
of threads, keep their masks."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ..ir import index as ix
from ..ir.node import Node, const
from ..opts.axis_plan import Part
from ..opts.schedule import Scheduled
from .scope import Scope


@dataclass(frozen=True, slots=True)
class Piece:
    """Iterations `between` two of a loop, all of them if that is None. `whole`: axes of which they reach no point past the extent.
    `at`: their only number, where it is known."""

    between: tuple[Node, Node] | None = None
    whole: frozenset[Node] = frozenset()
    at: int | None = None


ALL = Piece()


def masked(sched: Scheduled, scope: Scope, axis: Node) -> bool:
    """Whether register copies along an axis can reach past its extent here."""
    return axis not in scope.whole and sched.plans[axis].masked


def pieces(sched: Scheduled, scope: Scope, part: Part) -> list[Piece]:
    """The pieces of a loop that is about to be opened, in order."""
    found = _counts(sched, scope, part)
    if found is None:
        return [ALL]
    full, trips = found
    return cut(const(0), const(trips), full, frozenset({part.axis}))


def cut(lo: Node, hi: Node, full: int, axes: frozenset[Node]) -> list[Piece]:
    """Iterations [lo, hi), of which the first `full` of the loop are whole along `axes`, and at most one is not."""
    first = Piece((lo, ix.minmax("min", hi, const(full))), axes)
    last = Piece((ix.minmax("max", lo, const(full)), hi), at=full)
    return [p for p in (first, last) if p.between is not None and ix.compare("lt", *p.between) is not const(False)]


def splits(sched: Scheduled, scope: Scope, axis: Node) -> bool:
    """Whether loops of an axis are done in pieces here."""
    others = scope.ragged - scope.whole
    known = isinstance(sched.plans[axis].extent, int) and not sched.target.groups
    return masked(sched, scope, axis) and known and (not others or axis in others)


def _counts(sched: Scheduled, scope: Scope, part: Part) -> tuple[int, int] | None:
    """(whole iterations, iterations) of a loop over a masked axis, where they are known."""
    if not splits(sched, scope, part.axis) or not isinstance(part.size, int):
        return None
    plan = sched.plans[part.axis]
    base = const(0)
    for p in (plan.fold, *plan.parts):
        if p is not None and p is not part and p.name in scope.opened:
            base = ix.add(base, scope.fixed.get(p.var, p.var), p.stride)
    if base.op != "const":
        return None
    assert isinstance(plan.extent, int)
    left = plan.extent - int(base.arg)
    return min(part.size, left // part.stride), min(part.size, -(-left // part.stride))


def entered(sched: Scheduled, scope: Scope, part: Part, piece: Piece) -> Scope:
    """The scope inside a piece of a loop."""
    fixed, ragged = scope.fixed, scope.ragged
    if piece.at is not None:
        fixed = {**fixed, part.var: const(piece.at)}
        # a last tile may be nearly whole; what is less than a step of the innermost loop is little work
        ragged |= {a for a, p in sched.plans.items() if (p.fold is part or a is part.axis) and p.block == part.stride}
    return replace(scope, whole=scope.whole | piece.whole, fixed=fixed, ragged=ragged)


def trips(sched: Scheduled, scope: Scope, part: Part) -> Node:
    """How often a loop runs, no further than its axis' extent."""
    size = part.size if isinstance(part.size, Node) else const(part.size)
    if not part.clip or part.axis in scope.whole:
        return size
    plan = sched.plans[part.axis]
    base = const(0)
    if plan.fold:
        base = ix.add(base, plan.fold.var, plan.fold.stride)
    for p in plan.parts[: [p.name for p in plan.parts].index(part.name)]:
        base = ix.add(base, p.var, p.stride)
    extent = plan.extent if isinstance(plan.extent, Node) else const(plan.extent)
    return ix.minmax("min", size, ix.ceildiv(ix.add(extent, base, -1), part.stride))
