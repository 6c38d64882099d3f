"""What groups fetch: bytes from the L2 cache for each, and bytes from memory for all, given which of them run at the
same time."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from ....ir import index as ix
from ....ir.buffer import Buffer
from ....ir.node import Node, axes_of
from ....opts.axis_plan import Part
from ....opts.nests import Nest
from ....opts.schedule import Scheduled
from .occupancy import Chip
from .thread_accesses import ThreadAccess, varies, warp_sectors


@dataclass(frozen=True, slots=True)
class GroupFetch:
    """What one group takes of a buffer: bytes from the L2 cache, the bytes among them that differ, and the loops of the
    grid that choose them."""

    buffer: Buffer
    taken: float
    unique: float
    grid: frozenset[str]
    stored: bool


def direct(s: Scheduled, nest: Nest, a: ThreadAccess, chip: Chip, room: float) -> GroupFetch:
    """An access to global memory: what its threads ask for, but for what the first cache still has, of which a group
    has `room` bytes."""
    g = chip.costs
    warps = -(-s.group // g.warp)
    asked = a.instructions * a.times * warps * warp_sectors(s, a, g) * g.sector
    loops = [p for p in s.loops(nest) if p.kind != "grid"]
    inside = [*s.registers(nest), *s.shared(nest)]
    unique = footprint(s, a.buffer, a.indices, [*loops, *inside], g.sector)
    taken = asked
    if not a.stored:
        for depth in range(len(loops) + 1):
            each = footprint(s, a.buffer, a.indices, [*loops[depth:], *inside], g.sector)
            if each <= room:
                taken = min(asked, each * prod(max(1, p.trips) for p in loops[:depth] if varies(s, p, a.axes)))
                break
    return GroupFetch(a.buffer, max(taken, min(unique, asked)), min(unique, asked), grid_of(s, a.indices), a.stored)


def footprint(s: Scheduled, buffer: Buffer, indices: tuple[Node, ...], inner: list[Part], sector: int) -> float:
    """Bytes that an access touches while the parts `inner` run, in whole sectors."""
    by_var = {p.var: max(1, p.trips) for p in inner}
    elements, run = 1.0, 1.0
    for d, i in enumerate(indices):
        reach = 1.0
        for v, k in s.terms(i).items():
            if v in by_var:
                reach += abs(k) * (by_var[v] - 1)
            elif v.op != "axis":  # an index that is read from memory, or divided: anything
                reach *= prod(n for w, n in by_var.items() if w in axes_of(v))
        reach = min(reach, float(max(1, ix.upper(buffer.shape[d]))))
        elements *= reach
        run = reach if d == len(indices) - 1 else run
    size = buffer.dtype.size
    return elements / run * max(run * size, float(sector)) if indices else float(size)


def grid_of(s: Scheduled, indices: tuple[Node, ...]) -> frozenset[str]:
    """The loops of the grid that choose what an access touches."""
    used = {v for i in indices for v in s.terms(i)}
    axes = axes_of(*(s.at_parts(i) for i in indices)) if indices else frozenset()
    return frozenset(p.name for p in s.grid if p.var in used or p.var in axes)


def memory_bytes(s: Scheduled, fetches: list[GroupFetch], at_once: int, chip: Chip) -> float:
    """Bytes that pass between memory and the L2 cache. A buffer that fits the cache passes once; of one that does not,
    each wave of `at_once` groups reads what differs among its own."""
    items = prod(max(1, p.trips) for p in s.grid)
    held = chip.costs.l2_usable * chip.l2_size
    passed: dict[tuple[str, bool], list[float]] = {}
    for f in fetches:
        once = f.unique * _distinct(s, f.grid, items)
        if not f.stored and once > held and items > at_once:
            waves = items / at_once * f.unique * _distinct(s, f.grid, at_once)
            passed.setdefault((f.buffer.name, False), []).append(max(once, min(items * f.taken, waves)))
        else:
            found = passed.setdefault((f.buffer.name, f.stored), [])
            found[:] = [max([once, *found])]  # what one access has brought, another one finds
    return sum(sum(each) for each in passed.values())


def _distinct(s: Scheduled, names: frozenset[str], count: int) -> float:
    """How many different values the loops `names` of the grid have among `count` groups that follow each other."""
    out, inner = 1.0, 1
    for name, trips in reversed(_order(s)):
        if name in names:
            out *= max(1, min(trips, -(-count // inner)))
        inner *= trips
    return out


def _order(s: Scheduled) -> list[tuple[str, int]]:
    """(name, trips) of the grid's loops as groups are numbered, outer to inner; bands of SWIZZLE make two of one."""
    found = [(p.name, max(1, p.trips)) for p in s.grid]
    if s.swizzle > 1:
        *outer, rows, columns = found  # SWIZZLE has a grid of two axes at least
        found = [*outer, (rows[0], max(1, rows[1] // s.swizzle)), columns, (rows[0], s.swizzle)]
    return found
