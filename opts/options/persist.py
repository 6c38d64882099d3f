"""PERSIST: as many groups as run at once, each of which goes through many work items."""

from __future__ import annotations

from collections.abc import Iterator

from ...ir import index as ix
from ...ir.errors import OptError
from ...ir.node import Node, const
from ..builder import ScheduleBuilder
from ..groups import check_grid
from ..neighbourhood import Neighbourhood
from ..opt import Opt, Opts, opt
from ..registry import Doc, Option
from ..schedule import Scheduled

MOST = 32
"""Groups that a multiprocessor holds at most, on every GPU with CUDA."""
EACH = (1, 2, 4)
"""Groups a multiprocessor worth trying."""


def act(b: ScheduleBuilder, o: Opt) -> None:
    """Note how many groups a multiprocessor gets."""
    check_grid(b, o)
    if b.target.kind != "gpu":
        raise OptError(f"{o}: {b.target.name} has no multiprocessors; PERSIST is for GPUs, PARALLEL for processors")
    if "PERSIST" in b.marks or not 1 <= o.amount <= MOST:
        raise OptError(f"{o}: one PERSIST, of 1 to {MOST} groups a multiprocessor")
    b.mark(o)


def check(s: Scheduled) -> None:
    """Raise OptError where every group would have one item."""
    groups, items = persistent(s), 1
    for p in s.grid:
        if not isinstance(p.size, int):
            return
        items *= p.size
    if groups and items <= groups:
        raise OptError(f"PERSIST(grid): the {items} work items are no more than the {groups} groups that would share them: leave it out")


def persistent(s: Scheduled) -> int:
    """How many groups go through the work items of a schedule; 0: each item has a group of its own."""
    each = s.marked("PERSIST").get("grid")
    return each * s.target.cores if isinstance(each, int) else 0


def groups_of(s: Scheduled, items: Node) -> Node:
    """The number of groups of a phase with so many items."""
    most = persistent(s)
    return ix.minmax("min", items, const(most)) if most else items


def propose(near: Neighbourhood) -> Iterator[Opts]:
    """One to a few groups a multiprocessor."""
    if near.may_group and near.target.kind == "gpu" and ("PERSIST", "grid") not in near.taken:
        yield from ((opt("PERSIST", "grid", n),) for n in EACH)


PERSIST = Option(
    name="PERSIST",
    letter="PER",
    on="grid",
    kind="grid",
    docs=(
        Doc(
            "PERSIST(grid, n)",
            "The grid has n groups a multiprocessor, and each goes through the work items by steps of all groups (GPUs).",
            groups=True,
        ),
    ),
    act=act,
    check=check,
    propose=propose,
)
