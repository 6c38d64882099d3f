"""The accumulators of an extreme's place (`opts.analysis.places`): the first index at which the extreme was reached, beside the extreme itself."""

from __future__ import annotations

from collections.abc import Sequence

from ...ir.dtypes import int32
from ...opts.nests import Nest, identity
from ...program.program import Number, Val
from ..expr import NestEval
from ..lowering import Lowering
from ..storage import Assignment, Key
from .accumulators import Accumulators


class PlaceAccumulators(Accumulators):
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
        """Of the partial results that reached the extreme the first; where nothing is better than none, the first of all."""
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
        if isinstance(a, PlaceAccumulators):
            a.of = next(m for m in each if m.n.name == a.place.extreme)
