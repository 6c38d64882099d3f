"""Sums of products by tensor cores: accumulators are fragments of matrix instructions."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

from ...ir import index as ix
from ...ir.buffer import load_parts
from ...ir.node import Node, const
from ...ir.operators import substitute
from ...opts.nests import Nest
from ...opts.plans import TensorPlan
from ...opts.tensor_cores import factors
from ...program import hopper_calls as hc
from ...program.hopper import WarpgroupProduct
from ...program.program import Val
from ..access.fragments import Fragments, own_parts
from ..expr import NestEval
from ..lowering import Lowering
from ..staged.warp_roles import operand
from ..storage import Assignment, Key
from .accumulators import Accumulators

# warps ----------------------------------------------------------------------------------------------------------------
# An accumulator is a *fragment*: the elements of one tile of the sum that a thread holds, as the instruction deals
# them out. A finished fragment is taken apart into one value for each assignment of the sum's register parts.


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


class WarpgroupAccumulators(TensorAccumulators):
    """One fragment of 64 rows for each tile that a thread's warpgroup makes."""

    def operands(self) -> None:
        """Find the operands' slots in shared memory."""
        low, found = self.low, factors(self.n.expr, self.plan)
        assert low.boxes is not None
        self.boxes = [low.boxes.boxes[load_parts(x)[0].name] for x in (found.a, found.b)]
        places = zip(self.boxes, (self.plan.m, self.plan.n), strict=True)
        self.places = [ix.add(p.stage.offset, p.place(low.sched, self.plan, axis)) for p, axis in places]
        bases = [low.storage.panels[p.stage.buffer.name].base for p in self.boxes]
        self.product = WarpgroupProduct(self.plan.row.name, operand(self.boxes[1], bases[1]), operand(self.boxes[0], bases[0]))

    def _steps(self, accs: list[Val]) -> list[Val]:
        b, accs = self.low.b, list(accs)
        hc.fence(b)
        for u in self.ev.assignments(self.unrolled):
            for i, s in enumerate(self.live):
                a, at = (self._at(place, {**s, **u}) for place in self.places)
                accs[i] = hc.product(b, self.product, accs[i], a, at)
        hc.commit(b)
        hc.finish(b)
        return accs

    def _at(self, place: Node, asg: Assignment) -> Val:
        known = {p.var: const(asg[p.name]) for p in self.ev.regs if p.name in asg}
        return self.low.scalar(substitute(place, known))

    def finish(self, accs: list[Val]) -> dict[Key, Val]:
        """The elements of every fragment, once the products are done."""
        return super().finish([hc.result(self.low.b, v) for v in accs])
