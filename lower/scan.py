"""Emits prefix scans: the running value is carried through the innermost loops, or read back from the array."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..ir import index as ix
from ..ir.kernel import Scan
from ..ir.node import const
from ..opts.nests import Nest, identity
from ..opts.plan_axis import Part
from .expr import NestEval
from .loops import through, wide
from .program import Val

if TYPE_CHECKING:
    from .lowering import Lowering


def scan(low: Lowering, n: Nest) -> None:
    assert n.value is not None and isinstance(n.value.expr, Scan)
    axis, combine, dtype = n.value.expr.axis, n.value.expr.combine, n.expr.dtype
    loops = low.remaining(n)
    array = low.forced.get(n.name) or low.array(n.value, n.axes)
    low.storage[n.name] = array
    first = next((i for i, p in enumerate(loops) if p.axis is axis), len(loops))
    carried = all(p.axis is axis for p in loops[first:])
    start = identity(combine, dtype).arg

    def step(accs: list[Val] | None) -> list[Val]:
        ev = NestEval(low, n)
        point = low.point(array)
        out = []
        for i, asg in enumerate(ev.assignments(ev.regs)):
            if accs is not None:
                old = accs[i]
            else:
                lanes = ev.width if ev.lane is not None else 1
                inside = low.b.op("lt", low.b.const(0), low.scalar(low.axis_index[axis]))
                before = tuple(ix.add(p, const(-1)) if a is axis else p for a, p in zip(n.axes, point))
                old = ev.read(array.mem, array.address(before), asg, low.b.splat(inside, lanes))
                old = low.b.op("select", inside, old, low.b.const(start, dtype), dtype=dtype)
            new = low.b.op(combine, old, ev.value(n.expr, asg))
            out.append(wide(ev, new))
            ev.write(array.mem, array.address(point), asg, new, ev.guards(array, n.axes))
        return out

    def carry(rest: Sequence[Part], accs: list[Val]) -> list[Val]:
        if not rest:
            return step(accs)
        with low.open(rest[0], accs) as loop:
            loop.yields = carry(rest[1:], loop.carried)
        return loop.results

    if carried:

        def body() -> None:
            ev = NestEval(low, n)
            lanes = ev.width if ev.lane is not None else 1
            carry(loops[first:], [low.b.const(start, dtype, lanes) for _ in ev.assignments(ev.regs)])

        through(low, loops[:first], body)
    else:

        def alone() -> None:
            step(None)

        through(low, loops, alone)
