"""Minima and maxima on processors whose instruction does not hand on NaN.

`max` of a Program is NaN where an operand is. x86's instruction gives its second operand there. Networks of extremes (sorting
networks, medians, small windows) hand NaN through to the end. So the network is computed by the one instruction a step, its inputs
are tested two at a time, and the result is chosen once."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from ...ir.dtypes import DType, bool_, float32, int32, int64, uint32
from ...ir.node import Node, pending
from ...program.builder import Builder
from ...program.program import Val
from ...targets import Target

_EXTREMES = ("max", "min")


def network(b: Builder, node: Node, value: Callable[[Node], Val]) -> Val | None:
    """The minimum or maximum `node` of others, in vectors; None where it is of two numbers, or one step alone can be wrong.
    `value` evaluates operands."""
    if not node.dtype.is_float or node.dtype.narrow or "sse41" not in b.features:
        return None
    order, inputs = _extremes_and_operands(node)
    if sum(not any(_is_number(s) for s in n.src) for n in order) < 2:
        return None
    found = {n: value(n) for n in inputs}
    lanes = max(v.lanes for v in found.values())
    if lanes == 1:
        return None
    for n in order:
        x, y = (found[s] for s in n.src)
        better = b.op("lt", x, y) if n.op == "max" else b.op("lt", y, x)
        found[n] = b.op("select", better, y, x, dtype=n.dtype)
    first = node  # each step gives its first operand where one is NaN: that of all first operands needs no test
    while first.op in _EXTREMES:
        first = first.src[0]
    unsure = list(dict.fromkeys(found[n] for n in inputs if n is not first and not _is_number(n)))
    other: Val | None = None
    for one, two in zip(unsure[::2], [*unsure[1::2], *unsure[-1:]]):
        some = b.op("or", b.op("ne", one, one), b.op("ne", two, two))
        other = some if other is None else b.op("or", other, some)
    return found[node] if other is None else unless(b, b.splat(other, lanes), found[node])


def unless(b: Builder, other: Val, x: Val) -> Val:
    """Vectors of floats `x`, and no number where `other` holds: all ones are none."""
    if "avx512" in b.features:
        return b.op("select", other, b.const(math.nan, x.dtype), x, dtype=x.dtype)
    bits = int64 if x.dtype.size == 8 else int32
    ones = b.op("select", other, b.const(-1, bits), b.const(0, bits), dtype=bits)
    return b.op("bitcast", b.op("or", b.op("bitcast", x, dtype=bits), ones), dtype=x.dtype)


def _extremes_and_operands(node: Node) -> tuple[list[Node], dict[Node, None]]:
    """The extremes from `node` down, operands first, and what goes into them."""
    order: dict[Node, None] = {}
    inputs: dict[Node, None] = {}

    def known(n: Node) -> bool:
        if n.op not in _EXTREMES:
            inputs[n] = None
        return n in order or n in inputs

    for n in pending(node, known):
        order[n] = None
    return list(order), inputs


def _is_number(n: Node) -> bool:
    """Whether a value is a number for certain."""
    if n.op == "const":
        return not math.isnan(n.arg)
    return n.op == "cast" and not n.src[0].dtype.is_float


# accumulators of extremes ---------------------------------------------------------------------------------------------
# A step of an accumulator would need a test and a selection more, on its chain. Here an accumulator takes an element
# only where that compares as better, which is the one instruction. NaN never does; it is noted, and put into the
# accumulator after the loops.
#
# Two elements take one test, and notes are joined by a logical operation, which has more units than a comparison.
# Where comparisons keep the adders busy (`Target.compares_in_adders`), float32 is noted by whole numbers: the largest
# of the elements' bits without their signs, since NaN has larger ones than all numbers.
#
# The largest of sizes (|x|) of float32 needs no notes: whole numbers compare their bits, which are in the same order,
# those of NaN above all, and those of -inf, with which an accumulator begins, below.


_INFINITE = 0xFF000000
"""The bits of an infinite float32 without its sign, shifted to the left."""


def bits_of(b: Builder, v: Val) -> Val:
    """A float32's bits as a whole number."""
    return b.op("bitcast", v, dtype=int32)


class NumbersOnly:
    """What is noted for the results of a reduction. `results`: how many there are, each with an accumulator for each partial result;
    `width`: elements in a vector, or 1."""

    def __init__(self, b: Builder, target: Target, combine: str, dtype: DType, results: int, width: int) -> None:
        self.b, self.combine, self.dtype, self.results, self.width = b, combine, dtype, results, width
        # truths of vectors have registers of their own with AVX-512; elsewhere they are vectors as wide as the elements
        self.masks = "avx512" in target.features and target.lang == "llvm"
        self.whole = not self.masks and dtype is float32 and target.compares_in_adders
        self._bits = uint32 if self.whole else int64 if dtype.size == 8 else int32
        self._seen: list[Val | None] = []
        self._noted: list[Val] = []

    def begin(self, noted: Sequence[Val]) -> None:
        """Before the steps of an iteration, to which that was carried."""
        self._seen, self._noted = [None] * self.results, list(noted)

    def start(self) -> list[Val]:
        """What is carried beside the accumulators, before the loops: all were numbers."""
        first = self.b.const(True, bool_, self.width) if self.masks else self.b.const(0, self._bits, self.width)
        return [first] * self.results

    def step(self, result: int, acc: Val, x: Val) -> Val:
        """The accumulator of one of the results after an element."""
        b, waiting = self.b, self._seen[result]
        if self.whole:
            shifted = b.op("add", *[b.op("bitcast", x, dtype=uint32)] * 2)  # the sign is gone
            self._noted[result] = b.op("max", self._noted[result], shifted)
        elif waiting is None:
            self._seen[result] = x
        else:
            self._pair(result, waiting, x)
        better = b.op("lt", acc, x) if self.combine == "max" else b.op("lt", x, acc)
        return b.op("select", better, x, acc, dtype=self.dtype)

    def _pair(self, result: int, first: Val, second: Val) -> None:
        """Note two elements by one test."""
        b, before = self.b, self._noted[result]
        self._seen[result] = None
        if self.masks:
            both = b.op("and", b.op("eq", first, first), b.op("eq", second, second))
            self._noted[result] = b.op("and", before, both)
            return
        alone = first is second  # (all ones are no number either: one test does for it and for those before)
        two = b.op("bitcast", before, dtype=self.dtype) if alone else second
        other = b.op("or", b.op("ne", first, first), b.op("ne", two, two))
        ones = b.op("select", other, b.const(-1, self._bits), b.const(0, self._bits), dtype=self._bits)
        self._noted[result] = ones if alone else b.op("or", before, ones)

    def carried(self) -> list[Val]:
        """What is carried beside the accumulators, after the steps of an iteration."""
        for result, waiting in enumerate(self._seen):
            if waiting is not None:
                self._pair(result, waiting, waiting)
        return self._noted

    def finish(self, accs: Sequence[Val], noted: Sequence[Val], partials: int) -> list[Val]:
        """The accumulators after the loops: the first partial result of a result is NaN where any of its elements was."""
        b, out = self.b, list(accs)
        for i, flag in enumerate(noted):
            if self.masks:
                other = b.op("not", flag)
            elif self.whole:
                other = b.op("lt", b.const(_INFINITE, uint32), flag)
            else:
                other = b.op("ne", flag, b.const(0, self._bits))
            out[i * partials] = unless(b, other, out[i * partials])
        return out
