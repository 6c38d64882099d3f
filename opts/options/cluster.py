"""CLUSTER: two neighbouring groups on neighbouring multiprocessors bring the operand that both read once, half each."""

from __future__ import annotations

from collections.abc import Iterator

from ...ir.errors import OptError
from ...ir.node import axes_of
from ..axis_plan import Part
from ..builder import ScheduleBuilder
from ..groups import check_grid
from ..neighbourhood import Neighbourhood
from ..opt import Opt, Opts, opt
from ..registry import Doc, Option
from ..schedule import Scheduled
from .persist import persistent
from .warpspec import boxes, consumers

GROUPS = 2
"""Groups of a cluster."""
HALVES = 16
"""Rows of a box of which halves can be brought: eight rows are what the swizzle repeats after."""


def act(b: ScheduleBuilder, o: Opt) -> None:
    """Note it."""
    check_grid(b, o)
    if "sm90a" not in b.target.features:
        raise OptError(f"{o}: {b.target.name} has no clusters; CLUSTER is for sm_90a")
    if "CLUSTER" in b.marks or o.amount != GROUPS:
        raise OptError(f"{o}: one CLUSTER, of {GROUPS} groups")
    b.mark(o)


def clustered(s: Scheduled) -> int:
    """Groups of a cluster; 1 without."""
    return GROUPS if s.marked("CLUSTER").get("grid") else 1


def check(s: Scheduled) -> None:
    """Raise OptError unless neighbouring groups differ along one axis, and read one operand at the same place."""
    if clustered(s) == 1:
        return
    what = f"CLUSTER(grid, {GROUPS})"
    if not consumers(s):
        raise OptError(f"{what}: it is for groups with a producer; add WARPSPEC")
    part, sizes = _neighbours(s), [p.size for p in s.grid]
    if part is None or not all(isinstance(n, int) for n in sizes):
        raise OptError(f"{what}: it takes a grid of known extents")
    if (s.swizzle if s.swizzle > 1 else part.trips) % GROUPS or persistent(s) % GROUPS:
        raise OptError(
            f"{what}: neighbours come in twos along {part.name}, whose {part.trips} steps (or the groups of PERSIST, or a band) are odd"
        )
    found = shared(s)
    if not found:
        raise OptError(f"{what}: groups that differ in {part.name} read no operand at the same place")
    plans = boxes(s)
    for name in found:
        p = plans[name]
        if (len(p.starts) if p.across else p.rows // (HALVES // GROUPS)) % GROUPS:
            raise OptError(f"{what}: the tile of {name} has no two halves of whole boxes")


def shared(s: Scheduled) -> tuple[str, ...]:
    """The operands that both groups of a cluster read at the same place."""
    part = _neighbours(s)
    if part is None or clustered(s) == 1:
        return ()
    return tuple(name for name, p in boxes(s).items() if part.var not in axes_of(*p.starts[0]))


def _neighbours(s: Scheduled) -> Part | None:
    """The loop of the grid along which groups with neighbouring numbers differ."""
    if not s.grid:
        return None
    return s.grid[-2] if s.swizzle > 1 else s.grid[-1]


def propose(near: Neighbourhood) -> Iterator[Opts]:
    """Pairs of groups."""
    if consumers(near.schedule) and ("CLUSTER", "grid") not in near.taken:
        yield (opt("CLUSTER", "grid", GROUPS),)


CLUSTER = Option(
    name="CLUSTER",
    letter="CL",
    on="grid",
    kind="grid",
    docs=(
        Doc(
            "CLUSTER(grid, 2)",
            "(Hopper, beside WARPSPEC.) Two neighbouring groups run on neighbouring multiprocessors; of the operand that both read, each brings "
            "one half for both by TMA's multicast.",
            groups=True,
        ),
    ),
    act=act,
    check=check,
    propose=propose,
)
