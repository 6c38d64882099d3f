"""Expressions that register copies have in common, as those of stencils have: what one row of results computes of the row below is what
the next one computes of its own.

Equal expressions are one in the code that is made. Here an expression over loads is its shape, and how far it is shifted along each
axis; copies shift it further. So those of one shape are counted by the different places at which they are."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field

from ...ir import index as ix
from ...ir.buffer import Buffer, load_parts
from ...ir.dtypes import index
from ...ir.node import Node, axes_of, walk
from ...opts.analysis.numbered_places import as_number, offsets
from ...opts.analysis.thresholds import holds_inside
from ...opts.axis_plan import Part
from ...opts.nests import Nest
from ...opts.schedule import Scheduled
from .shifted import kept

Shift = tuple[int | None, ...]
"""By how many elements an expression is shifted along each axis; None where it does not vary."""


@dataclass(slots=True)
class Shapes:
    """The shapes of a nest's expressions: numbers that are equal for what differs by a shift along `axes` alone, which count
    copies."""

    scheduled: Scheduled
    nest: Nest
    axes: tuple[Node, ...]
    numbers: dict[Hashable, int] = field(default_factory=dict)
    found: dict[Node, tuple[int, Shift] | None] = field(default_factory=dict)

    def of(self, n: Node) -> tuple[int, Shift] | None:
        """(shape, shift) of an expression whose operands are known; None where it is no function of places that shift."""
        if n.op == "where" and holds_inside(self.scheduled, self.nest, n.src[0]):
            return self.found.get(n.src[1])
        if n.op == "load":
            buffer, indices, mask = load_parts(n)
            return self._at(buffer, indices) if mask is None or holds_inside(self.scheduled, self.nest, mask) else None
        if n.op == "ref":  # (of what is not kept, each copy has its own)
            read = None if n.arg in self.nest.fills else kept(self.scheduled, n.arg, n.src)
            return None if read is None else self._at(*read)
        if n.dtype is index:
            return None
        parts = [self.found.get(s) for s in n.src]
        if any(p is None for p in parts):
            return None
        known = [p for p in parts if p is not None]
        first: Shift = tuple(next((s[d] for _, s in known if s[d] is not None), None) for d in range(len(self.axes)))
        from_first = [(k, tuple(None if x is None else x - (f or 0) for x, f in zip(s, first, strict=True))) for k, s in known]
        return self._number((n.op, n.arg, n.dtype.name, *from_first)), first

    def _number(self, shape: Hashable) -> int:
        return self.numbers.setdefault(shape, len(self.numbers))

    def _at(self, buffer: Buffer, indices: Sequence[Node]) -> tuple[int, Shift] | None:
        """The same of an element of an array."""
        shift: list[int | None] = [None] * len(self.axes)
        rest: list[Hashable] = []
        for i in indices:
            terms, at = ix.parts(self.scheduled.inside(i))
            moving = [d for d, a in enumerate(self.axes) if a in axes_of(*terms)]
            if moving:
                (d, *more) = moving
                if (
                    more
                    or terms.get(self.axes[d]) != 1
                    or shift[d] is not None
                    or any(self.axes[d] in axes_of(t) for t in terms if t.op != "axis")
                ):
                    return None
                shift[d], at = at, 0
            rest.append((frozenset(terms.items()), at))
        return self._number((buffer.name, *rest)), tuple(shift)


def times_computed(
    s: Scheduled, nest: Nest, nodes: Sequence[Node], regs: Sequence[Part], copies: Mapping[str, int], lane: Part | None
) -> dict[Node, int]:
    """How often each of some expressions is computed in a body that none before it in the list was; only of those that are alike."""
    beside = [p for p in regs if p is not lane and p.kind == "upcast" and p.axis in nest.axes and copies[p.name] > 1 and p.stride == 1]
    if nest.kind not in ("store", "point") or not beside or len({p.axis for p in beside}) < len(beside):
        return {}
    shapes = Shapes(s, nest, tuple(p.var for p in beside))
    for n in walk(*nest.evaluated):
        shapes.found[n] = shapes.of(n)
    others = [p for p in regs if p not in beside]
    counts = [copies[p.name] for p in beside]
    seen: dict[tuple[int, tuple[bool, ...]], set[int]] = {}
    out: dict[Node, int] = {}
    for n in nodes:
        found = shapes.found.get(n)
        if found is None or n.op in ("load", "ref", "const"):
            continue
        number, shift = found
        varies = tuple(x is not None for x in shift)
        mine = seen.setdefault((number, varies), set())
        before = len(mine)
        first = as_number([x or 0 for x in shift])
        mine.update([first + k for k in _steps(varies, tuple(counts))])
        out[n] = len(mine) - before
        for p in others:
            out[n] *= copies[p.name] if p.axis in axes_of(n) else 1
    return out


def _steps(varies: tuple[bool, ...], counts: tuple[int, ...]) -> tuple[int, ...]:
    """How far the copies of an expression are from the first, along the axes that it varies with."""
    each = tuple(as_number([int(d == here and v) for here in range(len(varies))]) for d, v in enumerate(varies))
    return offsets(each, counts)
