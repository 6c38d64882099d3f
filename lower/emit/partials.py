"""Combines the partial results that the threads of a group hold of one reduction: exchanged within a warp by shuffles where the
target has them, then through shared memory with one barrier. Every thread gets the same result, and the order is fixed."""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd

from ...opts.nests import Nest
from ...opts.plans import ThreadAxis
from ...program.builder import Builder
from ...program.program import Mem, Val
from ..lowering import Lowering
from ..storage import Key

TOGETHER = 32
"""Words that every thread adds, at most."""
AT_ONCE = 16
"""Words that one thread makes one of, where there are more."""


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
    """What `t.count / near` groups of neighbours hold, combined through shared memory: one word of each goes there, and after one barrier
    every thread adds all of them in the same order. Very many words (there are no shuffles then) are made fewer first."""
    b, far = low.b, t.count // near
    mems = [low.storage.shared.take(v.dtype, low.sched.group // near) for v in vals]
    index = low.scalar(t.var)
    first = b.op("mul", _row(low, t), b.const(far))
    mine = b.op("add", first, b.op("idiv", index, attr=near) if near > 1 else index)

    def store(values: Sequence[Val]) -> None:
        for mem, v in zip(mems, values, strict=True):
            b.store(mem, mine, v)

    if near > 1:
        with b.when(b.op("eq", b.op("imod", index, attr=near), b.const(0))):
            store(vals)
    else:
        store(vals)
    left = far
    while left > TOGETHER:
        left //= AT_ONCE
        with b.when(b.op("lt", index, b.const(left))):
            store([_combined(b, combine, [b.load(_ahead(mem, i * left), mine) for i in range(AT_ONCE)]) for mem in mems])
    return [_combined(b, combine, _words(b, mem, first, left, far)) for mem in mems]


def _row(low: Lowering, t: ThreadAxis) -> Val:
    """Which of the sums along a dimension of the group a thread is in: its number among the threads of one index there."""
    b, thread, group = low.b, low.thread, low.sched.group
    outer = b.op("idiv", thread, attr=t.stride * t.count) if t.stride * t.count < group else b.const(0)
    if t.stride == 1:
        return outer
    inner = b.op("imod", thread, attr=t.stride)
    return inner if t.stride * t.count == group else b.op("add", b.op("mul", outer, b.const(t.stride)), inner)


def _words(b: Builder, mem: Mem, first: Val, count: int, pitch: int) -> list[Val]:
    """`count` words from one on, which lies at a multiple of `pitch`."""
    lanes = max(1, min(count, 16 // mem.dtype.size))
    out = []
    for i in range(0, count, lanes):
        align = gcd(16, pitch * mem.dtype.size, i * mem.dtype.size)
        v = b.load(Mem(mem.space, mem.base, mem.dtype, i, align), first, lanes)
        out += [b.extract(v, j) for j in range(lanes)]
    return out


def _combined(b: Builder, combine: str, vals: Sequence[Val]) -> Val:
    """Values combined in halves."""
    vals = list(vals)
    while len(vals) > 1:
        half = len(vals) // 2
        vals = [b.op(combine, x, y) for x, y in zip(vals[:half], vals[half : 2 * half])] + vals[2 * half :]
    return vals[0]


def _ahead(mem: Mem, offset: int) -> Mem:
    return Mem(mem.space, mem.base, mem.dtype, offset, mem.dtype.size)
