"""Iterations of a reduction that are left out: once its accumulators are final (EARLY_EXIT), or where data says that they add nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce

from ...ir.body import Reduce
from ...ir.node import walk
from ...opts.analysis.ragged import left_out
from ...opts.nests import Nest
from ...opts.options.early_exit import early_exit
from ...program.program import Val
from ..expr import NestEval
from ..lowering import Lowering
from ..storage import Assignment
from .fast_path import all_lanes


def unless_final(
    low: Lowering, n: Nest, ev: NestEval, accs: Sequence[Sequence[Val]], step: Callable[[list[Val]], list[Val]]
) -> list[Val] | None:
    """What a step makes of accumulators, in a branch: `accs` are those of each result, of which one that is final is enough. None where
    they are never final before the end."""
    found = early_exit(low.sched, n)
    if found is None:
        return None
    b, across = low.b, ev.lane is not None and ev.lane.axis in n.reduce_axes
    assert n.value is not None and isinstance(n.value.expr, Reduce)
    combine, bound = n.value.expr.combine, found.bound.arg
    done: list[Val] = []
    for each in accs:
        one = reduce(lambda x, y: b.op(combine, x, y), each)  # (one of its parts that is final makes a result so)
        final = b.op(found.op, one, b.const(bound, one.dtype))
        # so do lanes along the reduction
        done.append(b.op("not", all_lanes(b, [b.op("not", final)])) if across else final)
    left = b.op("not", all_lanes(b, done))
    carried = [v for each in accs for v in each]
    with b.branch(left, carried) as loop:
        ev.reset()
        loop.yields = step(loop.carried)
    ev.reset()
    return loop.results


# steps that add nothing -----------------------------------------------------------------------------------------------
# A step of a reduction is left out where data says that it adds nothing, as in a sum over gathered rows of which some
# are missing. One scalar decides for all register copies, so that a branch leaves out their loads. Where copies
# differ, elements are selected instead.


def unless_skipped(
    low: Lowering, n: Nest, ev: NestEval, u: Assignment, accs: list[Val], step: Callable[[list[Val]], list[Val]]
) -> list[Val]:
    """What a step makes of accumulators, in a branch where conditions from data say whether it adds anything to any of them."""
    b = low.b
    conds = [c for c in left_out(low.sched, n) if not ev.holds(c)]
    if not any(x.op == "load" for c in conds for x in walk(c)):
        return step(accs)
    found = [ev.value(c, u) for c in conds]
    if any(v.lanes > 1 or b.truth(v) is not None for v in found):
        return step(accs)
    some = found[0] if len(found) == 1 else b.op("and", *found)
    held = low.scope.holds | {(c, n.reduce_axes[0]) for c in conds}
    with b.branch(some, accs) as loop, low.within(holds=held):
        ev.reset()
        loop.yields = step(loop.carried)
    ev.reset()
    return loop.results
