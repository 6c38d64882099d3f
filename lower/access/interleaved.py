"""Groups of components in memory, such as pixels, pairs and points. A load of one component of two to four takes whole vectors, and
shuffles take the component out (deinterleave); a window that moves by more than one is the same. A store of all components
interleaves them into whole vectors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import replace

from ...ir import index as ix
from ...ir.dtypes import bool_
from ...ir.node import Node
from ...opts.access import GROUP_ROW, deinterleavable, transposable
from ...program.builder import Builder
from ...program.program import Mem, Val
from ...targets import Target
from ..indices import Indices
from .transpose import joined, rows_of, transposed

LEAST = 4
"""Lanes of the shortest vector worth it."""


def strided_read(ev: Indices, mem: Mem, base: Node, offset: int, step: int, invariant: bool, mask: Val | None = None) -> Val | None:
    """A vector of the elements `step` apart from base + offset on; None where it is better gathered. Where memory is
    known to consist of whole groups of `step` elements, those groups are loaded from the first component of the first
    to the last of the last, so that all components come from the same loads. Elsewhere nothing past the last element
    that is wanted is read. Of the lanes, `mask` says which exist: only groups will do then, and only where it is known
    before anything runs."""
    if not deinterleavable(step) or ev.width < 2 or ev.low.sched.target.kind == "gpu":
        return None
    b, width = ev.b, ev.width
    component = component_of(ev, mem, base, offset, step) if invariant else None
    known = None if mask is None else b.known(mask)
    if component is not None and (mask is None or isinstance(known, tuple)):
        there = [known[i // step] if isinstance(known, tuple) else True for i in range(step * width)]
        size = chunk(ev.low.sched.target, mem.dtype.size, step, width)
        chunks = [_masked_vector(ev, mem, base, offset - component + at, there[at : at + size]) for at in range(0, step * width, size)]
        return deinterleave(b, [joined(b, chunks[i::step]) for i in range(step)], component, size)
    if mask is not None:
        return None
    return strided_vector(ev, lambda at: ev.low.load(mem, base, at, width, None, invariant), offset, step)


def strided_vector(ev: Indices, load: Callable[[int], Val], offset: int, step: int) -> Val | None:
    """A vector of the elements `step` apart from an offset on, out of whole vectors, which `load` makes of where they begin; None where it is
    better gathered. Nothing past the last element that is wanted is read."""
    b, width = ev.b, ev.width
    if not deinterleavable(step) or width < LEAST or ev.low.sched.target.kind == "gpu":
        return None
    starts = [*(i * width for i in range(step - 1)), (width - 1) * (step - 1)]
    vectors = [load(offset + s) for s in starts]
    wanted = [i * step for i in range(width)]
    found = vectors[0]
    for n, (start, v) in enumerate(zip(starts[1:], vectors[1:]), 1):
        here = [w // width == n for w in wanted]
        before = [w % width if n == 1 else i for i, w in enumerate(wanted)]
        found = b.shuffle(found, v, tuple(width + w - start if now else at for w, now, at in zip(wanted, here, before)))
    return found


def _masked_vector(ev: Indices, mem: Mem, base: Node, offset: int, there: Sequence[bool]) -> Val:
    """A vector of consecutive elements, of those that are there."""
    b, width = ev.b, len(there)
    if not any(there):
        return b.const(0, mem.dtype, width)
    mask = None if all(there) else b.const(tuple(there), bool_, width)
    return ev.low.load(mem, base, offset, width, mask, True)


def component_of(ev: Indices, mem: Mem, base: Node, offset: int, step: int) -> int | None:
    """Which element of its group an access is to: a parameter of whole groups, in which base counts whole groups. None
    where that is not known."""
    if mem.space != "param" or not ev.low.ctx.grouped(mem.base, step):
        return None
    terms, fixed = ix.parts(base)
    return None if any(k % step for k in terms.values()) else (fixed + offset) % step


def chunk(target: Target, nbytes: int, step: int, width: int) -> int:
    """How many elements of so many bytes are to be consecutive in each of the vectors that groups are deinterleaved from or interleaved
    into: all of them, or 16 bytes. Within those a processor reorders bytes and, without AVX-512, words best; what is
    joined comes from memory one by one."""
    within = step == 3 if nbytes <= 2 else step != 3 and "avx512" not in target.features
    return min(width, 16 // nbytes) if within else width


def deinterleave(b: Builder, vectors: Sequence[Val], component: int, size: int) -> Val:
    """One component of groups of two, three or four, from as many vectors of equal length, a power of two. Chunks of
    `size` elements lie in turn in the first, the second and so on. (Equal shuffles are one, so that components share
    what they can.)"""
    step, width = len(vectors), vectors[0].lanes
    if step == 3:
        # no two elements of one component are in the same lane: their vectors are laid over each other, then put in order
        at = [divmod(3 * i + component, size) for i in range(size)]
        source = {lane: vector for vector, lane in at}
        x = b.shuffle(vectors[0], vectors[1], _over(width, [source[lane] == 1 for lane in range(size)]))
        x = b.shuffle(x, vectors[2], _over(width, [source[lane] == 2 for lane in range(size)]))
        return b.shuffle(x, x, tuple(first + lane for first in range(0, width, size) for _, lane in at))
    while len(vectors) > 1:
        order = [at for first in range(0, width, size) for v in (0, width) for at in range(v + first + component % 2, v + first + size, 2)]
        vectors = [b.shuffle(x, y, tuple(order)) for x, y in zip(vectors[::2], vectors[1::2])]
        component //= 2
    return vectors[0]


def _over(width: int, second: Sequence[bool]) -> tuple[int, ...]:
    """The lanes of two vectors, each from the first or the second, by the same choice over and over."""
    return tuple(lane + width * second[lane % len(second)] for lane in range(width))


def interleave(b: Builder, components: Sequence[Val], size: int) -> list[Val]:
    """Groups of two, three or four components as many vectors as there are components; all are of equal length, a power of
    two. As for `deinterleave`, chunks of `size` elements lie in turn in the first, the second and so on."""
    width = components[0].lanes
    if len(components) == 3:
        # each component's elements go to lanes of their own, whatever the vector: one order for each, then a choice by lane
        spread = []
        for c, x in enumerate(components):
            order = {(3 * i + c) % size: i for i in range(size)}
            spread.append(b.shuffle(x, x, tuple(first + order[lane] for first in range(0, width, size) for lane in range(size))))
        out = []
        for n in range(3):
            of = [(n * size + lane) % 3 for lane in range(size)]
            x = b.shuffle(spread[0], spread[1], _over(width, [c == 1 for c in of]))
            out.append(b.shuffle(x, spread[2], _over(width, [c == 2 for c in of])))
        return out
    if len(components) == 4:
        even, odd = interleave(b, components[::2], size), interleave(b, components[1::2], size)
        return [v for x, y in zip(even, odd) for v in interleave(b, [x, y], size)]
    x, y = components
    half = size // 2
    halves = [[at + i + side for at in range(first, width, size) for i in range(half) for side in (0, width)] for first in (0, half)]
    return [b.shuffle(x, y, tuple(lanes)) for lanes in halves]


# groups of five and more ----------------------------------------------------------------------------------------------
# Components of longer groups (small matrices, points of many fields) are loaded as rows of four neighbours and
# transposed into a vector for each component. They are stored in the inverse way. The last row overlaps the one
# before where the length is no multiple of four, so that nothing outside the groups is touched.


def group_read(ev: Indices, mem: Mem, base: Node, offset: int, step: int, invariant: bool, mask: Val | None) -> Val | None:
    """A vector of the elements `step` apart from base + offset on, from rows of the groups that they are in; None where memory is not
    known to consist of such groups, or where it is not known which lanes exist (`mask`)."""
    b, width = ev.b, ev.width
    if not transposable(step, mem.dtype.size) or width < GROUP_ROW or ev.low.sched.target.kind == "gpu" or not invariant:
        return None
    component = component_of(ev, mem, base, offset, step)
    there = (True,) * width if mask is None else b.known(mask)
    if component is None or not isinstance(there, tuple):
        return None
    start = min(component // GROUP_ROW * GROUP_ROW, step - GROUP_ROW)
    first = offset - component + start
    rows = []
    for i in range(width):
        at = ev.low.at(mem, base, first + i * step, GROUP_ROW)
        rows.append(b.load(at, ev.low.scalar(base), GROUP_ROW, None, True) if there[i] else b.const(0, mem.dtype, GROUP_ROW))
    return transposed(b, rows)[component - start]


def write_rows(
    ev: Indices, mem: Mem, base: Node, first: int, components: Sequence[Val], there: Sequence[bool], condition: Val | None
) -> bool:
    """Store the components of a vector of groups from element base + first on, where a condition holds; `there`: which elements exist,
    group by group. False, and nothing done, where a part of a group exists."""
    b, width, step = ev.b, ev.width, len(components)
    groups = [set(there[i * step : (i + 1) * step]) for i in range(width)]
    if any(len(g) > 1 for g in groups) or width < GROUP_ROW:
        return False
    plain = replace(mem, nt=False)  # (a non-temporal store is of a whole vector)
    with nullcontext() if condition is None else b.when(condition):
        for start in _starts(step):
            rows = rows_of(b, [b.splat(v, width) for v in components[start : start + GROUP_ROW]])
            for i, row in enumerate(rows):
                if True in groups[i]:
                    ev.low.store(plain, base, first + i * step + start, row)
    return True


def _starts(step: int) -> list[int]:
    """Where the rows of a group begin."""
    return sorted({min(start, step - GROUP_ROW) for start in range(0, step, GROUP_ROW)})
