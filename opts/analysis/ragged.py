"""Iterations that masks leave out.

Sums and extremes of which data says how far they go (`where(k < many[i], f, 0)` in a sum over k), sums over pairs in some order
(`where(k < i, f, 0)`), and points of a scatter that data leaves out. What a schedule's loops make of it is in `lower/emit/nest_loops.py`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import product
from math import log, prod, sqrt

from ...ir import index as ix
from ...ir.body import identity
from ...ir.buffer import PATTERNS, load_parts, loads
from ...ir.dtypes import index
from ...ir.index import Interval
from ...ir.integer_ranges import inside, value_range
from ...ir.node import Node, axes_of, const, ordered_axes, walk
from ...ir.operators import substitute
from ...ir.skipped_tiles import conjuncts
from ..addition_order import order_of
from ..axis_plan import Part
from ..nests import Nest
from ..schedule import Scheduled
from .extremes import combine_of
from .thresholds import cuttable, operations

WORTH = 48
"""Operations of a whole loop from which on it is worth a limit that the processor cannot foresee."""
LONG = 640
"""Operations of a step from which on its code is not written again for where no mask is needed."""
LEFT_OUT = 16
"""Operations of a step that differ between its register copies which are worth a branch, of which half are guessed wrongly at worst."""
TAKEN = 0.75
"""What such steps cost in the mean, branches and all."""
SHORT = 8
"""Up to how many entries in the mean regular rows go side by side in a vector."""
DIAGONALS = 9
"""Up to how many entries in the mean they do where columns are diagonals."""
FAR = 1 << 60
"""Sums of data up to here fit 64 bits with any place."""
_PLACES = frozenset({"axis", "const", "sym", "sum", "prod", "div", "mod", "min", "max"})
"""What an index that no data has a part in is made of."""


def scatters(n: Nest) -> bool:
    """Whether a nest combines into an output at some of its points only."""
    return n.kind == "store" and n.store is not None and n.store.combine is not None and n.store.own is None and n.mask is not None


def conditions(n: Nest) -> tuple[Node, ...]:
    """Comparisons of integers without which a reduction's element is its neutral one, or a point of a scatter does nothing."""
    if scatters(n):
        assert n.mask is not None
        cond = n.mask
    else:
        found = selected(n) if n.kind == "reduce" else None
        if found is None:
            return ()
        cond = found.src[0] if found.op == "where" else found.src[-1]
    return tuple(c for c in conjuncts(cond) if c.op in ("lt", "le") and c.src[0].dtype.is_int)


def selected(n: Nest) -> Node | None:
    """The selection, or the masked load, that a reduction's element is the neutral one without; None where it is neither."""
    assert n.value is not None
    combine, e = getattr(n.value.expr, "combine", ""), n.expr
    while combine == "add" and e.op == "cast" and e.dtype.kind != "b":
        e = e.src[0]
    if e.op == "where" and e.src[2] is identity(combine, e.dtype):
        return e
    return e if e.op == "load" and combine == "add" and load_parts(e)[2] is not None else None


def sides(cond: Node) -> tuple[Node, Node, bool] | None:
    """(index of places, data that it is compared with, whether the data is on the left); None for any other comparison. Of places with
    data on either side, such as start[i] + k < start[i + 1], the data is brought to the right."""
    a, b = (_place(n) for n in cond.src)
    if a is not None and b is None:
        return a, cond.src[1], False
    if b is not None and a is None:
        return b, cond.src[0], True
    return None if a is not None or cond.src[0].dtype is not index else _normal_comparison(cond)


def _normal_comparison(cond: Node) -> tuple[Node, Node, bool] | None:
    """The same of a comparison of indices that are sums of places and data; None where such sums may not fit 64 bits."""
    terms, c = ix.parts(ix.add(cond.src[0], cond.src[1], -1))
    data = {t: -k for t, k in terms.items() if _place(t) is None}
    reach = sum(abs(k) * max(abs(end) for end in _span(t)) for t, k in data.items())
    if not 0 < len(data) < len(terms) or reach >= FAR:
        return None
    return ix.linear({t: k for t, k in terms.items() if t not in data}, c), ix.linear(data, 0), False


