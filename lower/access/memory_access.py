"""Loads and stores of a nest: consecutive, strided, transposed in registers, or gathered; masked where points may not exist."""

from __future__ import annotations

from collections.abc import Sequence

from ...ir import index as ix
from ...ir.errors import OptError
from ...ir.node import Node, axes_of, const
from ...program.program import Mem, Val
from ..storage import Array, Assignment
from .beside import masked_load
from .bounds import Bounds
from .known_lanes import known_lanes
from .strided import strided_read
from .transpose import transposed_read
from .turned import turned_read


class MemoryAccess(Bounds):
    """The part of a NestEval that reads and writes memory."""

    def read(
        self,
        mem: Mem,
        address: Node,
        asg: Assignment,
        mask: Val | None = None,
        invariant: bool = False,
        kept: Array | None = None,
        alone: Val | None = None,
    ) -> Val:
        """Load at an element index over parts; `kept`: where a value of the kernel's is kept; `alone`: a condition for all lanes of a mask
        of many."""
        guarded = mask is not None
        known = None if mask is None else self.b.truth(mask)
        if mask is not None and known is not None:
            if not known:
                return self.b.const(0, mem.dtype, mask.lanes)
            mask = None
        # (what is turned is read for other copies too, whose elements need not be there where this one's is known to be)
        if not guarded and self.lane is not None and self.lane.var in axes_of(*(t for t, _ in self.split_of(address)[4])):
            columns = transposed_read(self, mem, address, asg, invariant)
            if columns is not None:
                return columns
        picked = known_lanes(self, mem, address, asg, mask, invariant, kept)
        if picked is not None:
            return picked
        base, c, lane, vec = self.split(address, asg)
        b = self.b
        if lane in (0, 1) and (vec is None or (lane and vec.lanes == 1)):
            lanes = self.width if lane else 1
            if mask is not None and mask.lanes not in (1, lanes):  # one address under a vector mask: a gather of equal lanes
                at = b.splat(self.low.scalar(ix.add(base, const(c))), self.width)
                return b.gather(mem, at, mask, invariant)
            if mask is not None and lanes > 1:
                return masked_load(self, mem, base, c, vec, lanes, (mask, mask if mask.lanes == 1 else alone), invariant)
            if vec is not None:
                return b.load(mem, b.op("add", self.low.scalar(ix.add(base, const(c))), vec), lanes, mask, invariant)
            return b.load(self.low.at(mem, base, c, lanes), self.low.scalar(base), lanes, mask, invariant)
        if vec is None and lane is not None and (mask is None or not self._kept(mem)):
            picked = strided_read(self, mem, base, c, lane, invariant, mask)
            if picked is not None:
                return picked
        columns = transposed_read(self, mem, address, asg, invariant) if vec is None and not guarded else None
        if columns is None and vec is None and lane is not None:
            columns = turned_read(self, mem, base, c, lane, invariant, mask)
        if columns is not None:
            return columns
        if not lane and (vec is None or vec.lanes == 1):
            at = self.join(self.low.scalar(ix.add(base, const(c))), 0, vec)
            if mask is not None and mask.lanes > 1:
                return b.gather(mem, b.splat(at, self.width), mask, invariant)
            return b.load(mem, at, 1, mask, invariant)
        # (elements side by side have one index then, and are known to lie so)
        at = self.join(self.low.scalar(base), lane, vec)
        if mask is not None:
            mask = b.splat(mask, at.lanes)
        return b.gather(self.low.at(mem, base, c, 1), at, mask, invariant)

    def _kept(self, mem: Mem) -> bool:
        """Whether a read is of what is kept in an output, where elements beside those that are wanted may not be written yet."""
        buffer = self.low.ctx.buffer(mem)
        return buffer is not None and buffer.role == "out"

    def holding(self, conds: Sequence[Node], asg: Assignment) -> tuple[Val | None, Val | None] | None:
        """Where every condition holds: a scalar and a vector, each None where nothing is left to ask; None where one of the
        conditions is known to be false."""
        b = self.b
        scalar, mask = None, None
        for m in [self.value(n, asg) for n in conds if n.op != "const" or not n.arg]:
            known = b.truth(m)
            if known is False:
                return None
            if known:
                continue
            if m.lanes > 1:
                mask = m if mask is None else b.op("and", mask, m)
            else:
                scalar = m if scalar is None else b.op("and", scalar, m)
        return scalar, mask

    def write(self, mem: Mem, address: Node, asg: Assignment, value: Val, conds: Sequence[Node] = ()) -> None:
        """Store at an element index over parts, where every condition holds."""
        b = self.b
        base, c, lane, vec = self.split(address, asg)
        there = self.holding(conds, asg)
        if there is None:
            return
        scalar, mask = there
        lanes = self.width if lane or (vec is not None and vec.lanes > 1) else 1
        if lanes > 1:
            value = b.splat(value, lanes)
            if scalar is not None and mask is None and self.low.ctx.branches:  # a masked store is slow without mask registers
                with b.when(scalar):
                    self.write(mem, address, asg, value)
                return
            if scalar is not None:
                wide = b.splat(scalar, lanes)
                mask = wide if mask is None else b.op("and", mask, wide)
            if lane == 1 and vec is None:
                b.store(self.low.at(mem, base, c, lanes), self.low.scalar(base), value, mask)
            elif lane == 1 and vec is not None and vec.lanes == 1:
                b.store(mem, b.op("add", self.low.scalar(ix.add(base, const(c))), vec), value, mask)
            else:
                b.store(mem, self.join(self.low.scalar(ix.add(base, const(c))), lane, vec), value, mask)
            return
        if mask is not None:  # one element of which lane, the mask says: the last of a scan's chunk
            mask = mask if scalar is None else b.op("and", mask, b.splat(scalar, mask.lanes))
            for i in range(mask.lanes):
                with b.when(b.extract(mask, i)):
                    b.store(mem, self.join(self.low.scalar(ix.add(base, const(c))), 0, vec), b.extract(value, i))
            return
        if value.lanes > 1:
            raise OptError(f"{self.nest.name}: lanes of {self.lane.name if self.lane else '?'} all write one element")
        at = self.join(self.low.scalar(ix.add(base, const(c))), 0, vec)
        if scalar is None:
            b.store(mem, at, value)
        else:
            with b.when(scalar):
                b.store(mem, at, value)
