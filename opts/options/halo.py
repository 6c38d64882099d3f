"""HALO: an axis of the outputs in blocks, each with all that it needs of the values before: overlapped tiles.

Stencils read a value at shifted places, so that what one work item makes, its neighbours want as well. Under HALO(axis, n) every
block of n elements computes what it reads of each value itself: its own part and the border around it (the halo), which a
neighbour computes again. A value so becomes one over blocks, axis `axis.h`, and places within them. Blocks need nothing of each
other: they may run in parallel, and STAGE keeps a block's part of a value in a cache (Halide's compute_at; overlapped tiling)."""

from __future__ import annotations

import re
import weakref
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from ...ir import index as ix
from ...ir.body import Fold, Reduce, Scan, Store, Value, values_of
from ...ir.buffer import load_parts
from ...ir.dtypes import index
from ...ir.errors import KernelError, OptError
from ...ir.index import Interval
from ...ir.kernel import Kernel
from ...ir.node import Node, axes_of, axis, const, ref, walk
from ...ir.node import axis as make_axis
from ...ir.operators import substitute
from ..analysis.interior import middle
from ..analysis.structure import extent, read_elsewhere
from ..loop_tree import Chain, Shared, Single, Together, Tree
from ..loops import Loops
from ..neighbourhood import Neighbourhood
from ..nests import Nest
from ..opt import Opt, Opts, opt
from ..plans import RollPlan
from ..registry import Doc, Golden, Option, Rewriting
from ..rewrites.kernel_parts import changed_item, changed_store, needed, store_roots
from ..schedule import Scheduled
from ..syntax import FLAG

# regions --------------------------------------------------------------------------------------------------------------
# Which part of a value a block of its readers needs: bounds inference, by intervals.
#
# The places at which a value is read are index expressions over the block's number (`atom`) and the reader's own axes. Their bounds
# relative to a multiple of the block's number are the same for all blocks: that is the box that a block needs (Halide's bounds inference;
# overlapped tiles in PolyMage, Mullapudi et al. 2015). Clamps and reflections at borders are minima and maxima, and intervals go through
# them. Wraps `x mod size` are undone: a block of a torus needs an interval as well, of which some lies at the other end.


@dataclass(frozen=True, slots=True)
class Span:
    """What a block needs along one dimension: `extent` elements from index `start` on, which varies with the block. Of a dimension that
    is `round` so many elements, indices are taken modulo that."""

    start: Node
    extent: int
    round: int | None = None

    def element(self, place: Node) -> Node:
        """The index of the element at a place of the span."""
        at = ix.add(self.start, place)
        return at if self.round is None else ix.mod(at, self.round)

    def place(self, element: Node) -> Node:
        """The place in the span at which a block finds an element that it needs."""
        return ix.add(element if self.round is None else unwrapped(element, self.round), self.start, -1)


def needed_span(indices: Iterable[Node], atom: Node, size: int) -> Span | None:
    """The elements of a dimension of `size` elements that `indices` reach in a block, whatever the other axes are; None where that
    is all of them, or no index varies with the block. `atom`: the axis that numbers blocks."""
    as_read = list(indices)
    found = [unwrapped(i, size) for i in as_read]
    scales = [k for k in (scale(i, atom) for i in found) if k is not None]
    if not scales:
        return None
    k = max(scales)
    spans = [relative(i, atom, k) for i in found]
    lo, hi = min(s[0] for s in spans), max(s[1] for s in spans)
    if hi - lo + 1 >= size:
        return None
    start = ix.add(ix.mul(atom, const(k)), const(lo))
    if found != as_read:
        return Span(start, hi - lo + 1, size)
    # a block at a border begins where as many elements are left: what it does not need is computed there, and nothing is masked
    return Span(ix.minmax("max", const(0), ix.minmax("min", start, const(size - (hi - lo + 1)))), hi - lo + 1)


