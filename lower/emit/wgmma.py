"""Sums of products that warpgroups make from tiles in shared memory, by wgmma: all products of one filling of the tiles are begun, then
waited for together."""

from __future__ import annotations

from ...ir import index as ix
from ...ir.buffer import load_parts
from ...ir.node import Node, const
from ...ir.operators import substitute
from ...opts.tensor_cores import factors
from ...program import hopper_calls as hc
from ...program.hopper import WarpgroupProduct
from ...program.program import Val
from ..staged.boxes import operand
from ..storage import Assignment, Key
from .mma import TensorAccumulators


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
