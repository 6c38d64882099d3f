"""Loads and stores of a nest as the threads of a group do them: how wide each is, and where neighbours touch."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import cache
from math import prod

from ....ir import index as ix
from ....ir.buffer import Buffer, load_parts
from ....ir.node import Node, axes_of
from ....opts.access import element_terms
from ....opts.axis_plan import Part
from ....opts.nests import Nest
from ....opts.plans import StagePlan
from ....opts.schedule import Scheduled
from ...machine import Gpu
from .occupancy import Chip


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


@dataclass(frozen=True, eq=False)
class ThreadAccess:
    """One load or store. `terms`: elements it moves by index variable; `reach`: by dimension, what each part adds to
    the index; `width`: consecutive elements that one instruction takes; `copies`: how many elements a thread takes in
    one step of the innermost loop; `times`: how often it comes to that in a thread's life; `depth`: loads whose results
    its address needs."""

    buffer: Buffer
    indices: tuple[Node, ...]
    axes: Set[Node]
    terms: Mapping[Node, int]
    stage: StagePlan | None
    stored: bool
    masked: bool
    width: int
    copies: float
    times: float
    depth: int

    @property
    def instructions(self) -> float:
        """Of one thread, in one step."""
        return self.copies / self.width

    @property
    def size(self) -> int:
        """Bytes that one instruction takes."""
        return self.width * self.buffer.dtype.size


def accesses(s: Scheduled, nest: Nest, g: Gpu) -> Iterator[ThreadAccess]:
    """What a nest loads, then what it stores."""
    for n in nest.loads:
        buffer, indices, mask = load_parts(n)
        plan = s.stages.get(buffer.name)
        mine = plan if plan is not None and any(m is nest for m in plan.nests) else None
        yield _access(s, nest, (buffer, indices, mask), mine, g)
    if nest.store is not None:
        yield _access(s, nest, (nest.store.buffer, nest.indices, nest.mask), None, g, stored=True)


def _access(
    s: Scheduled, nest: Nest, what: tuple[Buffer, tuple[Node, ...], Node | None], plan: StagePlan | None, g: Gpu, stored: bool = False
) -> ThreadAccess:
    buffer, indices, mask = what
    axes: Set[Node] = frozenset(nest.axes) if stored else axes_of(*indices)
    terms = tile_terms(s, plan, indices) if plan is not None else element_terms(s, buffer, indices)
    masked = plan is None and (mask is not None or any(s.plans[a].masked for a in axes if a in s.plans))
    width = 1 if masked else _width(s, nest, terms, plan, buffer.dtype.size, g)
    copies = float(prod(p.trips for p in s.registers(nest) if p.axis in axes))
    return ThreadAccess(buffer, indices, axes, terms, plan, stored, masked, width, copies, loop_trips(s, nest, axes), _depth(indices))


def varies(s: Scheduled, p: Part, axes: Set[Node]) -> bool:
    """Whether what varies with `axes` does with a loop; the loop over a fold's tiles moves every site of its axis."""
    return p.axis in axes or (p.kind == "fold" and any(s.plans[a].fold is not None for a in axes if a in s.plans))


def loop_trips(s: Scheduled, nest: Nest, axes: Set[Node]) -> float:
    """How often a thread comes to what varies with `axes`: what does not vary with a loop is computed outside of it."""
    loops = [p for p in s.loops(nest) if p.kind != "grid"]
    last = max((i for i, p in enumerate(loops) if varies(s, p, axes)), default=-1)
    return float(prod(max(1, p.trips) for p in loops[: last + 1]))


def tile_terms(s: Scheduled, plan: StagePlan, indices: tuple[Node, ...]) -> dict[Node, int]:
    """Elements of a staged tile by index variable of a read."""
    total: dict[Node, int] = {}
    for d, _, _, stride in plan.box:
        for t, k in s.terms(indices[d]).items():
            total[t] = total.get(t, 0) + k * stride
    if plan.order == "panel" and plan.parts:
        total |= {p.var: stride for p, stride in plan.parts}
    return total


def _width(s: Scheduled, nest: Nest, terms: Mapping[Node, int], plan: StagePlan | None, size: int, g: Gpu) -> int:
    """Consecutive elements that one instruction takes: along a register part, where every other step keeps them
    aligned."""
    lanes = s.lanes(nest)
    for p in s.registers(nest):
        if p.kind != "upcast" or terms.get(p.var) != 1:
            continue
        if plan is not None:
            width = p.trips if p.trips & (p.trips - 1) == 0 and p.trips <= plan.vector else 1
        else:
            width = lanes.width if p is lanes.lane else 1
        width = min(width, max(1, g.access // size))
        if width > 1 and all(k % width == 0 for v, k in terms.items() if v is not p.var):
            return width
    return 1


def _depth(indices: tuple[Node, ...]) -> int:
    """How many loads have to arrive, one after another, before an address is known."""
    found = [n for i in indices for n in ix.parts(i)[0] if n.op == "load"]
    return 1 + max((_depth(load_parts(n)[1]) for n in found), default=0) if found else 0


def warp_sectors(s: Scheduled, a: ThreadAccess, g: Gpu) -> int:
    """Sectors that one instruction of a warp touches."""
    size = a.buffer.dtype.size
    return sectors(tuple(o * size for o in lane_offsets(s, a.terms, g.warp)), a.size, g.sector)


def warp_passes(s: Scheduled, a: ThreadAccess, g: Gpu) -> int:
    """Cycles of the shared memory for one instruction of a warp that reads a staged tile."""
    assert a.stage is not None
    size, at = a.buffer.dtype.size, lane_offsets(s, a.terms, g.warp)
    return passes([place(a.stage, o) * size for o in at], a.size, g)


def place(plan: StagePlan, at: int) -> int:
    """Where element `at` of a tile lies, once its chunks have changed places."""
    return at ^ (at // plan.pitch // plan.every % plan.swizzle * plan.vector) if plan.swizzle else at


# memory traffic -------------------------------------------------------------------------------------------------------
# What groups fetch: bytes from the L2 cache for each, and bytes from memory for all, given which of them run at the same time.


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
