"""SWIZZLE: the grid in bands, so that neighbours in time share operands in the L2 or L3."""

from __future__ import annotations

from collections.abc import Iterator

from ...ir.errors import OptError
from ...ir.node import Node
from ..builder import ScheduleBuilder
from ..neighbourhood import Neighbourhood
from ..opt import Opt, Opts, opt
from ..registry import Doc, Option
from ..schedule import Scheduled

BANDS = (2, 4, 8, 16)


def act(b: ScheduleBuilder, o: Opt) -> None:
    """Note the rows of a band."""
    if o.on != "grid":
        raise OptError(f"{o}: SWIZZLE acts on 'grid' (the layout of a staged tile is STAGE's field swizzle)")
    if b.swizzle > 1:
        raise OptError(f"{o}: the grid is swizzled already")
    if o.amount < 2:
        raise OptError(f"{o}: a band has at least 2 rows")
    b.swizzle = o.amount


def check(s: Scheduled) -> None:
    """Raise OptError where bands do not divide the grid."""
    rows = s.grid[-2:]
    if len(rows) < 2 or any(isinstance(p.size, Node) for p in rows):
        raise OptError("SWIZZLE(grid): it takes a grid of at least two axes, the last two of known extent")
    if rows[0].trips % s.swizzle:
        raise OptError(f"SWIZZLE(grid, {s.swizzle}): bands of {s.swizzle} do not divide the {rows[0].trips} steps of {rows[0].name}")


def propose(near: Neighbourhood) -> Iterator[Opts]:
    """Bands of a grid of two axes or more."""
    grid = [p for p in near.schedule.grid if isinstance(p.size, int) and p.size > 1]
    if ("SWIZZLE", "grid") not in near.taken and len(grid) >= 2:
        yield from ((opt("SWIZZLE", "grid", n),) for n in BANDS)


SWIZZLE = Option(
    name="SWIZZLE",
    letter="Z",
    on="grid",
    kind="grid",
    docs=(
        Doc(
            "SWIZZLE(grid, w)",
            "(Every device.) Work items run in bands of w rows of the grid's last two axes, so that neighbours in time share operands in the L2 or L3 cache.",
            groups=True,
        ),
    ),
    act=act,
    check=check,
    propose=propose,
)
