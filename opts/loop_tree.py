"""Which loops a schedule opens, what runs in each, and which values stay in registers: decided here, and walked by lowering.

Neighbouring items whose next loop is the same run inside one loop, unless a reader would want what another iteration makes. A value
stays in registers where it is made under all of its loops and every reader is at the same point, else it gets an array; one that is
read outside a loop that is shared gets its array before that loop opens."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import product, takewhile

from ..ir import index as ix
from ..ir.body import Fold, Scan
from ..ir.dtypes import index
from ..ir.node import Node, axes_of, const, ref
from ..ir.operators import substitute
from ..ir.skipped_tiles import conditions, skip_conditions, threshold
from .axis_plan import Part
from .loops import Loops
from .nests import FoldItem, Item, Nest, flat

Reads = Mapping[str, Sequence[tuple[Nest, tuple[Node, ...]]]]


@dataclass(frozen=True, eq=False)
class Single:
    """One nest, with its remaining loops to itself."""

    nest: Nest


@dataclass(frozen=True, eq=False)
class Together:
    """Reductions whose remaining loops are the same and run once."""

    nests: tuple[Nest, ...]


@dataclass(frozen=True, eq=False)
class Chain:
    """Scans, and what reads them at the points where they are made: their remaining loops are the same and run once."""

    nests: tuple[Nest, ...]


@dataclass(frozen=True, eq=False)
class Shared:
    """A loop around several nests. `reserved`: (name, the axes it is kept over) of values that are read outside it."""

    part: Part
    nests: tuple[Nest, ...]
    body: tuple[Tree, ...]
    reserved: tuple[tuple[str, tuple[Node, ...]], ...]


@dataclass(frozen=True, eq=False)
class Folded:
    """A fold; `cut`: the loop over its tiles, None where its block runs once. `body` is the block."""

    item: FoldItem
    cut: Part | None
    body: tuple[Tree, ...]


Tree = Single | Together | Chain | Shared | Folded


@dataclass(frozen=True, eq=False)
class LoopTree:
    """`registers`: names of values that stay in registers. `reads`: for each value the nests that read it, and at which indices.
    `merged`: components of folds that are cut, which the merge reads though no nest of the kernel does."""

    items: tuple[Tree, ...]
    registers: frozenset[str]
    reads: Reads
    merged: frozenset[str]


def loop_tree(s: Loops) -> LoopTree:
    """The loops of a schedule inside its grid. What has no points is left out."""
    builder = _TreeBuilder(s)
    found = [i for i in s.items if not _empty(i)]
    items = builder.items(found, frozenset(p.name for p in s.grid), frozenset())
    return LoopTree(items, frozenset(builder.registers), builder.reads, builder.merged)


@dataclass(eq=False)
class _TreeBuilder:
    s: Loops
    registers: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        reads: dict[str, list[tuple[Nest, tuple[Node, ...]]]] = {}
        for nest in self.s.nests:
            for n in nest.refs:
                reads.setdefault(n.arg, []).append((nest, n.src))
        self.reads: Reads = reads
        plans = self.s.plans
        cut = (i for i in self.s.items if isinstance(i, FoldItem) and any(plans[a].fold for n in i.nests for a in n.all_axes))
        self.merged = frozenset(c for i in cut for c in i.fold.components)

    def items(self, items: Sequence[Item], opened: frozenset[str], reserved: frozenset[str]) -> tuple[Tree, ...]:
        """Items in order under the loops `opened`; `reserved`: values that have an array."""
        out: list[Tree] = []
        i = 0
        while i < len(items):
            part = self._next(items[i], opened)
            chain = self._chain(items[i:], opened)
            if chain and not (part is not None and all(_sharable(n, part) for n in chain)):
                out.append(Chain(chain))
                i += len(chain)
                continue
            group, clears = self._group(items[i:], part, opened)
            if part is None or not _sharable(items[i], part) or (len(group) == 1 and isinstance(items[i], Nest)):
                joint = self._together(items[i:])
                each = [self._item(item, opened, reserved) for item in (items[i], *joint[1:])]
                out.append(Together(joint) if len(joint) > 1 else each[0])
                i += len(each)
                continue
            kept = self._read_outside(group, reserved)
            names = reserved | {name for name, _ in kept}
            out += [Single(n) for n in clears]
            out.append(Shared(part, tuple(flat(group)), self.items(group, opened | {part.name}, names), kept))
            i += len(group) + len(clears)
        return tuple(out)

    def _group(self, items: Sequence[Item], part: Part | None, opened: frozenset[str]) -> tuple[list[Item], list[Nest]]:
        """(the items that may run in the loop of the first, what fills outputs of theirs with identities before the loop). A scatter's
        output depends on nothing, so it may be cleared before what the scatter reads is made."""
        group, clears, waiting = [items[0]], list[Nest](), list[Nest]()
        if part is None or not _sharable(items[0], part):
            return group, []
        for item in items[1:]:
            if isinstance(item, Nest) and item.kind == "init" and part.axis not in item.axes:
                waiting.append(item)
            elif self._joins(group, item, part, opened):
                group.append(item)
                clears += waiting
                waiting = []
            else:
                break
        return group, clears

    def _chain(self, items: Sequence[Item], opened: frozenset[str]) -> tuple[Nest, ...]:
        """The scan that comes first with those behind it that have the same loops and read none of it elsewhere, and the stores that read
        it or what it reads; nothing where there are none."""
        first = items[0]
        if not self._linked(first, (), opened) or not isinstance(first, Nest) or first.kind != "scan":
            return ()
        found = [first]
        for item in items[1:]:
            if not isinstance(item, Nest) or not self._linked(item, found, opened):
                break
            found.append(item)
        if len(found) > 1:
            self.registers |= {n.name for n in found if n.value is not None and not self._outside(n, found)}
        return tuple(found) if len(found) > 1 else ()

    def _linked(self, item: Item, before: Sequence[Nest], opened: frozenset[str]) -> bool:
        """Whether an item may go on a chain: its first link, or one that reads the links `before` at its own point only, or what they read."""
        if not isinstance(item, Nest) or item.fills or item.name in self.s.held or item.name in self.s.rings:
            return False
        if item.kind != "scan" and (item.store is None or item.kind != "store" or item.store.combine is not None):
            return False
        if not before:
            return True
        first = before[0]
        alike = set(item.axes) == set(first.axes) and self._remaining(item, opened) == self._remaining(first, opened)
        made = {n.name: n.axes for n in before}
        places = [n.src == made[n.arg] for n in item.refs if n.arg in made]
        return (
            alike
            and self.s.registers(item) == self.s.registers(first)
            and all(places)
            and (item.kind == "scan" or bool(places) or _shares(item, before))
        )

    def _outside(self, nest: Nest, group: Sequence[Nest]) -> bool:
        """Whether what a nest makes is read by others than a group."""
        readers = (r for r, _ in self.reads.get(nest.name, ()))
        return nest.name in self.merged or any(all(r is not m for m in group) for r in readers)

    def _together(self, items: Sequence[Item]) -> tuple[Nest, ...]:
        """The first of some items with its siblings behind it; nothing where it is no nest."""
        first = items[0]
        if not isinstance(first, Nest):
            return ()
        names = {n.name for n in self.s.together(first)}
        return (first, *(n for n in takewhile(lambda n: isinstance(n, Nest) and n.name in names, items[1:]) if isinstance(n, Nest)))

    def _item(self, item: Item, opened: frozenset[str], reserved: frozenset[str]) -> Tree:
        if isinstance(item, FoldItem):
            return self._fold(item, opened, reserved)
        rest = [p for p in self._remaining(item, opened) if item.kind != "reduce" or not (p.kind == "fold" or p.axis in item.reduce_axes)]
        alike = _alike(item, self.reads) and not any(self.s.elsewhere(r, a) for r, src in self.reads.get(item.name, ()) for a in src)
        if item.kind in ("reduce", "point") and not rest and alike and item.name not in reserved:
            self.registers.add(item.name)
        return Single(item)

    def _fold(self, item: FoldItem, opened: frozenset[str], reserved: frozenset[str]) -> Folded:
        cut = next((self.s.plans[a].fold for n in item.nests for a in n.all_axes if self.s.plans[a].fold), None)
        if cut is None and item.fold.axis.arg.extent == 0:
            return Folded(item, None, ())
        nests = [n for n in item.nests if not n.empty]
        if cut is None:
            return Folded(item, None, self.items(nests, opened, reserved))
        # what is read after the fold has an array outside; a tile's own result needs none there
        return Folded(item, cut, self.items(nests, opened | {cut.name}, reserved - set(item.fold.components)))

    def _read_outside(self, group: Sequence[Item], reserved: frozenset[str]) -> tuple[tuple[str, tuple[Node, ...]], ...]:
        inside = flat(group)
        found: dict[str, tuple[Node, ...]] = {}
        for n in inside:
            for name, axes in n.made.items():
                outside = name in self.merged or any(all(r is not m for m in inside) for r, _ in self.reads.get(name, ()))
                if outside and name not in reserved:
                    found.setdefault(name, axes)
        return tuple(found.items())

    def _remaining(self, nest: Nest, opened: frozenset[str]) -> list[Part]:
        return [p for p in self.s.loops(nest) if p.name not in opened]

    def _next(self, item: Item, opened: frozenset[str]) -> Part | None:
        if isinstance(item, Nest):
            rest = self._remaining(item, opened)
            return rest[0] if rest else None
        per = [self._remaining(n, opened) for n in item.nests]
        first = per[0][0] if per[0] else None
        same = first is not None and first.kind != "fold" and all(r and r[0].name == first.name for r in per)
        return first if same else None

    def _joins(self, group: Sequence[Item], item: Item, part: Part, opened: frozenset[str]) -> bool:
        """Whether an item may run in the loop of a group: if it reads just what this iteration made."""
        nxt = self._next(item, opened)
        if nxt is None or nxt.name != part.name or not _sharable(item, part):
            return False
        made = {n.name: n for n in flat(group)}
        made |= {f: n for n in list(made.values()) for f in n.fills}
        mine = {n.name for n in flat([item])}
        for name, maker in made.items():
            axes = maker.fills.get(name, maker.axes)
            for reader, src in self.reads.get(name, ()):
                elsewhere = any(a is part.axis and i is not a for a, i in zip(axes, src, strict=True))
                if reader.name in mine and (self._has_own_loops(reader, opened) or elsewhere):
                    return False
        return True

    def _has_own_loops(self, store: Nest, opened: frozenset[str]) -> bool:
        """Whether a staged output is stored by loops of its own from here on: its tile is complete in the loop it is staged at."""
        held = store.store is not None and store.name in self.s.held
        return held and self.s.value_stages[store.name] in opened


def _shares(nest: Nest, others: Sequence[Nest]) -> bool:
    """Whether a nest loads what one of some others does."""
    mine = {n for n in nest.nodes if n.op == "load"}
    return any(n in mine for m in others for n in m.nodes)


def _alike(nest: Nest, reads: Reads) -> bool:
    """Whether every reader uses the value of a nest at exactly the axes it is made over."""
    return all(src == nest.axes for _, src in reads.get(nest.name, ()))


def _empty(item: Item) -> bool:
    """Whether an item has no points, because an axis of it has the extent 0."""
    if isinstance(item, Nest):
        return item.empty
    return all(any(a.arg.extent == 0 for a in item.fold.component(c).axes) for c in item.fold.components)


def _sharable(item: Item, part: Part) -> bool:
    return all(part.axis in n.axes and not (n.kind == "scan" and _scan_axis(n) is part.axis) for n in flat([item]))


def _scan_axis(nest: Nest) -> Node:
    assert nest.value is not None and isinstance(nest.value.expr, Scan)
    return nest.value.expr.axis


MOST_SAMPLED = 4096


@dataclass(frozen=True, slots=True)
class Range:
    """Tiles [lo, hi) of a fold, in which the conditions `holds` (over the folded axis) are true, wherever in the block they stand."""

    lo: Node
    hi: Node
    holds: frozenset[Node] = frozenset()


def ranges(s: Loops, f: Fold, cut: Part, opened: Collection[Node]) -> list[Range]:
    """The tiles to run, in order, as indices over the variables of the loops around the fold (`opened`)."""
    tiles = cut.size if isinstance(cut.size, Node) else const(cut.size)
    first, last = const(0), tiles
    begin, end = const(0), tiles
    holds: set[Node] = set()
    may_skip = skip_conditions(f)
    for c in conditions(f):
        found = threshold(c, f.axis)
        if found is None:
            continue
        k, rest = found
        least, most = _spread(s, rest, opened)
        step, reach = abs(k) * cut.stride, k * (cut.stride - 1)
        throughout, somewhere = ix.add(least, const(min(0, reach))), ix.add(most, const(max(0, reach)))
        if k < 0:
            end = ix.minmax("min", end, ix.add(ix.floordiv(throughout, step), const(1)))
            last = ix.minmax("min", last, ix.add(ix.floordiv(somewhere, step), const(1))) if c in may_skip else last
        else:
            begin = ix.minmax("max", begin, ix.ceildiv(ix.mul(throughout, const(-1)), step))
            first = ix.minmax("max", first, ix.ceildiv(ix.mul(somewhere, const(-1)), step)) if c in may_skip else first
        holds.add(c)
    if not holds:
        return [Range(first, last)]
    begin = ix.minmax("min", ix.minmax("max", begin, first), last)
    end = ix.minmax("min", ix.minmax("max", end, begin), last)
    found_ranges = (Range(first, begin), Range(begin, end, frozenset(holds)), Range(end, last))
    return [r for r in found_ranges if ix.compare("lt", r.lo, r.hi) is not const(False) and r.lo is not r.hi]


READ = ("cast", "load", "ref")
"""What a term of a limit is that is read from memory."""
LEAST, MOST = "least", "most"
"""The least and the most of a number that is read, over the places of a tile: a reference to it with the number as its index."""


def _spread(s: Loops, rest: Node, opened: Collection[Node]) -> tuple[Node, Node]:
    """The least and the most of an index over axes, as indices over what open loops fix."""
    terms, c = ix.parts(rest)
    loaded = {t: k for t, k in terms.items() if t.op in READ}
    terms, c = ix.parts(s.at_parts(ix.add(rest, ix.linear(loaded, 0), -1)))
    least = most = const(c)
    for t, k in (*terms.items(), *loaded.items()):
        low = high = t
        if not axes_of(s.at_parts(t)) <= set(opened):
            low, high = map(const, ix.bounds(t))
            if t in loaded and s.target.kind == "cpu":
                low, high = (ref(pick, (t,), index) for pick in (LEAST, MOST))
        least, most = ix.add(least, low if k > 0 else high, k), ix.add(most, high if k > 0 else low, k)
    return least, most


def loaded_limits(found: Collection[Range]) -> list[Node]:
    """The numbers from memory, over axes, that the limits of some ranges have as terms; of a number that varies in a tile, its `LEAST` and
    `MOST`."""
    return list(dict.fromkeys(n for r in found for end in (r.lo, r.hi) for n in _numbers(end)))


def _numbers(n: Node) -> Iterator[Node]:
    if n.op in READ:
        yield n
    else:
        for s in n.src:
            yield from _numbers(s)


def _typical(n: Node, most: int) -> Node:
    """A limit with a number for each one that is read: the middle of what it may be; the quarters for the least and the most in a tile."""
    table = {}
    for x in _numbers(n):
        lo, hi = ix.bounds(x.src[0] if x.op == "ref" else x)
        quarters = {LEAST: 1, MOST: 3}.get(x.arg, 2) if x.op == "ref" else 2
        table[x] = const((max(lo, 0) * (4 - quarters) + min(hi, most) * quarters) // 4)
    return substitute(n, table)


def share(s: Loops, item: FoldItem) -> float:
    """The part of a cut fold's tiles that is run, over all iterations of the loops around it; 1 where it cannot be told."""
    cut = next((s.plans[a].fold for n in item.nests for a in n.all_axes if s.plans[a].fold), None)
    if cut is None or not isinstance(cut.size, int) or not skip_conditions(item.fold):
        return 1.0
    loops = [p for p in s.loops(item.nests[0]) if s.position[p.name] < s.position[cut.name]]
    most = cut.size * cut.stride
    run = [Range(_typical(r.lo, most), _typical(r.hi, most)) for r in ranges(s, item.fold, cut, {p.var for p in loops})]
    used = [p for p in loops if any(p.var in axes_of(r.lo, r.hi) for r in run)]
    trips = 1
    for p in used:
        trips *= p.trips
    if any(not isinstance(p.size, int) for p in used) or trips > MOST_SAMPLED:
        return 1.0
    return _counted(tuple((r.lo, r.hi) for r in run), tuple((p.var, p.trips) for p in used)) / (trips * cut.size)


