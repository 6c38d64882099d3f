"""GROUP: threads of a group share an axis that some value reduces; their partial results are combined."""

from __future__ import annotations

from collections.abc import Iterator

from ...ir.errors import OptError
from ..analysis.structure import extent
from ..builder import ScheduleBuilder
from ..groups import share, shared_sites
from ..neighbourhood import Neighbourhood
from ..opt import Opt, Opts, opt
from ..registry import Doc, Option

THREADS = (4, 8, 16, 32, 64, 128, 256, 512)


def act(b: ScheduleBuilder, o: Opt) -> None:
    """Share every site of the family; one of them must be reduced."""
    sites = shared_sites(b, o)
    if not b.reduced.intersection(sites):
        raise OptError(f"{o}: nothing reduces over {sites[0].arg.family}; LOCAL shares a spatial axis among threads")
    if o.amount & (o.amount - 1):
        raise OptError(f"{o}: partial results are combined in halves, so the amount must be a power of two")
    share(b, o, sites)
    b.effects.add("REASSOC")


def propose(near: Neighbourhood) -> Iterator[Opts]:
    """Threads for every reduced family that is not shared yet, at most half of them idle."""
    for name, sites in near.families.items() if near.may_group else ():
        if near.reduced.intersection(sites):
            yield from ((opt("GROUP", name, n),) for n in THREADS if n <= 2 * max(extent(a) for a in sites))


GROUP = Option(
    name="GROUP",
    letter="G",
    on="axis",
    kind="thread",
    docs=(
        Doc(
            "GROUP(axis, n)",
            "The same for an axis that some value reduces over. The threads' partial results are combined in a "
            "fixed order (`REASSOC`): by shuffles inside a warp where the target has them, then through shared "
            "memory. Every thread gets the result.",
            groups=True,
        ),
    ),
    act=act,
    propose=propose,
)
