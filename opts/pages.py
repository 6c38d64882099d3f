"""How often the accesses of a nest jump to another page: what makes short runs at large strides several times slower than streams.

Hardware prefetchers follow some streams of consecutive lines at once, and none across a page's end; each jump past them waits for a page's translation and for
memory. So an access is followed from its innermost loop outward: loops that lengthen the run, a few loops that interleave runs, and every loop outside of those
jumps."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ..ir import index as ix
from ..ir.node import Node
from ..targets import Target
from .axis_plan import Part
from .nests import Nest
from .plans import StagePlan
from .schedule import Scheduled
from .strides import stride as stride_of

PAGE = 4096
LINE = 64
STREAMS, STREAMS_APART = 16, 28
"""Runs that a core's prefetchers follow at once: at strides of whole pages, which share sets of the first cache, and at others."""
KEPT, NEXT_LINE = 256, 0.33
"""Runs beyond those whose lines stay in the first cache until they are used up, and what going on to the next line costs of a jump."""
TRANSLATIONS = 1024
"""Pages whose translations a core keeps; more are walked again."""
FAR, COPIED, NEAR, SHARED = 120.0, 400.0, 10.0, 50.0
"""Cycles a jump costs: measured 40 ns where the data is in memory, 130 ns for copies of it (their stores wait in order for what they store); a walk of the
page table mostly overlaps where the data is in a cache, and what has to come from the last, shared one takes 17 ns."""
FAR_CACHES = 4
"""Buffers of more than so many second-level caches are taken to be in memory: the last cache is shared, and seldom all ours."""


def is_far(target: Target, shape: tuple[int | Node, ...], size: int) -> bool:
    """Whether a buffer of elements of `size` bytes is taken to be in memory."""
    return _bytes(shape, size) > FAR_CACHES * target.l2


def _bytes(shape: tuple[int | Node, ...], size: int) -> int:
    total = size
    for n in shape:
        total *= n if isinstance(n, int) else max(1, ix.bounds(n)[1])
    return total


def jump_cycles(s: Scheduled, nest: Nest, buffer: tuple[tuple[int | Node, ...], int], indices: tuple[Node, ...]) -> float:
    """Cycles that an access which is not staged waits; `buffer`: its shape and the bytes of an element."""
    shape, size = buffer
    loops = [*reversed(s.registers(nest)), *reversed(s.loops(nest))]
    steps = [(p, stride_of(s, nest, "", indices, shape, p)) for p in loops]
    # register copies come in any order: nearest first
    count = len(s.registers(nest))
    near = sorted(steps[:count], key=lambda e: abs(e[1] or 0))
    each = FAR if is_far(s.target, shape, size) else SHARED if _bytes(shape, size) > s.target.l2 else NEAR
    return jumps(size, [(abs(k or 0) * size, p.trips) for p, k in (*near, *steps[count:])]) * each


def copy_cycles(s: Scheduled, plan: StagePlan, around: Sequence[Part]) -> float:
    """Cycles that filling a staged tile waits, over all times it is filled: read with the longest runs first."""
    shape, size = plan.buffer.shape, plan.buffer.dtype.size
    pitches = _pitches(shape)

    def step(p: Part) -> int:
        return abs(sum(ix.parts(i)[0].get(p.var, 0) * st for i, st in zip(plan.index, pitches, strict=True))) * size

    panel = plan.order == "panel"
    inside = sorted((step(p), p.trips) for p, _ in plan.parts) if panel else sorted((pitches[d] * size, n) for d, _, n, _ in plan.box)
    return jumps(size, [*inside, *((step(p), p.trips) for p in reversed(around))]) * (COPIED if is_far(s.target, shape, size) else NEAR)


def jumps(size: int, levels: Iterable[tuple[int, int]]) -> float:
    """Jumps to another page of an access of `size` bytes; `levels`: (stride in bytes, trips), innermost first."""
    run, streams, count = size, 1, 0.0
    for stride, trips in levels:
        if trips < 2:
            continue
        if count:
            if 0 < stride < LINE and count <= KEPT:
                count *= max(1.0, trips * stride / LINE) * NEXT_LINE
            elif stride or count > TRANSLATIONS:
                count *= trips
        elif stride <= run:
            run += stride * (trips - 1)
        elif streams * trips <= (STREAMS_APART if stride % PAGE else STREAMS):
            streams *= trips
        else:
            count = streams * trips * min(1.0, stride / PAGE)
    return count if count > TRANSLATIONS else 0.0


def _pitches(shape: tuple[int | Node, ...]) -> list[int]:
    out, step = [], 1
    for n in reversed(shape):
        out.append(step)
        step *= n if isinstance(n, int) else max(1, ix.bounds(n)[1])
    return out[::-1]
