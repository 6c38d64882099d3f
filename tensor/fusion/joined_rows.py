"""Loops along arrays that are joined: the rows are read where they are, one array after the other.

A recurrence that looks at the row behind is written with a join, as `scan(step, first, (u, concat([u[1:], border])))`. The joined array
would be written, and read once. Its pieces are there already, or small."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

from ...ir import index as ix
from ...ir.dtypes import bool_
from ...ir.node import const as node_const
from ..graph import index_maps as maps
from ..graph.loop_nodes import GraphLoop
from ..graph.nodes import FROM_OUTSIDE, Slot, TensorNode, constant_of, interned_in, make, range_of, walk
from ..graph.primitives import const, view

FALSE = node_const(False)
MOST_PIECES = 8
"""Arrays of one join: each is looked for in every step."""


@dataclass(frozen=True)
class JoinedRows:
    """`count` rows of a parameter of a loop for as many steps: first, first + every and so on."""

    parameter: int
    count: int
    first: int = 0
    every: int = 1


def row_at(rows: Sequence[JoinedRows], arrays: Sequence[Any], at: int) -> Any:
    """Row `at` of arrays one after the other."""
    for r in rows[:-1]:
        if at < r.count:
            return arrays[r.parameter][r.first + r.every * at]
        at -= r.count
    return arrays[rows[-1].parameter][rows[-1].first + rows[-1].every * at]


def rows_of(n: TensorNode) -> tuple[int, int] | None:
    """(first, every) where a view has row first + every · t of its source as row t; None for another node."""
    if n.op != "view" or n.data is not None:
        return None
    by = n.arg
    if by.mask is not None or by.lies or not by.shape or by.shape[1:] != by.source[1:] or by.indices[1:] != by.axes[1:]:
        return None
    terms, first = ix.parts(by.indices[0])
    every = terms.pop(by.axes[0], 1 if by.axes[0].op == "const" else 0)
    return None if terms or not every else (first, every)


def unjoined(outs: Sequence[TensorNode]) -> tuple[Sequence[TensorNode], Mapping[int, TensorNode]]:
    """The same results, of loops that go along the pieces of joins which nothing else reads and of which most rows are in memory; `outs`
    itself where there is none. And by the id of each new node, the node of the given graph that it stands for."""
    order = list(walk(outs))
    joins = _joins(order, outs)
    table: dict[int, TensorNode] = {}
    behind: dict[int, TensorNode] = {}
    with interned_in({}):
        for n in order if joins else ():
            if n.data is None and any(id(s) in table or id(s) in joins for s in n.src):
                src, arg = tuple(table.get(id(s), s) for s in n.src), n.arg
                if n.op == "loop" and any(id(s) in joins for s in n.src):
                    loop, src = _along(n.arg.loop, src, {k: joins[id(s)] for k, s in enumerate(n.src) if id(s) in joins})
                    arg = replace(n.arg, loop=loop)
                new = table[id(n)] = make(n.op, src, arg, n.shape, n.dtype)
                new.line, behind[id(new)] = n.line, n
    return [table.get(id(o), o) for o in outs], behind


def _joins(order: Sequence[TensorNode], outs: Sequence[TensorNode]) -> dict[int, list[TensorNode]]:
    """By id the joins that only loops go along, with their pieces."""
    found: dict[int, list[TensorNode]] = {}
    if not any(n.op == "loop" and n.data is None for n in order):
        return found
    others = set(map(id, outs))
    for n in order:
        if n.data is None:
            first = n.arg.loop.carries if n.op == "loop" else 0
            along = range(first, first + n.arg.loop.xs) if n.op == "loop" else range(0)
            others.update(id(s) for k, s in enumerate(n.src) if k not in along)
    for n in order:
        if n.op == "loop" and n.data is None:
            for s in n.src[n.arg.loop.carries : n.arg.loop.carries + n.arg.loop.xs]:
                pieces = _pieces(s) if id(s) not in others and id(s) not in found else []
                if 1 < len(pieces) <= MOST_PIECES and 2 * sum(p.shape[0] for p in pieces if _there(p)) >= s.shape[0]:
                    found[id(s)] = pieces
    return found


def _pieces(n: TensorNode) -> list[TensorNode]:
    """What a node has one after the other along dimension 0, as `concat`, `pad` and `roll` write it; itself where it is no join."""
    if n.data is not None or not n.shape or not all(type(e) is int for e in n.shape):
        return [n]
    if n.op == "view":
        return _parts(n)
    if n.op != "elementwise" or n.arg != "where":
        return [n]
    test, left, right = n.src
    if test.op != "elementwise" or test.arg != "lt" or test.data is not None:
        return [n]
    at, border = test.src[0], constant_of(test.src[1])
    counts = at.op == "view" and at.src[0].op == "iota" and at.arg.mask is None and at.arg.indices == at.arg.axes[:1]
    if not counts or type(border) is not int or not 0 < border < n.shape[0]:
        return [n]
    found = [_rows(left, 0, border), _rows(right, border, n.shape[0] - border)]
    if any(p.op == "view" and p.arg.mask is not None for p in found):  # (else zeros, beside what is joined)
        return [n]
    return [q for p in found for q in _pieces(p)]


def _parts(n: TensorNode) -> list[TensorNode]:
    """The parts of a view that are rows of its source, one after the other, or zeros."""
    if n.arg.lies or not n.arg.source or n.arg.shape[1:] != n.arg.source[1:] or n.arg.indices[1:] != n.arg.axes[1:]:
        return [n]
    borders = [0]
    while len(borders) <= MOST_PIECES and _distance(n, n.shape[0] - 1) != (before := _distance(n, borders[-1])):
        low, high = borders[-1], n.shape[0] - 1  # the last row of this part, and one behind it
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if _distance(n, middle) == before else (low, middle)
        borders.append(high)
    found = [_rows(n, a, b - a) for a, b in pairwise([*borders, n.shape[0]])]
    nothing: Any = False if n.dtype is bool_ else 0
    found = [const(nothing, n.dtype, p.shape) if p.op == "view" and p.arg.mask is FALSE else p for p in found]
    return found if all(p is n.src[0] or constant_of(p) is not None or rows_of(p) for p in found) else [n]


def _distance(n: TensorNode, t: int) -> int | None:
    """How far behind row t of a view the row of its source is that it shows; None for zeros."""
    row = _rows(n, t, 1)
    index, mask = (row.arg.indices[0], row.arg.mask) if row.op == "view" else (None, None)
    return None if mask is not None else int(index.arg) - t if index is not None and index.op == "const" else 0


def _rows(n: TensorNode, first: int, count: int) -> TensorNode:
    return view(n, maps.strided(n.shape, [(first, 1, count), *((0, 1, e) for e in n.shape[1:])]))


def _there(n: TensorNode) -> bool:
    """Whether a loop reads an array's rows where they are, without a copy."""
    if rows_of(n) is not None:
        n = n.src[0]
    return n.data is not None or n.op in FROM_OUTSIDE or n.op == "loop"


def _along(
    loop: GraphLoop, src: tuple[TensorNode, ...], joins: Mapping[int, Sequence[TensorNode]]
) -> tuple[GraphLoop, tuple[TensorNode, ...]]:
    """A loop along pieces, and its sources: the first piece stands for the join, and the others come after all else."""
    slots, sources, gate = list(loop.slots), list(src[: len(loop.slots)]), src[len(loop.slots) :]
    parts = []
    for k, pieces in joins.items():
        sources[k] = pieces[0]
        rows = [(k, pieces[0].shape[0])]
        for p in pieces[1:]:
            rows.append((len(slots), p.shape[0]))
            slots.append(make("slot", (), Slot.new(range_of(p)), p.shape, p.dtype))
            sources.append(p)
        parts.append((k, tuple(rows)))
    return replace(loop, slots=tuple(slots), joins=tuple(parts)), (*sources, *gate)
