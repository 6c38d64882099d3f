"""Windows that are two to four elements apart along the lanes. Their rows are reduced as they lie in memory, in whole vectors, and what each lane
wants is picked from those: a 3 × 3 window takes three shuffles then, and not nine, and its columns share their loads."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product

from ...ir.buffer import load_parts
from ...ir.dtypes import bool_
from ...ir.node import Node
from ...opts.access import deinterleavable
from ...program.program import Mem, Val
from ..access.interleaved import LEAST
from ..access.memory_access import masks_alone
from ..expr import NestEval
from ..storage import Assignment

Lanes = tuple[bool, ...]
Reduced = Callable[[tuple[Val, ...]], Val]


@dataclass(frozen=True)
class LaneElements:
    """What a step of a window reads: of memory from `base` on, in lane i the element `first` + i · `step`, where it is `inside` and `wanted`.
    What is not inside is what a reduction begins with. `invariant`: nobody writes there."""

    mem: Mem
    base: Node
    first: int
    step: int
    inside: Lanes
    wanted: Lanes
    invariant: bool

    def offsets(self) -> Iterator[int]:
        """Those that are wanted."""
        return (self.first + i * self.step for i, w in enumerate(self.wanted) if w)


def lane_elements(ev: NestEval, expr: Node, none: Node, point: Assignment) -> LaneElements | None:
    """What an expression loads, or has `none` instead of; None where it is anything else, or where that is not known before anything runs."""
    expr = ev.selected(expr)
    inside: Lanes | None = (True,) * ev.width
    if expr.op == "where" and expr.src[2] is none:
        inside, expr = _known(ev, expr.src[0], point), ev.selected(expr.src[1])
    if expr.op != "load" or inside is None:
        return None
    mem, address, mask, invariant = ev.locate(expr)
    own = load_parts(expr)[2]
    there = inside if mask is None else _known(ev, mask, point)
    loaded = inside if own is None else _known(ev, own, point)
    if there is None or loaded is None or any(i and not x for i, x in zip(inside, loaded, strict=True)):
        return None
    base, first, step, left = ev.placed(address, point)
    wanted = tuple(i and t for i, t in zip(inside, there, strict=True))
    return None if left else LaneElements(mem, base, first, step, inside, wanted, invariant and mask is None)


def _known(ev: NestEval, cond: Node, point: Assignment) -> Lanes | None:
    found = ev.b.known(ev.value(cond, point))
    return (found,) * ev.width if isinstance(found, bool) else found


Rows = tuple[int, ...]
"""Where rows of a window are, from the first of them on."""


@dataclass
class _Strip:
    """The rows of a window under the lanes of its results. `starts`: where vectors begin that hold all that is wanted of the first row, up to `end`;
    `vectors`: what the rows come to in each of them; `picked`: by the first element, what is picked for lanes that all exist."""

    offsets: set[int] = field(default_factory=set)
    starts: list[int] = field(default_factory=list)
    end: int = 0
    vectors: dict[int, Val] = field(default_factory=dict)
    picked: dict[int, Val] = field(default_factory=dict)

    def cover(self, width: int) -> None:
        """As few vectors as hold everything; none reads past the last element that is wanted, where it can begin earlier."""
        wanted, covered = sorted(self.offsets), None
        self.end = wanted[-1] + 1
        for o in wanted:
            if covered is None or o >= covered:
                self.starts.append(max(wanted[0], min(o, self.end - width)))
                covered = self.starts[-1] + width


@dataclass
class StridedWindows:
    """Windows of some results: for each, `found` has what each step reads; `along`: for each step, which one it is along the lanes. `reduced` takes
    the extreme of some vectors; `none` is what it begins with. `loaded`: all vectors that were loaded."""

    ev: NestEval
    found: Sequence[Sequence[LaneElements]]
    along: Sequence[int]
    rows_of: Sequence[object]
    reduced: Reduced
    none: Val
    loaded: dict[tuple[int, int], Val] = field(default_factory=dict)
    strips: dict[tuple[object, Rows], _Strip] = field(default_factory=dict)

    def suit(self) -> bool:
        """Whether rows can be reduced first: all steps read one array at one stride, and the rows of a column the same lanes."""
        ev, first = self.ev, self.found[0][0]
        if ev.width < LEAST or not deinterleavable(first.step) or self.ev.kept_output(first.mem):
            return False
        if any((e.mem, e.base, e.step) != (first.mem, first.base, first.step) for each in self.found for e in each):
            return False
        for at, each in enumerate(self.found):
            for column in self._columns(each):
                if len({(e.inside, e.wanted) for e in column}) > 1:
                    return False
                if column:
                    self._strip(at, column).offsets.update(column[0].offsets())
        for strip in self.strips.values():
            strip.cover(ev.width)
        return masks_alone(ev, first.mem) or all(s.starts[-1] + ev.width <= s.end for s in self.strips.values())

    def results(self) -> list[Val]:
        """The extreme of each window."""
        out = []
        for at, each in enumerate(self.found):
            columns = [self._picked(self._strip(at, column), column) for column in self._columns(each) if column]
            out.append(self.reduced(tuple(columns)) if columns else self.none)
        return out

    def _columns(self, each: Sequence[LaneElements]) -> list[list[LaneElements]]:
        """The steps of a window by where they are along the lanes, without rows that have no element."""
        out: dict[int, list[LaneElements]] = {}
        for e, at in zip(each, self.along, strict=True):
            out.setdefault(at, []).extend([e] if any(e.wanted) else [])
        return list(out.values())

    def _strip(self, at: int, column: Sequence[LaneElements]) -> _Strip:
        rows = tuple(e.first - column[0].first for e in column)
        return self.strips.setdefault((self.rows_of[at], rows), _Strip())

    def _row(self, e: LaneElements, start: int, end: int) -> Val:
        """The vector of a row from an element on, without what is past the end."""
        ev, width, key = self.ev, self.ev.width, (start, min(start + self.ev.width, end))
        if key not in self.loaded:
            mask = None if start + width <= end else ev.b.const(tuple(start + i < end for i in range(width)), bool_, width)
            self.loaded[key] = ev.low.load(e.mem, e.base, start, width, mask, e.invariant)
        return self.loaded[key]

    def _vector(self, strip: _Strip, column: Sequence[LaneElements], start: int) -> Val:
        if start not in strip.vectors:
            rows = [e.first - column[0].first for e in column]
            strip.vectors[start] = self.reduced(tuple(self._row(column[0], start + r, strip.end + r) for r in rows))
        return strip.vectors[start]

    def _picked(self, strip: _Strip, column: Sequence[LaneElements]) -> Val:
        """What lanes want of the rows of a column."""
        b, width, e = self.ev.b, self.ev.width, column[0]
        wanted: Mapping[int, int] = {i: e.first + i * e.step for i, w in enumerate(e.wanted) if w}
        before = strip.picked.get(e.first - e.step)
        pair = self._pair(strip, list(wanted.values()))
        if pair is not None:
            vectors = [self._vector(strip, column, s) for s in pair]
            at = {i: next(n * width + o - s for n, s in enumerate(pair) if 0 <= o - s < width) for i, o in wanted.items()}
            found = b.shuffle(vectors[0], vectors[1], tuple(at.get(i, 0) for i in range(width)))
        elif before is not None:  # a lane further, and one more element
            last = wanted.get(width - 1, strip.starts[-1])
            start = next(s for s in strip.starts if 0 <= last - s < width)
            found = b.shuffle(before, self._vector(strip, column, start), (*range(1, width), width + last - start))
        else:
            found = self._from_many(strip, column, wanted)
        if all(e.wanted):
            strip.picked[e.first] = found
        return found if all(e.inside) else b.op("select", b.const(e.inside, bool_, width), found, self.none, dtype=found.dtype)

    def _pair(self, strip: _Strip, wanted: Sequence[int]) -> tuple[int, int] | None:
        """Where two vectors begin that hold all of some elements."""
        width = self.ev.width
        starts = [s for s in strip.starts if s < wanted[-1] + 1 and s + width > wanted[0]]
        return next((p for p in product(starts, starts) if all(any(0 <= o - s < width for s in p) for o in wanted)), None)

    def _from_many(self, strip: _Strip, column: Sequence[LaneElements], wanted: Mapping[int, int]) -> Val:
        """Elements of more than two vectors."""
        width, found, there = self.ev.width, None, set[int]()
        for s in strip.starts:
            mine = {i: o - s for i, o in wanted.items() if 0 <= o - s < width and i not in there}
            if mine:
                vector = self._vector(strip, column, s)
                kept, new = vector if found is None else found, vector
                at = [width + mine[i] if i in mine else i if i in there else 0 for i in range(width)]
                found = self.ev.b.shuffle(kept, new, tuple(at))
                there |= set(mine)
        assert found is not None
        return found
