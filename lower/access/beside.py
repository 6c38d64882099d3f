"""Vectors under a mask that lie beside their array, all of whose lanes are off: at a picture's border, or before the first sample. No
element of them is touched, but where no page is there a processor takes hundreds of cycles to find that out (measured on Zen 5: 135 ns).
They are read at the array's beginning instead, whose page is there."""

from __future__ import annotations

from dataclasses import replace

from ...ir import index as ix
from ...ir.dtypes import index
from ...ir.node import Node, const
from ...program.program import Mem, Val
from .bounds import Bounds, size


def masked_load(
    ev: Bounds, mem: Mem, base: Node, c: int, vec: Val | None, lanes: int, masks: tuple[Val, Val | None], invariant: bool
) -> Val:
    """`lanes` elements from base + c on (+ `vec`, a scalar that is computed from data), under a mask of as many, or of one. `masks`: that,
    and what of it is one for all lanes, if anything is: mostly the vector is the array's where this holds."""
    b, low = ev.b, ev.low
    mask, alone = b.splat(masks[0], lanes), masks[1]
    known = b.known(mask)  # (of a vector that has an element nothing is asked)
    elements = None if isinstance(known, tuple) and any(known) else _elements(ev, mem)
    if vec is None:
        first, last = ev.span(ix.add(base, const(c)))
        if elements is None or (-lanes < first and last < ix.bounds(elements)[0]):  # (some lane of each may be an element)
            return b.load(low.at(mem, base, c, lanes), low.scalar(base), lanes, mask, invariant)
    mem = low.at(mem, base, c, lanes) if vec is None else replace(mem, offset=mem.offset + c)
    at = low.scalar(base) if vec is None else b.op("add", low.scalar(base), vec)
    if elements is None:
        return b.load(mem, at, lanes, mask, invariant)
    if alone is not None and 0 <= c <= ix.bounds(elements)[0] - lanes:
        return b.load(mem, b.op("select", alone, at, b.const(0), dtype=index), lanes, mask, invariant)
    at = b.op("add", at, b.const(c))
    there = b.op("and", b.op("lt", b.const(-lanes), at), b.op("lt", at, low.scalar(elements)))
    place = b.op("select", there, at, b.const(0), dtype=index)
    return b.load(replace(mem, offset=mem.offset - c), place, lanes, mask, invariant)


def _elements(ev: Bounds, mem: Mem) -> Node | None:
    """How many elements a parameter has; None of other memory, around which there is more of its own."""
    buffer = ev.low.ctx.buffer(mem) if mem.space == "param" and ev.low.sched.target.kind == "cpu" else None
    if buffer is None or not buffer.shape:
        return None
    out = const(1)
    for n in buffer.shape:
        out = ix.mul(out, size(n))
    return out
