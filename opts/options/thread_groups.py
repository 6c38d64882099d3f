"""Groups of threads: LOCAL and GROUP share an axis among the threads of a group, SWIZZLE runs groups in bands."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ...ir.errors import OptError
from ...ir.node import Node
from ..analysis.structure import extent
from ..builder import ScheduleBuilder
from ..neighbourhood import Neighbourhood
from ..opt import Opt, Opts, opt
from ..registry import Doc, Option
from ..schedule import Scheduled
from ..thread_axes import check_size, family_sites


def check_language(s: ScheduleBuilder, o: Opt) -> None:
    """Raise OptError where code for the target has no groups of threads."""
    if not s.target.groups:
        raise OptError(f"{o}: {s.target.lang} code has no groups of threads; {o.op} is for opencl and cuda targets")


def check_grid(s: ScheduleBuilder, o: Opt) -> None:
    """Raise OptError unless `o` is on the grid of a target with groups of threads."""
    if o.on != "grid":
        raise OptError(f"{o}: {o.op} acts on 'grid'")
    check_language(s, o)


def shared_sites(s: ScheduleBuilder, o: Opt) -> list[Node]:
    """Every site of the family that an option names: a family has one thread mapping."""
    check_language(s, o)
    family = s.find(o.on, o)[0].arg.family
    return family_sites(s, o, family)


def share(s: ScheduleBuilder, o: Opt, sites: Sequence[Node]) -> None:
    """Give `sites` the threads of `o`; OptError where a group may not have so many."""
    if s.launch.threads == 1:
        raise OptError(f"{o}: GRID(threads=1) asks for one thread a group")
    check_size(s, o, {a.arg.family: o.amount for a in sites})
    widest = max(b.dtype.compute.size for b in s.kernel.buffers)
    for a in (a for a in sites if s.plans[a].dot == 1):  # a matrix instruction sums over the others
        s.plans[a] = s.plans[a].with_threads(str(o), o.amount, max(1, s.target.vector_bytes // widest))


THREADS = (4, 8, 16, 32, 64, 128, 256, 512)


def act_group(b: ScheduleBuilder, o: Opt) -> None:
    """Share every site of the family; one of them must be reduced."""
    sites = shared_sites(b, o)
    if not b.reduced.intersection(sites):
        raise OptError(f"{o}: nothing reduces over {sites[0].arg.family}; LOCAL shares a spatial axis among threads")
    if o.amount & (o.amount - 1):
        raise OptError(f"{o}: partial results are combined in halves, so the amount must be a power of two")
    share(b, o, sites)
    b.effects.add("REASSOC")


def propose_group(near: Neighbourhood) -> Iterator[Opts]:
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
    act=act_group,
    propose=propose_group,
)


BANDS = (2, 4, 8, 16)


def act_swizzle(b: ScheduleBuilder, o: Opt) -> None:
    """Note the rows of a band."""
    if o.on != "grid":
        raise OptError(f"{o}: SWIZZLE acts on 'grid' (the layout of a staged tile is STAGE's field swizzle)")
    if b.swizzle > 1:
        raise OptError(f"{o}: the grid is swizzled already")
    if o.amount < 2:
        raise OptError(f"{o}: a band has at least 2 rows")
    b.swizzle = o.amount


def check_swizzle(s: Scheduled) -> None:
    """Raise OptError where bands do not divide the grid."""
    rows = s.grid[-2:]
    if len(rows) < 2 or any(isinstance(p.size, Node) for p in rows):
        raise OptError("SWIZZLE(grid): it takes a grid of at least two axes, the last two of known extent")
    if rows[0].trips % s.swizzle:
        raise OptError(f"SWIZZLE(grid, {s.swizzle}): bands of {s.swizzle} do not divide the {rows[0].trips} steps of {rows[0].name}")


def propose_swizzle(near: Neighbourhood) -> Iterator[Opts]:
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
    act=act_swizzle,
    check=check_swizzle,
    propose=propose_swizzle,
)


LOCAL_THREADS = (4, 8, 16, 32, 64, 128, 256)
UNITS = (2, 4, 8)
"""Warps, where a matrix instruction takes all threads of one."""


def act_local(b: ScheduleBuilder, o: Opt) -> None:
    """Share every site of the family; none of them may be reduced."""
    sites = shared_sites(b, o)
    for a in sites:
        if a in b.reduced:
            raise OptError(f"{o}: {a.arg.name} is reduced; GROUP shares a reduction among threads")
    share(b, o, sites)


def propose_local(near: Neighbourhood) -> Iterator[Opts]:
    """Threads for every family that is not shared yet, at most half of them idle."""
    for name, sites in near.families.items() if near.may_group else ():
        if not near.reduced.intersection(sites):
            tile = max(near.schedule.plans[a].tile for a in sites)
            yield from (
                (opt("LOCAL", name, n),) for n in (UNITS if tile > 1 else LOCAL_THREADS) if n * tile <= 2 * max(extent(a) for a in sites)
            )


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
    act=act_local,
    propose=propose_local,
)
