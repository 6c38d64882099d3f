"""What the lanes of a warp touch together: sectors of memory, and words in banks of shared memory.

Both are counted for the first warp of a group, lane by lane, from the strides of the access along each dimension of the
group: other warps lie at other multiples of the same strides."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache

from ....ir.node import Node
from ....opts.schedule import Scheduled
from ...gpu_machine import Gpu


def lane_offsets(s: Scheduled, terms: Mapping[Node, int], warp: int) -> tuple[int, ...]:
    """The element that each lane of the first warp starts at; `terms`: elements by index variable."""
    found = tuple((t.stride, t.count, terms.get(t.var, 0)) for t in s.threads if t.stride < warp)
    return _offsets(found, min(warp, s.group))


@cache
def _offsets(dims: tuple[tuple[int, int, int], ...], lanes: int) -> tuple[int, ...]:
    return tuple(sum(lane // stride % count * step for stride, count, step in dims) for lane in range(lanes))


@cache
def sectors(offsets: Sequence[int], size: int, sector: int) -> int:
    """Sectors of memory that one instruction of a warp touches, where lane i takes `size` bytes from byte
    offsets[i]."""
    return len({b // sector for o in offsets for b in range(o, o + size, min(size, sector))} | {(o + size - 1) // sector for o in offsets})


def passes(offsets: Sequence[int], size: int, g: Gpu) -> int:
    """Cycles of the shared memory for one instruction of a warp, where lane i takes `size` bytes from byte offsets[i]:
    in each, a bank gives one word, to all lanes that ask for it (NVIDIA's "CUDA C++ Best Practices Guide", shared
    memory). Accesses of 8 and 16 bytes are done for a half and a quarter of the lanes at a time, of which two are done
    together where they ask for the same (seen by many who count conflicts of 128-bit loads; it is not documented)."""
    return _passes(tuple(offsets), size, g.banks, g.word)


@cache
def _passes(offsets: tuple[int, ...], size: int, banks: int, word: int) -> int:
    at_once = max(1, banks * word // max(size, word))
    shares = [_worst(offsets[start : start + at_once], size, banks, word) for start in range(0, len(offsets), at_once)]
    if len(shares) == 1:
        return shares[0]
    return max(_worst(offsets, size, banks, word), -(-sum(shares) // (1 + 1)))


def _worst(offsets: Iterable[int], size: int, banks: int, word: int) -> int:
    """The most distinct words that one bank is asked for."""
    words = {w for o in offsets for w in range(o // word, (o + size - 1) // word + 1)}
    counts: dict[int, int] = {}
    for w in words:
        counts[w % banks] = counts.get(w % banks, 0) + 1
    return max(counts.values(), default=0)
