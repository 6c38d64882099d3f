"""Staged operands of a warpgroup's products as boxes that TMA copies: which rectangles of the input make a tile, and how they lie.

Both operands lie in rows of 128 bytes with TMA's swizzle (`SharedOperand` of Programs), and a tile is as many boxes, one after another. Where
k is consecutive in the input, a row of a box holds 128 bytes of k of one m (or n); where m or n is, 128 bytes of it for one k."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from ...ir import index as ix
from ...ir.buffer import load_parts
from ...ir.dtypes import DType
from ...ir.errors import OptError
from ...ir.node import Node, const
from ..access import dense
from ..axis_plan import Part
from ..nests import Nest
from ..plans import StagePlan, TensorPlan
from ..schedule import Scheduled
from ..tensor_cores import factors

ROW = 128
"""Bytes of a row."""
ALIGN = 1024
"""Where the swizzle's pattern begins: bytes that tiles are multiples of."""
CHUNK = 16
"""Bytes of which addresses and pitches are multiples."""
MOST = 256
"""Elements of a box along a dimension at most."""


@dataclass(frozen=True, slots=True)
class BoxPlan:
    """A staged operand as boxes: `box` elements of the input along each of its dimensions, outermost first. `starts`: of each box, the
    first element along each dimension, over the loops around the tile. `across`: k counts rows. `rows`: rows of a box. `dim`: the dimension of m or n."""

    stage: StagePlan
    box: tuple[int, ...]
    starts: tuple[tuple[Node, ...], ...]
    across: bool
    rows: int
    dim: int

    @property
    def dtype(self) -> DType:
        """The type of the elements."""
        return self.stage.buffer.dtype

    @property
    def elements(self) -> int:
        """Elements of a box."""
        return prod(self.box)

    @property
    def bytes(self) -> int:
        """Bytes of a tile."""
        return len(self.starts) * self.elements * self.dtype.size

    def place(self, s: Scheduled, t: TensorPlan, axis: Node) -> Node:
        """The element at which a product's operand begins in the tile, over the parts of m (or n) and k outside the instruction."""
        row, out = ROW // self.dtype.size, const(0)
        for a in (axis, t.k):
            at = const(0)
            for p in outer_parts(s, a):
                at = at if p.loop else ix.add(at, p.var, p.stride)
            if (a is axis) == self.across:  # along the rows: box by box
                out = ix.add(ix.add(out, ix.floordiv(at, row), row * self.rows), ix.mod(at, row))
            else:
                out = ix.add(out, at, row)
        return out


def outer_parts(s: Scheduled, axis: Node) -> list[Part]:
    """The parts of an axis but for those inside one instruction."""
    plan = s.plans[axis]
    inside = {p.name for p in plan.parts[len(plan.parts) - len(plan.unit) :]} if plan.unit else set()
    return [p for p in plan.parts if p.name not in inside and p.kind != "dot"]


def in_registers(s: Scheduled, t: TensorPlan, nest: Nest) -> bool:
    """Whether the threads hold operand 'a' of a sum as fragments: it is computed, or an input that is not staged."""
    a = factors(nest.expr, t).a
    return a.op != "load" or load_parts(a)[0].name not in s.stages


def operand_boxes(s: Scheduled, t: TensorPlan, nest: Nest, operand: str) -> BoxPlan:
    """Operand 'a' or 'b' of a sum as boxes. OptError where TMA cannot copy it, or where it is not staged."""
    found = factors(nest.expr, t)
    expr, axis, dtype = (found.a, t.m, t.row.a) if operand == "a" else (found.b, t.n, t.row.b)
    if expr.op != "load" or expr.dtype is not dtype or found.conds:
        raise OptError(f"{t.what}: operand {operand} must be an input of type {dtype}, as it lies in memory")
    buffer, indices, _ = load_parts(expr)
    stage = s.stages.get(buffer.name)
    if stage is None or stage.depth < 2 or all(n is not nest for n in stage.nests):
        raise OptError(f"{t.what}: STAGE({buffer.name}) with depth=2 or more, where its warpgroups read it")
    what, row = f"STAGE({buffer.name})", ROW // dtype.size
    if buffer.dtype is not dtype or len(buffer.shape) > 5:
        raise OptError(f"{what}: TMA copies arrays of up to five dimensions, as they are")
    if len(stage.nests) > 1 or len({indices_of(s, n, buffer.name) for n in stage.nests}) != 1:
        raise OptError(f"{what}: what TMA copies is read by one sum, in one way")
    places = {a: next((d for d, i in enumerate(indices) if ix.parts(i)[0].get(a) == 1), None) for a in (axis, t.k)}
    x, k = places[axis], places[t.k]
    if x is None or k is None:
        raise OptError(f"{what}: it must be indexed by {axis.arg.name} and {t.k.arg.name} themselves")
    sizes = {d: extent for d, _, extent, _ in stage.box}
    starts = {d: start for d, start, _, _ in stage.box}
    if any(n > 1 for d, n in sizes.items() if d not in (x, k)):
        raise OptError(f"{what}: a tile runs over {axis.arg.name} and {t.k.arg.name} alone")
    last = len(indices) - 1
    across = x == last
    if not across and k != last:
        raise OptError(f"{what}: neither {axis.arg.name} nor {t.k.arg.name} is consecutive in it")
    if across and dtype.size != 2:
        raise OptError(f"{what}: {t.k.arg.name} must be consecutive in it; only elements of 16 bits are turned")
    inner, outer = (x, k) if across else (k, x)
    if sizes[inner] % row or sizes[inner] == 0 or sizes[outer] > MOST or sizes[outer] % 8:
        names = {x: axis.arg.name, k: t.k.arg.name}
        raise OptError(
            f"{what}: TMA copies rows of {ROW} bytes here: the tile must have a multiple of {row} of {names[inner]}, and of {names[outer]} a multiple "
            f"of 8 and at most {MOST}, not {sizes[x]} × {sizes[k]}"
        )
    if across and any(p.stride % row for p in outer_parts(s, axis) if not p.loop):
        raise OptError(f"{what}: each product must take a multiple of {row} of {axis.arg.name}")
    if s.plans[t.k].masked and (indices[k] is not t.k or buffer.shape[k] != t.k.arg.extent):
        raise OptError(f"{what}: it has elements past the end of {t.k.arg.name}")
    box = {d: 1 for d in range(len(indices))} | {inner: row, outer: sizes[outer]}
    pitch = next((p for p in dense(buffer.shape)[:-1] if isinstance(p, int) and p * dtype.size % CHUNK), None)
    if pitch is not None:
        raise OptError(
            f"{what}: TMA cannot address {buffer.name}: a pitch of {pitch * dtype.size} bytes is no multiple of {CHUNK}; use instructions of a "
            f"warp, whose operands threads copy"
        )
    boxes = [
        tuple(ix.add(starts[d], const(i * row)) if d == inner else starts[d] for d in range(len(indices)))
        for i in range(sizes[inner] // row)
    ]
    return BoxPlan(stage, tuple(box[d] for d in range(len(indices))), tuple(boxes), across, sizes[outer], x)


def indices_of(s: Scheduled, nest: Nest, buffer: str) -> tuple[tuple[Node, ...], ...]:
    """Every way in which a nest reads a buffer."""
    return tuple(dict.fromkeys(load_parts(n)[1] for n in nest.loads if load_parts(n)[0].name == buffer))
