"""Sums of products that the threads of a unit (a warp) make together by matrix instructions of tensor cores.

An accumulator is a *fragment*: the elements of one tile of the sum that a thread holds, as the instruction deals them out. When the
sum is finished, fragments are taken apart into what any accumulators are, one value for each assignment of the sum's register parts."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

from ...opts.nests import Nest
from ...opts.plans import TensorPlan
from ...opts.tensor_cores import factors
from ...program.program import Val
from ..access.fragments import Fragments, own_parts
from ..expr import NestEval
from ..lowering import Lowering
from ..storage import Assignment, Key
from .accumulators import Accumulators


class TensorAccumulators(Accumulators):
    """One fragment for each tile that a thread's unit makes."""

    def __init__(self, low: Lowering, n: Nest, ev: NestEval, combine: str) -> None:
        super().__init__(low, n, ev, combine)
        self.plan: TensorPlan = low.sched.tensors[n.name]
        self.inside = own_parts(low.sched.plans, self.plan, "c")
        self.live = ev.assignments([p for p in self.space if p not in self.inside])
        self.keys = [(s, {}) for s in self.live]
        self.operands()

    def operands(self) -> None:
        """Find the operands."""
        found = factors(self.n.expr, self.plan)
        self.a, self.b = (Fragments(self.low, self.n, self.plan, x, found) for x in "ab")

    def identity(self) -> Val:
        """A fragment of zeros."""
        return self.low.b.const(0, self.plan.row.c, self.plan.row.elements("c"))

    def _steps(self, accs: list[Val]) -> list[Val]:
        """One step of the innermost loop for every tile: operands are asked for before the instructions that use them."""
        self.a.reset()
        self.b.reset()
        accs, row = list(accs), self.plan.row.name
        for u in self.ev.assignments(self.unrolled):
            pairs = [(self.a.get({**s, **u}), self.b.get({**s, **u})) for s in self.live]
            accs = [self.low.b.mma(row, acc, x, y) for acc, (x, y) in zip(accs, pairs, strict=True)]
        return accs

    def finish(self, accs: list[Val]) -> dict[Key, Val]:
        """The elements of every fragment, by the assignments of the sum's register parts."""
        b, out = self.low.b, dict[Key, Val]()
        lanes = self.ev.width if self.lane is not None else 1
        for s, v in zip(self.live, accs, strict=True):
            for at, numbers in self._elements(lanes):
                one = b.extract(v, numbers[0]) if lanes == 1 else b.shuffle(v, v, numbers)
                asg = {**s, **at}
                out[tuple((p.name, asg[p.name]) for p in self.space)] = one
        return out

    def _elements(self, lanes: int) -> Sequence[tuple[Assignment, tuple[int, ...]]]:
        """Which elements of a fragment make one value, for each assignment of the parts inside it: it counts those with the last one
        varying fastest."""
        found: dict[Key, list[int]] = {}
        for i, at in enumerate(product(*(range(p.trips) for p in self.inside))):
            key = tuple((p.name, x // lanes if p is self.lane else x) for p, x in zip(self.inside, at, strict=True))
            found.setdefault(key, []).append(i)
        return [(dict(k), tuple(v)) for k, v in found.items()]
