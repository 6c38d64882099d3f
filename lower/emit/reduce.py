"""Emits reductions: accumulators in registers, independent partials, and tiles of accumulators in memory.

Where a reduce loop runs outside a spatial one (straddling), inner parts accumulate in registers and are added to a tile
kept in scratch, or in the output itself when nothing else is done to it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from itertools import accumulate, pairwise
from math import prod

from ...ir.body import Scan, identity
from ...ir.dtypes import int32
from ...ir.node import Node
from ...opts.addition_order import cuts, order_of
from ...opts.axis_plan import Part
from ...opts.nests import Nest
from ...program.program import Number, Val
from ..access.fragments import TensorAccumulators, WarpgroupAccumulators
from ..expr import NestEval
from ..lowering import Lowering
from ..pieces import Piece
from ..storage import Array, Assignment, Key, Registers
from . import addition_chains, scaled_dots
from .accumulators import Accumulators
from .addition_chains import ShortChains, Sizes
from .fast_path import step_with_fast_path
from .nest_loops import carry, pieces_of_any, through
from .output_storage import alias, prepare_fills
from .partial_results import across_threads
from .stores import store_point
from .window_extremes import WindowExtremes, suits


class IndexAccumulators(Accumulators):
    """Indices, one for each accumulator of the extreme `of`. A later element takes the place only where it is better than what was
    there, so of equals the first stays; what is no number never is."""

    def __init__(self, low: Lowering, n: Nest, ev: NestEval, combine: str) -> None:
        super().__init__(low, n, ev, combine)
        self.place = low.sched.places[n.name]
        self.of: Accumulators | None = None
        self.before: Val | None = None
        """The extreme's accumulator before the step."""
        target = low.sched.target
        self.larger = self.dtype is int32 and not target.keeps_nan and not target.selects_at_once
        """Whether a later index is taken as the larger one. Of vectors that is less work than a selection of several steps."""

    def none(self) -> Number:
        """The first index: it stays where no element is better than none."""
        return 0

    def step(self, acc: Val, asg: Assignment) -> Val:
        """The index after one more element."""
        b, of = self.low.b, self.of
        assert of is not None and self.before is not None
        x = of.ev.value(of.n.expr, asg)
        better = b.op("lt", self.before, x) if of.combine == "max" else b.op("lt", x, self.before)
        for m in (self.ev.value(m, asg) for m in self.masks):
            better = b.op("and", better, m)
        at = self.ev.value(self.n.expr, asg)
        if not self.larger:
            return b.op("select", better, at, acc, dtype=self.dtype)
        if "avx512" in self.low.sched.target.features:
            return b.op("select", better, b.op("max", acc, at), acc, dtype=self.dtype)
        return b.op("max", acc, b.op("select", better, at, b.const(0, self.dtype), dtype=self.dtype))

    def finish(self, accs: list[Val]) -> dict[Key, Val]:
        """The first of the partial results that reached the extreme; the first of all where nothing is better than none."""
        b, of, n = self.low.b, self.of, len(self.partials)
        if any(a.arg.extent == 0 for a in self.n.reduce_axes):
            return super().finish(accs)
        assert of is not None
        extremes, none = of.finish(of.final), b.const(self.place.none, self.dtype)
        reached: list[Val] = []
        for i, s in enumerate(self.live):
            best = extremes[tuple((p.name, s[p.name]) for p in self.space)]
            mine = zip(of.final[i * n : (i + 1) * n], accs[i * n : (i + 1) * n], strict=True)
            reached += [b.op("select", b.op("eq", extreme, best), acc, none, dtype=self.dtype) for extreme, acc in mine]
        out = super().finish(reached)
        worst = b.const(identity(of.combine, of.dtype).arg, of.dtype)
        first = b.const(0, self.dtype)
        return {k: b.op("select", b.op("eq", extremes[k], worst), first, v, dtype=self.dtype) for k, v in out.items()}


def of_extremes(each: Sequence[Accumulators]) -> None:
    """Tell the places among the accumulators of one loop which ones are their extremes'."""
    for a in each:
        if isinstance(a, IndexAccumulators):
            a.of = next(m for m in each if m.n.name == a.place.extreme)


