"""PADTO: an axis that may be computed past its end."""

from __future__ import annotations

from dataclasses import replace

from ...ir.errors import OptError
from ..builder import ScheduleBuilder
from ..opt import Opt
from ..registry import Doc, Golden, Option


def act(b: ScheduleBuilder, o: Opt) -> None:
    """Allow more work on the axes that `o` names; before they are cut."""
    for a in b.find(o.on, o):
        if b.plans[a].pad > 1 or b.plans[a].block > 1:
            raise OptError(f"{o}: pad {a.arg.name} once, before it is cut into registers")
        if o.amount < 2:
            raise OptError(f"{o}: pad to a multiple of at least 2")
        b.plans[a] = replace(b.plans[a], pad=o.amount)


PADTO = Option(
    name="PADTO",
    letter="PAD",
    on="axis",
    kind="store",
    legend="pad",
    docs=(
        Doc(
            "PADTO(axis, n)",
            "Allow up to four times the extent to be computed, with masks, so that a small axis can be cut by n.",
        ),
    ),
    golden={"padto": Golden("matmul", {"m": 3, "n": 32, "k": 16}, [["PADTO", "m", 4], ["UPCAST", "m", 4], ["UPCAST", "n", 16]])},
    act=act,
)