def _span(n: Node) -> Interval:
    """The interval of an integer, by the types that it has on the way."""
    while n.op == "cast" and n.src[0].dtype.is_int and n.dtype is index:
        n = n.src[0]
    return ix.bounds(n) if n.dtype is index else value_range(n)


def _place(n: Node) -> Node | None:
    """An integer as an index of places, if it is one: no type that it has on the way is too narrow for it."""
    while n.op == "cast" and n.dtype.is_int and n.src[0].dtype is index and inside(ix.bounds(n.src[0]), n.dtype):
        n = n.src[0]
    return n if all(m.op in _PLACES and m.dtype is index for m in walk(n)) else None


def known_before(sched: Scheduled, nest: Nest, part: Part, data: Node) -> bool:
    """Whether data does not change with a reduction's loop, nor is made in it."""
    return part.axis not in axes_of(data) and not any(n.op == "ref" and n.arg in nest.fills for n in walk(data))


def worth(sched: Scheduled, nests: Sequence[Nest], part: Part) -> bool:
    """Whether what may be left out of a loop is worth a branch that is guessed wrongly once, and its code short enough to be written
    more than once."""
    step = sum(operations(sched, n) for n in nests)
    return step <= LONG and part.trips * step >= WORTH


def separate_rows(sched: Scheduled, nest: Nest) -> tuple[Part, ...]:
    """The register copies of a reduction that each have loops of their own: rows side by side that end where data says, and have no element
    in common. (Of rows in one loop the longest counts.) Their sums across lanes are made together."""
    lanes = sched.lanes(nest)
    loops = [p for a in nest.reduce_axes for p in sched.plans[a].parts if p.loop]
    limits = [
        x[1] for c in conditions(nest) for x in (sides(c),) if x is not None and all(known_before(sched, nest, p, x[1]) for p in loops)
    ]
    rows = {a for data in limits for a in axes_of(data)} & set(nest.axes)
    read = [n for n in walk(nest.expr) if n.op == "load" and not axes_of(n).isdisjoint(nest.reduce_axes)]
    together = lanes.lane is not None and lanes.lane.axis in rows
    if together or not loops or not worth(sched, (nest,), loops[0]) or not all(rows <= axes_of(n) for n in read):
        return ()
    return tuple(p for p in lanes.regs if p.axis in rows and p.trips > 1)


def one_step(sched: Scheduled, nest: Nest, part: Part, data: Node) -> bool:
    """Whether most rows end in the first step of a loop over their entries: every step is masked then, and is one piece of code, since
    a branch on whether a step is whole costs more than its mask. (Processors that cannot gather have no masks.)"""
    mean = entries_of_a_row(data, ix.upper(part.axis.arg.extent))
    block = sched.plans[part.axis].block
    return mean is not None and 1 < block >= mean and sched.target.gathers and not rest_alone(sched, nest)


def rest_alone(sched: Scheduled, nest: Nest) -> bool:
    """Whether the last entries of a row, which fill no vector, are added up one by one: how many there are is foreseen where rows are
    regular, and a vector that is gathered takes as long for two entries as for eight."""
    lanes, conds = sched.lanes(nest), conditions(nest)
    found = sides(conds[0]) if len(conds) == 1 else None
    if found is None or lanes.lane is None or lanes.lane.axis not in nest.reduce_axes or len(nest.reduce_axes) > 1 or order_of(nest):
        return False
    if [p for p in lanes.regs if p.axis in nest.reduce_axes] != [lanes.lane] or lanes.lane.trips != lanes.width:
        return False
    return combine_of(nest) == "add" and regular(found[1]) and gathered(nest, lanes.lane.axis)


def gathered(nest: Nest, axis: Node) -> bool:
    """Whether single elements lie where data says that changes along an axis."""
    return any(any(x.op == "load" and axis in axes_of(x) for x in walk(i)) for _, at, _ in loads(*nest.roots) for i in at[-1:])


