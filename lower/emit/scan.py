"""Emits prefix scans, and in the same loop what reads them at the points where they are made.

The state of a scan whose loops are innermost is carried through them. Where other loops run inside, so that rows are gone through in
the order in which they lie in memory, every point of those has a state of its own: the result before it, where that is kept or stored as
it is, else one in scratch. The first step, before which there is no state, has code of its own. What is read at the same point only
(`opts.loop_tree.Chain`) stays in registers, so that a scan, a second one along another axis, and the store of both are one pass."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial, reduce

from ...ir import index as ix
from ...ir.body import Scan, Value, identity, tuple_scan
from ...ir.dtypes import DType, bool_
from ...ir.node import Node, const, placeholder
from ...ir.operators import substitute
from ...opts.analysis.thresholds import cuttable
from ...opts.axis_plan import Part
from ...opts.nests import Nest
from ...program.program import Val
from ..expr import NestEval
from ..lowering import Lowering
from ..part_index import bounds
from ..pieces import Piece, first_split
from ..storage import Array, Assignment, Registers
from .nest_loops import carry, wide
from .output_storage import alias, prepare_fills
from .stores import store_point, streaming

# scan rules -----------------------------------------------------------------------------------------------------------
# Lanes along the scanned axis hold a prefix each, after log2(lanes) shifts and combinations (W. D. Hillis and G. L.
# Steele, "Data parallel algorithms", 1986). What is carried then costs one combination a vector.


State = dict[int, Val]
"""Values of components. A plain scan has one, the component 0."""


class ScanRule:
    """How elements are put together. `kept`: the components that its result needs; `result`: the one that it is; `along_lanes`: whether
    lanes hold elements that follow each other. A scan of tuples (`ir.body`) has a rule, a plain one an operation, `combine`."""

    def __init__(self, low: Lowering, n: Nest, ev: NestEval, axis: Node) -> None:
        assert n.value is not None and isinstance(n.value.expr, Scan)
        self.low, self.ev, self.combine = low, ev, "" if n.expr.op == "tuple" else n.value.expr.combine
        self.along_lanes = ev.lane is not None and ev.lane.axis is axis
        self.elements: Sequence[Node]
        self.neutral: Sequence[Node]
        self.kept: tuple[int, ...]
        if self.combine:
            self.elements, self.neutral = (n.expr,), (identity(self.combine, n.expr.dtype),)
            self.kept, self.result = (0,), 0
        else:
            scan = tuple_scan(n.expr)
            self.elements, self.neutral, self.merge = scan.elements, scan.identity, scan.merge
            self.kept, self.result = tuple(scan.needed(self.along_lanes)), scan.pick

    def dtype(self, component: int) -> DType:
        """The type of a component."""
        return self.elements[component].dtype

    def start(self) -> State:
        """The neutral state."""
        lanes = self.ev.width if self.ev.lane is not None else 1
        return {c: self.low.b.const(self.neutral[c].arg, self.dtype(c), lanes) for c in self.kept}

    def step(self, state: State, at: Assignment) -> tuple[State, Val]:
        """(the state after the elements at an assignment of register parts, the scan's result there): by the rule once, or by the prefixes
        of a vector and the rule for all of them."""
        ev, b = self.ev, self.low.b
        x = {c: wide(ev, ev.value(e, at)) for c, e in enumerate(self.elements)}
        if not self.along_lanes:
            new = self._merged(state, x)
            return new, new[self.result]
        last = (ev.width - 1,) * ev.width
        x = _prefixes(self.low, {c: x[c] for c in self.kept}, self.start(), self._merged)
        new = self._merged(state, x)
        if self.combine:  # the next vector waits for one combination, and not for a shuffle after it
            return {0: b.op(self.combine, state[0], b.shuffle(x[0], x[0], last))}, new[0]
        return {c: b.shuffle(v, v, last) for c, v in new.items()}, new[self.result]

    def _merged(self, left: State, right: State) -> State:
        """The rule, of the components that are kept."""
        if self.combine:
            return {0: wide(self.ev, self.low.b.op(self.combine, left[0], right[0]))}
        given: dict[Node, Val] = {}
        for side, state in (("a", left), ("b", right)):
            given |= {placeholder(f"{side}.#{c}", self.dtype(c)): v for c, v in state.items()}
        values = self.ev.with_given(given, [self.merge[c] for c in self.kept])
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


def scan(low: Lowering, n: Nest) -> None:
    """A scan under the loops that are open."""
    chain(low, (n,))


def chain(low: Lowering, nests: Sequence[Nest]) -> None:
    """Scans and their readers in one loop, under the loops that are open. All have the same loops."""
    for n in nests:
        prepare_fills(low, n)
    loops = low.remaining(nests[0])
    scans = {n.name: _Running(low, n, loops, nests) for n in nests if n.kind == "scan"}
    past = [n.store.buffer.name for n in nests if n.store is not None and n.store.buffer.name in low.sched.nt]
    streaming(low, past, lambda: _Chain(low, nests, scans, loops).descend(0))
    for r in scans.values():
        if r.array is not None:
            low.storage.values[r.n.name] = r.array


class _Running:
    """One of the scans of a chain. `first`: the place of the outermost loop over its axis; `carried`: whether no other loop runs inside
    that one; `array`: where its results are kept for others than the chain."""

    def __init__(self, low: Lowering, n: Nest, loops: Sequence[Part], nests: Sequence[Nest]) -> None:
        assert n.value is not None and isinstance(n.value.expr, Scan)
        self.low, self.n, self.axis = low, n, n.value.expr.axis
        self.first = next((i for i, p in enumerate(loops) if p.axis is self.axis), len(loops))
        self.carried = all(p.axis is self.axis for p in loops[self.first :])
        self.array: Array | None = None
        if n.name not in low.sched.tree.registers:
            self.array = low.storage.reserved.get(n.name) or (None if low.sched.nt else alias(low, n)) or low.array(n.value, n.axes)
            if len(nests) == 1:
                low.storage.values[n.name] = self.array
        elif self._is_state() and not low.sched.nt:
            self.array = alias(low, n, self.axis)
        self.states: dict[int, Array] = {}
        self.results = self._is_state() and self.array is not None and self._in_runs(self.array)
        """Whether states are where results are, and have no room of their own."""

    def _is_state(self) -> bool:
        """Whether a result is all that the next one takes of what came before, other loops run in between, and one thread all of them."""
        rule = self.rule()
        return not self.carried and cuttable(self.low.sched) and rule.kept == (rule.result,) and not rule.along_lanes

    def _in_runs(self, array: Array) -> bool:
        """Whether results lie in an array as states do: side by side along the lanes, in the type of the scan."""
        lane = self.low.sched.lanes(self.n).lane
        strides = dict(zip(array.axes, array.strides, strict=True))
        same = array.mem.dtype is self.n.expr.dtype and array.ring is None and not array.own
        return same and (lane is None or strides.get(lane.axis) == 1)

    def rule(self) -> ScanRule:
        """How elements are put together at the builder's position."""
        ev = NestEval(self.low, self.n)
        return ScanRule(self.low, self.n, ev, self.axis)

    def points(self, ev: NestEval) -> list[Assignment]:
        """The copies in registers that have a state each."""
        return ev.assignments([p for p in ev.regs if p.axis is not self.axis])

    def starts(self) -> list[Val]:
        """The states before the first element, one after the other."""
        rule = self.rule()
        start = rule.start()
        return [start[c] for _ in self.points(rule.ev) for c in rule.kept]

    def room(self) -> None:
        """Room for the state of every point of the loops inside those over the axis, under the loops that are open."""
        if self.results:
            return
        rule = self.rule()
        lane = rule.ev.lane
        axes = tuple(sorted((a for a in self.n.axes if a is not self.axis), key=lambda a: lane is not None and a is lane.axis))
        for c in rule.kept:
            dtype = rule.dtype(c)
            self.states[c] = self.low.array(Value(f"{self.n.name}.state{c}", axes, const(0, dtype), dtype), axes)

    def step(self, accs: list[Val] | None) -> list[Val]:
        """One step of every state: of those that are carried the next ones; else they are read and written."""
        low, n, rule = self.low, self.n, self.rule()
        ev = rule.ev
        made = Registers(list(ev.regs), ev.lane, ev.width if ev.lane is not None else 1)
        along = ev.assignments([p for p in ev.regs if p.axis is self.axis])
        out: list[Val] = []
        for i, asg in enumerate(self.points(ev)):
            if accs is None:
                state = self._before(rule, asg)
            else:
                state = dict(zip(rule.kept, accs[i * len(rule.kept) : (i + 1) * len(rule.kept)], strict=True))
            for here in along:
                at = {**asg, **here}
                state, new = rule.step(state, at)
                made.vals[made.key(at)] = new
                if self.array is not None:
                    ev.write(self.array.mem, self.array.address(low.point(self.array)), at, new, ev.guards(self.array, n.axes))
            for c, room in self.states.items():
                ev.write(room.mem, room.address(low.point(room)), {**asg, **along[0]}, state[c], [])
            out += [state[c] for c in rule.kept]
        if self.array is None or len(low.scope.nests) > 1:
            low.storage.values[n.name] = made
        return out

    def _before(self, rule: ScanRule, asg: Assignment) -> State:
        """The state that the last step left, or the neutral one at the first place."""
        low, b, ev = self.low, self.low.b, rule.ev
        place = low.known(substitute(low.ctx.axis_index[self.axis], {p.var: const(0) for p in ev.regs if p.axis is self.axis}))
        least, most = bounds(place, low.scope.ranges)
        if most <= 0:
            return rule.start()
        width, start, out = ev.width if ev.lane is not None else 1, rule.start(), State()
        if self.results:
            assert self.array is not None
            there = ev.holding(ev.guards(self.array, tuple(a for a in self.n.axes if a is not self.axis)), asg)
            if there is None:
                return start
            at = [ix.add(i, const(-1)) if a is self.axis else i for a, i in zip(self.array.axes, low.point(self.array), strict=True)]
            rooms, conds = {rule.kept[0]: (self.array, tuple(at))}, [b.splat(c, width) for c in there if c is not None]
            asg = {**asg, **{p.name: 0 for p in ev.regs if p.axis is self.axis}}
        else:
            rooms, conds = {c: (room, low.point(room)) for c, room in self.states.items()}, []
        inside = b.op("lt", b.const(0), low.scalar(place)) if least <= 0 else None
        conds += [b.splat(inside, width)] if inside is not None else []
        mask = reduce(lambda x, y: b.op("and", x, y), conds) if conds else None
        for c, (room, at_room) in rooms.items():
            old = wide(ev, ev.read(room.mem, room.address(at_room), asg, mask))
            out[c] = old if inside is None else b.op("select", inside, old, start[c], dtype=start[c].dtype)
        return out


class _Chain:
    """The loops of a chain. `first`: the place of the loop at which states begin to be carried."""

    def __init__(self, low: Lowering, nests: Sequence[Nest], scans: dict[str, _Running], loops: Sequence[Part]) -> None:
        self.low, self.nests, self.scans, self.loops = low, nests, scans, loops
        self.first = min((r.first for r in scans.values() if r.carried), default=len(loops))
        self.carried = [r for r in scans.values() if r.carried and r.first == self.first]

    def descend(self, depth: int) -> None:
        """Open the loops from one on, and run the steps of all nests inside them."""
        low = self.low
        for r in self.scans.values():
            if not r.carried and r.first == depth:
                r.room()
        if depth == self.first:
            starts = [r.starts() for r in self.carried]
            sizes = [len(s) for s in starts]
            carry(low, self.loops[depth:], [v for s in starts for v in s], partial(self._body, sizes))
            return
        for piece in low.versions(self._begun(depth)):
            with low.open(self.loops[depth], piece=piece):
                self.descend(depth + 1)

    def _begun(self, depth: int) -> list[Piece]:
        """The pieces of a loop. Where some scans read their states and have none at the first step of it, this is one of them."""
        low, part = self.low, self.loops[depth]
        found = low.pieces(part)
        places = [low.ctx.axis_index[r.axis] for r in self.scans.values() if not r.carried and r.axis is part.axis]
        if not places or not cuttable(low.sched):
            return found
        outer = {
            p.var: const(0) for p in low.sched.plans[part.axis].parts if p.var not in low.scope.fixed and p.name not in low.scope.opened
        }
        first = all(bounds(substitute(low.known(place), outer), low.scope.ranges)[0] <= 0 for place in places)
        return first_split(low.sched, low.scope, part, found) if first else found

    def _body(self, sizes: Sequence[int], accs: list[Val]) -> list[Val]:
        """One step of every nest, in order; what those that are carried leave."""
        out: list[Val] = []
        for n in self.nests:
            r = self.scans.get(n.name)
            if r is None:
                if n.name not in self.low.storage.aliased:
                    store_point(self.low, n)
            elif r in self.carried:
                size = sizes[self.carried.index(r)]
                out += r.step(accs[len(out) : len(out) + size])
            else:
                r.step(r.starts() if r.carried else None)
        return out
