"""Reads fragments of a staged tile by `ldmatrix`, where rows of 16 bytes lie along k, or (16-bit types) across it.

A fragment of so many 32-bit words is as many 8×8 matrices: thread l of the warp gets word l % 4 of row l // 4 of each, which is how
the instructions of tensor cores deal out m (or n) and k (PTX ISA, "Matrix Fragments for mma.m16n8k16" and "ldmatrix"). Lane l names
where row l % 8 of matrix l // 8 begins."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ...ir import index as ix
from ...ir.buffer import load_parts
from ...ir.node import Node, axes_of, axis
from ...opts.axis_plan import Part
from ...opts.plans import StagePlan
from ...program.program import Mem, Val
from ..expr import NestEval
from ..lowering import Lowering
from ..storage import Assignment, Key
from .swizzle import swizzled

ROW = 16
"""Bytes of a row of a matrix."""
MOST = 4
"""Matrices that one instruction reads."""


class Pairs(dict[tuple[str, Key], Val]):
    """What was read for two neighbouring fragments at once, by the part along which they are neighbours and the assignment."""


@dataclass(frozen=True, slots=True)
class _Matrices:
    """How the 8×8 matrices of a fragment lie in a tile: the element (over parts that are left) where the row of a lane begins, and whether
    rows lie across k."""

    address: Node
    count: int
    across: bool


def read(ev: NestEval, load: Node, parts: Sequence[tuple[Part, str]], asg: Assignment, pairs: Pairs) -> Val | None:
    """The fragment of the load of a staged tile whose axes are dealt out as `parts` say; None where it does not lie so."""
    mem, address, mask, _ = ev.locate(load)
    staged = ev.low.staged(load_parts(load)[0].name, ev.nest)
    if staged is None or mask is not None or mem.space != "shared":
        return None
    count = 1
    for p, kind in parts:
        count *= p.trips if kind == "copy" else 1
    elements = count * 4 // mem.dtype.size
    beside = _beside(ev, address, parts, asg) if 2 * count <= MOST else None
    if beside is None:
        return _load(ev, staged[0], mem, address, list(parts), asg, elements)
    first = {**asg, beside.name: asg[beside.name] // 2 * 2}
    key = (beside.name, tuple(sorted(first.items())))
    if key not in pairs:
        pair = Part(beside.name, beside.axis, "upcast", 2, beside.stride, False, beside.var)
        found = _load(ev, staged[0], mem, address, [(pair, "copy"), *parts], first, 2 * elements)
        if found is None:
            return None
        pairs[key] = found
    at = asg[beside.name] % 2 * elements
    return ev.b.shuffle(pairs[key], pairs[key], tuple(range(at, at + elements)))


def _beside(ev: NestEval, address: Node, parts: Sequence[tuple[Part, str]], asg: Assignment) -> Part | None:
    """A register part outside the fragment along which two fragments can be read at once."""
    terms = ix.parts(address)[0]
    inside = {p.name for p, _ in parts}
    found = [p for p in ev.regs if p.name in asg and p.name not in inside and p.trips % 2 == 0 and p.var in terms]
    return max(found, key=lambda p: p.kind == "upcast", default=None)


def _load(
    ev: NestEval, plan: StagePlan, mem: Mem, address: Node, parts: list[tuple[Part, str]], asg: Assignment, elements: int
) -> Val | None:
    found = _rows(ev.low, address, parts, mem.dtype.size, asg)
    if found is None:
        return None
    base, c, lane, vec = ev.split(found.address, asg)
    row = ROW // mem.dtype.size
    if lane or vec is not None or ev.low.at(mem, base, c, row).align < ROW:
        return None
    at, offset = swizzled(ev.low, plan, base, c)
    return ev.b.ldmatrix(Mem(mem.space, mem.base, mem.dtype, offset, ROW), at, elements, found.across)


def _rows(low: Lowering, address: Node, parts: Sequence[tuple[Part, str]], size: int, asg: Assignment) -> _Matrices | None:
    """Where the row begins that a lane names, if the matrices lie in rows."""
    terms, c = ix.parts(address)
    variables = {p.var for p, _ in parts}
    if any(t not in variables and variables & axes_of(t) for t in terms):
        return None
    word = 4 // size
    threads = [p for p, kind in parts if kind == "thread"]
    if len(threads) != 2 or sorted(p.trips for p in threads) != [4, 8]:
        return None
    rows, inner = sorted(threads, key=lambda p: -p.trips)
    lane = next((p for p, kind in parts if kind == "lane"), None)
    along, step = terms.get(rows.var, 0), terms.get(inner.var, 0)
    if step % word or (lane is not None and terms.get(lane.var, 0) * word != step):
        return None
    across = along == 1 and size == 2
    if not across and step != word:
        return None
    place = step // word if across else along
    copies = [p for p, kind in parts if kind == "copy"]
    rest = {t: k for t, k in terms.items() if t not in variables or (t in {p.var for p in copies if p.name in asg})}
    out = ix.add(ix.linear(rest, c), _of_lane(low, 1, 8), place)
    count = 1
    for p in reversed(copies):
        out = ix.add(out, _of_lane(low, 8 * count, p.trips), terms.get(p.var, 0))
        count *= p.trips
    return _Matrices(out, count, across)


def _of_lane(low: Lowering, divisor: int, count: int) -> Node:
    """lane // divisor % count as an index, where lanes are those of a warp."""
    var = axis(f"lane.{divisor}.{count}", count)
    if var not in low.scalars.bound:
        at = low.thread if divisor == 1 else low.b.op("idiv", low.thread, attr=divisor)
        low.scalars.bound[var] = low.b.op("imod", at, attr=count)
    return var
