"""Loads whose lanes are at known places, as a border's are: one or two vectors, and a shuffle that puts their elements where they belong.

The first vector of a row whose left neighbours are clamped wants elements 0 0 1 2; wrapped, it wants 7 0 1 2; and what runs backwards,
as beside a mirror, is read forwards and turned. Whole vectors that lie in the buffer are read where there are such, else just the
elements that are wanted."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import gcd, prod

from ...ir import index as ix
from ...ir.dtypes import bool_
from ...ir.node import Node, axes_of, const
from ...ir.operators import substitute
from ...program.program import Mem, Val
from ..indices import Indices
from ..part_index import reads_memory
from ..storage import Array, Assignment

LEAST = 4
"""Lanes of the shortest vector worth it."""
VECTORS = 2
"""Vectors at most; elements that are further apart are gathered."""
_TERMS = 512
"""Terms whose values are kept."""


def known_lanes(
    ev: Indices, mem: Mem, address: Node, asg: Assignment, mask: Val | None, invariant: bool, kept: Array | None = None
) -> Val | None:
    """The load at `address`, over parts, under a mask; None where its lanes are not known, or far apart, or a plain load does. `kept`: where
    the value is kept."""
    if ev.lane is None or ev.width < LEAST or ev.low.sched.target.kind == "gpu":
        return None
    base, c, lane, left = ev.placed(address, asg)
    there = None if mask is None else ev.b.known(mask)
    if not isinstance(there, tuple):
        if mask is not None:
            return None
        there = (True,) * ev.width
    if not left and lane >= 0 and (lane != 1 or mask is None or _masks(ev, mem)):  # consecutive, or what `strided` reads
        return None
    row = _all_of(ev, mem) if kept is None else _written_row(ev, kept)
    if row is None:
        return None  # elements beside those that are wanted may not be written yet, or be another worker's
    offsets = _offsets(ev, c, lane, left, asg)
    if offsets is None:
        return None
    wanted = [o for o, t in zip(offsets, there, strict=True) if t]
    groups = _groups(sorted(set(wanted)), ev.width)
    if len(groups) > VECTORS:
        return None
    vectors, places = [], dict[int, int]()
    for n, group in enumerate(groups):
        vector, start = _vector(ev, mem, base, group, invariant, row)
        vectors.append(vector)
        places |= {o: n * ev.width + (o - start if len(group) > 1 else 0) for o in group}
    lanes = tuple(places.get(o, 0) for o in offsets)
    found = vectors[0] if lanes == tuple(range(ev.width)) else ev.b.shuffle(vectors[0], vectors[-1], lanes)
    return found if mask is None else ev.b.op("select", mask, found, ev.b.const(0, mem.dtype), dtype=mem.dtype)


def _masks(ev: Indices, mem: Mem) -> bool:
    """Whether the processor loads some elements of a vector by itself."""
    features = ev.low.sched.target.features
    return "avx512" in features or ("avx2" in features and mem.dtype.size >= 4)


def _offsets(ev: Indices, c: int, lane: int, left: Sequence[tuple[Node, int]], asg: Assignment) -> list[int] | None:
    """Each lane's element after the base."""
    terms = [(ev.at(t, asg), k) for t, k in left]
    if any(reads_memory(t) or axes_of(t) - {ev.lanes} for t, _ in terms):
        return None
    known = [(_at_lanes(t, ev.lanes, ev.width), k) for t, k in terms]
    if any(values is None for values, _ in known):
        return None
    return [c + lane * i + sum(k * values[i] for values, k in known if values is not None) for i in range(ev.width)]


@lru_cache(maxsize=_TERMS)
def _at_lanes(term: Node, lanes: Node, width: int) -> tuple[int, ...] | None:
    """What a term over the number of a lane is in each lane; None where it is no constant. (Of a border's rows and copies all ask the same.)"""
    found = [substitute(term, {lanes: const(i)}) for i in range(width)]
    return tuple(int(n.arg) for n in found) if all(n.op == "const" for n in found) else None


def _groups(offsets: Sequence[int], width: int) -> list[list[int]]:
    """Offsets in order, in groups that a vector covers."""
    out: list[list[int]] = []
    for o in offsets:
        if out and o - out[-1][0] < width:
            out[-1].append(o)
        else:
            out.append([o])
    return out


def _all_of(ev: Indices, mem: Mem) -> tuple[int, int] | None:
    """What is read only, as a row and no other; None of what is written to."""
    buffer = ev.low.ctx.buffer(mem)
    if buffer is None or buffer.role == "out":
        return None
    known = [n for n in buffer.shape if isinstance(n, int)]
    return prod(known) if len(known) == len(buffer.shape) else 0, 0


def _written_row(ev: Indices, store: Array) -> tuple[int, int] | None:
    """The elements of a kept value that are there when it is read, as (elements of a row, elements from a row to the next); None where
    that is not known, as while a loop over its last axis is open."""
    if 1 not in store.strides or store.own:
        return None
    d = max(d for d, s in enumerate(store.strides) if s == 1)
    plan, ring = ev.low.sched.plans[store.axes[d]], store.ring
    rest = [s for i, s in enumerate(store.strides) if i != d]
    pitch = gcd(*(s for s in rest if isinstance(s, int)))
    opened = ev.low.scope.opened
    if any(p.name in opened for p in plan.parts) or (plan.fold is not None and plan.fold.name in opened):
        return None
    if not all(isinstance(s, int) for s in rest) or not isinstance(plan.extent, int) or store.bases[d] != const(0):
        return None
    return None if ring is not None and d in (ring.along_at, ring.block_at) else (plan.extent, pitch)


def _vector(ev: Indices, mem: Mem, base: Node, group: Sequence[int], invariant: bool, row: tuple[int, int]) -> tuple[Val, int]:
    """A vector with the elements of a group, and the offset of its first lane."""
    b, low, width, first, last = ev.b, ev.low, ev.width, group[0], group[-1]
    if len(group) == 1:
        return b.splat(b.load(low.at(mem, base, first, 1), low.scalar(base), 1, None, invariant), width), first
    for start in (first, last - width + 1):
        if _there(ev, base, start, width, *row):
            return b.load(low.at(mem, base, start, width), low.scalar(base), width, None, invariant), start
    mask = b.const(tuple(i <= last - first for i in range(width)), bool_, width)
    return b.load(low.at(mem, base, first, width), low.scalar(base), width, mask, invariant), first


def _there(ev: Indices, base: Node, start: int, width: int, there: int, pitch: int) -> bool:
    """Whether `width` elements from base + start on are among the first of a row."""
    if not pitch:
        lo, hi = ev.span(base)
        return lo + start >= 0 and hi + start + width <= there
    terms, fixed = ix.parts(base)
    return not any(k % pitch for k in terms.values()) and (fixed + start) % pitch + width <= there
