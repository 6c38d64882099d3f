"""Loads and stores of a nest: consecutive, strided, transposed in registers, or gathered; masked where points may not exist."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import takewhile
from math import gcd, prod
from operator import and_

from ...ir import index as ix
from ...ir.buffer import PATTERNS, load_parts
from ...ir.dtypes import bool_, index, int32
from ...ir.errors import OptError
from ...ir.node import Node, axes_of, const, walk
from ...ir.operators import substitute
from ...ir.skipped_tiles import conjuncts
from ...opts.access import deinterleavable, transposable
from ...program.builder import Builder
from ...program.program import Mem, Val
from ...targets.target import PICKED_VECTORS
from ..indices import Bounds, Indices
from ..part_index import as_node, reads_memory
from ..storage import Array, Assignment
from .interleaved import chunk, group_read, interleave, strided_read, strided_vector, write_rows
from .transpose import block_of, rows_of, transposed_read

# known lanes ----------------------------------------------------------------------------------------------------------
# Loads whose lanes are at known places, as at a border, are one or two vectors and a shuffle. The first vector of a
# row with clamped left neighbours wants elements 0 0 1 2; wrapped, it wants 7 0 1 2; a mirror's is read forwards and
# reversed. Whole vectors are read where the buffer has them, else just the elements that are wanted.


LEAST = 4
"""Lanes of the shortest vector worth it."""
VECTORS = 2
"""Vectors at most; elements that are further apart are gathered."""
_TERMS = 512
"""Terms whose values are kept."""


def known_lanes(
    ev: Bounds,
    mem: Mem,
    address: Node,
    asg: Assignment,
    mask: Val | None,
    invariant: bool,
    kept: Array | None = None,
    apart: bool = False,
    alone: Val | None = None,
) -> Val | None:
    """The load at `address`, over parts, under a mask; None where its lanes are not known, or far apart, or a plain load does. `kept`: where
    the value is kept; `apart`: lanes may be some elements apart, all of them equally; `alone`: a further condition for all of them."""
    if ev.lane is None or ev.width < LEAST or ev.low.sched.target.kind == "gpu":
        return None
    base, c, lane, left = ev.placed(address, asg)
    there = None if mask is None else ev.b.known(mask)
    if not isinstance(there, tuple):
        if mask is not None:
            return None
        there = (True,) * ev.width
    consecutive = lane == 1 and mask is not None and not masks_alone(ev, mem)
    if not left and lane >= 0 and not consecutive and not (apart and lane > 1):  # a plain load, or what `strided_read` reads
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
        vector, start = _vector(ev, mem, base, group, invariant, row, alone)
        vectors.append(vector)
        places |= {o: n * ev.width + (o - start if len(group) > 1 else 0) for o in group}
    lanes = tuple(places.get(o, 0) for o in offsets)
    found = vectors[0] if lanes == tuple(range(ev.width)) else ev.b.shuffle(vectors[0], vectors[-1], lanes)
    return found if mask is None else ev.b.op("select", mask, found, ev.b.const(0, mem.dtype), dtype=mem.dtype)


def masks_alone(ev: Indices, mem: Mem) -> bool:
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


def _vector(
    ev: Bounds, mem: Mem, base: Node, group: Sequence[int], invariant: bool, row: tuple[int, int], alone: Val | None
) -> tuple[Val, int]:
    """A vector with the elements of a group, where the condition `alone` holds, and the offset of its first lane."""
    b, low, width, first, last = ev.b, ev.low, ev.width, group[0], group[-1]
    if len(group) == 1:
        return b.splat(low.load(mem, base, first, 1, alone, invariant), width), first
    for start in (first, last - width + 1) if alone is None else ():
        if _is_inside_row(ev, base, start, width, *row):
            return low.load(mem, base, start, width, None, invariant), start
    mask = b.const(tuple(i <= last - first for i in range(width)), bool_, width)
    if alone is not None:
        both = b.op("and", b.splat(alone, width), mask)
        return masked_load(ev, mem, base, first, None, width, (both, alone), invariant), first
    return low.load(mem, base, first, width, mask, invariant), first


def _is_inside_row(ev: Indices, base: Node, start: int, width: int, there: int, pitch: int) -> bool:
    """Whether `width` elements from base + start on are among the first of a row."""
    if not pitch:
        lo, hi = ev.span(base)
        return lo + start >= 0 and hi + start + width <= there
    terms, fixed = ix.parts(base)
    return not any(k % pitch for k in terms.values()) and (fixed + start) % pitch + width <= there


# masked loads outside the array ---------------------------------------------------------------------------------------
# A masked vector whose lanes are all off may lie outside its array, as at a picture's border. It touches no element,
# but a processor takes hundreds of cycles where no page is there (measured on Zen 5: 135 ns). Such a vector is read
# at the array's beginning instead.


def masked_load(
    ev: Bounds, mem: Mem, base: Node, c: int, vec: Val | None, lanes: int, masks: tuple[Val, Val | None], invariant: bool
) -> Val:
    """`lanes` elements from base + c on (+ `vec`, a scalar that is computed from data), under a mask of as many, or of one. `masks`: that,
    and what of it is one for all lanes, if anything is: mostly the vector is the array's where this holds."""
    b, low = ev.b, ev.low
    mask, alone = b.splat(masks[0], lanes), masks[1]
    known = b.known(mask)  # (of a vector that has an element nothing is asked)
    some = mask in b.begun or (isinstance(known, tuple) and any(known))
    elements = None if some else _elements(ev, mem)
    if vec is None:
        first, last = ev.span(ix.add(base, const(c)))
        if elements is None or (-lanes < first and last < ix.bounds(elements)[0]):  # (some lane of each may be an element)
            return low.load(mem, base, c, lanes, mask, invariant)
    mem = low.at(mem, base, c, lanes) if vec is None else replace(mem, offset=mem.offset + c)
    at = low.scalar(base) if vec is None else b.op("add", low.scalar(base), vec)
    if elements is None:
        return b.load(mem, at, lanes, mask, invariant)
    if alone is not None and 0 <= c <= ix.bounds(elements)[0] - lanes:
        return b.load(mem, b.op("select", alone, at, b.const(0), dtype=index), lanes, mask, invariant)
    at = b.op("add", at, b.const(c))
    there = b.op("and", b.op("lt", b.const(-lanes), at), b.op("lt", at, low.scalar(elements)))
    place = b.op("select", there, at, b.const(0), dtype=index)
    return b.load(replace(mem, offset=mem.offset - c), place, lanes, mask, invariant)


