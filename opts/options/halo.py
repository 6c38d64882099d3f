"""HALO: an axis of the outputs in blocks, each with all that it needs of the values before: overlapped tiles.

Stencils read a value at shifted places, so that what one work item makes, its neighbours want as well. Under HALO(axis, n) every
block of n elements computes what it reads of each value itself: its own part and the border around it (the halo), which a
neighbour computes again. A value so becomes one over blocks, axis `axis.h`, and places within them. Blocks need nothing of each
other: they may run in parallel, and STAGE keeps a block's part of a value in a cache (Halide's compute_at; overlapped tiling)."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache

from ...ir import index as ix
from ...ir.body import Fold, Reduce, Scan, Store, Value, values_of
from ...ir.errors import KernelError, OptError
from ...ir.kernel import Kernel
from ...ir.node import Node, const, ref, walk
from ...ir.node import axis as make_axis
from ...ir.operators import substitute
from ..analysis.regions import Span, needed_span
from ..analysis.structure import extent, read_elsewhere
from ..neighbourhood import Neighbourhood
from ..opt import Opt, Opts, opt
from ..registry import Doc, Golden, Option, Rewriting
from ..rewrites.kernel_parts import changed_item, changed_store, needed, store_roots
from ..rolling import rolled
from ..schedule import Scheduled
from ..syntax import FLAG

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
