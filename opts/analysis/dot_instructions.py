"""Which instruction could do a sum of products: a matrix instruction, or one that takes two neighbours at a time.

Start schedules, the roofline, the actions of a search, the rules of TC and `lower/passes/neighbour_sums.py` ask."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import permutations

from ...ir import index as ix
from ...ir.body import Reduce
from ...ir.buffer import load_parts
from ...ir.dtypes import DType, float32, int8, int16, int32, uint8
from ...ir.integer_ranges import value_range
from ...ir.kernel import Kernel
from ...ir.node import Node, axes_of, walk
from ...targets import Target, instructions
from ...targets.instructions import BY_NAME, Instruction
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
    if nest.expr.op != "mul" or any(x.op != "load" for x in loaded) or not target.language.instructions:
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


# scaled sums ----------------------------------------------------------------------------------------------------------
GROUP = 32
"""Products that one instruction adds in fours, for sums with a scale for each so many."""
GROUPED_ROWS = ("vpdpbusd256", "vpdpbusd256vl", "vpmaddwd256")
"""Instructions that do, the best first."""


@dataclass(frozen=True, slots=True)
class ScaledDot:
    """A sum of float(a · b) · scales, where `a` is `less` below what fits an unsigned byte, `b` is a load of signed bytes, and the scales are
    the same for GROUP neighbours along the lanes. (A weight's bits and its scale, by activations of eight bits and theirs.) The products
    of whole numbers are exact, so that they may be added before they are scaled."""

    row: Instruction
    a: Node
    less: int
    b: Node
    scales: tuple[Node, ...]


def scaled_dot(target: Target, nest: Nest, axis: Node) -> ScaledDot | None:
    """How a sum is one of these with its lanes along a reduced axis; None where it is not, or the target has no instruction for it."""
    made = nest.value.expr if nest.value is not None else None
    row = next((BY_NAME[r] for r in GROUPED_ROWS if BY_NAME[r].flag in target.features), None)
    if (
        row is None
        or not isinstance(made, Reduce)
        or made.combine != "add"
        or made.dtype is not float32
        or made.order is not None
        or not target.language.instructions
    ):
        return None
    factors = list(_factors(nest.expr))
    whole = [f for f in factors if f.op == "cast" and f.src[0].op == "mul" and f.src[0].dtype is int32]
    scales = tuple(f for f in factors if f not in whole)
    if len(whole) != 1 or not all(same_in_groups(x, axis, GROUP) for x in scales):
        return None
    for a, b in permutations(whole[0].src[0].src):
        found = _above(a)
        bytes_too = b.op == "cast" and b.src[0].op == "load" and b.src[0].dtype is int8 and axis in axes_of(b)
        if found is not None and bytes_too and all(load_parts(n)[2] is None for n in walk(a, b) if n.op == "load"):
            return ScaledDot(row, found[0], found[1], b.src[0], scales)
    return None


def scheduled_dot(s: Scheduled, nest: Nest, lane: Part | None) -> ScaledDot | None:
    """The same of a schedule: its lanes are whole groups, side by side in memory."""
    if lane is None or lane.axis not in nest.reduce_axes or lane.trips % GROUP or any(s.plans[a].masked for a in nest.reduce_axes):
        return None
    found = scaled_dot(s.target, nest, lane.axis)
    return found if found is not None and _consecutive(s, nest, found.b, lane) else None


@dataclass(frozen=True, slots=True)
class ScaledSum:
    """A sum of products of floats of which some, the scales, are the same for `size` neighbours along the lanes, and all of the others but one
    are whole numbers of few bits, so that products are far from overflowing, and from vanishing, before they are scaled."""

    size: int
    factors: tuple[Node, ...]
    scales: tuple[Node, ...]


def scaled_sum(nest: Nest, axis: Node, size: int) -> ScaledSum | None:
    """How a sum is one of these with its lanes along a reduced axis, in groups of `size`; None where it is not."""
    made = nest.value.expr if nest.value is not None else None
    if not isinstance(made, Reduce) or made.combine != "add" or made.order is not None or made.dtype is not float32:
        return None
    factors = list(_factors(nest.expr))
    scales = tuple(f for f in factors if same_in_groups(f, axis, size))
    rest = tuple(f for f in factors if f not in scales)
    few = sum(map(_few_bits, rest))
    if len(rest) < 2 or not any(axis in axes_of(x) for x in scales) or few < max(1, len(rest) - 1):
        return None
    return ScaledSum(size, rest, scales)


def scheduled_sum(s: Scheduled, nest: Nest, lane: Part | None, width: int) -> ScaledSum | None:
    """The same of a schedule: its lanes are whole groups."""
    if lane is None or lane.axis not in nest.reduce_axes or lane.trips % width or any(s.plans[a].masked for a in nest.reduce_axes):
        return None
    return scaled_sum(nest, lane.axis, lane.trips) if s.target.kind != "gpu" else None


def _few_bits(x: Node) -> bool:
    """Whether a float is a whole number of a byte, or one less a constant."""
    if x.op in ("add", "sub") and x.src[1].op == "const":
        return abs(x.src[1].arg) <= 1 << 8 and _few_bits(x.src[0])
    return x.op == "cast" and (x.src[0].dtype in (int8, uint8) or (x.src[0].dtype is int32 and _above(x.src[0]) is not None))


def _factors(x: Node) -> Iterator[Node]:
    if x.op == "mul" and x.dtype is float32:
        for y in x.src:
            yield from _factors(y)
    else:
        yield x


def same_in_groups(x: Node, axis: Node, size: int) -> bool:
    """Whether an expression is the same for `size` neighbours along an axis."""
    if x.op == "div" and x.src[0] is axis and x.arg % size == 0:
        return True
    return x is not axis and all(same_in_groups(y, axis, size) for y in x.src)


def _above(a: Node) -> tuple[Node, int] | None:
    """(what fits an unsigned byte, what is taken off it) for whole numbers; None where neither is known. Of a signed byte, the first is the
    number itself, with half its range to be added."""
    if a.op == "cast" and a.src[0].op == "load" and a.src[0].dtype is int8:
        return a, 128
    less = 0
    if a.op in ("add", "sub") and a.src[1].op == "const":
        a, less = a.src[0], int(a.src[1].arg) * (1 if a.op == "sub" else -1)
    return (a, less) if 0 <= less < 1 << 7 and most_of_byte(a) is not None else None


def most_of_byte(x: Node) -> int | None:
    """The largest that an expression can be which bytes hold on every step of the way; None where it is not of that kind."""
    if x.op == "cast" and x.src[0].op == "load" and x.src[0].dtype is uint8:
        return 255
    if x.op not in ("and", "or", "shr"):
        return None
    first = most_of_byte(x.src[0])
    if x.op == "shr":  # (a byte has no place for other counts)
        least, most = value_range(x.src[1])
        return first if least >= 0 and most < 8 else None
    if x.op == "and" and x.src[1].op == "const" and first is not None:
        return min(first, int(x.src[1].arg)) if x.src[1].arg >= 0 else None
    second = most_of_byte(x.src[1])
    return None if first is None or second is None else (1 << max(first, second).bit_length()) - 1


# neighbours -----------------------------------------------------------------------------------------------------------
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
