"""Emits prefix scans: the running value is carried through the innermost loops, or read back from the array.

Lanes along the scanned axis hold a prefix each after log2(lanes) shifts and combinations (W. D. Hillis and G. L.
Steele, "Data parallel algorithms", 1986); the value that is carried then costs one combination for a whole vector."""

from __future__ import annotations

from collections.abc import Sequence

from ...ir import index as ix
from ...ir.body import Scan
from ...ir.dtypes import bool_
from ...ir.node import const
from ...opts.axis_plan import Part
from ...opts.nests import Nest, identity
from ...program.program import Val
from ..expr import NestEval
from ..lowering import Lowering
from ..storage import Array, Assignment
from .alias import alias
from .fills import prepare_fills
from .loops import carry, through, wide
from .tuple_scan import TupleSteps


def scan(low: Lowering, n: Nest) -> None:
    """A scan under the loops that are open."""
    assert n.value is not None and isinstance(n.value.expr, Scan)
    prepare_fills(low, n)
    axis = n.value.expr.axis
    loops = low.remaining(n)
    first = next((i for i, p in enumerate(loops) if p.axis is axis), len(loops))
    carried = all(p.axis is axis for p in loops[first:])
    array = low.storage.reserved.get(n.name)
    if array is None and carried and not low.sched.nt:
        # what is read back must be there for copies past an extent too, which the output has no room for
        array = alias(low, n)
    if array is None:
        array = low.array(n.value, n.axes)
    low.storage.values[n.name] = array
    steps = TupleSteps(low, n, array, carried) if n.expr.op == "tuple" else _Steps(low, n, array)
    if carried:
        through(low, loops[:first], lambda: steps.carried(loops[first:]))
    else:
        through(low, loops, lambda: steps.step(None))


class _Steps:
    """The steps of a scan into `array`."""

    def __init__(self, low: Lowering, n: Nest, array: Array) -> None:
        assert n.value is not None and isinstance(n.value.expr, Scan)
        self.low, self.n, self.array = low, n, array
        self.axis, self.combine, self.dtype = n.value.expr.axis, n.value.expr.combine, n.expr.dtype
        self.start = identity(self.combine, self.dtype).arg

    def carried(self, loops: Sequence[Part]) -> None:
        """Carry the running values through the loops over the scanned axis."""
        ev = NestEval(self.low, self.n)
        lanes = ev.width if ev.lane is not None else 1
        spatial = ev.assignments([p for p in ev.regs if p.axis is not self.axis])
        carry(self.low, loops, [self.low.b.const(self.start, self.dtype, lanes) for _ in spatial], self.step)

    def step(self, accs: list[Val] | None) -> list[Val]:
        """One step for every running value; each is read back from the array where it is not carried."""
        low, n, array = self.low, self.n, self.array
        ev = NestEval(low, n)
        out = []
        along = ev.assignments([p for p in ev.regs if p.axis is self.axis])
        for i, asg in enumerate(ev.assignments([p for p in ev.regs if p.axis is not self.axis])):
            acc = accs[i] if accs is not None else self._before(ev, asg)
            for here in along:
                x = ev.value(n.expr, {**asg, **here})
                if ev.lane is not None and ev.lane.axis is self.axis:
                    x = _prefixes(low, wide(ev, x), self.combine, self.start)
                    new = low.b.op(self.combine, acc, x)
                    last = (ev.width - 1,) * ev.width
                    acc = low.b.op(self.combine, acc, low.b.shuffle(x, x, last))
                else:
                    new = acc = wide(ev, low.b.op(self.combine, acc, x))
                ev.write(array.mem, array.address(low.point(array)), {**asg, **here}, new, ev.guards(array, n.axes))
            out.append(acc)
        return out

    def _before(self, ev: NestEval, asg: Assignment) -> Val:
        """The result one place before, or the identity at the first place."""
        low, array = self.low, self.array
        lanes = ev.width if ev.lane is not None else 1
        inside = low.b.op("lt", low.b.const(0), low.scalar(low.ctx.axis_index[self.axis]))
        before = tuple(ix.add(p, const(-1)) if a is self.axis else p for a, p in zip(self.n.axes, low.point(array), strict=True))
        acc = ev.read(array.mem, array.address(before), asg, low.b.splat(inside, lanes))
        return low.b.op("select", inside, acc, low.b.const(self.start, self.dtype), dtype=self.dtype)


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
