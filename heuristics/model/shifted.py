"""Reads of one array at several shifted places, as stencils have them: how many vectors they really load, and what they touch together.

Equal loads are one in the code that is made, also where register copies of one read are at the places of another. And the lines
that one read brings are those that its neighbours want."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

from ...ir import index as ix
from ...ir.body import Value
from ...ir.buffer import Buffer, load_parts
from ...ir.node import Node, axes_of, walk
from ...opts.analysis.numbered_places import anywhere, as_number, offsets
from ...opts.analysis.structure import shifted_dimensions
from ...opts.analysis.thresholds import holds_inside
from ...opts.axis_plan import Part
from ...opts.nests import Nest
from ...opts.schedule import Scheduled

Residue = tuple[tuple[tuple[Node, int], ...], ...]
Place = tuple[Residue, tuple[int, ...]]
"""What an access does not vary with, and a constant in each dimension."""


@dataclass(frozen=True, slots=True)
class ShiftedReads:
    """Reads (or writes) of an array at places that differ by constants: `indices` of one of them, by how many elements the
    furthest two differ in each dimension, and how many rows they are in."""

    buffer: Buffer
    indices: tuple[Node, ...]
    spread: tuple[int, ...]
    rows: int


def together(s: Scheduled, reads: Iterable[tuple[Buffer, tuple[Node, ...]]]) -> Iterator[ShiftedReads]:
    """Reads (or writes), with those as one that differ by constants."""
    groups: dict[tuple[Buffer, Residue], list[tuple[tuple[Node, ...], list[int]]]] = {}
    for buffer, indices in reads:
        residue, at = _place(s, indices)
        groups.setdefault((buffer, residue), []).append((indices, at))
    for (buffer, _), found in groups.items():
        columns = list(zip(*(at for _, at in found), strict=True))
        rows = len({tuple(at[:-1]) for _, at in found})
        yield ShiftedReads(buffer, found[0][0], tuple(max(c) - min(c) for c in columns), rows)


def _place(s: Scheduled, indices: Sequence[Node]) -> tuple[Residue, list[int]]:
    split = [ix.parts(s.inside(i)) for i in indices]
    return tuple(tuple(sorted(terms.items(), key=lambda t: ix.order_key(t[0]))) for terms, _ in split), [c for _, c in split]


def kept(s: Scheduled, name: str, indices: Sequence[Node]) -> tuple[Buffer, tuple[Node, ...]] | None:
    """A value that is kept for readers at shifted places, as an array, and indices into it; None for others, whose readers mostly
    find it in registers or in the first cache."""
    dims = shifted_dimensions(s.kernel).get(name)
    if not dims:
        return None
    v = s.kernel.values[name]
    return Buffer(name, v.dtype, tuple(v.axes[d].arg.extent for d in dims)), tuple(indices[d] for d in dims)


def kept_reads(s: Scheduled, nest: Nest) -> Iterator[tuple[Buffer, tuple[Node, ...]]]:
    """What a nest reads of values that are kept for readers at shifted places, or as operands."""
    for n in nest.refs:
        found = None if n.arg in nest.fills else kept(s, n.arg, n.src) or _operand(s, nest, n)
        if found is not None:
            yield found


def _operand(s: Scheduled, nest: Nest, n: Node) -> tuple[Buffer, tuple[Node, ...]] | None:
    """A kept value that a reduction reads again and again, for axes that the value does not have: an operand that is computed once a
    panel. (Those of folds are small: a tile's.)"""
    body = {item.name: item for item in s.kernel.body}
    v = body.get(n.arg)
    if nest.kind != "reduce" or n.arg not in s.value_stages or not isinstance(v, Value) or not set(nest.axes) - axes_of(*n.src):
        return None
    return Buffer(v.name, v.dtype, tuple(a.arg.extent for a in v.axes)), n.src


def kept_writes(s: Scheduled, nest: Nest) -> Iterator[tuple[Buffer, tuple[Node, ...]]]:
    """What a nest writes of such values."""
    for name, axes in nest.made.items():
        found = kept(s, name, axes)
        if found is not None:
            yield found


def vectors_loaded(
    s: Scheduled, nest: Nest, regs: Sequence[Part], copies: Mapping[str, int], lane: tuple[Part | None, int]
) -> dict[Node, int]:
    """For each load of an array that is read at several places, or under windows that are spelled out, and each read of a kept
    value at shifted ones: how many vectors it loads that no read before it did. `lane`: the part that lanes run over, and their number."""
    out: dict[Node, int] = {}
    seen: dict[tuple[str, Residue], set[int]] = {}
    for name, found in _groups(s, nest).items():
        for n, indices in found:
            rest, at, steps = _spread(s, indices, regs, copies, lane)
            mine = seen.setdefault((name, rest), set())
            before = len(mine)
            first = as_number(at)
            mine.update([first + k for k in offsets(tuple(as_number(by) for by, _ in steps), tuple(n for _, n in steps))])
            out[n] = len(mine) - before
    return out


def places(
    s: Scheduled, indices: Sequence[Node], regs: Sequence[Part], copies: Mapping[str, int], lane: tuple[Part | None, int]
) -> dict[tuple[int, ...], Place]:
    """The place of an access for every assignment of those register parts that it varies with, in their order: places are equal where the
    same elements are accessed. `lane`: the part that lanes run over, and their number."""
    rest, at, steps = _spread(s, indices, regs, copies, lane)
    return {
        point: (rest, tuple(c + sum(by[d] * i for (by, _), i in zip(steps, point, strict=True)) for d, c in enumerate(at)))
        for point in product(*(range(count) for _, count in steps))
    }


def _spread(
    s: Scheduled, indices: Sequence[Node], regs: Sequence[Part], copies: Mapping[str, int], lane: tuple[Part | None, int]
) -> tuple[Residue, list[int], list[tuple[list[int], int]]]:
    """What an access does not vary with in registers, the place of its first copy, and for each register part that it varies with how far
    a copy is from the one before it, and how many there are."""
    parts = [p for p in regs if p.axis in axes_of(*indices)]
    terms = [s.terms(i) for i in indices]
    residue, at = _place(s, indices)
    moving = {p.var for p in parts}
    rest = tuple(tuple(t for t in dim if t[0] not in moving) for dim in residue)
    data = [x for dim in terms for t in dim for x in walk(t) if x.op in ("load", "ref")]
    apart = {p.var: i for i, p in enumerate(p for p in parts if any(p.var in walk(x) for x in data))}

    def step(p: Part) -> list[int]:
        if p.var in apart:  # (data says where: no two are at one place)
            return [anywhere(apart[p.var]) for _ in terms]
        return [t.get(p.var, 0) * (lane[1] if p is lane[0] else 1) for t in terms]

    return rest, at, [(step(p), copies[p.name]) for p in parts]


def slides(s: Scheduled, nest: Nest, indices: Sequence[Node]) -> bool:
    """Whether steps of a reduction that are spelled out read what copies of its results read too: of a window that slides."""
    steps = {p.var for p in s.registers(nest) if p.kind == "unroll"}
    return nest.kind == "reduce" and any(steps & {t for t in found if found[t]} and len(found) > 1 for found in map(s.terms, indices))


def _groups(s: Scheduled, nest: Nest) -> dict[str, list[tuple[Node, tuple[Node, ...]]]]:
    groups: dict[str, list[tuple[Node, tuple[Node, ...]]]] = {}
    for n in nest.loads:
        buffer, indices, mask = load_parts(n)
        if (mask is None or holds_inside(s, nest, mask)) and buffer.name not in s.stages:
            groups.setdefault(buffer.name, []).append((n, indices))
    groups = {name: found for name, found in groups.items() if len(found) > 1 or slides(s, nest, found[0][1])}
    for n in nest.refs:
        if n.arg not in nest.fills and kept(s, n.arg, n.src) is not None:
            groups.setdefault(n.arg, []).append((n, n.src))
    return groups
