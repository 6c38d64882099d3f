"""Helpers every nest emitter uses."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...opts.axis_plan import Part
from ...program.program import Val
from ..expr import NestEval
from ..lowering import Lowering
from ..triangles import begun, trimmed


def through(low: Lowering, loops: Sequence[Part], body: Callable[[], object]) -> None:
    """Run `body` inside loops over `loops`."""
    if not loops:
        body()
        return
    for piece in low.versions(begun(low, loops[0])):
        with low.open(loops[0], piece=piece):
            through(low, loops[1:], body)


def wide(ev: NestEval, v: Val) -> Val:
    """`v` in every lane, where the nest has lanes."""
    return ev.b.splat(v, ev.width) if ev.lane is not None else v


def carry(low: Lowering, loops: Sequence[Part], accs: list[Val], body: Callable[[list[Val]], list[Val]]) -> list[Val]:
    """Run `body` inside loops over `loops`, each carrying `accs`; what the last iteration yields."""
    if not loops:
        return body(accs)
    for piece in trimmed(low, loops[0], low.pieces(loops[0])):
        with low.open(loops[0], accs, piece) as loop:
            loop.yields = carry(low, loops[1:], loop.carried, body)
        accs = loop.results
    return accs
