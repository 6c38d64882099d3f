"""Staged copies of a single worker: panels in the order in which they are read, and boxes of rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from ...ir import index as ix
from ...ir.buffer import load, load_parts, loads
from ...ir.node import Node, axes_of, axis, const
from ...ir.node import axis as make_axis
from ...opts.axis_plan import Part
from ...opts.lanes import Vectors
from ...opts.nests import Nest
from ...opts.plans import DotPlan, StagePlan
from ...opts.rewrites.kernel_parts import guarded
from ...program.builder import Builder
from ...program.program import Mem, Phase, Val
from ..access.transpose import LEAST, transposed
from ..emit.dot import kept, panel, sums_of
from ..emit.nest_loops import carry, through
from ..expr import NestEval
from ..lowering import Lowering
from ..part_index import as_node, linear_index, narrowed, over_parts, parts_index
from ..storage import Arena, Assignment

# boxes ----------------------------------------------------------------------------------------------------------------
#
# Staged boxes of a single worker: rows of a buffer, copied in whole vectors, and 0 where the box reaches outside the
# buffer.
#
# How much of a row lies inside is known before it is copied: the last block of a reduction is shorter, a window
# begins before the first element. So its vectors need no masks. The last one ends where the row does, and writes
# again what the one before it wrote. Only rows shorter than a vector are masked: bytes have no masks below AVX-512,
# and one by one they take as long as the products that they are for.


VECTOR = 16
"""Elements of a vector that is copied at most: rows have room for the last one."""


@dataclass(frozen=True, slots=True)
class _BoxSide:
    """A dimension of a box: the place along it, how many elements it has, and the first and the end of those inside the buffer."""

    place: Node
    size: int
    first: Node
    end: Node


class BoxOfRows:
    """The copy of one box into `mem`."""

    def __init__(self, low: Lowering, s: StagePlan, mem: Mem) -> None:
        self.low, self.s, self.mem = low, s, mem
        wide = low.sched.target.vector_bytes // s.dtype.size
        self.width = low.ctx.width if low.ctx.width == 1 else max(low.ctx.width, min(VECTOR, wide))
        self.sides = [self._side(d, low.known(base), size) for d, base, size, _ in s.box]
        places = [side.place for side in self.sides]
        index_ = list(s.index)
        for (d, base, *_), place in zip(s.box, places, strict=True):
            index_[d] = ix.add(base, place)
        self.address = linear_index(places, (stride for *_, stride in s.box))
        self.source = linear_index(index_, low.ctx.strides[s.buffer.name])

    def emit(self) -> None:
        """Emit the copy at the current position."""
        self._inside(self.sides)

    def _side(self, d: int, base: Node, size: int) -> _BoxSide:
        ranges = self.low.scope.ranges
        first = ix.minmax("min", const(size), ix.minmax("max", const(0), ix.mul(base, const(-1))))
        left = ix.add(as_node(self.s.buffer.shape[d]), base, -1)
        end = ix.minmax("max", first, ix.minmax("min", const(size), left))
        return _BoxSide(make_axis(f"{self.s.buffer.name}.box{d}", size), size, narrowed(first, ranges), narrowed(end, ranges))

    def _inside(self, sides: Sequence[_BoxSide]) -> None:
        """What lies inside the buffer along the sides that are open."""
        side, *inner = sides
        if not inner:
            self._row(side)
            return
        self._over(side, const(0), side.first, lambda: self._zeros(inner))
        self._over(side, side.first, side.end, lambda: self._inside(inner))
        self._over(side, side.end, const(side.size), lambda: self._zeros(inner))

    def _row(self, side: _BoxSide) -> None:
        """The elements of a row that lie inside, and zeros around them."""
        b, inside = self.low.b, ix.add(side.end, side.first, -1)
        long = narrowed(ix.compare("le", const(self.width), inside), self.low.scope.ranges)
        if inside is const(0):
            self._zeros([side])
        elif long is const(True):
            self._zero_padded(side, inside)
        elif long is const(False):
            self._masked(side)
        else:
            with b.when(self.low.scalar(long)):
                self._zero_padded(side, inside)
            with b.when(b.op("not", self.low.scalar(long))):
                self._masked(side)

    def _zero_padded(self, side: _BoxSide, inside: Node) -> None:
        """Zeros, then the vectors inside, of which there is one at least; the last one ends where the row does."""
        width = self.width
        if side.first is not const(0):
            self._vectors(side, const(0), ix.ceildiv(side.first, width), self._zero)
        if side.end is not const(side.size):
            self._vectors(side, ix.floordiv(side.end, width), const(-(-side.size // width)), self._zero)
        self._vectors(side, const(0), ix.floordiv(inside, width), self._copy, side.first)
        if ix.mod(inside, width) is not const(0):
            self._at(side, ix.add(side.end, const(-width)), self._copy)

    def _masked(self, side: _BoxSide) -> None:
        """Vectors of which each lane is looked at."""
        self._vectors(side, const(0), const(-(-side.size // self.width)), lambda: self._copy(self._mask(side)))

    def _zeros(self, sides: Sequence[_BoxSide]) -> None:
        """Rows outside the buffer."""
        side, *inner = sides
        if inner:
            self._over(side, const(0), const(side.size), lambda: self._zeros(inner))
        else:
            self._vectors(side, const(0), const(-(-side.size // self.width)), self._zero)

    def _over(self, side: _BoxSide, lo: Node, hi: Node, body: Callable[[], None], step: int = 1, first: Node = const(0)) -> None:  # noqa: B008
        """The places from `first` + `lo` · `step` on, one `step` after the other, before that of `hi`."""
        low, b = self.low, self.low.b
        trips = ix.add(hi, lo, -1)
        if trips is const(0):
            return
        if trips is const(1):
            self._at(side, ix.add(first, lo, step), body)
            return
        with b.loop(side.place.arg.name, low.scalar(lo), low.scalar(hi), maybe=trips.op != "const") as loop:
            place = loop.var if step == 1 else b.op("mul", loop.var, b.const(step))
            place = place if first is const(0) else b.op("add", place, low.scalar(first))
            with low.scalars.bind(side.place, place):
                body()

    def _at(self, side: _BoxSide, place: Node, body: Callable[[], None]) -> None:
        """One place."""
        with self.low.within(fixed={**self.low.scope.fixed, side.place: place}):
            body()

    def _vectors(self, side: _BoxSide, lo: Node, hi: Node, body: Callable[[], None], first: Node = const(0)) -> None:  # noqa: B008
        """The vectors `lo` to `hi` of a row, the first of which begins at `first`."""
        self._over(side, lo, hi, body, self.width, first)

    def _copy(self, mask: Val | None = None) -> None:
        low = self.low
        value = low.b.load(low.param(self.s.buffer.name), low.scalar(self.source), self.width, mask)
        low.b.store(self.mem, low.scalar(self.address), kept(low.b, self.s, value))

    def _zero(self) -> None:
        b = self.low.b
        nothing = b.splat(b.const(0, self.s.buffer.dtype), self.width)
        b.store(self.mem, self.low.scalar(self.address), kept(b, self.s, nothing))

    def _mask(self, side: _BoxSide) -> Val | None:
        """Which lanes of the vector at the place of a row lie inside."""
        b, width, mask = self.low.b, self.width, None
        place = self.low.scalar(side.place)
        if width > 1:
            place = b.op("add", place, b.multiples(1, width))
        for op, at in (("le", side.first), ("lt", side.end)):
            limit = b.splat(self.low.scalar(at), place.lanes)
            mask = b.both(mask, b.op(op, *((limit, place) if op == "le" else (place, limit))))
        return mask


# panels ---------------------------------------------------------------------------------------------------------------


def fill_across(low: Lowering, s: StagePlan, mem: Mem, value: Node, loops: Sequence[Part]) -> bool:
    """Emit the copy of a panel, read by `value` inside `loops`; False where it does not lie so, or has bounds to keep."""
    found = _run(low, s, value)
    if found is None:
        return False
    lanes, step, run = found
    width = min(low.ctx.width, lanes.trips & -lanes.trips)
    trips = 1
    for p in run:
        trips *= p.trips
    long = min(width, trips & -trips)
    if width < LEAST or long < LEAST or long * s.dtype.size < 16:
        return False
    gone = {p.name for p in (lanes, *run)}
    others = [p for p, _ in s.parts if p.register and p.name not in gone]
    flat = axis(f"{s.buffer.name}.run", trips // long)
    # element 0 of the run, in the buffer and in the panel
    moved = {lanes.var, *(p.var for p in run)}
    split = [ix.parts(i) for i in s.index]
    rest = [ix.linear({t: k for t, k in terms.items() if t not in moved}, c) for terms, c in split]
    b, param, pitch = low.b, low.param(s.buffer.name), dict(s.parts)[run[0]]
    source = ix.add(linear_index(rest, low.ctx.strides[s.buffer.name]), flat, long)
    place = ix.add(ix.mul(flat, const(long * pitch)), parts_index([(p, stride) for p, stride in s.parts if p.name not in gone]))

    def block(rest: Sequence[Part]) -> None:
        if rest:
            for i in range(rest[0].trips):
                with low.scalars.bind(rest[0].var, b.const(i)):
                    block(rest[1:])
            return
        for first in range(0, lanes.trips, width):
            rows = [low.load(param, source, (first + i) * step, long, None, True) for i in range(width)]
            for j, column in enumerate(transposed(b, rows)):
                low.store(mem, place, j * pitch + first, column)

    def body() -> None:
        with b.loop(flat.arg.name, b.const(0), b.const(trips // long)) as loop, low.scalars.bind(flat, loop.var):
            block(others)

    through(low, [p for p in loops if p.name not in gone], body)
    return True


def buffer_steps(low: Lowering, s: StagePlan, parts: Sequence[Part]) -> dict[str, int] | None:
    """How many elements of the buffer a step of each part moves by, 0 where steps differ; None where a stride is not known."""
    steps: dict[str, int] = {}
    uneven = {v for i in s.index for t in ix.parts(i)[0] if t.op != "axis" for v in axes_of(t)}
    for p in parts:
        if p.var in uneven:
            steps[p.name] = 0
            continue
        step = 0
        for i, stride in zip(s.index, low.ctx.strides[s.buffer.name], strict=True):
            k = ix.parts(i)[0].get(p.var, 0)
            if k and not isinstance(stride, int):
                return None
            step += k * stride if isinstance(stride, int) else 0
        steps[p.name] = step
    return steps


def _run(low: Lowering, s: StagePlan, value: Node) -> tuple[Part, int, list[Part]] | None:
    """(the lanes' part, its step in the buffer, the parts that are one run in the buffer and evenly spaced in the
    panel, innermost first)."""
    if load_parts(value)[2] is not None or s.kept is not None or s.dtype.size < 4 or low.sched.target.kind == "gpu" or not s.parts:
        return None
    steps = buffer_steps(low, s, [p for p, _ in s.parts])
    if steps is None:
        return None
    lanes, unit = s.parts[-1]
    if unit != 1 or lanes.kind != "upcast" or steps[lanes.name] in (0, 1) or lanes.clip:
        return None
    run: list[Part] = []
    reach, pitch = 1, 0
    while True:
        after = next((e for e in s.parts if steps[e[0].name] == reach and _is_copied_whole(low, e[0]) and e[0] is not lanes), None)
        if after is None or (run and after[1] != pitch):
            break
        run.append(after[0])
        reach, pitch = reach * after[0].trips, after[1] * after[0].trips
    return (lanes, steps[lanes.name], run) if run else None


def _is_copied_whole(low: Lowering, part: Part) -> bool:
    """Whether all of a part is copied here, and its length is known."""
    return not part.clip and isinstance(part.size, int) and part.name not in low.scope.opened


class CopyEval(NestEval):
    """A nest whose lanes are given. Its load carries its bounds itself, and is not clamped."""

    def __init__(self, low: Lowering, n: Nest, vectors: Vectors) -> None:
        super().__init__(low, n, vectors=vectors)
        self.lane_masked, self.scalar_masked = None, []
        self._index = low.ctx.axis_index


def along_panel(low: Lowering, regs: Sequence[Part], strides: Mapping[str, int]) -> Vectors:
    """Lanes along the innermost register part of a panel, so that it is written consecutively; `strides`: elements of the panel
    that a step of each part moves by."""
    found = Vectors(regs)
    for p in regs:
        lanes = min(low.ctx.width, p.trips & -p.trips)
        if strides[p.name] == 1 and lanes > 1:
            found = Vectors(regs, p, lanes)
    return found


# packing --------------------------------------------------------------------------------------------------------------
# Panels for matrix instructions hold groups of k elements along the reduce axis, so a copy that reads along another
# axis interleaves k rows. Where the other operand is shifted, the sums of the panel's columns are kept as well.


def interleave(low: Lowering, s: StagePlan, n: Nest, mem: Mem, address: Node) -> bool:
    """Write the register copies of a panel, if the buffer is consecutive along the part outside the groups: one vector of every row
    of a group is loaded, and they are interleaved. False where that is not so (then elements are copied one by one, or by
    groups where those are consecutive)."""
    _, indices, _ = load_parts(n.expr)
    strides = low.ctx.strides[s.buffer.name]
    regs = [(p, st) for p, st in s.parts if p.register]
    dot, size = regs[-1][0], regs[-1][0].trips
    lane = next((p for p, st in regs if st == size and _consecutive(low, p, indices, strides)), None)
    if lane is None or lane.trips % 2 or _consecutive(low, dot, indices, strides):
        return False
    ev = CopyEval(low, n, Vectors([p for p, _ in regs], lane, min(low.ctx.width, lane.trips & -lane.trips)))
    for asg in ev.assignments([p for p in ev.regs if p is not dot]):
        rows = [low.b.splat(kept(low.b, s, ev.value(n.expr, {**asg, dot.name: i})), ev.width) for i in range(size)]
        base, c, _, _ = ev.split(address, {**asg, dot.name: 0})
        lanes = ev.width * size
        low.b.store(low.at(mem, base, c, lanes), low.scalar(base), interleave_rows(low.b, rows))
    return True


def _consecutive(low: Lowering, part: Part, indices: tuple[Node, ...], strides: tuple[int | Node, ...]) -> bool:
    """Whether a step along `part` moves an access by one element."""
    steps = [(ix.parts(over_parts(i, low.ctx.axis_index))[0].get(part.var, 0), st) for i, st in zip(indices, strides)]
    return sum(k * st if isinstance(st, int) else 2 for k, st in steps if k) == 1


def interleave_rows(b: Builder, rows: Sequence[Val]) -> Val:
    """Lane i of every row, then lane i + 1 of every row ...: neighbours are zipped, then pairs, so that each step moves larger units."""
    unit, rows = 1, list(rows)
    while len(rows) > 1:
        lanes = rows[0].lanes
        order = tuple(side + at + i for at in range(0, lanes, unit) for side in (0, lanes) for i in range(unit))
        rows = [b.shuffle(x, y, order) for x, y in zip(rows[::2], rows[1::2], strict=True)]
        unit *= 2
    return rows[0]


def column_sums(low: Lowering, s: StagePlan, mem: Mem, dot: DotPlan) -> None:
    """Keep shift · Σ b for every column of the panel and every step of the loops outside the sum's own, by the instruction itself."""
    row, nest = dot.row, s.nests[0]
    others, address, size = sums_of(low.sched, s, nest)
    summed = [p for p, _ in s.parts if p not in others]
    name = f"{s.buffer.name}.sums"
    if name not in low.storage.panels:
        low.storage.panels[name] = low.storage.scratch.take(row.c, size)
    into = low.storage.panels[name]
    shift = low.b.const(dot.shift, row.a, row.k)
    regs = [p for p, _ in s.parts if p.register]
    lane = next(p for p in regs if p.axis is dot.n)

    def body() -> None:
        ev = CopyEval(low, Nest(f"{s.buffer.name}.sums", "copy", nest.axes, nest.reduce_axes, const(0, row.c)), Vectors(regs, lane, row.n))
        columns = ev.assignments([p for p in regs if p in others])
        start = [low.b.const(0, row.c, row.n) for _ in columns]
        done = carry(
            low, [p for p in summed if p.loop], start, lambda accs: [step(ev, acc, asg) for acc, asg in zip(accs, columns, strict=True)]
        )
        for asg, v in zip(columns, done, strict=True):
            ev.write(into, address, asg, v)

    def step(ev: CopyEval, acc: Val, asg: Assignment) -> Val:
        for more in ev.assignments([p for p in summed if p.register and p.kind != "dot"]):
            acc = low.b.dot(row.name, acc, shift, panel(ev, dot, s, mem, {**asg, **more}))
        return acc

    through(low, [p for p in low.remaining(nest) if p in others], body)


