"""Rows side by side that are all as long as the mean one: their entries lie at places that are known but for where the first row begins.

Lanes along rows read each entry of each row at an address of its own, under a loop whose end data says. In most groups of regular rows, such
as those of a stencil's matrix, all rows have one length. There every step is written out, and reads entries at constant distances."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ...ir import index as ix
from ...ir.buffer import load_parts
from ...ir.node import Node, axes_of, const, sym
from ...ir.operators import substitute
from ...opts.analysis.ragged import SHORT, conditions, entries_of_a_row, length_of_a_row, regular, sides
from ...opts.axis_plan import Part
from ...opts.nests import Nest
from ...program.program import Val
from ..expr import NestEval
from ..lowering import Lowering
from .fast_path import all_lanes


@dataclass(frozen=True, slots=True)
class EqualRows:
    """Rows along the lanes. `data`: their lengths, each the end of a row less its beginning, which is the end of the row before; `length`: of
    most of them."""

    data: Node
    begin: Node
    end: Node
    length: int

    def hold(self, low: Lowering, ev: NestEval) -> Val:
        """Whether all rows of the register copies have that length."""
        b, lengths = low.b, [ev.value(self.data, {**asg, **low.scope.copies}) for asg in ev.assignments(ev.regs)]
        return all_lanes(b, [b.op("eq", v, b.const(self.length, v.dtype)) for v in lengths])

    def steps(self, low: Lowering, nest: Nest, ev: NestEval) -> list[Nest]:
        """The nest in each step of such rows, its entries counted from the first one of the first row."""
        assert ev.lane is not None
        first = low.b.extract(ev.value(self.begin, dict.fromkeys((p.name for p in ev.regs), 0)), 0)
        start = sym(f"entry {first.id}", 0, ix.bounds(self.begin)[1])
        low.scalars.bound[start] = first
        begin = ix.add(start, ev.lane.var, self.length)
        rows = {self.begin: begin, self.end: ix.add(begin, const(self.length))}
        return [replace(nest, expr=substitute(nest.expr, {**rows, nest.reduce_axes[0]: const(k)})) for k in range(self.length)]


def equal_rows(low: Lowering, nest: Nest, ev: NestEval, part: Part) -> EqualRows | None:
    """The rows whose entries a loop over `part` adds up, where most have one length, and few entries; None where nothing says so."""
    conds, lane = conditions(nest), ev.lane
    found = sides(conds[0]) if len(conds) == 1 else None
    if found is None or lane is None or low.masked(lane.axis) or low.sched.target.kind != "cpu":
        return None
    place, data, _ = found
    terms, _ = ix.parts(data)
    ends = {k: t for t, k in terms.items()}
    if place is not part.axis or part.stride != 1 or part.trips != part.axis.arg.extent or not length_of_a_row(data) or not regular(data):
        return None
    begin, end = ends[-1], ends[1]
    (*_, at), (*_, after) = (load_parts(n.src[0] if n.op == "cast" else n)[1] for n in (begin, end))
    mean = entries_of_a_row(data, part.axis.arg.extent)
    beside = [p for p in ev.regs if p.axis in axes_of(data)] == [lane] == [*ev.regs] and lane.stride == 1
    if mean is None or not beside or at is not lane.axis or ix.add(after, at, -1) is not const(1) or not 1 <= round(mean) <= SHORT:
        return None
    return EqualRows(data, begin, end, round(mean))