def follow(nest: Nest, axis: Node) -> tuple[int, bool]:
    """(how many elements of a row along an axis mostly lie one after the other, whether those of rows side by side do), as inputs say."""
    for n in (n for n in walk(*nest.roots) if n.op == "load" and axis in axes_of(n) and load_parts(n)[0].pattern):
        return PATTERNS[load_parts(n)[0].pattern], not PATTERNS[load_parts(n)[0].pattern]
    return 0, False


def in_runs(indices: Sequence[Node], axis: Node, width: int) -> bool:
    """Whether so many elements along an axis mostly lie one after the other, as the pattern of an input of places says."""
    for n in (n for n in walk(*indices) if n.op == "load" and axis in axes_of(n) and load_parts(n)[0].pattern):
        along = not any(m.op == "load" and m is not n and axis in axes_of(m) for m in walk(n))
        return width <= PATTERNS[load_parts(n)[0].pattern] if along else not PATTERNS[load_parts(n)[0].pattern]
    return False


def left_out(sched: Scheduled, nest: Nest) -> tuple[Node, ...]:
    """The conditions of which data decides whether a step of a reduction is taken at all: they are the same for all register copies, and
    the step is long. None otherwise."""
    where = selected(nest)
    if where is None or where.op != "where" or nest.fills or not cuttable(sched):
        return ()
    conds = tuple(conjuncts(where.src[0]))
    lanes = sched.lanes(nest)
    copies = [p for p in lanes.regs if p.kind != "unroll"]
    if {p.axis for p in copies} & axes_of(where.src[0]):
        return ()
    if not any(x.op == "load" for x in walk(*conds)) or not any(x.op == "load" for x in walk(where.src[1])):
        return ()
    varies = {p.axis for p in lanes.regs}
    length = sum(x.dtype is not index and bool(axes_of(x) & varies) for x in walk(where.src[1]))
    return conds if length * (prod(p.trips for p in copies) // lanes.width) >= LEFT_OUT else ()


def ragged_share(sched: Scheduled, nest: Nest) -> float:
    """The part of the steps of a reduction or a scatter that is taken in the mean: half of a row where data says how far it goes, and of the
    longest of several rows side by side more; 1 where nothing says so."""
    out = 1.0
    if not cuttable(sched) or nest.name in (*sched.dots, *sched.tensors, *sched.places):
        return out
    if nest.kind == "reduce" and left_out(sched, nest):
        out = TAKEN
    found = [x for c in conditions(nest) for x in (sides(c),) if x is not None]
    for place, data, _ in found if nest.kind == "reduce" else ():
        out *= _rows_taken(sched, nest, place, data)
    for axis in (nest.reduce_axes or nest.axes) if found else ():
        plan, extent = sched.plans[axis], max(1, ix.upper(axis.arg.extent))
        looped = [p for p in plan.parts if p.loop]
        for place, data, _ in found:
            if not looped or axis not in axes_of(place) or not known_before(sched, nest, looped[0], data):
                continue
            if worth(sched, (nest,), looped[0]):
                beside = _rows_in_one_loop(sched, nest, data)
                mean = entries_of_a_row(data, extent)
                if mean is None:
                    out = min(out, beside / (beside + 1) + plan.block / (2 * extent))
                else:
                    masked = beside * plan.block if columns_in_lanes(sched, nest, data) else 1
                    spread = 0.0 if regular(data) and mean <= SHORT else sqrt(2 * mean * log(beside))
                    out = min(out, masked * max(mean + spread + plan.block / 2, plan.block) / extent)
    return out


def _rows_in_one_loop(sched: Scheduled, nest: Nest, data: Node) -> int:
    """How many rows go through one loop."""
    apart = separate_rows(sched, nest)
    return prod(p.trips for p in sched.lanes(nest).regs if p.axis in axes_of(data) and p not in apart)


def entries_of_a_row(data: Node, extent: int) -> float | None:
    """How many entries a row has in the mean, where data says from where to where each row goes, and no row begins before the one before
    ends; None where rows may overlap."""
    read = [n for n in walk(data) if n.op == "load"]
    if len(read) < 2 or not all(load_parts(n)[0].ascending for n in read):
        return None
    return extent / max(1, prod(ix.upper(a.arg.extent) for a in axes_of(data)))


def length_of_a_row(data: Node) -> bool:
    """Whether data is an element of an ascending vector less one before it, which is never below 0."""
    terms, c = ix.parts(data)
    ends = {k: t.src[0] if t.op == "cast" else t for t, k in terms.items()}
    if len(terms) != 2 or ends.keys() != {1, -1} or c < 0 or any(t.op != "load" for t in ends.values()):
        return False
    (buffer, at, mask), (first, begin, less) = load_parts(ends[1]), load_parts(ends[-1])
    return (
        buffer is first
        and buffer.ascending
        and mask is less is None
        and at[:-1] == begin[:-1]
        and ix.bounds(ix.add(at[-1], begin[-1], -1))[0] > 0
    )


def regular(data: Node) -> bool:
    """Whether data says where rows end, most of which are as long as those beside them."""
    return any(n.op == "load" and load_parts(n)[0].regular for n in walk(data))


def columns_in_lanes(sched: Scheduled, nest: Nest, data: Node) -> bool:
    """Whether the register copies, and so the lanes, go along columns of the results. Then each row beside another, and each entry
    of a step, is masked and read on its own: two rows take 1.3 to 2.6 times as long as one after the other, eight rows and two entries 2 to 9
    times."""
    return bool({p.axis for p in sched.lanes(nest).regs if p.trips > 1} - axes_of(data) - set(nest.reduce_axes))


def row_loops(sched: Scheduled, nest: Nest) -> tuple[float, float]:
    """(how many loops over rows' entries there are, how many of them end in a step that no processor foresees): the latter of rows of random
    lengths around their mean."""
    if nest.kind != "reduce" or not cuttable(sched):
        return 0.0, 0.0
    for place, data, _ in (x for c in conditions(nest) for x in (sides(c),) if x is not None):
        for axis in (a for a in nest.reduce_axes if a in axes_of(place)):
            mean = entries_of_a_row(data, ix.upper(axis.arg.extent))
            if mean is not None:
                loops = prod(ix.upper(a.arg.extent) for a in axes_of(data)) / _rows_in_one_loop(sched, nest, data)
                block = sched.plans[axis].block  # (whole steps, and what is left of a row, each have a loop)
                return loops, 0.0 if regular(data) else (1 + (1 < block < mean)) * loops * min(1.0, 2 * sqrt(mean) / block)
    return 0.0, 0.0


def _rows_taken(sched: Scheduled, nest: Nest, place: Node, data: Node) -> float:
    """The part of a reduction's rows that are gone through, where data says so of rows: half of them, and half of those side by side."""
    mine = axes_of(place)
    loops = [p for a in nest.reduce_axes for p in sched.plans[a].parts if p.loop]
    if not mine or mine & set(nest.reduce_axes) or not loops or not all(known_before(sched, nest, p, data) for p in loops):
        return 1.0
    if not worth(sched, (nest,), loops[0]):
        return 1.0
    beside = prod(p.trips for p in sched.lanes(nest).regs if p.axis in mine)
    return min(1.0, 0.5 + beside / (2 * max(1, prod(ix.upper(a.arg.extent) for a in mine))))


def keeps_old(sched: Scheduled, nest: Nest, conds: Sequence[Node]) -> bool:
    """Whether a point that the conditions leave out may add what changes nothing: its place exists, nobody else writes there meanwhile,
    and all that points add to is near: a branch that is guessed wrongly takes as long as two reads from the second cache. (Of extremes of floats, what is no number would have to be kept.)"""
    s = nest.store
    if s is None or s.combine is None or s.own is not None or nest.kind != "store" or not cuttable(sched):
        return False
    if nest.expr.dtype.is_float and s.combine != "add":
        return False
    if len(conds) != 1 or conds[0] is not nest.mask or not any(n.op == "load" for n in walk(nest.mask)):
        return False
    shape = [d for d in s.buffer.shape if isinstance(d, int)]
    if len(shape) < len(s.buffer.shape) or any(not _inside(i, d) for i, d in zip(nest.indices, shape, strict=True)):
        return False
    return prod(d for i, d in zip(nest.indices, shape, strict=True) if i.op != "axis") * s.buffer.dtype.size <= sched.target.l2 // 2


def _inside(place: Node, extent: int) -> bool:
    """Whether an index stays inside wherever it is computed."""
    low, high = _range(place)
    return low >= 0 and high < extent


def _range(n: Node) -> Interval:
    while n.op == "cast" and n.dtype is index and n.src[0].dtype.is_int:
        n = n.src[0]
    return ix.bounds(n) if n.dtype is index else value_range(n)


SAMPLES = 16
"""Places of each axis that are looked at."""
LEAST = 8
"""Iterations from which on a loop is worth limits of its own."""


def triangles(s: Scheduled, nest: Nest) -> tuple[Node, ...]:
    """The conditions of a reduction that limit one of its loops by where others are."""
    if nest.kind != "reduce" or not cuttable(s) or nest.filled or any(nest.name in x for x in (s.dots, s.tensors, s.places)):
        return ()
    return tuple(c for c in conditions(nest) if c.src[0].dtype is index and any(_limits(s, nest, c)))


def triangle_share(s: Scheduled, nest: Nest) -> float:
    """The part of a reduction's steps that is taken because of such conditions: of what they leave, and half a step of each loop more."""
    found = triangles(s, nest)
    if not found:
        return 1.0
    axes = dict.fromkeys(a for c in found for a in ordered_axes(c))
    return min(1.0, _share_inside(found) + sum(s.plans[a].block / (2 * max(1, ix.upper(a.arg.extent))) for a in axes))


@lru_cache(maxsize=256)
def _share_inside(found: tuple[Node, ...]) -> float:
    """The part of all places at which some conditions hold."""
    axes = sorted({a for c in found for a in axes_of(c)}, key=lambda a: str(a.arg.name))
    places = [[(2 * i + 1) * ix.upper(a.arg.extent) // (2 * SAMPLES) for i in range(SAMPLES)] for a in axes]
    held = [all(_is_met(c, dict(zip(axes, at, strict=True))) for c in found) for at in product(*places)]
    return sum(held) / len(held)


def masks(s: Scheduled, nest: Nest) -> frozenset[Node]:
    """What steps do not compute where they are taken for all register copies: the conditions, the selection by them, and the product
    that it selects, which is part of the sum then. Where data leaves out whole steps (`ragged.left_out`), the selection."""
    found = triangles(s, nest)
    if not found and nest.kind == "reduce" and left_out(s, nest):
        return frozenset(n for n in (selected(nest),) if n is not None)
    if not found or operations(s, nest) > LONG:
        return frozenset()
    where, out = selected(nest), {n for c in found for n in walk(c)}
    if where is not None and where.op == "where" and set(conditions(nest)) == set(found):
        out.add(where)
        if where is nest.expr and where.dtype.is_float and combine_of(nest) == "add":
            out |= {n for n in where.src[1:2] if n.op == "mul"}
    return frozenset(out)


def _limits(s: Scheduled, nest: Nest, cond: Node) -> Iterator[bool]:
    """For each axis of a reduction, whether a condition limits a loop over it."""
    mine = axes_of(cond)
    plain = not s.rings and all(x.op in ("axis", "const", "sum", "prod") for side in cond.src for x in walk(side))
    around: set[Node] = set()
    for p in (q for q in s.loops(nest) if q.loop or q.kind == "grid"):
        staged = any(t.at.name == p.name for t in s.stages.values())
        yield plain and p.axis in nest.reduce_axes and p.axis in mine and bool(around & mine) and p.trips >= LEAST and not staged
        around.add(p.axis)


def _is_met(cond: Node, at: dict[Node, int]) -> bool:
    """Whether a comparison holds at a place."""
    a, b = (ix.bounds(substitute(side, {x: const(n) for x, n in at.items()}))[0] for side in cond.src)
    return a < b if cond.op == "lt" else a <= b
