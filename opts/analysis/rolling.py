"""Which values of overlapping blocks may be kept from one block to the next: ROLL's rule.

A value over blocks b and places s may roll where it is a function of step·b + s alone: then what the next block has at s is what this
one has at s + step. Whether that is so is seen from the value's expression, not from how it came about: with s − step·b put in for s,
no b may be left. (Halide's sliding window, by store_at outside compute_at.)"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ...ir import index as ix
from ...ir.buffer import load_parts
from ...ir.dtypes import index
from ...ir.node import Node, axes_of, axis, ref, walk
from ...ir.operators import substitute
from ..loops import Loops
from ..nests import Nest
from ..plans import RollPlan


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
