"""Where in a loop a comparison of places holds: its first or its last iterations."""

from __future__ import annotations

from dataclasses import dataclass

from ..ir import index as ix
from ..ir.node import Node, const


@dataclass(frozen=True, slots=True)
class LoopLimit:
    """Where a condition holds at all, iterations [lo, hi), and where for all register copies: from `sure` on, or up to there.

    `begins`: it holds at the end of the loop, so that the limits are those of its beginning."""

    cond: Node
    begins: bool
    some: Node
    sure: Node


def solved(cond: Node, k: int, rest: tuple[Node, Node], least: int, most: int) -> LoopLimit:
    """The limit of k·p + rest + r < 0 (or <= 0) for iteration p, with r anywhere in [least, most]; `rest` is its smallest and its largest
    value for any of the register copies."""
    strict, (low, high) = int(cond.op == "lt"), rest
    if k < 0:
        some, sure = (ix.floordiv(ix.add(x, const(r - 1 + strict)), -k) for x, r in ((low, least), (high, most)))
    else:
        some, sure = (ix.floordiv(ix.add(ix.mul(x, const(-1)), const(-r - strict)), k) for x, r in ((low, least), (high, most)))
    return LoopLimit(cond, k < 0, ix.add(some, const(1)), ix.add(sure, const(1)))
