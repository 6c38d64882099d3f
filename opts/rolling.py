"""Blocks of HALO that keep what they have of a value for the next block, so that nothing is computed twice.

Blocks that overlap compute their halos again. Where they run one after the other, a block may find most of its halo where the block
before left it: in a ring of rows, of which each block computes just the new ones (Halide's sliding windows and circular buffers). A value
over blocks b and places s may roll where it is a function of step·b + s alone: then what the next block has at s is what this one has at
s + step. Whether that is so is seen from the value's expression, not from how it came about: with s − step·b put in for s, no b may be
left."""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Mapping
from dataclasses import replace

from ..ir import index as ix
from ..ir.buffer import load_parts
from ..ir.dtypes import index
from ..ir.errors import OptError
from ..ir.node import Node, axes_of, axis, ref, walk
from ..ir.operators import substitute
from .loop_tree import Chain, Shared, Single, Together, Tree
from .loops import Loops
from .nests import Nest
from .plans import RollPlan
from .schedule import Scheduled


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
