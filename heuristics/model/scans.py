"""What a scan costs beside its elements: combinations, prefixes of vectors, and states in memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from ...ir.body import Scan
from ...ir.node import walk
from ...ir.tuple_scan import tuple_scan
from ...opts.axis_plan import Part
from ...opts.nests import Nest
from ...opts.schedule import Scheduled
from ..machine import Core


class Copies(Protocol):
    """What is asked of a nest's innermost body."""

    @property
    def regs(self) -> Sequence[Part]:
        """Its register parts."""

    @property
    def lane(self) -> Part | None:
        """The part that lanes run over."""

    @property
    def width(self) -> int:
        """The lanes."""

    def count(self, parts: Sequence[Part]) -> int:
        """The copies that some register parts make together."""


@dataclass(frozen=True, slots=True)
class ScanWork:
    """Of one body: `arith` operations more than the elements take; `chain`: cycles from one state to the next; `states`: vectors that
    are read from memory and written to it."""

    arith: float
    chain: float
    states: float


def scan_work(s: Scheduled, nest: Nest, results: float, body: Copies, core: Core) -> ScanWork:
    """The work of a scan with so many vectors of `results` in its body."""
    assert nest.value is not None and isinstance(nest.value.expr, Scan)
    axis = nest.value.expr.axis
    steps = body.count([p for p in body.regs if p.axis is axis])
    loops = [p.axis is axis for p in s.loops(nest)]
    # the value carried from one vector or element to the next; a vector of prefixes takes a shift and a combination for each doubling
    along = body.lane is not None and body.lane.axis is axis
    doubled = core.scanned * (body.width.bit_length() - 1) + core.scanned if along else 0
    rule, arith = 1, results * doubled
    if nest.expr.op == "tuple":
        rule = max(1, len({n for m in tuple_scan(nest.expr).merge for n in walk(m) if n.src}))
        arith = results * rule * (1 + doubled)
    if loops == sorted(loops):
        return ScanWork(arith, core.latency * steps * rule, 0.0)
    # each point of the loops inside has a state in memory, and does not wait for its neighbours
    return ScanWork(arith, 1.0, results / max(1, steps) + _handed_on(s, nest, results, core))


def _handed_on(s: Scheduled, nest: Nest, results: float, core: Core) -> float:
    """Vectors without a register of what a body's scan hands on to others in it: results, and loads that are used there again. All states
    are stored before any of it is used."""
    if nest.name not in s.tree.registers:
        return 0.0
    readers = [n for n in s.nests if any(r.arg == nest.name for r in n.refs)]
    again = {x for n in readers for x in n.loads} & set(nest.loads)
    return max(0.0, results * (1 + len(again)) + core.operands - s.target.registers)