def unwrapped(i: Node, size: int) -> Node:
    """`x` less a multiple of `size`, for an index `x mod size`: as it is for most points, so that it is an interval for all of a block."""
    if i.op != "mod" or i.arg != size:
        return i
    at = middle(i.src[0])
    return i if at is None else ix.add(i.src[0], const(-(at // size) * size))


def scale(i: Node, atom: Node) -> int | None:
    """How far an index moves from one block to the next, borders aside; None where it does not vary with the block, or nobody knows."""
    if i.op in ("min", "max"):
        return next((k for k in (scale(s, atom) for s in i.src) if k is not None), None)
    terms, _ = ix.parts(i)
    if atom in terms:
        return terms[atom]
    return next((c * k for t, c in terms.items() if t.op in ("min", "max") for k in (scale(t, atom),) if k is not None), None)


def relative(i: Node, atom: Node, k: int) -> Interval:
    """Bounds of i − k·atom."""
    if i.op in ("min", "max"):
        (a, b), (c, d) = (relative(s, atom, k) for s in i.src)
        f = min if i.op == "min" else max
        return f(a, c), f(b, d)
    terms, c = ix.parts(i)
    varying = [t for t in terms if t is not atom and atom in axes_of(t)]
    if len(varying) == 1 and atom not in terms and terms[varying[0]] == 1 and varying[0].op in ("min", "max"):
        rest = ix.bounds(ix.add(i, varying[0], -1))
        lo, hi = relative(varying[0], atom, k)
        return lo + rest[0], hi + rest[1]
    return ix.bounds(ix.add(i, ix.mul(atom, const(k)), -1))


# halo -----------------------------------------------------------------------------------------------------------------


BLOCKS = (4, 8, 16, 32, 64, 128, 256)
STEPS = (1, 2, 4, 8)
"""Rows of a block that keeps others for the next."""
STRIPS = (32, 64, 128, 256)
"""Rows of a work item that goes through such blocks."""

_BLOCKS = re.compile(r"\.h\d*$")
"""How the names of blocks end."""

Tile = tuple[Span | None, ...]
"""Of a value: what a block needs along each dimension, None where it needs all."""


@lru_cache(maxsize=64)
def tiled(kernel: Kernel, o: Opt) -> Kernel:
    """The kernel over blocks of the axis `o.on` of its stores. OptError where it is no axis of theirs."""
    sites = _sites(kernel, o)
    size = next(iter(sites)).arg.extent
    if not isinstance(size, int):
        raise OptError(f"{o}: {o.on} has a symbolic extent")
    if not o.amount < size:
        raise OptError(f"{o}: a block must be smaller than the extent {size}")
    block = make_axis(_block_name(kernel, o.on), -(-size // o.amount))
    even = size % o.amount == 0
    # where blocks do not fit, the last one begins earlier, and stores just what is its own
    atom = block if even else make_axis(f"{block.arg.name}.from", size - o.amount + 1)
    first = ix.mul(block, const(o.amount))
    begin = ix.mul(atom, const(o.amount)) if even else atom
    inner = {a: make_axis(a.arg.name, o.amount, a.arg.name) for a in sites}
    stores = []
    for s in kernel.stores:
        s = changed_store(s, lambda e: substitute(e, {a: ix.add(begin, inner[a]) for a in sites}))
        if not even:
            own = ix.compare("le", first, ix.add(begin, next(inner[a] for a in s.axes if a in inner)))
            s = replace(s, mask=own if s.mask is None else s.mask & own)
        stores.append(replace(s, axes=_inside(block, s.axes, [inner.get(a, a) for a in s.axes])))
    body, tiles = _blocked(kernel, stores, (block, atom, begin), inner)

    def final(e: Node) -> Node:
        e = _within(e, tiles, block)
        return e if even else substitute(e, {atom: ix.minmax("min", first, const(size - o.amount))})

    try:
        return replace(kernel, body=tuple(changed_item(i, final) for i in body), stores=tuple(changed_store(s, final) for s in stores))
    except KernelError as e:
        raise OptError(f"{o}: {e}") from e


def _sites(kernel: Kernel, o: Opt) -> dict[Node, None]:
    """The axes of the stores that an option names: a site, or a family."""
    out: dict[Node, None] = {}
    for s in kernel.stores:
        if s.combine is not None or s.own is not None:
            raise OptError(f"{o}: {s.buffer.name} is a scatter, whose writes may be anywhere; a block would lack some")
        named = [a for a in s.axes if a.arg.name == o.on] or [a for a in s.axes if a.arg.family == o.on]
        if not named:
            raise OptError(f"{o}: the store to {s.buffer.name} does not run over {o.on} (it has {', '.join(a.arg.name for a in s.axes)})")
        if len(named) > 1:
            raise OptError(f"{o}: {s.buffer.name} runs over {' and '.join(a.arg.name for a in named)}; name one of them")
        out[named[0]] = None
    return out


def _block_name(kernel: Kernel, on: str) -> str:
    taken = {a.arg.name for a in kernel.axes}
    return next(name for name in (f"{on}.h", *(f"{on}.h{i}" for i in range(2, 99))) if name not in taken)


def _blocked(
    kernel: Kernel, stores: list[Store], blocks: tuple[Node, Node, Node], inner: Mapping[Node, Node]
) -> tuple[tuple[Value | Fold, ...], Mapping[str, tuple[Tile, int]]]:
    """The values over blocks, whose bodies still read each other at places in the whole, and of each that is in blocks its tile and where the
    blocks are among its axes.
    `blocks`: their axis, what numbers them, and where one begins; `inner`: the axes of stores, and what is left of them in a block."""
    block, atom, begin = blocks
    reads: dict[str, list[tuple[Node, ...]]] = {}
    tiles: dict[str, tuple[Tile, int]] = {}
    body: list[Value | Fold] = []

    def note(*roots: Node) -> None:
        for n in walk(*roots):
            if n.op == "ref":
                reads.setdefault(n.arg, []).append(n.src)

    taken = Counter(a for item in kernel.body for v in values_of(item) for a in (*v.axes, *v.reduce_axes))
    taken += Counter(a for s in kernel.stores for a in s.axes)
    for s in stores:
        note(*store_roots(s))
    for item in reversed(needed(kernel.body, (r for s in stores for r in store_roots(s)))):
        if isinstance(item, Value):
            tile = _tile(item, reads[item.name], atom)
            same = {a: inner[a] for a, t in zip(item.axes, tile, strict=True) if a in inner and t == Span(begin, inner[a].arg.extent)}
            own = _own_axes(item, tile, same, inner, taken, len(body))
            item = _over_blocks(item, tile, block, same | own)
            if any(tile):
                tiles[item.name] = tile, item.axes.index(block)
        note(*(v.body for v in values_of(item)))
        body.append(item)
    return tuple(reversed(body)), tiles


def _tile(v: Value, reads: list[tuple[Node, ...]], atom: Node) -> Tile:
    scanned = v.expr.axis if isinstance(v.expr, Scan) else None
    return tuple(
        needed_span((at[d] for at in reads), atom, a.arg.extent) if isinstance(a.arg.extent, int) and a is not scanned else None
        for d, a in enumerate(v.axes)
    )


def _own_axes(
    v: Value, tile: Tile, same: Collection[Node], cut: Collection[Node], taken: Mapping[Node, int], number: int
) -> dict[Node, Node]:
    """Axes of a value's own for those that others walk as well, of which they want other parts; and for those after the first that is
    cut so, for loops of each nest to be in the order of its own axes."""
    found: dict[Node, Node] = {}
    apart = False
    for a, t in zip(v.axes, tile, strict=True):
        apart = apart or (t is not None and a not in same)
        name = a.arg.name if taken[a] == 1 else f"{a.arg.name}.v{number}"
        if t is not None and a not in same:
            found[a] = make_axis(name, t.extent, name)
        elif a not in same and a in cut:
            found[a] = make_axis(name, a.arg.extent, name)
        elif a not in same and apart:
            found[a] = make_axis(name, a.arg.extent, a.arg.family)
    return found


def _over_blocks(v: Value, tile: Tile, block: Node, renamed: Mapping[Node, Node]) -> Value:
    """A value over blocks and places in their tiles; over no blocks where nothing of it is cut."""
    axes = [renamed.get(a, a) for a in v.axes]
    table = {old: new if t is None else t.element(new) for old, new, t in zip(v.axes, axes, tile, strict=True)}
    body = substitute(v.body, table)
    expr: Node | Reduce | Scan = body if isinstance(v.expr, Node) else replace(v.expr, expr=body)
    if isinstance(expr, Scan):
        expr = replace(expr, axis=table[expr.axis])
    return replace(v, axes=_inside(block, v.axes, axes) if any(tile) else tuple(axes), expr=expr)


def _inside(block: Node, old: Sequence[Node], new: Sequence[Node]) -> tuple[Node, ...]:
    """The axes `new`, with blocks put inside those that are there: `old` says how many come first."""
    there = next((i for i, a in enumerate(old) if not _BLOCKS.search(str(a.arg.name))), len(old))
    return (*new[:there], block, *new[there:])


def _within(e: Node, tiles: Mapping[str, tuple[Tile, int]], block: Node) -> Node:
    """An expression that reads values in blocks at places in their tiles."""
    table = {}
    for n in walk(e):
        if n.op == "ref" and n.arg in tiles:
            at = (_within(i, tiles, block) for i in n.src)
            tile, place = tiles[n.arg]
            places = [i if t is None else t.place(i) for i, t in zip(at, tile, strict=True)]
            table[n] = ref(n.arg, (*places[:place], block, *places[place:]), n.dtype)
    return substitute(e, table) if table else e


def rewrite(r: Rewriting) -> Scheduled:
    """The kernel over blocks; of several options, one after the other. Blocks that roll do so in each phase that has them."""
    o = r.mine[0]
    if o.fields["roll"] not in (0, 1):
        raise OptError(f"{o}: roll is 1 where a block keeps what the next one needs, else 0")
    inner = tiled(r.kernel, o)
    a = r.apply(inner, tuple(x for x in r.opts if x is not o), r.target)
    if not o.fields["roll"]:
        return r.schedule((a,), a.effects)
    blocks = _block_name(r.kernel, o.on)
    return r.schedule(tuple(rolled(p, blocks) for p in a.phases or (a,)), a.effects)


def propose(near: Neighbourhood) -> Iterator[Opts]:
    """Blocks of the axes that outputs share, in parallel, with what they need of pointwise values kept."""
    values = read_elsewhere(near.kernel)
    first = near.kernel.stores[0]
    names = [v for v in values if isinstance(near.kernel.values[v].expr, Node) and ("STAGE", v) not in near.taken]
    for a in first.axes if values else ():
        if ("HALO", a.arg.name) in near.taken:
            continue
        for n in BLOCKS:
            if n < extent(a):
                at = f"{a.arg.name}.h"
                run = [opt("PARALLEL", at)] if near.cpu else []
                yield (opt("HALO", a.arg.name, n), *run, *(opt("STAGE", v, at=at) for v in names))
                yield (opt("HALO", a.arg.name, n),)
    if values and near.cpu and not near.target.groups and not any(o.fields.get("roll") for o in near.schedule.opts):
        yield from _rolling(near, names)


def _rolling(near: Neighbourhood, kept: Sequence[str]) -> Iterator[Opts]:
    """Strips of an axis of the outputs in parallel, each in blocks that keep what they share."""
    for a in near.kernel.stores[0].axes:
        name = str(a.arg.name)
        for step in STEPS:
            blocks = (opt("HALO", name, n=step, roll=1), *(opt("STAGE", v, at=f"{name}.h2") for v in kept))
            if ("HALO", name) in near.taken:
                yield blocks
                continue
            for strip in STRIPS:
                if strip < extent(a):
                    yield (opt("HALO", name, strip), opt("PARALLEL", f"{name}.h"), *blocks)


HALO = Option(
    name="HALO",
    letter="H",
    on="axis",
    arg={"n": int, "roll": int},
    amount="n",
    defaults={"roll": 0},
    short=(("", "n"), (FLAG, "roll")),
    choices={"roll": (0, 1)},
    kind="serial",
    cuts=True,
    legend="blocks with halos",
    docs=(
        Doc(
            "HALO(axis, n)",
            "Cut an axis of the outputs into blocks of n elements, and compute for each block what it reads of every value: "
            "its own part and the halo, which its neighbours compute again. The blocks are the axis `axis.h` "
            "([below](#chains-of-stencils)).",
        ),
        Doc(
            "HALO(axis, n, roll=1)",
            "Let blocks that run one after the other keep what they have of values for the next block, in rings: each "
            "block computes just what is new.",
        ),
    ),
    golden={
        "halo": Golden(
            "softmax", {"m": 4, "n": 32}, [["HALO", "m", 2], ["STAGE", "e", {"at": "m.h"}], ["PARALLEL", "m.h"], ["UPCAST", "n", 16]]
        )
    },
    rewrite=rewrite,
    by_phase=lambda kernel, o: True,
    proposes_whole=True,
    propose=propose,
)


# rolling --------------------------------------------------------------------------------------------------------------
# Blocks of HALO that keep what they have of a value for the next block, so that nothing is computed twice.
#
# Blocks that overlap compute their halos again. Where they run one after the other, a block may find most of its halo where the block
# before left it: in a ring of rows, of which each block computes just the new ones (Halide's sliding windows and circular buffers). A
# value over blocks b and places s may roll where it is a function of step·b + s alone: then what the next block has at s is what this one
# has at s + step. Whether that is so is seen from the value's expression, not from how it came about: with s − step·b put in for s, no b
# may be left.


def rings(s: Loops, blocks: Node) -> dict[str, RollPlan]:
    """The values with a nest of their own that may roll along the axis `blocks`, and have something to keep."""
    found: dict[str, RollPlan] = {}
    for nest in s.nests:
        # (what a nest fills on its way has readers of its own, who want all of a block)
        if nest.kind in ("reduce", "point") and blocks in nest.axes and not nest.fills:
            ring = next((r for r in _candidates(nest, blocks, found) if _rolls(nest, blocks, r, found)), None)
            if ring is not None:
                found[nest.name] = ring
    return {name: r for name, r in found.items() if 0 < r.step < r.extent}


def _candidates(nest: Nest, blocks: Node, known: Mapping[str, RollPlan]) -> Iterator[RollPlan]:
    """(axis, step) such that some index is over step·blocks + axis, or would be where what it reads has rolled: no other can be right, and
    there are as many steps as an axis is long."""
    along = [i for n in nest.loads for i in load_parts(n)[1]] + [i for n in nest.refs for i in n.src]
    over = [(i, 0) for i in along]
    for n in nest.refs:
        r = known.get(n.arg)
        if r is not None and n.src[r.block_at] is blocks:
            over.append((n.src[r.along_at], r.step))
    seen = set()
    for index_, rolled in over:
        for terms in (ix.parts(i)[0] for i in walk(index_) if i.dtype is index):
            for a in nest.axes:
                if a is blocks or a not in terms or not isinstance(a.arg.extent, int):
                    continue
                step, rest = divmod(terms.get(blocks, 0) + rolled, terms[a])
                if not rest and step > 0 and (a, step) not in seen:
                    seen.add((a, step))
                    yield RollPlan(blocks, a, nest.axes.index(blocks), nest.axes.index(a), step)


def _rolls(nest: Nest, blocks: Node, ring: RollPlan, known: Mapping[str, RollPlan]) -> bool:
    """Whether a nest's value depends on blocks and places by step·blocks + place alone, given which others do."""
    count = blocks.arg.extent
    if not isinstance(count, int):
        return False
    place = axis("place", ring.extent + ring.step * (count - 1))

    def of_place(e: Node) -> Node:
        table = {}
        for n in walk(e):
            r = known.get(n.arg) if n.op == "ref" else None
            if r is not None and n.src[r.block_at] is blocks:
                at = ix.add(n.src[r.along_at], blocks, r.step)
                rest = [at if d == r.along_at else i for d, i in enumerate(n.src) if d != r.block_at]
                table[n] = ref(f"{n.arg}.rolled", rest, n.dtype)
        return substitute(substitute(e, table), {ring.along: ix.add(place, blocks, -ring.step)})

    return all(blocks not in axes_of(of_place(e)) for e in nest.evaluated)


_ROLLED: weakref.WeakKeyDictionary[Scheduled, dict[str, Scheduled]] = weakref.WeakKeyDictionary()


def rolled(s: Scheduled, name: str) -> Scheduled:
    """The schedule whose blocks along the axis `name` roll, the same for the same schedule; `s` itself where it has no such axis. OptError
    where blocks do not come one after the other, or a value's new rows are no whole steps of its loops."""
    blocks = next((a for a in s.plans if a.arg.name == name), None)
    if blocks is None:
        return s
    known = _ROLLED.setdefault(s, {})
    if name not in known:
        known[name] = _rolled(s, name, blocks)
    return known[name]


def _rolled(s: Scheduled, name: str, blocks: Node) -> Scheduled:
    what = f"HALO with roll, {name}"
    if s.target.groups:
        raise OptError(f"{what}: {s.target.name} runs blocks in any order; roll is for processors' own loops")
    found = rings(s, blocks)
    out = replace(s, rings={**found, **s.rings})
    mine = {v: r for v, r in out.rings.items() if r.blocks is blocks}
    if not mine:
        raise OptError(f"{what}: no value has the same elements in two blocks; cut the inside of a block by HALO, and keep values by STAGE")
    plan = s.plans[blocks]
    if plan.grid or plan.block > 1 or plan.tiles or plan.fold:
        raise OptError(f"{what}: blocks are to come one after the other, so {name} stays a serial loop that is not cut")
    for v, ring in mine.items():
        _value(out, what, v, ring)
    return out


def _value(s: Scheduled, what: str, name: str, ring: RollPlan) -> None:
    plan, along = s.plans[ring.along], ring.along.arg.name
    nest = next(n for n in s.nests if n.name == name)
    if plan.grid or plan.tiles or plan.fold or any(ring.along in n.all_axes for n in s.nests if n is not nest):
        raise OptError(f"{what}: the loop over {along} computes what is new of {name}; leave it uncut, serial and to itself")
    if ring.extent % plan.block or ring.kept % plan.block:
        raise OptError(f"{what}: of {along}, {ring.kept} of {ring.extent} places are kept; steps of {plan.block} do not divide both")
    loops = s.loops(nest)
    at = next((i for i, p in enumerate(loops) if p.axis is ring.along), None)
    first = next((i for i, p in enumerate(loops) if p.axis in nest.reduce_axes), len(loops))
    outer = next(i for i, p in enumerate(loops) if p.axis is ring.blocks)
    if at is None or not outer < at < first:
        raise OptError(f"{what}: the loop over {along} runs inside {ring.blocks.arg.name}, and outside what {name} reduces over")
    loop = _loop(s.tree.items, ring.blocks, nest)
    together = [] if loop is None else loop.nests
    readers = [r for r, _ in s.tree.reads.get(name, ())]
    if any(all(m is not n for m in together) for n in (nest, *readers)):
        raise OptError(f"{what}: {name} and what reads it do not run in one loop over {ring.blocks.arg.name}")
    assert loop is not None
    if not any(isinstance(i, Single) and i.nest is nest for i in loop.body):
        raise OptError(f"{what}: another loop runs between {ring.blocks.arg.name} and {along}, and would use one ring for all; MOVE it out")
    if any(src[ring.block_at] is not ring.blocks for _, src in s.tree.reads.get(name, ())):
        raise OptError(f"{what}: {name} is read in another block than the one that computes it")


def _loop(items: tuple[Tree, ...], blocks: Node, nest: Nest) -> Shared | None:
    """The loop over `blocks` that several nests share, `nest` among them."""
    for item in items:
        if isinstance(item, Shared) and item.part.axis is blocks and any(n is nest for n in item.nests):
            return item
        found = None if isinstance(item, Single | Together | Chain) else _loop(item.body, blocks, nest)
        if found is not None:
            return found
    return None
