"""Which instruction could do a sum of products: a matrix instruction, or one that takes two neighbours at a time.

Start schedules, the roofline, the actions of a search, the rules of TC and `lower/passes/neighbour_sums.py` ask."""

from __future__ import annotations

from dataclasses import dataclass

from ...ir import index as ix
from ...ir.body import Reduce
from ...ir.buffer import load_parts
from ...ir.dtypes import DType, int8, int16, int32, uint8
from ...ir.kernel import Kernel
from ...ir.node import Node, axes_of
from ...targets import Target, instructions
from ...targets.instructions import Instruction
from ..access import stride
from ..axis_plan import Part
from ..nests import Nest, flat, plain
from ..schedule import Scheduled
from .structure import extent


@dataclass(frozen=True, slots=True)
class Fit:
    """An instruction that could do a sum of products, along the reduce axis `k`: one along which the shared operand is consecutive,
    if there is one (`grouped`). `shifted`: its elements are moved into the unsigned range. `wide` names the input that has the lanes."""

    row: Instruction
    k: Node
    grouped: bool
    shifted: bool
    wide: str


def fitting(target: Target, nest: Nest, lane: Node) -> Fit | None:
    """The instruction of `target` for the sum of products `nest` with its lanes along `lane`."""
    loaded = [x.src[0] if x.op == "cast" else x for x in nest.expr.src]
    if nest.expr.op != "mul" or any(x.op != "load" for x in loaded) or target.lang not in ("llvm", "c"):
        return None
    if sum(lane in axes_of(*x.src) for x in loaded) != 1:
        return None
    a, b = loaded if lane in axes_of(*loaded[1].src) else reversed(loaded)
    both = [k for k in nest.reduce_axes if k in axes_of(*a.src) and k in axes_of(*b.src)]
    row = next((r for r in instructions.available(target) if shift_of(r, nest.expr.dtype, a.dtype, b.dtype) is not None), None)
    if row is None or not both:
        return None

    def grouped(k: Node) -> bool:
        return ix.parts(load_parts(a)[1][-1])[0].get(k) == 1

    k = max(both, key=lambda k: (grouped(k), extent(k)))
    return Fit(row, k, grouped(k), a.dtype is not row.a, load_parts(b)[0].name)


def at_once(kernel: Kernel, target: Target) -> dict[str, int]:
    """The most products that one lane adds in a step of any instruction that fits, for each sum of products that one fits."""
    found: dict[str, int] = {}
    for n in flat(plain(kernel)):
        for f in (fitting(target, n, lane) for lane in (n.axes if n.kind == "reduce" else ())):
            if f is not None:
                found[n.name] = max(found.get(n.name, 1), f.row.k // f.row.halves)
    return found


def shift_of(row: Instruction, c: DType, a: DType, b: DType) -> int | None:
    """What is added to the first operand so that its type is the row's; None where the types do not fit."""
    if c is not row.c or b is not row.b:
        return None
    if row.a.kind == "u" and a.kind == "i" and a.size == row.a.size:
        return 1 << (8 * a.size - 1)
    return 0 if a is row.a else None


def inner_loops(s: Scheduled, nest: Nest) -> list[Part]:
    """The reduce loops of a nest that run inside all its spatial ones: what its accumulators go through."""
    loops = s.loops(nest)
    last = max((i for i, p in enumerate(loops) if p.kind != "fold" and p.axis in nest.axes), default=-1)
    return loops[last + 1 :]


NARROW = (int8, uint8, int16)
"""Types whose numbers 16 signed bits hold."""


def factors(nest: Nest, target: Target) -> tuple[Node, Node] | None:
    """The loads of both factors, where a nest sums products of narrow integers in int32 and the target has the instruction."""
    made = nest.value.expr if nest.value is not None else None
    if not target.adds_neighbours or not isinstance(made, Reduce) or made.combine != "add" or made.dtype is not int32:
        return None
    if nest.expr.op != "mul":
        return None
    found = [n.src[0] for n in nest.expr.src if n.op == "cast" and n.src[0].op == "load" and n.src[0].dtype in NARROW]
    return (found[0], found[1]) if len(found) == 2 and all(load_parts(n)[2] is None for n in found) else None


def joined(s: Scheduled, nest: Nest, lane: Part | None, width: int) -> bool:
    """Whether a schedule's vectors of products lie along the reduction, and are joined in twos."""
    if lane is None or lane.axis not in nest.reduce_axes or lane.trips % (2 * width):
        return False
    found = factors(nest, s.target)
    return found is not None and all(_consecutive(s, nest, n, lane) for n in found)


def _consecutive(s: Scheduled, nest: Nest, load: Node, lane: Part) -> bool:
    buffer, indices, _ = load_parts(load)
    return stride(s, nest, buffer.name, indices, buffer.shape, lane) == 1
