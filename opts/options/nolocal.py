"""NOLOCAL: one thread a group."""

from __future__ import annotations

from collections.abc import Iterator

from ...ir.errors import OptError
from ..builder import ScheduleBuilder
from ..groups import check_grid
from ..neighbourhood import Neighbourhood
from ..opt import Opt, Opts, opt
from ..registry import Doc, Option


def act(b: ScheduleBuilder, o: Opt) -> None:
    """Refuse groups that are there; `groups.share` refuses later ones."""
    check_grid(b, o)
    if any(p.threads > 1 for p in b.plans.values()):
        raise OptError(f"{o}: a group has threads already")


def propose(near: Neighbourhood) -> Iterator[Opts]:
    """As the first option only."""
    if near.may_group and near.schedule.group == 1 and not near.schedule.opts:
        yield (opt("NOLOCAL", "grid"),)


NOLOCAL = Option(
    name="NOLOCAL",
    letter="NOLOCAL",
    on="grid",
    arg=None,
    kind="grid",
    docs=(
        Doc(
            "NOLOCAL(grid)",
            "One thread a group. `LOCAL` and `GROUP` are then illegal.",
            groups=True,
        ),
    ),
    act=act,
    propose=propose,
)