def _elements(ev: Bounds, mem: Mem) -> Node | None:
    """How many elements a parameter has; None of other memory, around which there is more of its own."""
    buffer = ev.low.ctx.buffer(mem) if mem.space == "param" and ev.low.sched.target.kind == "cpu" else None
    if buffer is None or not buffer.shape:
        return None
    out = const(1)
    for n in buffer.shape:
        out = ix.mul(out, as_node(n))
    return out


def _always_inside(ev: Bounds, mem: Mem, address: Node) -> bool:
    """Whether there is an element at an index without its mask, whatever integers of their declared ranges, or 0, it is computed from. (Who
    gathers by an instruction need not know.)"""
    elements = _elements(ev, mem) if ev.low.sched.target.gathers_slowly else None
    ranges = [load_parts(n)[0].whole_range for n in walk(address) if n.op == "load"]
    if elements is None or not all(r is not None and r[0] <= 0 <= r[1] for r in ranges):
        return False
    low, high = ix.bounds(address)
    return low >= 0 and high < ix.bounds(elements)[0]


def _in_runs(ev: Bounds, address: Node, asg: Assignment) -> bool:
    """Whether the places that the lanes read mostly lie one after the other, as an input promises: along a row, or from row to row."""
    for n in walk(address):
        buffer, indices, _ = load_parts(n) if n.op == "load" else (None, (), None)
        if buffer is not None and buffer.pattern:
            _, _, lane, vec = ev.split(ev.low.ctx.address(buffer.name, indices), asg)
            along = lane == 1
            return (
                bool(lane)
                and (vec is None or vec.lanes == 1)
                and (ev.width <= PATTERNS[buffer.pattern] if along else not PATTERNS[buffer.pattern])
            )
    return False


