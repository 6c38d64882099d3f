"""Networks of extremes: minima and maxima of minima and maxima, as sorting networks, medians and small windows have them.

What is no number goes through all of them to the end. So on processors whose instruction drops it (`emit/numbers_only.py`), the
network is computed by that one instruction a step, what goes into it is tested, two elements at a time, and the result is chosen once."""

from __future__ import annotations

import math
from collections.abc import Callable

from ...ir.dtypes import int32, int64
from ...ir.node import Node, pending
from ...program.builder import Builder
from ...program.program import Val

_EXTREMES = ("max", "min")


def network(b: Builder, node: Node, value: Callable[[Node], Val]) -> Val | None:
    """The minimum or maximum `node` of others, in vectors; None where it is of two numbers, or one step alone can be wrong.
    `value` evaluates operands."""
    if not node.dtype.is_float or node.dtype.narrow or "sse41" not in b.features:
        return None
    order, inputs = _parts(node)
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
    unsure = list(dict.fromkeys(found[n] for n in inputs if not _is_number(n)))
    other: Val | None = None
    for one, two in zip(unsure[::2], [*unsure[1::2], *unsure[-1:]]):
        some = b.op("or", b.op("ne", one, one), b.op("ne", two, two))
        other = some if other is None else b.op("or", other, some)
    assert other is not None
    return unless(b, b.splat(other, lanes), found[node])


def unless(b: Builder, other: Val, x: Val) -> Val:
    """Vectors of floats `x`, and no number where `other` holds: all ones are none."""
    if "avx512" in b.features:
        return b.op("select", other, b.const(math.nan, x.dtype), x, dtype=x.dtype)
    bits = int64 if x.dtype.size == 8 else int32
    ones = b.op("select", other, b.const(-1, bits), b.const(0, bits), dtype=bits)
    return b.op("bitcast", b.op("or", b.op("bitcast", x, dtype=bits), ones), dtype=x.dtype)


def _parts(node: Node) -> tuple[list[Node], dict[Node, None]]:
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
