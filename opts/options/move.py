"""MOVE: a loop before another."""

from __future__ import annotations

from collections.abc import Iterator

from ...ir.errors import OptError
from ..builder import ScheduleBuilder
from ..neighbourhood import Neighbourhood
from ..opt import Opt, Opts, opt
from ..registry import Doc, Golden, Option
from .golden_shapes import MATMUL


def act(b: ScheduleBuilder, o: Opt) -> None:
    """Put a serial loop right before another."""
    before, names = str(o.fields["before"]), b.loop_names()
    for n in (o.on, before):
        if n not in names:
            raise OptError(f"{o}: no loop {n!r} (loops: {', '.join(sorted(names, key=b.order.index))})")
        if names[n].kind == "grid":
            raise OptError(f"{o}: {n} is a grid loop, which is outermost already")
    if o.on == before:
        raise OptError(f"{o}: a loop cannot move before itself")
    b.order.remove(o.on)
    b.order.insert(b.order.index(before), o.on)


def propose(near: Neighbourhood) -> Iterator[Opts]:
    """Each serial loop before each one around it that is of another axis."""
    found: dict[tuple[str, str], None] = {}
    for n in near.schedule.nests:
        loops = [p for p in near.schedule.loops(n) if p.kind == "serial"]
        for i, p in enumerate(loops):
            found.update(((p.name, q.name), None) for q in loops[:i] if q.axis is not p.axis)
    yield from ((opt("MOVE", name, before=before),) for name, before in found)


MOVE = Option(
    name="MOVE",
    letter="M",
    on="loop",
    arg={"before": str},
    short=(("<", "before"),),
    loop_fields=("before",),
    kind="serial",
    legend="move",
    docs=(
        Doc(
            "MOVE(loop, before=loop)",
            "Place a loop before another one. A reduce loop may go outside a spatial loop. Its partial sums then "
            "live in a tile of scratch memory, or in the output itself where that stores just this value.",
        ),
    ),
    golden={"move": Golden(*MATMUL, [["TILE", "k", 8], ["MOVE", "k", {"before": "m"}], ["UPCAST", "n", 16]])},
    act=act,
    propose=propose,
)
