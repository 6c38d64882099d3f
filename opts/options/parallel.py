"""PARALLEL: the outer loop of an axis on the grid."""

from __future__ import annotations

from collections.abc import Iterator

from ...ir.errors import OptError
from ..analysis.structure import shared_axes
from ..builder import ScheduleBuilder
from ..neighbourhood import Neighbourhood
from ..opt import Opt, Opts, opt
from ..registry import Doc, Golden, Option
from .golden_shapes import MATMUL


def act(b: ScheduleBuilder, o: Opt) -> None:
    """Make the outer loop a grid loop. (That every nest runs over it is checked of the finished schedule, as for the
    grid that GPUs have without asking.)"""
    for a in b.find(o.on, o):
        if a in b.folds:
            raise OptError(f"{o}: {o.on} is folded")
        if b.plans[a].grid:
            raise OptError(f"{o}: {a.arg.name} is already parallel")
        b.to_grid(a)


def propose(near: Neighbourhood) -> Iterator[Opts]:
    """Each axis that all nests share."""
    for a in shared_axes(near.kernel) if near.cpu else ():
        if ("PARALLEL", a.arg.name) not in near.taken:
            yield (opt("PARALLEL", a.arg.name),)


PARALLEL = Option(
    name="PARALLEL",
    letter="P",
    on="axis",
    arg=None,
    kind="grid",
    legend="parallel",
    docs=(
        Doc(
            "PARALLEL(axis)",
            "Make the outer loop into work items for the thread pool. Every nest must run over the axis.",
        ),
    ),
    golden={"parallel": Golden(*MATMUL, [["PARALLEL", "m"], ["PARALLEL", "n"]])},
    act=act,
    propose=propose,
)
