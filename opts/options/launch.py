"""LAUNCH: at most so many registers a thread."""

from __future__ import annotations

from collections.abc import Iterator

from ...ir.errors import OptError
from ..builder import ScheduleBuilder
from ..groups import check_grid
from ..neighbourhood import Neighbourhood
from ..opt import Opt, Opts, opt
from ..registry import Doc, Option

CAPS = (64, 96, 128, 168)


def act(b: ScheduleBuilder, o: Opt) -> None:
    """Note the cap."""
    check_grid(b, o)
    if b.target.kind != "gpu":
        raise OptError(f"{o}: {b.target.name} does not divide registers among threads")
    if b.regs or not 16 <= o.amount <= 255:
        raise OptError(f"{o}: one cap of 16 to 255 registers")
    b.regs = o.amount


def propose(near: Neighbourhood) -> Iterator[Opts]:
    """Caps that let two to eight groups of a few warps share a multiprocessor."""
    if near.may_group and near.target.kind == "gpu" and not near.schedule.regs:
        yield from ((opt("LAUNCH", "grid", n),) for n in CAPS)


LAUNCH = Option(
    name="LAUNCH",
    letter="REGS",
    on="grid",
    kind="grid",
    docs=(
        Doc(
            "LAUNCH(grid, n)",
            "At most n registers a thread (GPUs).",
            groups=True,
        ),
    ),
    act=act,
    propose=propose,
)