def fill_alone(low: Lowering, s: StagePlan) -> None:
    """Emit the copy at the current position."""
    mem = low.storage.panels.get(s.buffer.name)
    if mem is None:
        mem = low.storage.panels[s.buffer.name] = low.storage.scratch.take(s.dtype, s.elements)
    if s.order == "panel":
        _panel(low, s, mem)
    else:
        BoxOfRows(low, s, mem).emit()


def _panel(low: Lowering, s: StagePlan, mem: Mem) -> None:
    reader = s.nests[0]
    inside = {p.name for p, _ in s.parts}
    value = _source(low, s, reader)
    n = Nest(f"{s.buffer.name}.tile", "copy", reader.axes, reader.reduce_axes, value)
    loops = [p for p in low.remaining(reader) if p.name in inside]
    if fill_across(low, s, mem, value, loops):
        return
    address = parts_index(s.parts)

    def body() -> None:
        if s.parts and s.parts[-1][0].kind == "dot" and interleave(low, s, n, mem, address):
            return
        here = _source(low, s, reader)  # a piece of a loop may need no mask
        ev = CopyEval(low, n, along_panel(low, [p for p, _ in s.parts if p.register], {p.name: st for p, st in s.parts}))
        for asg in ev.assignments(ev.regs):
            ev.write(mem, address, asg, kept(low.b, s, ev.value(here, asg)))

    through(low, _far_first(low, s, loops), body)
    dot = low.sched.dots.get(reader.name)
    if dot is not None and dot.shift and load_parts(dot.b)[0] == s.buffer:
        column_sums(low, s, mem, dot)


