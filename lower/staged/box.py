"""Fills a staged tile of order `row`: the box of the buffer that is touched, row by row, 0 outside the buffer."""

from __future__ import annotations

from ...ir import index as ix
from ...ir.dtypes import DType, index
from ...ir.node import Node, const
from ...ir.node import axis as make_axis
from ...opts.plans import StagePlan
from ...program.builder import Builder
from ...program.program import Mem, Val
from ..lowering import Lowering


def box(low: Lowering, s: StagePlan, mem: Mem) -> None:
    """Emit the copy: loops over the rows of the box, whole vectors along a row (rows of the tile have room for the last)."""
    b, width = low.b, low.ctx.width
    name = s.buffer.name
    sizes = [extent for _, _, extent, _ in s.box]
    vectors = -(-sizes[-1] // width)
    sizes[-1] = vectors * width
    axes = [make_axis(f"{name}.box{d}", size) for (d, *_), size in zip(s.box, sizes)]
    index_ = list(s.index)
    address = source = const(0)
    for (d, base, _, stride), a in zip(s.box, axes):
        index_[d] = ix.add(base, a)
        address = ix.add(address, a, stride)
    for i, step in zip(index_, low.ctx.strides[name]):
        source = ix.add(source, i, step) if isinstance(step, int) else ix.add(source, ix.mul(i, step))
    conds = []
    for d, *_ in s.box:
        size = s.buffer.shape[d]
        top = size if isinstance(size, Node) else const(size)
        conds += [ix.compare("le", const(0), index_[d]), ix.compare("lt", index_[d], top)]

    def rows(rest: list[Node]) -> None:
        if len(rest) > 1:
            with b.loop(rest[0].arg.name, b.const(0), b.const(int(rest[0].arg.extent))) as loop, low.scalars.bind(rest[0], loop.var):
                rows(rest[1:])
            return
        with b.loop(rest[0].arg.name, b.const(0), b.const(vectors)) as loop:
            start = b.op("mul", loop.var, b.const(width))
            with low.scalars.bind(rest[0], start):
                mask = _mask(low, [c for c in conds if c.op != "const"], rest[0])
                value = b.load(low.param(name), low.scalar(source), width, mask, invariant=True)
                b.store(mem, low.scalar(address), kept(b, s, value))

    rows(axes)


def kept(b: Builder, s: StagePlan, v: Val) -> Val:
    """`v` in the type the tile is kept in: signed bytes with half their range added are their bits with the highest one flipped."""
    return v if v.dtype is s.dtype else flipped(b, v, s.dtype)


def flipped(b: Builder, v: Val, to: DType) -> Val:
    """Signed v + 2^(bits-1) as the unsigned type `to`."""
    return b.op("bitcast", b.op("xor", v, b.const(-(1 << (8 * to.size - 1)), v.dtype)), dtype=to)


def _mask(low: Lowering, conds: list[Node], inner: Node) -> Val | None:
    """Every condition, lane by lane along the row."""
    b, mask = low.b, None
    for c in conds:
        difference = ix.add(c.src[1], c.src[0], -1)
        v = low.scalar(difference)
        step = ix.parts(difference)[0].get(inner, 0)
        if step and low.ctx.width > 1:
            v = b.op("add", v, b.const(tuple(step * i for i in range(low.ctx.width)), index, low.ctx.width))
        v = b.splat(b.op(c.op, b.const(0), v), low.ctx.width)
        mask = v if mask is None else b.op("and", mask, v)
    return mask
