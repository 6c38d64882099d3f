"""Sums (or extremes) over the lanes of vectors: of one by halving it, of several together by folding two into one each time.

Folding takes three instructions for two vectors and a halving step of both. Every result is combined in the same order in
either way, lower halves with upper ones, so they are the same to the bit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ...program.builder import Builder
from ...program.program import Val

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
        out += _together(b, some, combine) if many >= FEWEST else [_alone(b, some[0], combine)]
    return out


def _alone(b: Builder, v: Val, combine: str) -> Val:
    """One value from all lanes, halving the vector each step."""
    while v.lanes > 1:
        half = v.lanes // 2
        a = b.shuffle(v, v, tuple(range(half)))
        c = b.shuffle(v, v, tuple(range(half, 2 * half)))
        if half == 1:
            a, c = b.extract(v, 0), b.extract(v, 1)
        v = b.op(combine, a, c)
    return v


def _together(b: Builder, vectors: Sequence[Val], combine: str) -> list[Val]:
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
