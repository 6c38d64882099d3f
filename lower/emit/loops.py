"""Helpers every nest emitter uses."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from ...ir import index as ix
from ...ir.node import Node, const
from ...opts.axis_plan import Part
from ...opts.nests import Nest
from ...program.program import Val
from ..expr import NestEval
from ..part_index import over_parts

if TYPE_CHECKING:
    from ..lowering import Lowering


def through(low: Lowering, loops: Sequence[Part], body: Callable[[], None]) -> None:
    """Run `body` inside loops over `loops`."""
    if not loops:
        body()
        return
    for piece in low.versions(low.pieces(loops[0])):
        with low.open(loops[0], piece=piece):
            through(low, loops[1:], body)


def wide(ev: NestEval, v: Val) -> Val:
    """`v` in every lane, where the nest has lanes."""
    return ev.b.splat(v, ev.width) if ev.lane is not None else v


def address(low: Lowering, buffer: str, indices: tuple[Node, ...]) -> Node:
    """The element of a buffer at these indices, over parts."""
    found = const(0)
    for i, stride in zip(indices, low.strides[buffer]):
        at = over_parts(i, low.axis_index)
        found = ix.add(found, at, stride) if isinstance(stride, int) else ix.add(found, ix.mul(at, stride))
    return found


def identity_reads(low: Lowering, n: Nest) -> bool:
    """Whether every reader uses the value at exactly its own axes (so it can stay in registers)."""
    if n.name in low.forced:
        return False
    return all(src == n.axes for _, src in low.reads.get(n.name, ()))
