"""How a scan puts its next element, or vector of elements, to its state: of plain scans by an operation, of tuples by a rule.

Lanes along the scanned axis hold a prefix each after log2(lanes) shifts and combinations (W. D. Hillis and G. L. Steele, "Data
parallel algorithms", 1986); what is carried then costs one combination for a whole vector."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from ...ir.body import Scan
from ...ir.dtypes import DType, bool_
from ...ir.node import Node, placeholder
from ...ir.tuple_scan import tuple_scan
from ...opts.nests import Nest, identity
from ...program.program import Val
from ..expr import NestEval
from ..lowering import Lowering
from ..storage import Assignment
from .loops import wide

State = dict[int, Val]
"""Values of components. A plain scan has one, the component 0."""


class ScanRule(Protocol):
    """What the loops of a scan ask. `kept`: the components that its result needs; `result`: the one that it is; `along_lanes`: whether
    lanes hold elements that follow each other."""

    ev: NestEval
    kept: tuple[int, ...]
    result: int
    along_lanes: bool

    def dtype(self, component: int) -> DType:
        """The type of a component."""

    def start(self) -> State:
        """The neutral state."""

    def step(self, state: State, at: Assignment) -> tuple[State, Val]:
        """(the state after the elements at an assignment of register parts, the scan's result there)."""


class PlainRule:
    """A scan that combines by an operation."""

    kept: tuple[int, ...] = (0,)
    result = 0

    def __init__(self, low: Lowering, n: Nest, ev: NestEval, axis: Node) -> None:
        assert n.value is not None and isinstance(n.value.expr, Scan)
        self.low, self.n, self.ev, self.combine = low, n, ev, n.value.expr.combine
        self.along_lanes = ev.lane is not None and ev.lane.axis is axis

    def dtype(self, component: int) -> DType:
        """The type of the elements."""
        return self.n.expr.dtype

    def start(self) -> State:
        """The identity of the operation."""
        ev, dtype = self.ev, self.n.expr.dtype
        return {0: self.low.b.const(identity(self.combine, dtype).arg, dtype, ev.width if ev.lane is not None else 1)}

    def step(self, state: State, at: Assignment) -> tuple[State, Val]:
        """One combination, or the prefixes of a vector and one combination for what is carried."""
        b, x = self.low.b, self.ev.value(self.n.expr, at)
        if not self.along_lanes:
            new = wide(self.ev, b.op(self.combine, state[0], x))
            return {0: new}, new
        x = _prefixes(self.low, {0: wide(self.ev, x)}, self.start(), self._merged)[0]
        last = (self.ev.width - 1,) * self.ev.width
        new = b.op(self.combine, state[0], x)
        return {0: b.op(self.combine, state[0], b.shuffle(x, x, last))}, new

    def _merged(self, left: State, right: State) -> State:
        return {0: self.low.b.op(self.combine, left[0], right[0])}


class TupleRule:
    """A scan of tuples (`ir.tuple_scan`)."""

    def __init__(self, low: Lowering, n: Nest, ev: NestEval, axis: Node) -> None:
        self.low, self.ev, self.scan = low, ev, tuple_scan(n.expr)
        self.along_lanes = ev.lane is not None and ev.lane.axis is axis
        self.kept, self.result = tuple(self.scan.needed(self.along_lanes)), self.scan.pick

    def dtype(self, component: int) -> DType:
        """The type of a component."""
        return self.scan.elements[component].dtype

    def start(self) -> State:
        """The neutral state of the rule."""
        lanes = self.ev.width if self.ev.lane is not None else 1
        return {c: self.low.b.const(self.scan.identity[c].arg, self.dtype(c), lanes) for c in self.kept}

    def step(self, state: State, at: Assignment) -> tuple[State, Val]:
        """The rule once, or the prefixes of a vector and the rule for all of them."""
        ev = self.ev
        x = {c: wide(ev, ev.value(e, at)) for c, e in enumerate(self.scan.elements)}
        if not self.along_lanes:
            new = self._merged(state, x)
            return new, new[self.scan.pick]
        new = self._merged(state, _prefixes(self.low, {c: x[c] for c in self.kept}, self.start(), self._merged))
        last = (ev.width - 1,) * ev.width
        return {c: self.low.b.shuffle(v, v, last) for c, v in new.items()}, new[self.scan.pick]

    def _merged(self, left: State, right: State) -> State:
        """The rule, of the components that are kept."""
        given: dict[Node, Val] = {}
        for side, state in (("a", left), ("b", right)):
            given |= {placeholder(f"{side}.#{c}", self.dtype(c)): v for c, v in state.items()}
        values = self.ev.with_given(given, [self.scan.merge[c] for c in self.kept])
        return {c: wide(self.ev, v) for c, v in zip(self.kept, values, strict=True)}


def _prefixes(low: Lowering, x: State, start: State, merged: Callable[[State, State], State]) -> State:
    """In each lane what the lanes up to it combine to."""
    b, n = low.b, next(iter(x.values())).lanes
    distance = 1
    while distance < n:
        moved: State = {}
        for c, v in x.items():
            if low.sched.target.groups:  # Oclgrind takes vectors that begin with constants for uninitialised
                shifted = b.shuffle(v, v, tuple(max(i - distance, 0) for i in range(n)))
                moved[c] = b.op("select", b.const(tuple(i >= distance for i in range(n)), bool_, n), shifted, start[c])
            else:
                moved[c] = b.shuffle(start[c], v, tuple(range(n - distance, 2 * n - distance)))
        x = merged(moved, x)
        distance *= 2
    return x
