"""Combines the partial results that the threads of a group hold of one reduction: exchanged within a warp by shuffles where the
target has them, then through shared memory. Every thread gets the result, and the order is fixed."""

from __future__ import annotations

from collections.abc import Sequence

from ...ir.dtypes import bool_
from ...opts.nests import Nest
from ...opts.plans import ThreadAxis
from ...program.program import Mem, Val
from ..lowering import Lowering
from ..storage import Key


def across_threads(low: Lowering, n: Nest, results: dict[Key, Val], combine: str) -> dict[Key, Val]:
    """The accumulators of a reduce nest, combined over the dimensions of the group that share its reduce axes."""
    shared = low.sched.shared_by(n.reduce_axes)
    if not shared:
        return results
    flat = [low.b.extract(v, i) if v.lanes > 1 else v for v in results.values() for i in range(v.lanes)]
    for t in shared:
        near = _near(low, t)
        flat = [_shuffled(low, v, t.stride, near, combine) for v in flat]
        if near < t.count:
            flat = _exchanged(low, flat, t, near, combine)
    out: dict[Key, Val] = {}
    rest = iter(flat)
    for key, v in results.items():
        joined = next(rest)
        if v.lanes > 1:
            joined = low.b.splat(joined, v.lanes)
            for i in range(1, v.lanes):
                joined = low.b.insert(joined, next(rest), i)
        out[key] = joined
    return out


def _near(low: Lowering, t: ThreadAxis) -> int:
    """How many neighbours along a dimension sit in one warp and can be reached by shuffles; 1 if none."""
    warp, group = low.sched.target.warp, low.sched.group
    whole = group % warp == 0 or group & (group - 1) == 0  # else the last warp lacks threads that others would ask
    if not whole or t.stride & (t.stride - 1):
        return 1
    return max(1, min(t.count, warp // t.stride))


def _shuffled(low: Lowering, v: Val, stride: int, count: int, combine: str) -> Val:
    b, distance = low.b, count // 2
    while distance:
        v = b.op(combine, v, b.shfl_xor(v, distance * stride))
        distance //= 2
    return v


def _exchanged(low: Lowering, vals: Sequence[Val], t: ThreadAxis, near: int, combine: str) -> list[Val]:
    """What `t.count / near` groups of neighbours hold, combined in halves through shared memory."""
    b, group, far = low.b, low.sched.group, t.count // near
    mems = [low.storage.shared.take(v.dtype, group) for v in vals]
    thread = low.thread
    index = low.scalar(t.var)
    for mem, v in zip(mems, vals):
        b.store(mem, thread, v)
    half = far // 2
    while half:
        with b.when(b.op("lt", index, b.const(half * near), dtype=bool_)):
            for mem in mems:
                mine = b.load(mem, thread)
                other = b.load(_ahead(mem, half * near * t.stride), thread)
                b.store(mem, thread, b.op(combine, mine, other))
        half //= 2
    # the first of the dimension's neighbours holds the result
    first = b.const(0) if t.count == group else b.op("sub", thread, b.op("mul", index, b.const(t.stride)))
    return [b.load(mem, first) for mem in mems]


def _ahead(mem: Mem, offset: int) -> Mem:
    return Mem(mem.space, mem.base, mem.dtype, offset, mem.align)