def row_of_picks(ev: Bounds, mem: Mem, address: Node, asg: Assignment, kept: Array | None) -> tuple[int, int] | None:
    """(the least, how many): the numbers that a gather adds to what its index is for all lanes, where an instruction or two pick the elements out
    of a row of an input as short as that, all of which is there."""
    longest = PICKED_VECTORS * ev.low.sched.target.picks(mem.dtype.size) if kept is None and mem.dtype.kind != "b" else 0
    there = _all_of(ev, mem) if longest else None
    if there is None or ev.width < LEAST:
        return None
    base, c, lane, left = ev.placed(address, asg)
    low, high = min(0, lane * (ev.width - 1)), max(0, lane * (ev.width - 1))
    for t, k in left:
        ends = [k * x for x in ev.span(ev.at(t, asg))]
        low, high = low + min(ends), high + max(ends)
    size = high - low + 1
    inside = size <= longest and _is_inside_row(ev, base, c + low, size, *there)
    return (low, size) if inside else None


class MemoryAccess(Bounds):
    """The part of a NestEval that reads and writes memory."""

    def read(
        self,
        mem: Mem,
        address: Node,
        asg: Assignment,
        mask: Val | None = None,
        invariant: bool = False,
        kept: Array | None = None,
        alone: Val | None = None,
        there: tuple[bool, ...] | None = None,
    ) -> Val:
        """Load at an element index over parts; `kept`: where a value of the kernel's is kept; `alone`: a condition for all lanes of a mask
        of many; `there`: what else the mask says of each lane, where that is known."""
        guarded = mask is not None
        known = None if mask is None else self.b.truth(mask)
        if mask is not None and known is not None:
            if not known:
                return self.b.const(0, mem.dtype, mask.lanes)
            mask = None
        # (what is transposed is read for other copies too, whose elements need not be there where this one's is known to be)
        if not guarded and self.lane is not None and self.lane.var in axes_of(*(t for t, _ in self.split_of(address)[4])):
            columns = transposed_read(self, mem, address, asg, invariant)
            if columns is not None:
                return columns
        found = known_lanes(self, mem, address, asg, mask, invariant, kept)
        if found is not None:
            return found
        base, c, lane, vec = self.split(address, asg)
        b = self.b
        if lane in (0, 1) and (vec is None or (lane and vec.lanes == 1)):
            lanes = self.width if lane else 1
            if mask is not None and mask.lanes not in (1, lanes):  # one address under a vector mask: a gather of equal lanes
                at = b.splat(self.low.scalar(base, c), self.width)
                return b.gather(mem, at, mask, invariant)
            if mask is not None and lanes > 1:
                return masked_load(self, mem, base, c, vec, lanes, (mask, mask if mask.lanes == 1 else alone), invariant)
            if vec is not None:
                return b.load(mem, b.op("add", self.low.scalar(base, c), vec), lanes, mask, invariant)
            return self.low.load(mem, base, c, lanes, mask, invariant)
        if vec is None and lane is not None and (mask is None or not self.kept_output(mem)):
            found = self._strided(mem, base, c, lane, invariant, mask)
            if found is None and mask is not None:
                each = mask if there is None else b.const(there, bool_, self.width)
                found = known_lanes(self, mem, address, asg, each, invariant, kept, True, None if there is None else alone)
            if found is not None:
                return found
        columns = transposed_read(self, mem, address, asg, invariant) if vec is None and not guarded else None
        if columns is None and vec is None and lane is not None:
            columns = group_read(self, mem, base, c, lane, invariant, mask)
        if columns is not None:
            return columns
        if not lane and (vec is None or vec.lanes == 1):
            at = self.join(self.low.scalar(base, c), 0, vec)
            if mask is not None and mask.lanes > 1:
                return b.gather(mem, b.splat(at, self.width), mask, invariant)
            return b.load(mem, at, 1, mask, invariant)
        picked = row_of_picks(self, mem, address, asg, kept)
        if picked is not None:
            low, size = picked
            pick = b.op("cast", self.join(b.const(-low), lane, vec), dtype=int32)
            source = replace(self.low.at(mem, base, c + low, 1), row=size)
            mask = None if mask is None else b.splat(mask, pick.lanes)
            return b.gather(source, b.op("add", self.low.scalar(base), b.op("cast", pick, dtype=index)), mask, invariant)
        # (elements side by side have one index then, and are known to lie so)
        at = self.join(self.low.scalar(base), lane, vec)
        source = replace(self.low.at(mem, base, c, 1), runs=_in_runs(self, address, asg))
        if mask is not None:
            mask = b.splat(mask, at.lanes)
            source = replace(source, anywhere=_always_inside(self, mem, address))
        return b.gather(source, at, mask, invariant)

    def _strided(self, mem: Mem, base: Node, c: int, step: int, invariant: bool, mask: Val | None) -> Val | None:
        """Elements `step` apart; under a mask for all lanes the vectors that they are picked from are loaded under it."""
        if mask is None or mask.lanes > 1 or not masks_alone(self, mem):
            return strided_read(self, mem, base, c, step, invariant, mask)

        def load(offset: int) -> Val:
            return masked_load(self, mem, base, offset, None, self.width, (mask, mask), invariant)

        return strided_vector(self, load, c, step)

    def kept_output(self, mem: Mem) -> bool:
        """Whether a read is of what is kept in an output, where elements beside those that are wanted may not be written yet."""
        buffer = self.low.ctx.buffer(mem)
        return buffer is not None and buffer.role == "out"

    def holding(self, conds: Sequence[Node], asg: Assignment) -> tuple[Val | None, Val | None] | None:
        """Where every condition holds: a scalar and a vector, each None where nothing is left to ask; None where one of the
        conditions is known to be false."""
        b = self.b
        scalar, mask = None, None
        for m in [self.value(n, asg) for n in conds if n.op != "const" or not n.arg]:
            known = b.truth(m)
            if known is False:
                return None
            if known:
                continue
            if m.lanes > 1:
                mask = b.both(mask, m)
            else:
                scalar = b.both(scalar, m)
        return scalar, mask

    def write(self, mem: Mem, address: Node, asg: Assignment, value: Val, conds: Sequence[Node] = ()) -> None:
        """Store at an element index over parts, where every condition holds."""
        b = self.b
        base, c, lane, vec = self.split(address, asg)
        there = self.holding(conds, asg)
        if there is None:
            return
        scalar, mask = there
        lanes = self.width if lane or (vec is not None and vec.lanes > 1) else 1
        if lanes > 1:
            value = b.splat(value, lanes)
            if scalar is not None and mask is None and self.low.ctx.branches:  # a masked store is slow without mask registers
                with b.when(scalar):
                    self.write(mem, address, asg, value)
                return
            if scalar is not None:
                wide = b.splat(scalar, lanes)
                mask = b.both(mask, wide)
            if lane == 1 and vec is None:
                self.low.store(mem, base, c, value, mask)
            elif lane == 1 and vec is not None and vec.lanes == 1:
                b.store(mem, b.op("add", self.low.scalar(base, c), vec), value, mask)
            else:
                b.store(mem, self.join(self.low.scalar(base, c), lane, vec), value, mask)
            return
        if mask is not None:  # one element of which lane, the mask says: the last of a scan's chunk
            mask = mask if scalar is None else b.op("and", mask, b.splat(scalar, mask.lanes))
            for i in range(mask.lanes):
                with b.when(b.extract(mask, i)):
                    b.store(mem, self.join(self.low.scalar(base, c), 0, vec), b.extract(value, i))
            return
        if value.lanes > 1:
            raise OptError(f"{self.nest.name}: lanes of {self.lane.name if self.lane else '?'} all write one element")
        at = self.join(self.low.scalar(base, c), 0, vec)
        if scalar is None:
            b.store(mem, at, value)
        else:
            with b.when(scalar):
                b.store(mem, at, value)


