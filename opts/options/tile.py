"""TILE: an axis in blocks, with a loop over the blocks and one inside."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ...ir import index as ix
from ...ir.errors import OptError
from ...ir.node import Node
from ..analysis.structure import extent
from ..axis_plan import AxisPlan, Part
from ..builder import ScheduleBuilder
from ..neighbourhood import Neighbourhood
from ..opt import Opt, Opts, opt
from ..registry import Doc, Golden, Option
from .golden_shapes import MATMUL

BLOCKS = (16, 32, 64, 96, 128, 192, 256, 384, 512, 1024, 2048)


def act(b: ScheduleBuilder, o: Opt) -> None:
    """Cut every axis that `o` names, or the fold over it."""
    for a in b.find(o.on, o, whole_fold=True):
        if a in b.folds:
            _cut_fold(b, o, a)
            continue
        plan = b.plans[a] = b.plans[a].with_tile(o.amount)
        name = plan.tiles[-1][0]
        outer = [a.arg.name, *(n for n, size in sorted(plan.tiles, key=lambda t: -t[1]) if size > o.amount)]
        b.order.insert(b.order.index(outer[-1]) + 1, name)


def _cut_fold(b: ScheduleBuilder, o: Opt, a: Node) -> None:
    size = ix.upper(a.arg.extent)
    if any(b.plans[x].fold for x, f in b.fold_of.items() if f is a):
        raise OptError(f"{o}: the fold over {o.on} is already cut; tile one of its sites instead")
    if o.amount >= size:
        raise OptError(f"{o}: the tile must be smaller than the extent {size}")
    outer = replace(AxisPlan(a), tiles=((f"{o.on}.tile", o.amount),)).parts[0]
    part = Part(a.arg.name, a, "fold", outer.size, o.amount, False, outer.var)
    for site, f in b.fold_of.items():
        if f is a:
            b.plans[site] = replace(b.plans[site], fold=part).checked(str(o))
    b.effects.add("REASSOC")


def propose(near: Neighbourhood) -> Iterator[Opts]:
    """Up to two cuts of each axis, into whole numbers of what is in registers."""
    for name, axes in near.axes.items():
        plan, size = near.schedule.plans[axes[0]], extent(axes[0])
        if len(plan.tiles) < 2:
            blocks = BLOCKS if near.cpu else (8, *BLOCKS)
            yield from ((opt("TILE", name, n),) for n in blocks if plan.block < n < size and n % plan.block == 0)


def cut_into(axis: str, size: int) -> Opt:
    """The option that cuts an axis into blocks of so many elements, as a kernel's writer decides them (`ir.kernel`)."""
    return opt("TILE", axis, size)


TILE = Option(
    name="TILE",
    letter="T",
    on="axis",
    kind="serial",
    cuts=True,
    legend="tile",
    docs=(
        Doc(
            "TILE(axis, n)",
            "Cut the axis into blocks of n elements. The loop inside a block comes right inside the loop over "
            "blocks. On the family of a fold, such as attention's keys, the fold's block runs once for every "
            "tile, and the states are merged.",
        ),
    ),
    golden={
        "tile": Golden(*MATMUL, [["TILE", "n", 12]]),
        "fold_tile": Golden("argmax", {"m": 2, "n": 40}, [["TILE", "n", 16], ["UPCAST", "n", 8]]),
    },
    act=act,
    propose=propose,
)
