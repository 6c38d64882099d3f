"""Emits prefix scans: the running value is carried through the innermost loops, or read back from the array.

Lanes along the scanned axis hold a prefix each after log2(lanes) shifts and combinations (W. D. Hillis and G. L. Steele, "Data parallel algorithms",
1986); the value that is carried then costs one combination for a whole vector."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ...ir import index as ix
from ...ir.dtypes import bool_
from ...ir.kernel import Scan
from ...ir.node import const
from ...opts.axis_plan import Part
from ...opts.nests import Nest, identity
from ...program.program import Val
from ..expr import NestEval
from .loops import through, wide
from .reduce import alias

if TYPE_CHECKING:
    from ..lowering import Lowering


def scan(low: Lowering, n: Nest) -> None:
    assert n.value is not None and isinstance(n.value.expr, Scan)
    axis, combine, dtype = n.value.expr.axis, n.value.expr.combine, n.expr.dtype
    loops = low.remaining(n)
    first = next((i for i, p in enumerate(loops) if p.axis is axis), len(loops))
    carried = all(p.axis is axis for p in loops[first:])
    # what is read back must be there for copies past an extent too, which the output has no room for
    output = alias(low, n) if carried and not low.sched.nt else None
    array = low.forced.get(n.name) or output or low.array(n.value, n.axes)
    low.storage[n.name] = array
    start = identity(combine, dtype).arg

    def step(accs: list[Val] | None) -> list[Val]:
        ev = NestEval(low, n)
        point = low.point(array)
        out = []
        along = ev.assignments([p for p in ev.regs if p.axis is axis])
        for i, asg in enumerate(ev.assignments([p for p in ev.regs if p.axis is not axis])):
            if accs is not None:
                acc = accs[i]
            else:
                lanes = ev.width if ev.lane is not None else 1
                inside = low.b.op("lt", low.b.const(0), low.scalar(low.axis_index[axis]))
                before = tuple(ix.add(p, const(-1)) if a is axis else p for a, p in zip(n.axes, point))
                acc = ev.read(array.mem, array.address(before), asg, low.b.splat(inside, lanes))
                acc = low.b.op("select", inside, acc, low.b.const(start, dtype), dtype=dtype)
            for here in along:
                x = ev.value(n.expr, {**asg, **here})
                if ev.lane is not None and ev.lane.axis is axis:
                    x = _prefixes(low, wide(ev, x), combine, start)
                    new = low.b.op(combine, acc, x)
                    last = (ev.width - 1,) * ev.width
                    acc = low.b.op(combine, acc, low.b.shuffle(x, x, last))
                else:
                    new = acc = wide(ev, low.b.op(combine, acc, x))
                ev.write(array.mem, array.address(point), {**asg, **here}, new, ev.guards(array, n.axes))
            out.append(acc)
        return out

    def carry(rest: Sequence[Part], accs: list[Val]) -> list[Val]:
        if not rest:
            return step(accs)
        for piece in low.pieces(rest[0]):
            with low.open(rest[0], accs, piece) as loop:
                loop.yields = carry(rest[1:], loop.carried)
            accs = loop.results
        return accs

    if carried:

        def body() -> None:
            ev = NestEval(low, n)
            lanes = ev.width if ev.lane is not None else 1
            spatial = ev.assignments([p for p in ev.regs if p.axis is not axis])
            carry(loops[first:], [low.b.const(start, dtype, lanes) for _ in spatial])

        through(low, loops[:first], body)
    else:

        def alone() -> None:
            step(None)

        through(low, loops, alone)


def _prefixes(low: Lowering, x: Val, combine: str, start: float | bool) -> Val:
    """In each lane of `x` what the lanes up to it combine to."""
    b, n = low.b, x.lanes
    nothing = b.const(start, x.dtype, n)
    distance = 1
    while distance < n:
        if low.sched.target.groups:  # Oclgrind takes vectors that begin with constants for uninitialised
            moved = b.shuffle(x, x, tuple(max(i - distance, 0) for i in range(n)))
            moved = b.op("select", b.const(tuple(i >= distance for i in range(n)), bool_, n), moved, nothing)
        else:
            moved = b.shuffle(nothing, x, tuple(range(n - distance, 2 * n - distance)))
        x = b.op(combine, moved, x)
        distance *= 2
    return x