def read_masked(
    ev: MemoryAccess, node: Node, mem: Mem, address: Node, asg: Assignment, mask: tuple[Node | None, Val | None], invariant: bool
) -> Val:
    """A load at an element index over parts, 0 where a mask (over axes, and its value here) does not hold."""
    cond, held = mask
    if held is None or held.lanes == 1 or not _reads_plainly(ev, node, mem, address, asg):
        alone, there = (None, None) if cond is None or held is None or held.lanes == 1 else _uniform_mask(ev, cond, asg)
        if alone is not None and there is not None and all(there):
            held = alone
        return ev.read(mem, address, asg, held, invariant, alone=alone, there=there)
    b = ev.b
    # (the mask True: a load of this copy alone; not read-only, since it must stay where its bounds are known)
    x = b.splat(ev.read(mem, address, asg, b.const(True, bool_)), held.lanes)
    return b.op("select", held, x, b.splat(b.const(0, mem.dtype), held.lanes), dtype=mem.dtype)


def _uniform_mask(ev: MemoryAccess, cond: Node, asg: Assignment) -> tuple[Val | None, tuple[bool, ...] | None]:
    """What of a mask is one for all lanes: where that does not hold, no lane is on; and what of it is known lane by lane, if that is all else."""
    alone: Val | None = None
    there: tuple[bool, ...] | None = (True,) * ev.width
    for v in (ev.value(c, asg) for c in conjuncts(cond)):
        if v.lanes == 1 and ev.b.truth(v) is None:
            alone = ev.b.both(alone, v)
        elif ev.b.truth(v) is not True:
            known = ev.b.known(v)
            there = tuple(map(and_, there, known)) if isinstance(known, tuple) and there is not None else None
    return alone, there


