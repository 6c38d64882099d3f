"""Vectors of a scatter whose lanes lie side by side: the rows of a stamp that data places.

No two lanes write to one element, so that a vector is read, combined and written at once. Where there are no registers of masks, stores
under a mask take as long as one element after the other (AMD's processors), or are taken apart (bytes): a vector that lies inside a row of
the output is read and written whole, with what was there in the lanes that a mask leaves out. Nobody else writes to that row meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext

from ...ir import index as ix
from ...ir.node import Node, const
from ...opts.nests import Nest
from ...program.program import Mem, Val
from ..expr import NestEval
from ..lowering import Lowering
from ..part_index import over_parts
from ..storage import Assignment

Holding = tuple[Val | None, Val | None]
"""What must hold for all lanes, and a mask of lanes; None where nothing is asked."""


def stamp(
    low: Lowering, n: Nest, ev: NestEval, place: tuple[Mem, Node], asg: Assignment, there: Holding,
    combined: Callable[[Val], Val], apart: Callable[[], None],
) -> None:  # fmt: skip
    """Combine one vector of points into the elements at a `place`, (memory, index of an element), where `there` holds. `combined`: what
    becomes of elements; `apart`: does the same one lane after the other."""
    b, (scalar, mask), (mem, at) = low.b, there, place

    def whole() -> None:
        old = ev.read(mem, at, asg, None)
        new = combined(old)
        ev.write(mem, at, asg, new if mask is None else b.op("select", mask, new, old, dtype=new.dtype))

    vec = ev.split(at, asg)[3]  # (what is computed inside a branch is not there after it)
    if vec is not None and vec.lanes > 1:  # copies past an extent, whose places are kept inside lane by lane
        apart()
        return
    inside = None if mask is None else _inside(low, n, ev, asg)
    with b.when(scalar) if scalar is not None else nullcontext():
        if inside is None:
            whole()
            return
        with b.when(inside):
            whole()
        with b.when(b.op("not", inside)):
            apart()


def _inside(low: Lowering, n: Nest, ev: NestEval, asg: Assignment) -> Val | None:
    """Whether all lanes, those under a mask as well, lie in one row of the output; None where they always do."""
    assert n.store is not None
    b, out = low.b, None
    *others, last = zip(n.indices, n.store.buffer.shape, strict=True)
    for (i, extent), beyond in [*((x, 1) for x in others), (last, ev.width)]:
        lo, hi = ix.bounds(i)
        size = extent if isinstance(extent, int) else None
        if lo >= 0 and size is not None and hi <= size - beyond:
            continue
        base, c, _, vec = ev.split(over_parts(i, low.ctx.axis_index), asg)
        first = ev.join(low.scalar(ix.add(base, const(c))), 0, vec)
        end = ix.add(const(extent) if isinstance(extent, int) else extent, const(-beyond))
        held = b.op("and", b.op("le", b.const(0), first), b.op("le", first, low.scalar(end)))
        out = held if out is None else b.op("and", out, held)
    return out