def _far_first(low: Lowering, s: StagePlan, loops: list[Part]) -> list[Part]:
    """The loops so that the buffer is read in runs as long as they get: page after page of short pieces is several
    times slower. Where a stride is not known, in the reader's order."""
    steps = buffer_steps(low, s, loops)
    return loops if steps is None else sorted(loops, key=lambda p: -abs(steps[p.name]))


def _source(low: Lowering, s: StagePlan, reader: Nest) -> Node:
    """The load the reader would have done, in its own axes, padding included."""
    for b, indices, mask in loads(*reader.evaluated):
        if b == s.buffer and tuple(low.sched.at_parts(i) for i in indices) == s.index:
            conds = mask
            for a in reader.all_axes:
                if low.masked(a) and any(p.axis is a for p, _ in s.parts):
                    inside = low.bound(a)
                    # (a mask may be of what is read)
                    conds = inside if conds is None else guarded(conds, {a}, inside) & inside
            return load(s.buffer, indices, conds)
    raise AssertionError(f"{s.buffer.name} is not read in {reader.name}")


def pack_once(low: Lowering, s: StagePlan, room: Arena) -> Phase:
    """Fill the panel `s` in `room`, the work items going over its outermost loop. `low` knows the panel afterwards,
    and makes nothing else."""
    low.storage.scratch = room
    nest = s.nests[0]
    dot = low.sched.dots.get(nest.name)
    # sums of the panel's columns are made by one item each
    summed = set(nest.reduce_axes) if dot is not None and dot.shift else set()
    outer = next((p for p, _ in s.parts if p.loop and p.axis not in summed), None)
    with low.phase(const(1 if outer is None else outer.trips)) as phase:
        if outer is not None:
            low.scalars.bound[outer.var] = phase.item
        with low.within(opened={} if outer is None else {outer.name: outer}):
            fill_alone(low, s)
    low.scope = replace(low.scope, tiles={s.buffer.name: (s, low.storage.panels[s.buffer.name])})
    return phase
