"""LOCAL: threads of a group share a spatial axis."""

from __future__ import annotations

from collections.abc import Iterator

from ...ir.errors import OptError
from ..analysis.structure import extent
from ..builder import ScheduleBuilder
from ..groups import share, shared_sites
from ..neighbourhood import Neighbourhood
from ..opt import Opt, Opts, opt
from ..registry import Doc, Option

THREADS = (4, 8, 16, 32, 64, 128, 256)
UNITS = (2, 4, 8)
"""Warps, where a matrix instruction takes all threads of one."""


def act(b: ScheduleBuilder, o: Opt) -> None:
    """Share every site of the family; none of them may be reduced."""
    sites = shared_sites(b, o)
    for a in sites:
        if a in b.reduced:
            raise OptError(f"{o}: {a.arg.name} is reduced; GROUP shares a reduction among threads")
    share(b, o, sites)


def propose(near: Neighbourhood) -> Iterator[Opts]:
    """Threads for every family that is not shared yet, at most half of them idle."""
    for name, sites in near.families.items() if near.may_group else ():
        if not near.reduced.intersection(sites):
            tile = max(near.schedule.plans[a].tile for a in sites)
            yield from ((opt("LOCAL", name, n),) for n in (UNITS if tile > 1 else THREADS) if n * tile <= 2 * max(extent(a) for a in sites))


LOCAL = Option(
    name="LOCAL",
    letter="L",
    on="axis",
    kind="thread",
    docs=(
        Doc(
            "LOCAL(axis, n)",
            "n threads of a group share a spatial axis. Each takes one vector's worth of neighbouring elements, then the next thread does. "
            "Along an axis of tensor cores' tiles, n counts warps ([below](#tensor-cores)).",
            groups=True,
        ),
    ),
    act=act,
    propose=propose,
)
