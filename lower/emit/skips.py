"""Steps of a reduction that are left out where data says that they add nothing: of picked rows of which some are missing.

One scalar decides for all register copies, so a branch leaves out what they would read. Where copies differ, or a step is short, elements
are selected instead."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from ...ir.dtypes import index
from ...ir.node import Node, walk
from ...ir.skippable import conjuncts
from ...opts.analysis.ragged import selected
from ...opts.analysis.thresholds import cuttable
from ...program.program import Val
from ..storage import Assignment

if TYPE_CHECKING:
    from .accumulators import Accumulators

WORTH = 16
"""Operations of a step that differ between its register copies which are worth a branch, of which half are guessed wrongly at worst."""


def skipping(acc: Accumulators, u: Assignment, carried: list[Val], step: Callable[[list[Val]], list[Val]]) -> list[Val]:
    """What a step makes of the accumulators, in a branch where that pays."""
    conds = _decides(acc)
    if not conds:
        return step(carried)
    b, low, ev = acc.low.b, acc.low, acc.ev
    found = [ev.value(c, u) for c in conds]
    if any(v.lanes > 1 or b.truth(v) is not None for v in found):
        return step(carried)
    some = found[0] if len(found) == 1 else b.op("and", *found)
    held = low.scope.holds | {(c, acc.n.reduce_axes[0]) for c in conds}
    with b.loop("if", b.const(0), b.op("cast", some, dtype=index), 1, carried, maybe=True, guarded=True) as loop, low.within(holds=held):
        ev.reset()
        loop.yields = step(loop.carried)
    ev.reset()
    return loop.results


def _decides(acc: Accumulators) -> Sequence[Node]:
    """The conditions without which a step adds nothing, where they are the same for all accumulators and it is long."""
    ev, n = acc.ev, acc.n
    if not cuttable(acc.low.sched) or acc.dot is not None or acc.masks or acc.numbers is not None or n.fills:
        return ()
    where = selected(n)
    conds = [c for c in conjuncts(where.src[0]) if not ev.holds(c)] if where is not None and where.op == "where" else []
    fixed = {p.name for p in acc.space} | {p.name for p in acc.copies}
    if not conds or where is None or not fixed.isdisjoint(ev.depends(where.src[0])):
        return ()
    if not any(x.op == "load" for c in conds for x in walk(c)) or not any(x.op == "load" for x in walk(where.src[1])):
        return ()
    length = sum(x.dtype is not index and bool(ev.depends(x)) for x in walk(where.src[1]))
    return conds if length * len(acc.keys) >= WORTH else ()
