"""Partial results become one: those in the lanes of vectors, and those that the threads of a group hold.

One vector is halved until a lane is left. Several vectors are folded, two into one each time: three instructions for two vectors and
a halving step of both. Lower halves are combined with upper ones in either way, so results are the same to the bit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import gcd

from ...opts.nests import Nest
from ...opts.plans import ThreadAxis
from ...program.builder import Builder
from ...program.program import Mem, Val
from ..lowering import Lowering
from ..storage import Key

FEWEST = 4
"""Vectors that are worth folding: of two, each result is at hand later, and little is saved."""
CHUNK = 16
"""Bytes within which a processor moves elements at least cost: folding stays inside of them where it can."""


@dataclass(frozen=True, slots=True)
class LaneGroups:
    """A vector of groups of lanes: `of[g]` is the result that the lanes of group g are still to be combined to."""

    val: Val
    of: tuple[int, ...]

    @property
    def size(self) -> int:
        """Lanes of a group."""
        return self.val.lanes // len(self.of)


def across(b: Builder, vectors: Sequence[Val], combine: str) -> list[Val]:
    """A scalar for each vector; all have the same lanes, a power of two."""
    out: list[Val] = []
    while len(out) < len(vectors):
        many = min(vectors[0].lanes, 1 << ((len(vectors) - len(out)).bit_length() - 1))
        some = vectors[len(out) : len(out) + (many if many >= FEWEST else 1)]
        out += _reduce_vectors(b, some, combine) if many >= FEWEST else [_reduce_lanes(b, some[0], combine)]
    return out


def _reduce_lanes(b: Builder, v: Val, combine: str) -> Val:
    """One value from all lanes, halving the vector each step."""
    while v.lanes > 1:
        half = v.lanes // 2
        a = b.shuffle(v, v, tuple(range(half)))
        c = b.shuffle(v, v, tuple(range(half, 2 * half)))
        if half == 1:
            a, c = b.extract(v, 0), b.extract(v, 1)
        v = b.op(combine, a, c)
    return v


def _reduce_vectors(b: Builder, vectors: Sequence[Val], combine: str) -> list[Val]:
    """The same for at most as many vectors as they have lanes, a power of two of them."""
    left = [LaneGroups(v, (i,)) for i, v in enumerate(vectors)]
    while len(left) > 1:
        left = [_fold(b, left[i], left[i + 1], combine) for i in range(0, len(left), 2)]
    last = left[0]
    while last.size > 1:
        last = _halve(b, last, combine)
    return [b.extract(last.val, last.of.index(i)) for i in range(len(vectors))]


def _fold(b: Builder, x: LaneGroups, y: LaneGroups, combine: str) -> LaneGroups:
    """Two vectors of equal groups in one, each group half as long."""
    lanes, half = x.val.lanes, x.size // 2
    chunk = max(1, CHUNK // (x.size * x.val.dtype.size))
    order = [(vector, g) for first in range(0, len(x.of), chunk) for vector in (0, 1) for g in range(first, min(first + chunk, len(x.of)))]
    starts = [vector * lanes + g * x.size for vector, g in order]
    low = b.shuffle(x.val, y.val, tuple(s + i for s in starts for i in range(half)))
    high = b.shuffle(x.val, y.val, tuple(s + half + i for s in starts for i in range(half)))
    return LaneGroups(b.op(combine, low, high), tuple((x, y)[vector].of[g] for vector, g in order))


def _halve(b: Builder, x: LaneGroups, combine: str) -> LaneGroups:
    """One vector of half the lanes."""
    half = x.size // 2
    starts = [g * x.size for g in range(len(x.of))]
    low = b.shuffle(x.val, x.val, tuple(s + i for s in starts for i in range(half)))
    high = b.shuffle(x.val, x.val, tuple(s + half + i for s in starts for i in range(half)))
    return LaneGroups(b.op(combine, low, high), x.of)


# over threads ---------------------------------------------------------------------------------------------------------
# The threads of a group exchange partial results by shuffles within a warp, where the target has them, and then
# through shared memory with one barrier. Every thread gets the same result, and the order is fixed.


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
        near = _shuffle_neighbours(low, t)
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


def _shuffle_neighbours(low: Lowering, t: ThreadAxis) -> int:
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
            store([_combined(b, combine, [b.load(_displaced(mem, i * left), mine) for i in range(AT_ONCE)]) for mem in mems])
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


def _displaced(mem: Mem, offset: int) -> Mem:
    return Mem(mem.space, mem.base, mem.dtype, offset, mem.dtype.size)
