"""Emits reductions: accumulators in registers, independent partials, and tiles of accumulators in memory.

Where a reduce loop runs outside a spatial one (straddling), inner parts accumulate in registers and are added to a tile
kept in scratch, or in the output itself when nothing else is done to it."""

from __future__ import annotations

from ...ir.body import Scan
from ...ir.node import Node
from ...opts.nests import Nest
from ..expr import NestEval
from ..lowering import Lowering
from ..storage import Registers
from .accumulators import Accumulators
from .alias import alias
from .fills import prepare_fills
from .loops import through
from .mma import TensorAccumulators
from .partials import across_threads
from .wgmma import WarpgroupAccumulators


def _accumulators(low: Lowering, n: Nest) -> type[Accumulators]:
    t = low.sched.tensors.get(n.name)
    return Accumulators if t is None else WarpgroupAccumulators if t.row.unit > low.sched.target.warp else TensorAccumulators


def reduce(low: Lowering, n: Nest) -> None:
    """A reduction under the loops that are open."""
    prepare_fills(low, n)
    assert n.value is not None and not isinstance(n.value.expr, (Node, Scan))
    combine = n.value.expr.combine
    loops = low.remaining(n)
    empty = any(p.trips == 0 for a in n.reduce_axes for p in low.sched.plans[a].parts) or any(a.arg.extent == 0 for a in n.reduce_axes)
    if empty:
        loops = [p for p in loops if p.axis in n.axes]
    reducing = [p.kind == "fold" or p.axis in n.reduce_axes for p in loops]
    last_spatial = max((i for i, r in enumerate(reducing) if not r), default=-1)
    outer, inner = loops[: last_spatial + 1], loops[last_spatial + 1 :]
    straddled = [p for p, r in zip(outer, reducing) if r]
    closing = low.scope.closing.get(n.name)
    close = closing.close(n) if closing and not straddled and n.name not in low.storage.reserved else None
    in_registers = close is not None or n.name in low.sched.tree.registers
    array = None if in_registers else low.storage.reserved.get(n.name) or alias(low, n) or low.array(n.value, n.axes)

    def body() -> None:
        ev = NestEval(low, n)
        acc = _accumulators(low, n)(low, n, ev, combine)
        start = [acc.identity() for _ in acc.keys]
        apart = acc.partial or bool(low.sched.shared_by(n.reduce_axes))
        if straddled and not apart:
            assert array is not None
            start = [acc.old(array, k, straddled) for k in acc.live]
        final = acc.run(inner, start, empty)
        results = across_threads(low, n, acc.finish(final), combine)
        if straddled and apart:
            assert array is not None
            results = {k: low.b.op(combine, acc.old(array, k, straddled), v) for k, v in results.items()}
        if array is None:
            store = Registers([p for p in ev.regs if p.axis in n.axes], acc.lane, ev.width if acc.lane else 1, results)
            low.storage.values[n.name] = store
            if close is not None:
                close()
        else:
            acc.write(array, results)

    through(low, outer, body)
    if array is not None:
        low.storage.values[n.name] = array
