"""What a phase moves between the caches: for each level, the outermost loop whose working set fits fetches its data once (M. E. Wolf
and M. S. Lam, "A Data Locality Optimizing Algorithm", 1991), on the loops and accesses of the Program itself."""

from __future__ import annotations

import math
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from ...ir import index as ix
from ...program.program import Instr, Program, statements, touched
from ..cache_sets import SetUse, set_use
from ..machine import DEFAULT
from .linear_forms import Variable
from .program_loops import LoopNode, Touch, Tree

FAR_APART = 1 << 62
Place = tuple[str, int]


@dataclass(slots=True)
class TouchGroup:
    """Accesses to one array that differ by constants: `runs` pieces of `run` bytes, `pitch` apart."""

    place: Place
    terms: Mapping[Variable, float]
    whole: float
    """Bytes of the array."""
    written: bool
    nt: bool
    runs: int
    run: float
    pitch: float

    pieces: tuple[tuple[float, float], ...] = ()
    """Where the pieces begin and end, but for what loops add."""

    @property
    def reach(self) -> float:
        """Bytes from its first place to its last."""
        steps = sum(abs(k) * (v.trips - 1) for v, k in self.terms.items() if not v.random)
        return steps + (self.runs - 1) * self.pitch + self.run

    @property
    def random(self) -> bool:
        """Whether data chooses the place."""
        return any(v.random for v in self.terms)


