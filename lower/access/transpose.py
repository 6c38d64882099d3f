"""Transposes in registers: what would be gathered along the lanes is loaded along another register part in which it
is consecutive, and transposed.

Blocks of 16 bytes square are transposed first, by rounds that zip two vectors within each 16 bytes; then 16 bytes are the
units, and rounds that pick the even and the odd ones of two vectors bring them where they belong (both are perfect
shuffles: Stone, "Parallel Processing with the Perfect Shuffle", 1971). Processors have one instruction for each such
step, with no table of lanes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from ...ir import index as ix
from ...ir.node import Node, axes_of, const
from ...ir.operators import substitute
from ...program.builder import Builder
from ...program.program import Mem, Val
from ..indices import Indices
from ..part_index import as_node, reads_memory
from ..storage import Assignment

Lanes = tuple[int, ...]
LEAST = 4
"""Elements a load must bring for a turn to be worth it."""


def joined(b: Builder, vectors: Sequence[Val]) -> Val:
    """Vectors, a power of two many, one after the other as one."""
    while len(vectors) > 1:
        vectors = [b.shuffle(x, y, tuple(range(2 * x.lanes))) for x, y in zip(vectors[::2], vectors[1::2])]
    return vectors[0]


def transposed(b: Builder, rows: Sequence[Val]) -> list[Val]:
    """The columns of equally long vectors, as vectors of one element of each row. There are as many rows as a vector
    has lanes, and no fewer than columns; a row is at least 16 bytes; all counts are powers of two."""
    unit = 16 // rows[0].dtype.size
    times = len(rows) // rows[0].lanes
    whole = [joined(b, [rows[at + j + unit * i] for i in range(times)]) for at in range(0, len(rows), unit * times) for j in range(unit)]
    squares = [_rounds(b, whole[at : at + unit], lambda lanes: _zips(lanes, unit), apart=True) for at in range(0, len(whole), unit)]
    columns = [_rounds(b, [s[c] for s in squares], lambda lanes: _even_and_odd(lanes, unit), apart=False) for c in range(unit)]
    return [c[i] for i in range(len(squares)) for c in columns]


def rows_of(b: Builder, columns: Sequence[Val]) -> list[Val]:
    """The rows of equally long vectors, each of an element of every one of them: the inverse of `transposed`. The vectors are a power
    of two many, of at least 16 bytes together and each."""
    unit, lanes, count = 16 // columns[0].dtype.size, columns[0].lanes, len(columns)
    if count >= lanes:
        parts = [transposed(b, columns[at : at + lanes]) for at in range(0, count, lanes)]
        return [joined(b, row) for row in zip(*parts)]
    squares = [_rounds(b, list(columns[at : at + unit]), lambda n: _zips(n, unit), apart=True) for at in range(0, count, unit)]
    found = [_woven(b, [s[place] for s in squares], unit) for place in range(unit)]
    each = lanes // count
    out = []
    for i in range(lanes):
        whole, at = found[i % unit][i // unit // each], i // unit % each * count
        out.append(b.shuffle(whole, whole, tuple(range(at, at + count))))
    return out


def _woven(b: Builder, vectors: Sequence[Val], unit: int) -> list[Val]:
    """The vectors again, with units of the same place one after the other."""
    streams = [[v] for v in vectors]
    while len(streams) > 1:
        streams = [
            [b.shuffle(x, y, z) for x, y in zip(*pair) for z in _woven_lanes(x.lanes, unit)] for pair in zip(streams[::2], streams[1::2])
        ]
        unit *= 2
    return streams[0]


def _woven_lanes(lanes: int, unit: int) -> tuple[Lanes, Lanes]:
    """The lower and the upper halves of two vectors, their units by turns."""
    both = [side + at + i for at in range(0, lanes, unit) for side in (0, lanes) for i in range(unit)]
    return tuple(both[:lanes]), tuple(both[lanes:])


def _rounds(b: Builder, vectors: list[Val], orders: Callable[[int], tuple[Lanes, Lanes]], apart: bool) -> list[Val]:
    """log2 rounds over pairs: halves of the list (`apart`), whose results stay together, or neighbours, whose results part."""
    for _ in range(len(vectors).bit_length() - 1):
        half = len(vectors) // 2
        pairs = list(zip(vectors[:half], vectors[half:]) if apart else zip(vectors[::2], vectors[1::2]))
        first, second = orders(vectors[0].lanes)
        done = [(b.shuffle(x, y, first), b.shuffle(x, y, second)) for x, y in pairs]
        vectors = [v for pair in done for v in pair] if apart else [x for x, _ in done] + [y for _, y in done]
    return vectors


def _zips(lanes: int, unit: int) -> tuple[Lanes, Lanes]:
    """In each unit, the lower and the upper halves of both vectors, by turns."""

    def zipped(start: int) -> Lanes:
        return tuple(at + i + side for at in range(0, lanes, unit) for i in range(start, start + unit // 2) for side in (0, lanes))

    return zipped(0), zipped(unit // 2)


def _even_and_odd(lanes: int, unit: int) -> tuple[Lanes, Lanes]:
    """The even and the odd units of both vectors."""

    def units(start: int) -> Lanes:
        return tuple(at + i for at in range(start * unit, 2 * lanes, 2 * unit) for i in range(unit))

    return units(0), units(1)


def block_of(at: int, trips: int, width: int) -> tuple[int, int]:
    """(first place, places) of the block that a place of a part is in: of as many as a vector has lanes, then halves, and last a shortest
    one, which may have places of the block before it."""
    start, long = 0, width
    while True:
        while long > max(trips - start, LEAST):
            long //= 2
        start = min(start, trips - LEAST)
        if at < start + long:
            return start, long
        start += long


def transposed_read(ev: Indices, mem: Mem, address: Node, asg: Assignment, invariant: bool, past: Collection[Node] = ()) -> Val | None:
    """The load of a whole vector at `address`, over parts and linear but for products with symbols (a symbolic row
    length), from a block that is loaded and transposed once for all its copies; None where no register part of the nest is
    consecutive in memory. `past`: axes whose copies reach past their extent; nothing is read there, and what the
    copies get is never stored."""
    if ev.width < LEAST or mem.dtype.size < 4 or ev.low.sched.target.kind == "gpu" or ev.lane is None:
        return None
    _, _, step, copies, special = ev.split_of(address)
    further = axes_of(*(t for t, _ in special))
    if not all(t.op == "prod" and not reads_memory(t) for t, _ in special) or not (step or ev.lane.var in further):
        return None  # (what is the same in all lanes is read once)
    parts = (p for p in ev.regs if p is not ev.lane and (1, p.name) in copies and p.var not in further)
    part = next((p for p in parts if p.trips >= LEAST), None)
    if part is None or any(a not in (part.axis, ev.lane.axis) for a in past) or (past and part.axis in ev.nest.reduce_axes):
        return None
    even = min(part.trips & -part.trips, ev.width)
    start, long = block_of(asg[part.name], part.trips, ev.width) if even < LEAST else (asg[part.name] // even * even, even)
    first, at = {**asg, part.name: start}, asg[part.name] - start
    varies = [p.name for p in ev.regs if p.var in further] + [n for _, n in copies]
    columns = ev.blocks.setdefault((mem, address, *(first[n] for n in varies)), [])
    if not columns:
        columns_there = _inside_mask(ev, part.axis, first, long) if part.axis in past else None
        rows_there = _inside_mask(ev, ev.lane.axis, first, ev.width) if ev.lane.axis in past else None
        rows = []
        for i in range(ev.width):
            mask = columns_there
            if rows_there is not None:
                row = ev.b.splat(ev.b.extract(rows_there, i), long)
                mask = ev.b.both(mask, row)
            base, c = _row(ev, address, first, i)
            rows.append(ev.low.load(mem, base, c, long, mask, invariant))
        columns += transposed(ev.b, rows)
    return columns[at]


def _row(ev: Indices, address: Node, first: Assignment, row: int) -> tuple[Node, int]:
    """Where the elements of one lane begin, for an assignment: (scalar index, constant)."""
    base, c, lane, copies, special = ev.split_of(address)
    for t, k in special:
        varies = [p for p in ev.regs if p.var in axes_of(t)]
        at = {p.var: const(first[p.name] * ev.width + row if p is ev.lane else first[p.name]) for p in varies}
        base = ix.add(base, substitute(t, at), k)
    terms, more = ix.parts(base)
    return ix.linear(terms, 0), more + c + lane * row + sum(k * first[name] for k, name in copies)


def _inside_mask(ev: Indices, axis: Node, first: Assignment, count: int) -> Val:
    """Which of `count` consecutive points of an axis, from that of an assignment on, are inside its extent."""
    plan = ev.low.sched.plans[axis]
    base, c, _, _ = ev.split(plan.index, first)
    at = ev.b.op("add", ev.low.scalar(base, c), ev.b.multiples(1, count))
    return ev.b.op("lt", at, ev.low.scalar(as_node(plan.extent)))
