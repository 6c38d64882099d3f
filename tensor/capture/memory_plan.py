"""Where intermediate results of a list of calls lie: arrays that are never needed at once share memory.

Greedy by size with best fit by offset, after Pisarchyk and Lee, "Efficient memory management for deep neural net
inference" (arXiv 2001.03288), and Sekiyama et al., "Profile-guided memory optimization for deep neural networks" (arXiv
1804.10001): the largest array first, into the smallest gap that is free for as long as the array lives."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

ALIGN = 64
"""Offsets are multiples of this many bytes."""


@dataclass(frozen=True, slots=True)
class Lifetime:
    """An array of `nbytes` that is written by call `first` and read last by call `last`."""

    place: int
    nbytes: int
    first: int
    last: int

    def meets(self, other: Lifetime) -> bool:
        """Whether both are needed at once."""
        return self.first <= other.last and other.first <= self.last


@dataclass(frozen=True)
class MemoryPlan:
    """`offsets`: by place, a byte of the arena; `peak`: bytes of the arena; `total`: bytes of all arrays together."""

    offsets: dict[int, int]
    peak: int
    total: int


def arena(lifetimes: Sequence[Lifetime]) -> MemoryPlan:
    """One arena for all."""
    placed: list[tuple[int, Lifetime]] = []
    offsets: dict[int, int] = {}
    peak = 0
    for new in sorted(lifetimes, key=lambda t: (-t.nbytes, t.first, t.place)):
        size = rounded(new.nbytes)
        at = _best_gap(((o, o + rounded(t.nbytes)) for o, t in placed if t.meets(new)), size)
        offsets[new.place] = at
        placed.append((at, new))
        peak = max(peak, at + size)
    return MemoryPlan(offsets, peak, sum(rounded(t.nbytes) for t in lifetimes))


def _best_gap(taken: Iterable[tuple[int, int]], size: int) -> int:
    """The beginning of the smallest gap that holds `size` bytes; the end of what is taken where there is none."""
    best, best_room, end = -1, 0, 0
    for begin, stop in sorted(taken):
        room = begin - end
        if room >= size and (best < 0 or room < best_room):
            best, best_room = end, room
        end = max(end, stop)
    return end if best < 0 else best


def chunks(lifetimes: Sequence[Lifetime]) -> tuple[dict[int, int], tuple[int, ...]]:
    """(by place a chunk, bytes of each chunk), for devices whose buffers are known by handles: there is no address inside of one.
    The largest array first, into the smallest chunk that is free."""
    sizes: list[int] = []
    users: list[list[Lifetime]] = []
    found: dict[int, int] = {}
    for new in sorted(lifetimes, key=lambda t: (-t.nbytes, t.first, t.place)):
        free = [i for i, used in enumerate(users) if not any(t.meets(new) for t in used)]
        if free:
            at = min(free, key=lambda i: sizes[i])
        else:
            at = len(sizes)
            sizes.append(rounded(new.nbytes))
            users.append([])
        users[at].append(new)
        found[new.place] = at
    return found, tuple(sizes)


def rounded(nbytes: int) -> int:
    """Whole lines; an array without elements has one too, so that it has an address."""
    return max(-(-nbytes // ALIGN), 1) * ALIGN