def run_together(
    low: Lowering,
    each: Sequence[Accumulators],
    loops: Sequence[Part],
    starts: Sequence[list[Val]],
    empty: bool,
    stores: Sequence[Nest] = (),
) -> list[list[Val]]:
    """Accumulate several reductions through the same loops: for each element all of them, so that what they have in common is used at
    once; places before their extremes, which they compare with; and last what is stored at these points."""
    of_extremes(each)
    if empty:
        return list(starts)
    starts = [[*s, *a.more_carried(loops)] for a, s in zip(each, starts, strict=True)]
    ends = list(accumulate((len(s) for s in starts), initial=0))
    first = dict(zip(each, ends, strict=False))
    cut = next((a.chains for a in each if a.chains is not None), None)
    if cut is not None:
        begun = [[*a.begun(), *(None for _ in s[len(a.keys) :])] for a, s in zip(each, starts, strict=True)]
        cut = replace(cut, starts=[v for b in begun for v in b], combines=[a.combine for a, b in zip(each, begun, strict=True) for _ in b])
    members = sorted(each, key=lambda a: not isinstance(a, IndexAccumulators))

    def steps(carried: list[Val]) -> list[Val]:
        accs = list(carried)
        for a, (lo, hi) in zip(each, pairwise(ends), strict=True):
            a.begin(carried[lo:hi])
        for u in each[0].ev.assignments(each[0].unrolled):
            for i in range(max(len(a.keys) for a in each)):
                for a in members:
                    if i < len(a.keys):
                        if isinstance(a, IndexAccumulators) and a.of is not None:
                            a.before = accs[first[a.of] + i]
                        s, p = a.keys[i]
                        accs[first[a] + i] = a.step(accs[first[a] + i], {**s, **p, **u})
        for n in stores:
            store_point(low, n, in_step=True)
        return [v for a, (lo, hi) in zip(each, pairwise(ends), strict=True) for v in a.noted(accs[lo:hi])]

    def quick(carried: list[Val]) -> list[Val]:
        return step_with_fast_path(low, stores, lambda: steps(carried)) if stores else steps(carried)

    final = carry(low, loops, [v for s in starts for v in s], quick, cut)
    for a, (lo, hi) in zip(each, pairwise(ends), strict=True):
        a.final = a.ended(final[lo:hi])
    return [a.final for a in each]


BLOCKS = 16
"""Blocks of a reduction from which its array is cleared before the first."""


def _accumulators(low: Lowering, n: Nest, windows: bool = True) -> type[Accumulators]:
    if n.name in low.sched.places:
        return IndexAccumulators
    t = low.sched.tensors.get(n.name)
    if t is None and (scaled := scaled_dots.accumulators_of(low, n)) is not None:
        return scaled
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
    cut = _short_chains(low, each, inner, straddled)

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

    def at_places(run: Callable[[_Reduction], None], of: Sequence[_Reduction], at: int) -> None:
        def here() -> None:
            for r in of:
                run(r)

        if of:
            with low.within(nests=()):  # what is cleared or added up reads nothing: no tile is filled in these loops
                through(low, [p for p, r in zip(outer[at:], reducing[at:]) if not r], here)

    def straddling(at: int, level: int) -> None:
        """The loops from one on, added up in the arrays of a level."""
        if at == len(outer):
            body()
            return
        for piece in low.versions(pieces_of_any(low, outer[at])):
            in_blocks(at, piece, cut.get(outer[at].name, ()), level)

    def in_blocks(at: int, piece: Piece, sizes: Sizes, level: int) -> None:
        if sizes and sizes[0] > 1 and piece.at is None:
            with addition_chains.blocks(low, outer[at], sizes[0], piece) as (_, some):
                in_blocks(at, some, sizes[1:], level + 1)
                at_places(partial(_Reduction.flush, level=level), [r for r in each if r.arrays], at + 1)
            return
        with low.open(outer[at], piece=piece):
            straddling(at + 1, level + len(sizes))
            for below in reversed(range(level, level + len(sizes))):
                at_places(partial(_Reduction.flush, level=below), [r for r in each if r.arrays], at + 1)

    def blocks() -> None:
        at_places(_Reduction.clear, [r for r in each if r.cleared], first)
        straddling(first, 0)

    through(low, outer[:first], blocks)
    for r in each:
        r.keep()


def _short_chains(low: Lowering, each: Sequence[_Reduction], inner: Sequence[Part], straddled: Sequence[Part]) -> dict[str, Sizes]:
    """Cut the reduce loops `inner` of some reductions so that chains of additions are short; and, by name of the loops `straddled`, the blocks
    after which arrays are added to others."""
    fixed = [r for r in each if order_of(r.n) is not None]
    for r in fixed:
        found = cuts(low.sched, r.n)
        r.chains, r.anew = addition_chains.fixed_chains(low, inner, found), found.anew
    summed = [r for r in each if r.most is not None and r not in fixed]
    if not summed:
        return {}
    most = min(r.most for r in summed if r.most is not None)
    around = prod(map(addition_chains.trips, straddled))
    chains = addition_chains.chains(low, inner, max(r.steps for r in summed), most, around)
    for r in summed:
        r.chains = chains
    if not straddled or around * chains.steps <= most.alone:
        return {}
    cut = {}
    if low.sched.group == 1:
        sizes = addition_chains.chains(low, straddled, 1, most.above()).sizes
        cut = dict(zip((p.name for p in straddled), sizes))
    for r in summed:
        r.anew = True
        r.take(sum(map(len, cut.values())))
    return cut