@lru_cache(maxsize=256)
def _counted(run: tuple[tuple[Node, Node], ...], loops: tuple[tuple[Node, int], ...]) -> int:
    """Tiles in the ranges `run`, over all iterations of `loops`."""
    points = list(product(*(range(trips) for _, trips in loops)))
    known = {var: [at[i] for at in points] for i, (var, _) in enumerate(loops)}
    bounds = [[_column(n, known, len(points)) for n in r] for r in run]
    return sum(max(0, hi - lo) for lows, highs in bounds for lo, hi in zip(lows, highs, strict=True))


def _column(n: Node, known: dict[Node, list[int]], points: int) -> list[int]:
    """An index at all points; `known`: those of its parts that were asked before."""
    found = known.get(n)
    if found is None:
        src = [_column(s, known, points) for s in n.src]
        if n.op == "sum":
            coeffs, c = n.arg
            found = [c] * points
            for k, column in zip(coeffs, src, strict=True):
                found = [a + k * x for a, x in zip(found, column, strict=True)]
        elif n.op in ("min", "max"):
            found = list(map(min if n.op == "min" else max, *src))
        elif n.op == "div":
            found = [x // n.arg for x in src[0]]
        else:
            found = [ix.evaluate(n, dict(zip(n.src, at, strict=True))) for at in zip(*src)] if src else [ix.evaluate(n, {})] * points
        known[n] = found
    return found
