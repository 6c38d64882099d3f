"""Emits scans of tuples (`ir.tuple_scan`): the components that the result needs are carried through the innermost loops, or
kept in arrays of their own.

Lanes along the scanned axis hold a prefix each after log2(lanes) shifts and merges, as in `emit.scan`."""

from __future__ import annotations

from collections.abc import Sequence

from ...ir import index as ix
from ...ir.body import Scan, Value
from ...ir.dtypes import bool_
from ...ir.node import Node, const, placeholder
from ...ir.tuple_scan import tuple_scan
from ...opts.axis_plan import Part
from ...opts.nests import Nest
from ...program.program import Val
from ..expr import NestEval
from ..lowering import Lowering
from ..storage import Array, Assignment
from .loops import carry, wide

State = dict[int, Val]
"""Values of components."""


class TupleSteps:
    """The steps of a scan of tuples into `array`; the state's other components have arrays where it is not carried."""

    def __init__(self, low: Lowering, n: Nest, array: Array, carried: bool) -> None:
        assert n.value is not None and isinstance(n.value.expr, Scan)
        self.low, self.n = low, n
        self.axis, self.scan = n.value.expr.axis, tuple_scan(n.expr)
        lane = NestEval(low, n).lane
        self.along_lanes = lane is not None and lane.axis is self.axis
        self.kept = self.scan.needed(self.along_lanes)
        self.arrays = {self.scan.pick: array}
        for c in self.kept if not carried else ():
            if c not in self.arrays:
                e = self.scan.elements[c]
                self.arrays[c] = low.array(Value(f"{n.name}.{c}", n.axes, e, e.dtype), n.axes)

    def carried(self, loops: Sequence[Part]) -> None:
        """Carry the states through the loops over the scanned axis."""
        ev = NestEval(self.low, self.n)
        points = ev.assignments([p for p in ev.regs if p.axis is not self.axis])
        start = self._start(ev)
        carry(self.low, loops, [start[c] for _ in points for c in self.kept], self.step)

    def step(self, carried: list[Val] | None) -> list[Val]:
        """One step of every state; each is read back from the arrays where it is not carried."""
        ev = NestEval(self.low, self.n)
        out: list[Val] = []
        along = ev.assignments([p for p in ev.regs if p.axis is self.axis])
        for i, asg in enumerate(ev.assignments([p for p in ev.regs if p.axis is not self.axis])):
            if carried is not None:
                state = dict(zip(self.kept, carried[i * len(self.kept) : (i + 1) * len(self.kept)], strict=True))
            else:
                state = self._before(ev, asg)
            for here in along:
                at = {**asg, **here}
                x = {c: wide(ev, ev.value(e, at)) for c, e in enumerate(self.scan.elements)}
                if self.along_lanes:
                    x = self._prefixes(ev, {c: x[c] for c in self.kept})
                new = self._merged(ev, state, x)
                state = new
                if self.along_lanes:
                    last = (ev.width - 1,) * ev.width
                    state = {c: self.low.b.shuffle(v, v, last) for c, v in new.items()}
                for c, array in self.arrays.items():
                    ev.write(array.mem, array.address(self.low.point(array)), at, new[c], ev.guards(array, self.n.axes))
            out += [state[c] for c in self.kept]
        return out

    def _start(self, ev: NestEval) -> State:
        lanes = ev.width if ev.lane is not None else 1
        return {c: self.low.b.const(self.scan.identity[c].arg, self.scan.elements[c].dtype, lanes) for c in self.kept}

    def _merged(self, ev: NestEval, left: State, right: State) -> State:
        """The rule, of the components that are kept."""
        given: dict[Node, Val] = {}
        for side, state in (("a", left), ("b", right)):
            given |= {placeholder(f"{side}.#{c}", self.scan.elements[c].dtype): v for c, v in state.items()}
        values = ev.with_given(given, [self.scan.merge[c] for c in self.kept])
        return {c: wide(ev, v) for c, v in zip(self.kept, values, strict=True)}

    def _before(self, ev: NestEval, asg: Assignment) -> State:
        """The state one place before, or the identity at the first place."""
        low, b = self.low, self.low.b
        lanes = ev.width if ev.lane is not None else 1
        inside = b.op("lt", b.const(0), low.scalar(low.ctx.axis_index[self.axis]))
        out: State = {}
        for c in self.kept:
            array, start = self.arrays[c], self.scan.identity[c]
            before = tuple(ix.add(p, const(-1)) if a is self.axis else p for a, p in zip(self.n.axes, low.point(array), strict=True))
            acc = ev.read(array.mem, array.address(before), asg, b.splat(inside, lanes))
            out[c] = wide(ev, b.op("select", inside, acc, b.const(start.arg, start.dtype), dtype=start.dtype))
        return out

    def _prefixes(self, ev: NestEval, x: State) -> State:
        """In each lane what the lanes up to it merge to."""
        b, n, distance = self.low.b, ev.width, 1
        start = self._start(ev)
        while distance < n:
            moved: State = {}
            for c, v in x.items():
                if self.low.sched.target.groups:  # Oclgrind takes vectors that begin with constants for uninitialised
                    shifted = b.shuffle(v, v, tuple(max(i - distance, 0) for i in range(n)))
                    inside = b.const(tuple(i >= distance for i in range(n)), bool_, n)
                    moved[c] = b.op("select", inside, shifted, start[c])
                else:
                    moved[c] = b.shuffle(start[c], v, tuple(range(n - distance, 2 * n - distance)))
            x = self._merged(ev, moved, x)
            distance *= 2
        return x