class _Reduction:
    """A reduction of a loop. `straddled`: its reduce loops outside a spatial one; `exact`: nothing is supposed of elements;
    `windows`: what windows have in common may be done once; `cleared`: its array holds what accumulators begin with, before the first block;
    `chains`: how its loops are cut; `anew`: accumulators begin with nothing in each block; `arrays`: those of the chains of blocks, inside its own."""

    acc: Accumulators
    cleared = False
    chains: ShortChains | None = None
    anew = False

    def __init__(self, low: Lowering, n: Nest, straddled: Sequence[Part], exact: bool = False, windows: bool = True) -> None:
        assert n.value is not None and not isinstance(n.value.expr, (Node, Scan))
        self.low, self.n, self.straddled, self.combine = low, n, straddled, n.value.expr.combine
        self.exact, self.windows = exact, windows
        closing = low.scope.closing.get(n.name)
        self.close = closing.close(n) if closing and not straddled and n.name not in low.storage.reserved else None
        in_registers = self.close is not None or n.name in low.sched.tree.registers
        self.array = None if in_registers else low.storage.reserved.get(n.name) or alias(low, n) or low.array(n.value, n.axes)
        self.arrays: list[Array] = []
        self.most = None if exact else addition_chains.longest(low, n, self.combine)
        self.steps = addition_chains.copies(low, n, "unroll")

    def take(self, count: int) -> None:
        """Room for chains of blocks."""
        assert self.n.value is not None
        self.arrays = [self.low.array(self.n.value, self.n.axes) for _ in range(count)]

    def clears(self) -> bool:
        """Whether its array is cleared before: blocks then need not ask whether they are the first, where there are many."""
        low = self.low
        if self.arrays:
            return True
        if self.array is None or low.sched.target.groups or self.n.name in low.sched.tensors:
            return False
        return all(isinstance(p.size, int) for p in self.straddled) and prod(p.trips for p in self.straddled) >= BLOCKS

    def clear(self) -> None:
        """Fill its arrays with what accumulators begin with, for the registers' part under the loops that are open."""
        acc = self._accumulators()
        assert self.array is not None
        for array in (self.array, *self.arrays):
            acc.write(array, self._nothing(acc))

    def flush(self, level: int) -> None:
        """Add the array inside a level to that of the level, and clear it."""
        acc, b = self._accumulators(), self.low.b
        assert self.array is not None
        outer, inner = (self.array, *self.arrays)[level : level + 2]
        nothing = self._nothing(acc)
        acc.write(outer, {k: b.op("add", acc.old(outer, k, ()), acc.old(inner, k, ())) for k in nothing})
        acc.write(inner, nothing)

    def _accumulators(self) -> Accumulators:
        return _accumulators(self.low, self.n, self.windows)(self.low, self.n, NestEval(self.low, self.n), self.combine)

    def _nothing(self, acc: Accumulators) -> dict[Key, Val]:
        """What each accumulator begins with, copies past the extent too: their places are read in whole vectors, and added to."""
        none = self.low.b.const(acc.none(), acc.dtype, acc.ev.width if acc.lane is not None else 1)
        return {tuple((p.name, s[p.name]) for p in acc.space): none for s in acc.spatial}

    def start(self) -> list[Val]:
        """The accumulators at the beginning of the loop."""
        self.ev = NestEval(self.low, self.n)
        kind = Accumulators if self.exact else _accumulators(self.low, self.n, self.windows)
        acc = self.acc = kind(self.low, self.n, self.ev, self.combine)
        start = [acc.identity() for _ in acc.keys]
        acc.chains = self.chains
        self.apart = acc.partial or self.anew or bool(self.low.sched.shared_by(self.n.reduce_axes))
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
        low, n, ev, acc = self.low, self.n, self.ev, self.acc
        array = self.arrays[-1] if self.arrays else self.array
        results = across_threads(low, n, acc.finish(final), self.combine)
        if self.straddled and self.apart:
            assert array is not None
            results = {k: low.b.op(self.combine, acc.old(array, k, () if self.cleared else self.straddled), v) for k, v in results.items()}
        if array is None:
            store = Registers([p for p in ev.regs if p.axis in n.axes], acc.lane, ev.width if acc.lane else 1, results)
            if isinstance(acc, WindowExtremes) and acc.supposed:
                store.supposed, store.again = acc.supposed, lambda: _reduce_exactly(low, n)
            low.storage.values[n.name] = store
            if self.close is not None:
                self.close()
        else:
            acc.write(array, results)

    def keep(self) -> None:
        """Store the value into its array, after all loops."""
        if self.array is not None:
            self.low.storage.values[self.n.name] = self.array


def _reduce_exactly(low: Lowering, n: Nest) -> None:
    """A reduction without loops once more, with nothing supposed."""
    found = _Reduction(low, n, (), exact=True)
    found.finish(found.run())