@dataclass(slots=True)
class Reuse:
    """The traffic of one phase. `sizes`: bytes of arrays by place; `line`: bytes that move at once (a cache line; a page, where what
    is kept are the translations of pages, and then stores past the caches need them too); `written`: how often a written one moves;
    `scattered`: how much dearer one is that data chooses."""

    tree: Tree
    sizes: Mapping[Place, float]
    line: float
    written: float
    scattered: float = 1.0
    past_caches: bool = True
    span: int = DEFAULT.core.set_span
    _groups: dict[int, list[TouchGroup]] = field(default_factory=dict)
    _sets: dict[tuple[int, frozenset[int]], SetUse] = field(default_factory=dict)
    _prints: dict[tuple[int, frozenset[int], float], float] = field(default_factory=dict)

    def groups(self, node: LoopNode) -> list[TouchGroup]:
        """The groups of all accesses inside a node."""
        found = self._groups.get(id(node))
        if found is None:
            found = self._groups[id(node)] = [g for g in grouped(node.below(), self.sizes, self.line) if not (g.nt and self.past_caches)]
        return found

    def footprint(self, g: TouchGroup, inner: frozenset[int], kept: float = math.inf) -> float:
        """Bytes that a group touches while some loops run, in whole lines. What data decides comes back to the same places only as far
        as they are `kept`: bytes of the cache."""
        kept = kept if g.random else math.inf
        key = (id(g), inner, kept)
        found = self._prints.get(key)
        if found is None:
            found = self._prints[key] = self._footprint(g, inner, kept)
        return found

    def _trips(self, loops: Iterable[int]) -> float:
        out = 1.0
        for key in loops:
            out *= max(1.0, self.tree.trips[key])
        return out

    def _footprint(self, g: TouchGroup, inner: frozenset[int], kept: float) -> float:
        least = min((abs(k) for v, k in g.terms.items() if v.random), default=math.inf)
        near, apart, around = [(g.pitch, float(g.runs))] if g.runs > 1 else [], 1.0, frozenset[int]()
        for v, k in g.terms.items():
            moving = v.roots & inner
            if v.random or (v.roots and not moving):
                continue
            trips = min(v.trips, self._trips(moving)) if v.roots else v.trips
            if abs(k) >= least:
                apart, around = apart * trips, around | moving
            elif trips > 1:
                near.append((abs(k), trips))
        each = self._lines(g.run, near)
        if least == math.inf:
            return min(each, max(g.whole, self.line))
        # (two places of one iteration, such as a row and a column, are chosen together)
        chosen = [v for v in g.terms if v.random]
        visits = math.prod(v.lanes * min(v.trips, self._trips((v.roots & inner) - around)) for v in chosen)
        together = max(v.lanes for v in chosen) * self._trips(frozenset().union(*(v.roots for v in chosen)) & inner - around)
        visits = min(visits, together)
        # data chooses among the places between two steps of the loops around
        span = min((abs(k) for v, k in g.terms.items() if not v.random and abs(k) > least), default=g.whole)
        found = apart * (min(visits * each, span) if span <= kept else visits * each * max(0.0, 1.0 - kept / span))
        return found if g.whole > kept else min(found, max(g.whole, self.line))

    def _lines(self, run: float, steps: list[tuple[float, float]]) -> float:
        """Bytes of the lines in which pieces of `run` bytes lie, which are repeated by (stride, trips)."""
        spread: list[tuple[float, float]] = []
        for stride, trips in sorted(steps):
            if not spread and stride <= max(run, self.line):
                run += stride * (trips - 1)
            elif spread and stride <= spread[-1][0] * spread[-1][1] and stride % spread[-1][0] == 0:
                spread[-1] = (spread[-1][0], spread[-1][1] + (trips - 1) * stride / spread[-1][0])
            else:
                spread.append((stride, trips))
        runs = 1.0
        for _, trips in spread:
            runs *= trips
        return runs * (max(self.line, run) if runs == 1 else max(self.line, -(-run // self.line) * self.line))

    def together(self, groups: Iterable[TouchGroup], inner: frozenset[int], twice: bool, kept: float = math.inf) -> float:
        """Bytes that groups touch while some loops run; no array is more than whole. `twice`: what is written is read before; `kept` as in
        `footprint`."""
        out: dict[Place, float] = {}
        seen: dict[tuple[Place, float, float], float] = {}
        for g in groups:
            factor = self.written if twice and g.written else 1.0
            found = self.footprint(g, inner, kept)
            same = (g.place, found, g.reach)  # which another loop went through before
            factor, before = max(factor, seen.get(same, 0.0)), seen.get(same, 0.0)
            seen[same] = factor
            limit = factor * max(g.whole, self.line) if g.whole <= kept else math.inf
            scattered = self.scattered if kept < math.inf and g.random else 1.0
            now = out.get(g.place, 0.0)
            out[g.place] = min(now + (factor - before) * scattered * found, max(limit, now))
        return sum(out.values())

    def moved(self, node: LoopNode, capacity: float, places: Collection[Place] | None = None) -> float:
        """Bytes that pass into a cache of so many bytes (and out of it) while a node runs all its trips; of the arrays in some `places`
        only, where these are given."""
        groups = [g for g in self.groups(node) if places is None or g.place in places]
        if self.together(groups, node.keys, False) > capacity:
            return self._inside(node, capacity, places)
        keys = node.keys | {node.key} if node.key >= 0 else node.keys
        # lines that meet too few sets do not stay, however few they are, and come back one by one
        crowded = {g.place for g in groups if self.set_use(g, node.keys).crowded(capacity, self.span)}
        found = self.together([g for g in groups if g.place not in crowded], keys, True, capacity) * min(1.0, node.trips)
        return found + (self.scattered if places is None else 1.0) * self._inside(node, capacity, crowded) if crowded else found

    def _inside(self, node: LoopNode, capacity: float, places: Collection[Place] | None) -> float:
        """As `moved`, where nothing stays from one trip to the next."""
        own = [a for a in node.accesses if places is None or (a.mem.space, a.mem.base) in places]
        past = [g for g in grouped(own, self.sizes, self.line) if not (g.nt and self.past_caches)]
        return node.trips * (self.together(past, frozenset(), True) + sum(self.moved(c, capacity, places) for c in node.children))

    def set_use(self, g: TouchGroup, inner: frozenset[int]) -> SetUse:
        """The sets of a cache that a group's lines meet while some loops run; what data chooses meets all of them."""
        key = (id(g), inner)
        found = self._sets.get(key)
        if found is None:
            steps = [] if g.random else self._steps(g, inner)
            found = self._sets[key] = set_use(g.run, steps, self.line, self.span)
        return found

    def _steps(self, g: TouchGroup, inner: frozenset[int]) -> list[tuple[float, float]]:
        """(stride, trips) by which the pieces of a group are repeated while some loops run, where data chooses none."""
        out = [(g.pitch, float(g.runs))] if g.runs > 1 else []
        for v, k in g.terms.items():
            moving = v.roots & inner
            trips = min(v.trips, self._trips(moving)) if v.roots else v.trips
            if trips > 1 and (moving or not v.roots):
                out.append((abs(k), trips))
        return out

    def waiting(self, node: LoopNode, capacity: float, places: Collection[Place] | None = None) -> float:
        """Lines that are written one after the other into the same sets of a cache of so many bytes, where each waits for another one to
        leave; those that go to several sets in turn count as a part."""
        keys = node.keys | {node.key} if node.key >= 0 else node.keys
        out, deeper = 0.0, set[Place]()
        for g in self._written(node.below(), places):
            if self.set_use(g, node.keys).crowded(capacity, self.span):
                deeper.add(g.place)
            elif (use := self.set_use(g, keys)).crowded(capacity, self.span):
                out += min(1.0, node.trips) * use.lines / use.places
        if not deeper:
            return out
        alone = [self.set_use(g, frozenset()) for g in self._written(node.accesses, deeper)]
        own = sum(use.lines / use.places for use in alone if use.crowded(capacity, self.span))
        return out + node.trips * (own + sum(self.waiting(c, capacity, deeper) for c in node.children))

    def _written(self, accesses: Iterable[Touch], places: Collection[Place] | None) -> Iterator[TouchGroup]:
        """The groups that are written into caches, where the Program says; of arrays in some `places` only, where these are given."""
        found = (a for a in accesses if places is None or (a.mem.space, a.mem.base) in places)
        return (g for g in grouped(found, self.sizes, self.line) if g.written and not g.random and not (g.nt and self.past_caches))

    def whole(self) -> float:
        """Bytes that a phase touches."""
        root = self.tree.root
        return self.together(self.groups(root), root.keys | {0}, False)

    def thrashed(self, ways: int, span: int) -> float:
        """Bytes fetched again since too many lines of one iteration share a set of a cache of so many `ways`, whose sets repeat after
        `span` bytes. (Arrays begin at the same place in a page, as large ones do.)"""
        return self._thrashed(self.tree.root, 1.0, ways, span)

    def _thrashed(self, node: LoopNode, times: float, ways: int, span: int) -> float:
        times *= node.trips
        sets: dict[tuple[frozenset[tuple[Variable, float]], int], list[float]] = {}
        for g in grouped(node.accesses, self.sizes, self.line) if len(node.accesses) > ways else ():
            apart = frozenset((v, k) for v, k in g.terms.items() if k % span)  # what moves otherwise meets them now and then
            for begin, end in g.pieces if not g.random else ():
                for line in range(int(begin // self.line), math.ceil(end / self.line)):
                    sets.setdefault((apart, int(line * self.line % span)), []).append(self.written if g.written else 1.0)
        lost = sum(sum(lines) for lines in sets.values() if len(lines) > ways)
        return lost * self.line * times + sum(self._thrashed(c, times, ways, span) for c in node.children)

    def past(self, open_lines: int, pieces: float) -> float:
        """Bytes that are stored past the caches. Lines that are stored in pieces, those of several rows in turns, wait in few buffers:
        more than half of `open_lines` at once cost up to `pieces` times as much."""
        root = self.tree.root
        whole = sum(self.footprint(g, root.keys | {0}) for g in grouped(root.below(), self.sizes, self.line) if g.nt)
        return whole * self._pieces(root, open_lines, pieces) if whole else 0.0

    def _pieces(self, node: LoopNode, open_lines: int, pieces: float) -> float:
        waiting = _open_lines((a for a in node.accesses if a.mem.nt), self.line)
        share = min(1.0, max(0.0, 2.0 * waiting / open_lines - 1.0)) if waiting > 1 else 0.0
        return max((1.0 + (pieces - 1.0) * share, *(self._pieces(c, open_lines, pieces) for c in node.children)))


def _open_lines(stores: Iterable[Touch], line: float) -> int:
    """How many lines wait at once for the rest of what belongs to them, while stores come in this order. What is left of them in the end
    waits for the next iteration, and counts twice."""
    filled: dict[tuple[Place, frozenset[tuple[Variable, float]], int], float] = {}
    most = 0
    for a in stores:
        for at in range(int(a.form.const // line), math.ceil((a.form.const + a.bytes) / line)):
            key = (a.mem.space, a.mem.base), frozenset(a.form.terms.items()), at
            part = min(a.form.const + a.bytes, (at + 1) * line) - max(a.form.const, at * line)
            filled[key] = filled.get(key, 0.0) + part
            if filled[key] >= line:
                del filled[key]
        most = max(most, len(filled))
    return max(most, 2 * len(filled))


def grouped(accesses: Iterable[Touch], sizes: Mapping[Place, float], line: float) -> list[TouchGroup]:
    """Accesses as groups: those of one array whose indices differ by constants."""
    found: dict[Hashable, list[Touch]] = {}
    for a in accesses:
        found.setdefault(a.alike, []).append(a)
    return [_group(same, sizes, line) for same in found.values()]


def _group(same: Sequence[Touch], sizes: Mapping[Place, float], line: float) -> TouchGroup:
    mem, terms = same[0].mem, same[0].form.terms
    place = (mem.space, mem.base)
    pieces = sorted({(a.form.const, a.bytes) for a in same})
    runs: list[list[float]] = []
    for at, size in pieces:
        if runs and at <= runs[-1][1] + line:
            runs[-1][1] = max(runs[-1][1], at + size)
        else:
            runs.append([at, at + size])
    run = sum(b - a for a, b in runs) / len(runs)
    pitch = (runs[-1][0] - runs[0][0]) / (len(runs) - 1) if len(runs) > 1 else 0.0
    written, whole = any(a.written for a in same), sizes.get(place, FAR_APART)
    return TouchGroup(place, terms, whole, written, mem.nt, len(runs), run, pitch, tuple((a, b) for a, b in runs))


def sizes_of(program: Program) -> dict[Place, float]:
    """Bytes of each parameter, by place; symbols count with their upper bounds. An array of the kernel's own ends where all of them do at
    the latest, which bounds what data chooses of it."""
    whole = {"scratch": float(program.scratch), "work": float(program.work)}
    own = {(m.space, m.base) for p in program.phases for s in statements(p.body) if isinstance(s, Instr) for m, _ in touched(s)}
    out: dict[Place, float] = {(space, base): whole[space] - base for space, base in own if space in whole}
    for i, p in enumerate(program.params):
        size = float(p.dtype.size)
        for d in p.shape:
            size *= ix.upper(d)
        out["param", i] = size
    return out
