"""UNROLL: steps of a reduction spelled out, into the same accumulators."""

from __future__ import annotations

from collections.abc import Iterator

from ...ir.errors import OptError
from ..analysis.structure import extent
from ..builder import ScheduleBuilder
from ..neighbourhood import Neighbourhood
from ..opt import Opt, Opts, opt
from ..registry import Doc, Golden, Option
from .golden_shapes import MATMUL

STEPS = (2, 4, 8)
SHORT = 16
"""Steps of a window, or of a short row, that may all be spelled out."""


def act(b: ScheduleBuilder, o: Opt) -> None:
    """Spell out steps of a reduce axis."""
    for a in b.find(o.on, o):
        if a not in b.reduced:
            raise OptError(f"{o}: UNROLL copies a reduce axis into one accumulator; use UPCAST for the spatial axis {a.arg.name}")
        b.plans[a] = b.plans[a].with_registers("unroll", o.amount)


def propose(near: Neighbourhood) -> Iterator[Opts]:
    """A few steps of each reduce axis, or all of a short one."""
    for name, axes in near.axes.items():
        size, plan = extent(axes[0]), near.schedule.plans[axes[0]]
        if plan.unroll > 1 or not all(a in near.reduced for a in axes):
            continue
        whole = (size,) if size <= SHORT and size not in STEPS else ()
        steps = (*(STEPS if near.cpu else (*STEPS, 16)), *whole)
        yield from ((opt("UNROLL", name, n),) for n in steps if n * plan.upcast <= size)


UNROLL = Option(
    name="UNROLL",
    letter="R",
    on="axis",
    kind="unroll",
    copies=True,
    legend="unroll",
    docs=(
        Doc(
            "UNROLL(axis, n)",
            "Spell out n steps of a reduction, into the same accumulators.",
        ),
    ),
    golden={"unroll": Golden(*MATMUL, [["UPCAST", "n", 16], ["UNROLL", "k", 4]])},
    act=act,
    propose=propose,
)
