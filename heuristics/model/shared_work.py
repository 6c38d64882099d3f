"""What register copies and neighbouring reads have in common, and is loaded or computed once.

Stencils read one array at several shifted places: equal loads are one in the code that is made, also where register copies of one read are at
the places of another, and the lines that one read brings are those that its neighbours want. Equal expressions are one too: an expression over
loads is its shape, and how far it is shifted along each axis, so those of one shape are counted by the different places at which they are.
Extremes of windows that are unrolled share parts, and extremes have notes and places beside their accumulators (`lower/emit/`)."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product

from ...ir import index as ix
from ...ir.body import Value
from ...ir.buffer import Buffer, load_parts
from ...ir.dtypes import bool_, index
from ...ir.node import COMPARE, Node, axes_of, walk
from ...opts.analysis.extremes import LEAST, MOST, best_order, by_bits, combine_of, covering, fully_unrolled
from ...opts.analysis.numbered_places import anywhere, as_number, offsets
from ...opts.analysis.structure import shifted_dimensions
from ...opts.analysis.thresholds import holds_inside
from ...opts.axis_plan import Part
from ...opts.nests import Nest
from ...opts.schedule import Scheduled
from ...targets import Target
from ..machine import SLOW, Core

Residue = tuple[tuple[tuple[Node, int], ...], ...]
Place = tuple[Residue, tuple[int, ...]]
"""What an access does not vary with, and a constant in each dimension."""


@dataclass(frozen=True, slots=True)
class ShiftedReads:
    """Reads (or writes) of an array at places that differ by constants: `indices` of one of them, by how many elements the
    furthest two differ in each dimension, and how many rows they are in."""

    buffer: Buffer
    indices: tuple[Node, ...]
    spread: tuple[int, ...]
    rows: int


def together(s: Scheduled, reads: Iterable[tuple[Buffer, tuple[Node, ...]]]) -> Iterator[ShiftedReads]:
    """Reads (or writes), with those as one that differ by constants."""
    groups: dict[tuple[Buffer, Residue], list[tuple[tuple[Node, ...], list[int]]]] = {}
    for buffer, indices in reads:
        residue, at = _place(s, indices)
        groups.setdefault((buffer, residue), []).append((indices, at))
    for (buffer, _), found in groups.items():
        columns = list(zip(*(at for _, at in found), strict=True))
        rows = len({tuple(at[:-1]) for _, at in found})
        yield ShiftedReads(buffer, found[0][0], tuple(max(c) - min(c) for c in columns), rows)


def _place(s: Scheduled, indices: Sequence[Node]) -> tuple[Residue, list[int]]:
    split = [s.linear(i) for i in indices]
    return tuple(tuple(sorted(terms.items(), key=lambda t: ix.order_key(t[0]))) for terms, _ in split), [c for _, c in split]


def kept(s: Scheduled, name: str, indices: Sequence[Node]) -> tuple[Buffer, tuple[Node, ...]] | None:
    """A value that is kept for readers at shifted places, as an array, and indices into it; None for others, whose readers mostly
    find it in registers or in the first cache."""
    dims = shifted_dimensions(s.kernel).get(name)
    if not dims:
        return None
    v = s.kernel.values[name]
    return Buffer(name, v.dtype, tuple(v.axes[d].arg.extent for d in dims)), tuple(indices[d] for d in dims)


def kept_reads(s: Scheduled, nest: Nest) -> Iterator[tuple[Buffer, tuple[Node, ...]]]:
    """What a nest reads of values that are kept for readers at shifted places, or as operands."""
    for n in nest.refs:
        found = None if n.arg in nest.fills else kept(s, n.arg, n.src) or _operand(s, nest, n)
        if found is not None:
            yield found


def _operand(s: Scheduled, nest: Nest, n: Node) -> tuple[Buffer, tuple[Node, ...]] | None:
    """A kept value that a reduction reads again and again, for axes that the value does not have: an operand that is computed once a
    panel. (Those of folds are small: a tile's.)"""
    body = {item.name: item for item in s.kernel.body}
    v = body.get(n.arg)
    if nest.kind != "reduce" or n.arg not in s.value_stages or not isinstance(v, Value) or not set(nest.axes) - axes_of(*n.src):
        return None
    return Buffer(v.name, v.dtype, tuple(a.arg.extent for a in v.axes)), n.src


def kept_writes(s: Scheduled, nest: Nest) -> Iterator[tuple[Buffer, tuple[Node, ...]]]:
    """What a nest writes of such values."""
    for name, axes in nest.made.items():
        found = kept(s, name, axes)
        if found is not None:
            yield found


def vectors_loaded(
    s: Scheduled, nest: Nest, regs: Sequence[Part], copies: Mapping[str, int], lane: tuple[Part | None, int]
) -> dict[Node, int]:
    """For each load of an array that is read at several places, or under windows that are unrolled, and each read of a kept
    value at shifted ones: how many vectors it loads that no read before it did. For each condition of such a load: how often it is
    computed; parts of a conjunction, which are the same for whole rows or columns of a window, count for nothing. `lane`: the part that
    lanes run over, and their number."""
    out: dict[Node, int] = {}
    seen: dict[tuple[str, Residue], set[int]] = {}
    for name, found in _groups(s, nest).items():
        for n, indices in found:
            # (of reads under masks, most of such copies are outside)
            rest, at, steps = _spread(s, indices, regs, copies, lane, cut=not _conditions(n))
            mine = seen.setdefault((name, rest), set())
            before = len(mine)
            first = as_number(at)
            mine.update([first + k for k in offsets(tuple(as_number(by) for by, _ in steps), tuple(n for _, n in steps))])
            out[n] = len(mine) - before
            conditions = _conditions(n)
            parts = {x for c in conditions if c.op == "and" for x in c.src}
            for c in conditions:
                if c not in out:
                    _, _, steps = _spread(s, _compared(c), regs, copies, lane)
                    distinct = len(offsets(tuple(as_number(by) for by, _ in steps), tuple(n for _, n in steps)))
                    out[c] = 0 if c.op == "and" and c in parts else distinct
    return out


def _conditions(n: Node) -> list[Node]:
    """What decides whether a load is done, and the parts of that."""
    _, _, mask = load_parts(n) if n.op == "load" else (None, None, None)
    return [] if mask is None else [c for c in walk(mask) if c.dtype is bool_]


def _compared(condition: Node) -> tuple[Node, ...]:
    """What varies of what a condition compares, each once."""
    return tuple(dict.fromkeys(x for c in walk(condition) if c.op in COMPARE for x in c.src if axes_of(x)))


def _of_place(s: Scheduled, indices: Sequence[Node], mask: Node) -> bool:
    """Whether a condition compares only where its load is with constants: loads at one place have one condition then."""
    own = {_place(s, [i])[0] for i in indices}
    return all(_place(s, [x])[0] in own for x in _compared(mask)) and not any(x.op in ("load", "ref") for x in walk(mask))


def places(
    s: Scheduled, indices: Sequence[Node], regs: Sequence[Part], copies: Mapping[str, int], lane: tuple[Part | None, int]
) -> dict[tuple[int, ...], Place]:
    """The place of an access for every assignment of those register parts that it varies with, in their order: places are equal where the
    same elements are accessed. `lane`: the part that lanes run over, and their number."""
    rest, at, steps = _spread(s, indices, regs, copies, lane)
    return {
        point: (rest, tuple(c + sum(by[d] * i for (by, _), i in zip(steps, point, strict=True)) for d, c in enumerate(at)))
        for point in product(*(range(count) for _, count in steps))
    }


def _spread(
    s: Scheduled, indices: Sequence[Node], regs: Sequence[Part], copies: Mapping[str, int], lane: tuple[Part | None, int], cut: bool = False
) -> tuple[Residue, list[int], list[tuple[list[int], int]]]:
    """What an access does not vary with in registers, the place of its first copy, and for each register part that it varies with how far
    a copy is from the one before it, and how many there are. `cut`: whether copies are apart of which each may be in another block of a
    dimension."""
    parts = [p for p in regs if p.axis in axes_of(*indices)]
    terms = [s.terms(i) for i in indices]
    residue, at = _place(s, indices)
    moving = {p.var for p in parts}
    rest = tuple(tuple(t for t in dim if t[0] not in moving) for dim in residue)
    data = [x for dim in terms for t in dim for x in walk(t) if x.op in ("load", "ref")]
    data += [t for dim in terms for t in dim if cut and t not in moving]
    apart = {p.var: i for i, p in enumerate(p for p in parts if any(p.var in walk(x) for x in data))}

    def step(p: Part) -> list[int]:
        if p.var in apart:  # (data says where, or which block of a dimension that was cut: no two are at one place)
            return [anywhere(apart[p.var]) for _ in terms]
        return [t.get(p.var, 0) * (lane[1] if p is lane[0] else 1) for t in terms]

    return rest, at, [(step(p), copies[p.name]) for p in parts]


def slides(s: Scheduled, nest: Nest, indices: Sequence[Node]) -> bool:
    """Whether steps of a reduction that are unrolled read what copies of its results read too: of a window that slides."""
    steps = {p.var for p in s.registers(nest) if p.kind == "unroll"}
    return nest.kind == "reduce" and any(steps & {t for t in found if found[t]} and len(found) > 1 for found in map(s.terms, indices))


def _groups(s: Scheduled, nest: Nest) -> dict[str, list[tuple[Node, tuple[Node, ...]]]]:
    groups: dict[str, list[tuple[Node, tuple[Node, ...]]]] = {}
    for n in nest.loads:
        buffer, indices, mask = load_parts(n)
        if (mask is None or holds_inside(s, nest, mask) or _of_place(s, indices, mask)) and buffer.name not in s.stages:
            groups.setdefault(buffer.name, []).append((n, indices))
    groups = {name: found for name, found in groups.items() if len(found) > 1 or slides(s, nest, found[0][1])}
    for n in nest.refs:
        if n.arg not in nest.fills and kept(s, n.arg, n.src) is not None:
            groups.setdefault(n.arg, []).append((n, n.src))
    return groups


Shift = tuple[int | None, ...]
"""By how many elements an expression is shifted along each axis; None where it does not vary."""


@dataclass(slots=True)
class Shapes:
    """The shapes of a nest's expressions: numbers that are equal for what differs by a shift along `axes` alone, which count
    copies."""

    scheduled: Scheduled
    nest: Nest
    axes: tuple[Node, ...]
    numbers: dict[Hashable, int] = field(default_factory=dict)
    found: dict[Node, tuple[int, Shift] | None] = field(default_factory=dict)

    def of(self, n: Node) -> tuple[int, Shift] | None:
        """(shape, shift) of an expression whose operands are known; None where it is no function of places that shift."""
        if n.op == "where" and holds_inside(self.scheduled, self.nest, n.src[0]):
            return self.found.get(n.src[1])
        if n.op == "load":
            buffer, indices, mask = load_parts(n)
            return self._at(buffer, indices) if mask is None or holds_inside(self.scheduled, self.nest, mask) else None
        if n.op == "ref":  # (of what is not kept, each copy has its own)
            read = None if n.arg in self.nest.fills else kept(self.scheduled, n.arg, n.src)
            return None if read is None else self._at(*read)
        if n.dtype is index:
            return None
        parts = [self.found.get(s) for s in n.src]
        if any(p is None for p in parts):
            return None
        known = [p for p in parts if p is not None]
        first: Shift = tuple(next((s[d] for _, s in known if s[d] is not None), None) for d in range(len(self.axes)))
        from_first = [(k, tuple(None if x is None else x - (f or 0) for x, f in zip(s, first, strict=True))) for k, s in known]
        return self._number((n.op, n.arg, n.dtype.name, *from_first)), first

    def _number(self, shape: Hashable) -> int:
        return self.numbers.setdefault(shape, len(self.numbers))

    def _at(self, buffer: Buffer, indices: Sequence[Node]) -> tuple[int, Shift] | None:
        """The same of an element of an array."""
        shift: list[int | None] = [None] * len(self.axes)
        rest: list[Hashable] = []
        for i in indices:
            terms, at = ix.parts(self.scheduled.inside(i))
            moving = [d for d, a in enumerate(self.axes) if a in axes_of(*terms)]
            if moving:
                (d, *more) = moving
                if (
                    more
                    or terms.get(self.axes[d]) != 1
                    or shift[d] is not None
                    or any(self.axes[d] in axes_of(t) for t in terms if t.op != "axis")
                ):
                    return None
                shift[d], at = at, 0
            rest.append((frozenset(terms.items()), at))
        return self._number((buffer.name, *rest)), tuple(shift)


def times_computed(
    s: Scheduled, nest: Nest, nodes: Sequence[Node], regs: Sequence[Part], copies: Mapping[str, int], lane: Part | None
) -> dict[Node, int]:
    """How often each of some expressions is computed in a body that none before it in the list was; only of those that are alike."""
    extreme_work = [
        p for p in regs if p is not lane and p.kind == "upcast" and p.axis in nest.axes and copies[p.name] > 1 and p.stride == 1
    ]
    if nest.kind not in ("store", "point") or not extreme_work or len({p.axis for p in extreme_work}) < len(extreme_work):
        return {}
    shapes = Shapes(s, nest, tuple(p.var for p in extreme_work))
    for n in walk(*nest.evaluated):
        shapes.found[n] = shapes.of(n)
    others = [p for p in regs if p not in extreme_work]
    counts = [copies[p.name] for p in extreme_work]
    seen: dict[tuple[int, tuple[bool, ...]], set[int]] = {}
    out: dict[Node, int] = {}
    for n in nodes:
        found = shapes.found.get(n)
        if found is None or n.op in ("load", "ref", "const"):
            continue
        number, shift = found
        varies = tuple(x is not None for x in shift)
        mine = seen.setdefault((number, varies), set())
        before = len(mine)
        first = as_number([x or 0 for x in shift])
        mine.update([first + k for k in _steps(varies, tuple(counts))])
        out[n] = len(mine) - before
        for p in others:
            out[n] *= copies[p.name] if p.axis in axes_of(n) else 1
    return out


def _steps(varies: tuple[bool, ...], counts: tuple[int, ...]) -> tuple[int, ...]:
    """How far the copies of an expression are from the first, along the axes that it varies with."""
    each = tuple(as_number([int(d == here and v) for here in range(len(varies))]) for d, v in enumerate(varies))
    return offsets(each, counts)


def window_work(s: Scheduled, nest: Nest, regs: Sequence[Part], copies: Mapping[str, int], lane: tuple[Part | None, int]) -> float | None:
    """Instructions of a body for extremes of windows that are unrolled, with tests of what is no number; None for other reductions, and
    where windows of one load share nothing."""
    steps = [p for p in regs if p.axis not in nest.axes]
    if not fully_unrolled(s, nest) or len(nest.loads) != 1:
        return None
    within = [{p.name: i for p, i in zip(steps, at, strict=True)} for at in product(*(range(p.trips) for p in steps))]
    results = [p for p in regs if p.axis in nest.axes]
    each = [{p.name: i for p, i in zip(results, at, strict=True)} for at in product(*(range(copies[p.name]) for p in results))]
    if len(within) < LEAST or len(within) * len(each) > MOST:
        return None
    _, indices, _ = load_parts(nest.loads[0])
    found = places(s, indices, regs, copies, lane)
    moving = [p.name for p in regs if any(p.var in s.terms(i) for i in indices)]
    if any(len(point) != len(moving) for point in found):
        return None
    number = {place: k for k, place in enumerate(dict.fromkeys(found.values()))}
    windows = [[number[found[tuple({**r, **step}[name] for name in moving)]] for step in within] for r in each]
    _, operations = best_order([p.name for p in steps], within, windows)
    pairs = len(within) * len(each)
    along = lane[0] is not None and s.terms(indices[-1]).get(lane[0].var) == 1
    tested = _tested(number, nest, lane[1] if along else 1) if is_noted(nest, s.target) else 0
    return operations + tested if tested <= pairs - tested else None


def _tested(found: Collection[Place], nest: Nest, width: int) -> int:
    """Vectors that are tested: as few as hold what is loaded."""
    if nest.expr.op != "load":
        return len(found)
    rows: dict[object, dict[int, Place]] = {}
    for rest, at in found:
        rows.setdefault((rest, at[:-1]), {})[at[-1]] = (rest, at)
    return sum(len(covering(row, width)) for row in rows.values())


def is_noted(n: Nest, target: Target) -> bool:
    """Whether a reduction's extremes have notes beside them of what is no number, on the target."""
    combine = combine_of(n)
    return not target.keeps_nan and n.expr.dtype.is_float and combine in ("max", "min") and not by_bits(n, target, combine)


def extreme_work(s: Scheduled, core: Core, group: Sequence[Nest], steps: int, results: int) -> tuple[float, int]:
    """(instructions of an iteration, registers of vectors) for reductions in one loop, each of which takes so many `steps` in an
    iteration, in vectors, for so many `results`: notes of what is no number, and comparisons and selections of places."""
    masks = "avx512" in s.target.features
    noted = sum(is_noted(n, s.target) for n in group)
    placed = sum(n.name in s.places for n in group)
    each = (core.noted_by_masks, core.placed_by_masks) if masks else (core.noted, core.placed)
    single = steps // max(1, results) & 1  # (two elements take one test: one that is left over takes it alone)
    arith = steps * placed * each[1] + (steps + single * results) * noted * each[0]
    kept = noted * results
    return arith, max(0, kept - core.truths) if masks else kept + core.placing * min(1, placed)


def slow_work(n: Node, target: Target, core: Core) -> float | None:
    """Instructions of an operation that takes several, the larger and the smaller of two floats among them: on x86 these are compared with
    themselves, and chosen. None for any other."""
    if n.op in ("max", "min") and n.dtype.is_float and not target.keeps_nan:
        return core.ordered_by_masks if "avx512" in target.features else core.ordered
    return float(getattr(core, SLOW[n.op])) if n.op in SLOW else None
