"""Emits reductions: accumulators in registers, independent partials, and tiles of accumulators in memory.

Where a reduce loop runs outside a spatial one (straddling), inner parts accumulate in registers and are added to a tile
kept in scratch, or in the output itself when nothing else is done to it."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from ...ir.body import Scan
from ...ir.node import Node
from ...opts.axis_plan import Part
from ...opts.nests import Nest
from ...program.program import Val
from ..expr import NestEval
from ..lowering import Lowering
from ..storage import Registers
from .accumulators import Accumulators
from .alias import alias
from .fills import prepare_fills
from .loops import through
from .mma import TensorAccumulators
from .partials import across_threads
from .places import PlaceAccumulators
from .together import run_together
from .wgmma import WarpgroupAccumulators
from .windows import WindowExtremes, suits

BLOCKS = 16
"""Blocks of a reduction from which its array is cleared before the first."""


def _accumulators(low: Lowering, n: Nest, windows: bool = True) -> type[Accumulators]:
    if n.name in low.sched.places:
        return PlaceAccumulators
    t = low.sched.tensors.get(n.name)
    if t is None:
        return WindowExtremes if windows and suits(low, n) else Accumulators
    return WarpgroupAccumulators if t.row.unit > low.sched.target.warp else TensorAccumulators


def reduce(low: Lowering, n: Nest) -> None:
    """A reduction under the loops that are open."""
    together(low, (n,))


def together(low: Lowering, nests: Sequence[Nest]) -> None:
    """Reductions in one loop, under the loops that are open, and stores at the points that are reduced. All have the same loops."""
    for n in nests:
        prepare_fills(low, n)
    n, stores = nests[0], [m for m in nests if m.store is not None]
    loops = low.remaining(n)
    empty = any(p.trips == 0 for a in n.reduce_axes for p in low.sched.plans[a].parts) or any(a.arg.extent == 0 for a in n.reduce_axes)
    if empty:
        loops = [p for p in loops if p.axis in n.axes]
    reducing = [p.kind == "fold" or p.axis in n.reduce_axes for p in loops]
    last_spatial = max((i for i, r in enumerate(reducing) if not r), default=-1)
    outer, inner = loops[: last_spatial + 1], loops[last_spatial + 1 :]
    straddled = [p for p, r in zip(outer, reducing) if r]
    each = [_Reduction(low, m, straddled, windows=not stores) for m in nests if m.store is None]

    def body() -> None:
        starts = [r.start() for r in each]
        found = [r.acc for r in each]
        apart = not stores and (all(isinstance(a, WindowExtremes) for a in found) or len(each) == 1)
        finals = (
            [a.run(inner, s, empty) for a, s in zip(found, starts)] if apart else run_together(low, found, inner, starts, empty, stores)
        )
        for r, final in zip(each, finals, strict=True):
            r.finish(final)

    first = next((i for i, r in enumerate(reducing[: len(outer)]) if r), len(outer))
    for r in each:
        r.cleared = r.clears()

    def cleared() -> None:
        for r in each:
            if r.cleared:
                r.clear()

    def blocks() -> None:
        if any(r.cleared for r in each):
            with low.within(nests=()):  # what is cleared reads nothing: no tile is filled in these loops
                through(low, [p for p, r in zip(outer[first:], reducing[first:]) if not r], cleared)
        through(low, outer[first:], body)

    through(low, outer[:first], blocks)
    for r in each:
        r.keep()


class _Reduction:
    """One of the reductions of a loop. `straddled`: its reduce loops outside a spatial one; `exact`: nothing is supposed of elements;
    `windows`: what windows have in common may be done once; `cleared`: its array holds what accumulators begin with, before the first block."""

    acc: Accumulators
    cleared = False

    def __init__(self, low: Lowering, n: Nest, straddled: Sequence[Part], exact: bool = False, windows: bool = True) -> None:
        assert n.value is not None and not isinstance(n.value.expr, (Node, Scan))
        self.low, self.n, self.straddled, self.combine = low, n, straddled, n.value.expr.combine
        self.exact, self.windows = exact, windows
        closing = low.scope.closing.get(n.name)
        self.close = closing.close(n) if closing and not straddled and n.name not in low.storage.reserved else None
        in_registers = self.close is not None or n.name in low.sched.tree.registers
        self.array = None if in_registers else low.storage.reserved.get(n.name) or alias(low, n) or low.array(n.value, n.axes)

    def clears(self) -> bool:
        """Whether its array is cleared before: blocks then need not ask whether they are the first, where there are many."""
        low = self.low
        if self.array is None or low.sched.target.groups or self.n.name in low.sched.tensors:
            return False
        return all(isinstance(p.size, int) for p in self.straddled) and prod(p.trips for p in self.straddled) >= BLOCKS

    def clear(self) -> None:
        """Fill the array with what accumulators begin with, for the registers' part under the loops that are open."""
        ev = NestEval(self.low, self.n)
        acc = _accumulators(self.low, self.n, self.windows)(self.low, self.n, ev, self.combine)
        assert self.array is not None
        none = self.low.b.const(acc.none(), acc.dtype, ev.width if acc.lane is not None else 1)
        acc.write(self.array, {tuple((p.name, s[p.name]) for p in acc.space): none for s in acc.live})

    def start(self) -> list[Val]:
        """The accumulators at the beginning of the loop."""
        self.ev = NestEval(self.low, self.n)
        kind = Accumulators if self.exact else _accumulators(self.low, self.n, self.windows)
        acc = self.acc = kind(self.low, self.n, self.ev, self.combine)
        start = [acc.identity() for _ in acc.keys]
        self.apart = acc.partial or bool(self.low.sched.shared_by(self.n.reduce_axes))
        if self.straddled and not self.apart:
            assert self.array is not None
            start = [acc.old(self.array, k, () if self.cleared else self.straddled) for k in acc.live]
        return start

    def run(self) -> list[Val]:
        """What the accumulators become without a loop."""
        start = self.start()
        return self.acc.run((), start, False)

    def finish(self, final: list[Val]) -> None:
        """What becomes of the accumulators after the loop."""
        low, n, ev, acc, array = self.low, self.n, self.ev, self.acc, self.array
        results = across_threads(low, n, acc.finish(final), self.combine)
        if self.straddled and self.apart:
            assert array is not None
            results = {k: low.b.op(self.combine, acc.old(array, k, () if self.cleared else self.straddled), v) for k, v in results.items()}
        if array is None:
            store = Registers([p for p in ev.regs if p.axis in n.axes], acc.lane, ev.width if acc.lane else 1, results)
            if isinstance(acc, WindowExtremes) and acc.supposed:
                store.supposed, store.again = acc.supposed, lambda: _again(low, n)
            low.storage.values[n.name] = store
            if self.close is not None:
                self.close()
        else:
            acc.write(array, results)

    def keep(self) -> None:
        """After all loops: the value is in its array."""
        if self.array is not None:
            self.low.storage.values[self.n.name] = self.array


def _again(low: Lowering, n: Nest) -> None:
    """A reduction without loops once more, with nothing supposed."""
    found = _Reduction(low, n, (), exact=True)
    found.finish(found.run())