def _reads_plainly(ev: MemoryAccess, node: Node, mem: Mem, address: Node, asg: Assignment) -> bool:
    """Whether a load is of an input's elements side by side, or of one, all of which exist; with registers of masks it can stay masked."""
    target = ev.low.sched.target
    if target.groups or "avx512" in target.features or mem.space != "param":
        return False
    buffer, indices, _ = load_parts(node)
    _, _, lane, special = ev.placed(address, asg)
    if buffer.role != "in" or special or lane not in (0, 1):
        return False
    return all(_within(ev, i, extent, asg) for i, extent in zip(indices, buffer.shape, strict=True))


def _within(ev: MemoryAccess, index: Node, extent: int | Node, asg: Assignment) -> bool:
    """Whether an index is known to be one of a dimension, in every lane."""
    low, high = ev.truths("le", const(0), index, asg), ev.truths("lt", index, as_node(extent), asg)
    return low is not None and high is not None and all(low) and all(high)


Copy = tuple[Assignment, Val]


def write_all(ev: MemoryAccess, mem: Mem, address: Node, copies: Sequence[Copy], conds: Sequence[Node] = ()) -> None:
    """Store every copy at an element index over parts, where every condition holds; the elements that are stored are all different."""
    groups: dict[tuple[Node, int], dict[int, Copy]] = {}
    for asg, v in copies:
        base, c, lane, vec = ev.split(address, asg)
        alone = ev.low.sched.target.kind == "gpu" or ev.lane is None or vec is not None or lane < 2
        # (a point that conditions leave out, such as one before a row's begin, may have the index of one in another row)
        if alone or c in groups.get((base, lane), {}):
            ev.write(mem, address, asg, v, conds)
        else:
            groups.setdefault((base, lane), {})[c] = (asg, v)
    for (base, step), found in groups.items():
        while found:
            first = min(found)
            groups_of = step if deinterleavable(step) or transposable(step, mem.dtype.size) else 0
            some = [found.pop(c) for c in takewhile(found.__contains__, range(first, first + (groups_of or len(found))))]
            if len(some) == groups_of and _write_group(ev, mem, base, first, some, conds):
                continue
            if not _write_turned(ev, mem, base, first, step, some, conds):
                for asg, v in some:
                    ev.write(mem, address, asg, v, conds)


