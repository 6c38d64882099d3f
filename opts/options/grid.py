"""GRID: how a GPU's groups of threads are launched: how many run, what each warpgroup does, and how many registers a thread has."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ...ir import index as ix
from ...ir.errors import OptError
from ...ir.node import Node, axes_of, const
from ..analysis.boxes import BoxPlan, in_registers, operand_boxes
from ..axis_plan import Part
from ..builder import ScheduleBuilder
from ..neighbourhood import Neighbourhood
from ..opt import Opt, Opts, opt
from ..registry import Doc, Option
from ..schedule import Scheduled
from .thread_groups import check_grid

MOST_PERSISTENT = 32
"""Groups that a multiprocessor holds at most, on every GPU with CUDA."""
PERSISTENT = (1, 2, 4)
"""Groups a multiprocessor worth trying."""
WARPGROUP = 128
REGISTERS = {1: (40, 240), 2: (40, 232), 3: (32, 160)}
"""Registers of a thread of the producer and of the consumers, by the number of consuming warpgroups: 65536 in all."""
CLUSTER = 2
"""Groups of a cluster."""
HALVES = 16
"""Rows of a box of which halves can be brought: eight rows are what the swizzle repeats after."""
CAPS = (64, 96, 128, 168)
"""Registers a thread that let two to eight groups of a few warps share a multiprocessor."""


def act(b: ScheduleBuilder, o: Opt) -> None:
    """Note each field; OptError where one is given twice, or the target has no such thing."""
    check_grid(b, o)
    given = dict(o.arg) if isinstance(o.arg, tuple) else {}
    if not given:
        raise OptError(f"{o}: give it a field: {', '.join(o.fields)}")
    for name, value in given.items():
        if getattr(b.launch, name):
            raise OptError(f"{o}: {name} is given already")
        assert isinstance(value, int)
        _CHECKS[name](b, o, value)
        b.launch = replace(b.launch, **{name: value})


def _persist(b: ScheduleBuilder, o: Opt, n: int) -> None:
    if b.target.kind != "gpu":
        raise OptError(f"{o}: {b.target.name} has no multiprocessors; persist is for GPUs, PARALLEL for processors")
    if not 1 <= n <= MOST_PERSISTENT:
        raise OptError(f"{o}: persist is 1 to {MOST_PERSISTENT} groups a multiprocessor")


def _warpspec(b: ScheduleBuilder, o: Opt, n: int) -> None:
    if "sm90a" not in b.target.features:
        raise OptError(f"{o}: {b.target.name} has no TMA and no wgmma; warpspec is for sm_90a")
    if n not in REGISTERS:
        raise OptError(f"{o}: warpspec is {', '.join(map(str, REGISTERS))} warpgroups")


def _cluster(b: ScheduleBuilder, o: Opt, n: int) -> None:
    if "sm90a" not in b.target.features:
        raise OptError(f"{o}: {b.target.name} has no clusters; cluster is for sm_90a")
    if n != CLUSTER:
        raise OptError(f"{o}: a cluster has {CLUSTER} groups")


def _threads(b: ScheduleBuilder, o: Opt, n: int) -> None:
    """`groups.share` refuses groups that come later."""
    if n != 1:
        raise OptError(f"{o}: threads is 1; LOCAL and GROUP say how many share an axis")
    if any(p.threads > 1 for p in b.plans.values()):
        raise OptError(f"{o}: a group has threads already")


def _registers(b: ScheduleBuilder, o: Opt, n: int) -> None:
    if b.target.kind != "gpu":
        raise OptError(f"{o}: {b.target.name} does not divide registers among threads")
    if not 16 <= n <= 255:
        raise OptError(f"{o}: registers is 16 to 255")


_CHECKS = {"persist": _persist, "warpspec": _warpspec, "cluster": _cluster, "threads": _threads, "registers": _registers}


def finish(s: Scheduled, b: ScheduleBuilder) -> Scheduled:
    """What is staged comes by TMA where one warpgroup copies for the others."""
    return replace(s, stages={name: replace(plan, boxed=True) for name, plan in s.stages.items()}) if consumers(s) else s


def check(s: Scheduled) -> None:
    """Raise OptError where a field asks for what the finished schedule has not."""
    _check_persistent(s)
    _check_consumers(s)
    _check_cluster(s)


# persist ----------------------------------------------------------------------------------------------------
def persistent(s: Scheduled) -> int:
    """How many groups go through the work items of a schedule; 0: each item has a group of its own."""
    return s.launch.persist * s.target.cores


def groups_of(s: Scheduled, items: Node) -> Node:
    """The number of groups of a phase with so many items."""
    most = persistent(s)
    return ix.minmax("min", items, const(most)) if most else items


def _check_persistent(s: Scheduled) -> None:
    groups, items = persistent(s), 1
    for p in s.grid:
        if not isinstance(p.size, int):
            return
        items *= p.size
    if groups and items <= groups:
        raise OptError(f"GRID(persist): the {items} work items are no more than the {groups} groups that would share them: leave it out")


# warpspec ---------------------------------------------------------------------------------------------------
def consumers(s: Scheduled) -> int:
    """Warpgroups that multiply while another copies; 0 without warpspec."""
    return s.launch.warpspec


def _check_consumers(s: Scheduled) -> None:
    """All that a group does must be products of warpgroups on staged boxes."""
    count = consumers(s)
    if not count:
        return
    if s.group != count * WARPGROUP:
        raise OptError(
            f"GRID(warpspec={count}): {count} warpgroups have {count * WARPGROUP} threads, and the schedule has {s.group}; TC with a row of wgmma, "
            f"and LOCAL along its axes"
        )
    boxes(s)


def boxes(s: Scheduled) -> dict[str, BoxPlan]:
    """The staged operands of all products, by input. OptError where something else is staged, or at several loops."""
    out: dict[str, BoxPlan] = {}
    for t in s.tensors.values():
        if t.row.unit != WARPGROUP:
            raise OptError(f"GRID(warpspec): {t.row.name} is an instruction of one warp; use a row of wgmma")
        nest = next(n for n in s.nests if n.name == t.value)
        for operand in "b" if in_registers(s, t, nest) else "ab":
            plan = operand_boxes(s, t, nest, operand)
            out[plan.stage.buffer.name] = plan
    if not out:
        raise OptError("GRID(warpspec): no sum is made by products of warpgroups; TC with a row of wgmma")
    for name, stage in s.stages.items():
        if name not in out:
            raise OptError(f"STAGE({name}): with GRID(warpspec) only operands of products are staged")
        if stage.at is not next(iter(out.values())).stage.at:
            raise OptError(f"STAGE({name}): with GRID(warpspec) all operands are staged at one loop")
    at = next(iter(out.values())).stage.at
    for n in s.nests:
        loops = [p for p in s.loops(n) if p.kind != "grid"]
        if any(p is at for p in loops) and loops[0] is not at:
            raise OptError(
                f"GRID(warpspec): loop {loops[0].name} runs around {at.name}, where operands are staged; TILE or MOVE so that none does"
            )
    return out


# cluster ----------------------------------------------------------------------------------------------------
def clustered(s: Scheduled) -> int:
    """Groups of a cluster; 1 without."""
    return s.launch.cluster or 1


def _check_cluster(s: Scheduled) -> None:
    """Neighbouring groups must differ along one axis, and read one operand at the same place."""
    if clustered(s) == 1:
        return
    what = f"GRID(cluster={CLUSTER})"
    if not consumers(s):
        raise OptError(f"{what}: it is for groups with a producer; add GRID(warpspec)")
    part, sizes = _neighbours(s), [p.size for p in s.grid]
    if part is None or not all(isinstance(n, int) for n in sizes):
        raise OptError(f"{what}: it takes a grid of known extents")
    if (s.swizzle if s.swizzle > 1 else part.trips) % CLUSTER or persistent(s) % CLUSTER:
        raise OptError(
            f"{what}: neighbours come in twos along {part.name}, whose {part.trips} steps (or the groups of persist, or a band) are odd"
        )
    found = shared(s)
    if not found:
        raise OptError(f"{what}: groups that differ in {part.name} read no operand at the same place")
    plans = boxes(s)
    for name in found:
        p = plans[name]
        if (len(p.starts) if p.across else p.rows // (HALVES // CLUSTER)) % CLUSTER:
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
    """One to a few groups a multiprocessor, a producer where all sums are made by wgmma, pairs of groups, one thread a group as the
    first option only, and a few caps."""
    s = near.schedule
    gpu, launch = near.target.kind == "gpu", s.launch
    if near.may_group and gpu and not launch.persist:
        yield from ((opt("GRID", "grid", persist=n),) for n in PERSISTENT)
    products = s.tensors and all(t.row.unit == WARPGROUP for t in s.tensors.values())
    if "sm90a" in near.target.features and products and not launch.warpspec:
        yield (opt("GRID", "grid", warpspec=s.group // WARPGROUP),)
    if consumers(s) and not launch.cluster:
        yield (opt("GRID", "grid", cluster=CLUSTER),)
    if near.may_group and s.group == 1 and not s.opts:
        yield (opt("GRID", "grid", threads=1),)
    if near.may_group and gpu and not launch.registers:
        yield from ((opt("GRID", "grid", registers=n),) for n in CAPS)


GRID = Option(
    name="GRID",
    letter="GRID",
    on="grid",
    arg=dict.fromkeys(_CHECKS, int),
    defaults=dict.fromkeys(_CHECKS, 0),
    short=tuple((f"/{name}=", name) for name in _CHECKS),
    kind="grid",
    docs=(
        Doc(
            "GRID(persist=n)",
            "The grid has n groups a multiprocessor, and each goes through the work items by steps of all groups (GPUs).",
            groups=True,
        ),
        Doc(
            "GRID(warpspec=c)",
            "(Hopper.) One more warpgroup copies operands into a ring of slots by TMA, and c warpgroups multiply by wgmma; mbarriers say which slots "
            "are full and which are empty, and registers go from the one to the others. Operands are staged at one loop with depth 2 or more, in rows of a "
            "multiple of 128 bytes; the first one of a product may be held in registers.",
            groups=True,
        ),
        Doc(
            "GRID(cluster=2)",
            "(Hopper, with `warpspec`.) Two neighbouring groups run on neighbouring multiprocessors; of the operand that both read, each brings "
            "one half for both by TMA's multicast.",
            groups=True,
        ),
        Doc("GRID(threads=1)", "One thread a group. `LOCAL` and `GROUP` are then illegal.", groups=True),
        Doc("GRID(registers=n)", "At most n registers a thread (GPUs).", groups=True),
    ),
    act=act,
    finish=finish,
    check=check,
    propose=propose,
)
