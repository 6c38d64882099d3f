"""Iterations of a reduction that are left out once its accumulators are final (`EXIT`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce

from ...ir.body import Reduce
from ...ir.dtypes import index
from ...opts.nests import Nest
from ...opts.options.early_exit import early_exit
from ...program.program import Val
from ..expr import NestEval
from ..lowering import Lowering
from .quickly import all_lanes


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
    with b.loop("if", b.const(0), b.op("cast", left, dtype=index), 1, carried, maybe=True, once=True) as loop:
        ev.reset()
        loop.yields = step(loop.carried)
    ev.reset()
    return loop.results