def _write_turned(ev: MemoryAccess, mem: Mem, base: Node, first: int, step: int, copies: Sequence[Copy], conds: Sequence[Node]) -> bool:
    """Store copies that lie side by side, the lanes of which are in rows `step` apart: row by row, from blocks that are turned in
    registers. False, and nothing done, where they are few or narrow, or it is not known which are there."""
    b, there = ev.b, [ev.holding(conds, asg) for asg, _ in copies]
    rows = [None if t is None or t[0] is not None else True if t[1] is None else b.known(t[1]) for t in there]
    if mem.nt or mem.dtype.size < 4 or ev.width < LEAST or len(copies) < LEAST or rows[0] is None or any(r != rows[0] for r in rows):
        return False
    at = 0
    while at < len(copies):
        start, long = block_of(at, len(copies), ev.width)
        for i, row in enumerate(rows_of(b, [b.splat(v, ev.width) for _, v in copies[start : start + long]])):
            if rows[0] is True or (isinstance(rows[0], tuple) and rows[0][i]):
                ev.low.store(mem, base, first + start + i * step, row)
        at = start + long
    return True


def _write_group(ev: MemoryAccess, mem: Mem, base: Node, first: int, copies: Sequence[Copy], conds: Sequence[Node]) -> bool:
    """Store all components of a vector of groups; False, and nothing done, where their masks do not allow it."""
    b, width = ev.b, ev.width
    there = [ev.holding(conds, asg) for asg, _ in copies]
    conditions = {None if t is None else t[0] for t in there}
    masks = _lanes_there(b, [None if t is None else t[1] for t in there], width)
    if any(t is None for t in there) or len(conditions) > 1 or masks is None:
        return False
    (condition,) = conditions
    if not deinterleavable(len(copies)):
        return write_rows(ev, mem, base, first, [v for _, v in copies], masks, condition)

    # (a non-temporal store is of a whole vector)
    size = width if mem.nt else chunk(ev.low.sched.target, mem.dtype.size, len(copies), width)

    def store() -> None:
        vectors = interleave(b, [b.splat(v, width) for _, v in copies], size)
        for at in range(0, width * len(copies), size):
            there = masks[at : at + size]
            lanes, n = divmod(at // size, len(copies))
            v = vectors[n] if size == width else b.shuffle(vectors[n], vectors[n], tuple(range(lanes * size, (lanes + 1) * size)))
            if any(there):
                mask = None if all(there) else b.const(tuple(there), bool_, size)
                ev.low.store(mem, base, first + at, v, mask)

    if condition is None:
        store()
    else:
        with b.when(condition):
            store()
    return True


def _lanes_there(b: Builder, masks: Sequence[Val | None], width: int) -> list[bool] | None:
    """Which of the interleaved elements are there; None where that is not known before anything runs."""
    known = [True if m is None else b.known(m) for m in masks]
    if any(k is None for k in known):
        return None
    return [bool(k[i] if isinstance(k, tuple) else k) for i in range(width) for k in known]
