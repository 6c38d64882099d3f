"""How axes are cut, ordered and run: TILE, MOVE, UPCAST, UNROLL, PADTO and PARALLEL.

Each changes one axis' plan (`axis_plan`) or the order of the loops. Amounts count elements of the axis, so cuts of one axis commute."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ...ir import index as ix
from ...ir.errors import OptError
from ...ir.node import Node
from ..addition_order import tile_of
from ..analysis.structure import extent, shared_axes
from ..builder import ScheduleBuilder, fold_loop
from ..neighbourhood import Neighbourhood
from ..opt import Opt, Opts, opt
from ..registry import Doc, Golden, Option

MATMUL = ("matmul", {"m": 8, "n": 32, "k": 16})
"""A kernel's name and its shape, the first arguments of `registry.Golden`."""


BLOCKS = (16, 32, 64, 96, 128, 192, 256, 384, 512, 1024, 2048)


def act_tile(b: ScheduleBuilder, o: Opt) -> None:
    """Cut every axis that `o` names, or the fold over it."""
    for a in b.find(o.on, o, whole_fold=True):
        if a in b.folds:
            _cut_fold(b, o, a)
            continue
        plan = b.plans[a] = b.plans[a].with_tile(o.amount)
        name = plan.tiles[-1][0]
        outer = [a.arg.name, *(n for n, size in sorted(plan.tiles, key=lambda t: -t[1]) if size > o.amount)]
        b.order.insert(b.order.index(outer[-1]) + 1, name)


def _cut_fold(b: ScheduleBuilder, o: Opt, a: Node) -> None:
    size = ix.upper(a.arg.extent)
    fixed = tile_of(b.kernel, b.folds[a])
    if fixed:
        if o.amount != fixed:
            raise OptError(f"{o}: fixed numerics merge the sums of tiles of {fixed} elements; give TILE({o.on}, {fixed}), or none")
        return
    if any(b.plans[x].fold for x, f in b.fold_of.items() if f is a):
        raise OptError(f"{o}: the fold over {o.on} is already cut; tile one of its sites instead")
    if o.amount >= size:
        raise OptError(f"{o}: the tile must be smaller than the extent {size}")
    part = fold_loop(a, o.amount)
    for site, f in b.fold_of.items():
        if f is a:
            b.plans[site] = replace(b.plans[site], fold=part).checked(str(o))
    if not b.kernel.fixed:
        b.effects.add("REASSOC")


def propose_tile(near: Neighbourhood) -> Iterator[Opts]:
    """Up to two cuts of each axis, into whole numbers of what is in registers."""
    for name, axes in near.axes.items():
        plan, size = near.schedule.plans[axes[0]], extent(axes[0])
        if len(plan.tiles) < 2:
            blocks = BLOCKS if near.cpu else (8, *BLOCKS)
            yield from ((opt("TILE", name, n),) for n in blocks if plan.block < n < size and n % plan.block == 0)


TILE = Option(
    name="TILE",
    letter="T",
    on="axis",
    kind="serial",
    cuts=True,
    legend="tile",
    docs=(
        Doc(
            "TILE(axis, n)",
            "Cut the axis into blocks of n elements. The loop inside a block comes right inside the loop over "
            "blocks. On the family of a fold, such as attention's keys, the fold's block runs once for every "
            "tile, and the states are merged.",
        ),
    ),
    golden={
        "tile": Golden(*MATMUL, [["TILE", "n", 12]]),
        "fold_tile": Golden("argmax", {"m": 2, "n": 40}, [["TILE", "n", 16], ["UPCAST", "n", 8]]),
    },
    act=act_tile,
    propose=propose_tile,
)


def act_move(b: ScheduleBuilder, o: Opt) -> None:
    """Put a serial loop right before another."""
    before, names = str(o.fields["before"]), b.loop_names()
    for n in (o.on, before):
        if n not in names:
            raise OptError(f"{o}: no loop {n!r} (loops: {', '.join(sorted(names, key=b.order.index))})")
        if names[n].kind == "grid":
            raise OptError(f"{o}: {n} is a grid loop, which is outermost already")
    if o.on == before:
        raise OptError(f"{o}: a loop cannot move before itself")
    b.order.remove(o.on)
    b.order.insert(b.order.index(before), o.on)


def propose_move(near: Neighbourhood) -> Iterator[Opts]:
    """Each serial loop before each one around it that is of another axis."""
    found: dict[tuple[str, str], None] = {}
    for n in near.schedule.nests:
        loops = [p for p in near.schedule.loops(n) if p.kind == "serial"]
        for i, p in enumerate(loops):
            found.update(((p.name, q.name), None) for q in loops[:i] if q.axis is not p.axis)
    yield from ((opt("MOVE", name, before=before),) for name, before in found)


MOVE = Option(
    name="MOVE",
    letter="M",
    on="loop",
    arg={"before": str},
    short=(("<", "before"),),
    loop_fields=("before",),
    kind="serial",
    legend="move",
    docs=(
        Doc(
            "MOVE(loop, before=loop)",
            "Place a loop before another one. A reduce loop may go outside a spatial loop. Its partial sums then "
            "live in a tile of scratch memory, or in the output itself where that stores just this value.",
        ),
    ),
    golden={"move": Golden(*MATMUL, [["TILE", "k", 8], ["MOVE", "k", {"before": "m"}], ["UPCAST", "n", 16]])},
    act=act_move,
    propose=propose_move,
)


def act_padto(b: ScheduleBuilder, o: Opt) -> None:
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
    act=act_padto,
)


def act_parallel(b: ScheduleBuilder, o: Opt) -> None:
    """Make the outer loop a grid loop. (That every nest runs over it is checked of the finished schedule, as for the
    grid that GPUs have without asking.)"""
    for a in b.find(o.on, o):
        if a in b.folds:
            raise OptError(f"{o}: {o.on} is folded")
        if b.plans[a].grid:
            raise OptError(f"{o}: {a.arg.name} is already parallel")
        b.to_grid(a)


def propose_parallel(near: Neighbourhood) -> Iterator[Opts]:
    """Each axis that all nests share."""
    for a in shared_axes(near.kernel) if near.cpu else ():
        if ("PARALLEL", a.arg.name) not in near.taken:
            yield (opt("PARALLEL", a.arg.name),)


PARALLEL = Option(
    name="PARALLEL",
    letter="P",
    on="axis",
    arg=None,
    kind="grid",
    legend="parallel",
    docs=(
        Doc(
            "PARALLEL(axis)",
            "Make the outer loop into work items for the thread pool. Every nest must run over the axis.",
        ),
    ),
    golden={"parallel": Golden(*MATMUL, [["PARALLEL", "m"], ["PARALLEL", "n"]])},
    act=act_parallel,
    propose=propose_parallel,
)


STEPS = (2, 4, 8)
SHORT = 16
"""Steps of a window, or of a short row, that may all be spelled out."""


def act_unroll(b: ScheduleBuilder, o: Opt) -> None:
    """Spell out steps of a reduce axis."""
    for a in b.find(o.on, o):
        if a not in b.reduced:
            raise OptError(f"{o}: UNROLL copies a reduce axis into one accumulator; use UPCAST for the spatial axis {a.arg.name}")
        b.plans[a] = b.plans[a].with_registers("unroll", o.amount)


def propose_unroll(near: Neighbourhood) -> Iterator[Opts]:
    """A few steps of each reduce axis, or all of a short one."""
    for name, axes in near.axes.items():
        size, plan = extent(axes[0]), near.schedule.plans[axes[0]]
        if plan.unroll > 1 or not all(a in near.reduced for a in axes):
            continue
        whole = (size,) if size <= SHORT and size not in STEPS else ()
        steps = (*(STEPS if near.cpu else (*STEPS, 16)), *whole)
        yield from ((opt("UNROLL", name, n),) for n in steps if n * plan.upcast <= size)


UNROLL = Option(
    name="UNROLL",
    letter="R",
    on="axis",
    kind="unroll",
    copies=True,
    legend="unroll",
    docs=(
        Doc(
            "UNROLL(axis, n)",
            "Spell out n steps of a reduction, into the same accumulators.",
        ),
    ),
    golden={"unroll": Golden(*MATMUL, [["UPCAST", "n", 16], ["UNROLL", "k", 4]])},
    act=act_unroll,
    propose=propose_unroll,
)


SPATIAL = (2, 3, 4, 6, 8, 12, 14, 16, 32, 48, 64, 128)
ODD = (5, 7, 9, 10, 11, 13)
"""Copies that only extents they divide make worth a look."""
PARTIAL = (4, 16, 32, 64, 128)
THREAD = (2, 4, 8, 16)
"""Copies of one thread of many."""
ACROSS = (2, 4)
"""Partial results of a reduction that no access is consecutive along."""


def act_upcast(b: ScheduleBuilder, o: Opt) -> None:
    """Spell out copies; those of a reduction or a scan change its order."""
    found = b.find(o.on, o)
    free = [a for a in found if a not in b.partials]
    if not free and any(b.partials[a] != o.amount for a in found):
        copies = ", ".join(str(n) for n in dict.fromkeys(b.partials[a] for a in found))
        raise OptError(f"{o}: fixed numerics add up {o.on} in {copies} partial result{'s' * (copies != '1')}, with no option")
    for a in free:
        b.plans[a] = b.plans[a].with_registers("upcast", o.amount)
        if a in b.in_order:
            b.effects.add("REASSOC")


def propose_upcast(near: Neighbourhood) -> Iterator[Opts]:
    """Amounts that suit the target, for each axis that has no copies yet."""
    for name, axes in near.axes.items():
        if near.schedule.plans[axes[0]].upcast > 1:
            continue
        size, is_reduce = extent(axes[0]), all(a in near.reduced for a in axes)
        amounts: tuple[int, ...] = THREAD if not near.cpu else PARTIAL if is_reduce else SPATIAL
        if is_reduce and not near.consecutive.intersection(axes):
            amounts = ACROSS
        elif near.cpu and not is_reduce:
            amounts += tuple(n for n in ODD if size % n == 0)
        tile = max(near.schedule.plans[a].tile for a in axes)
        if tile > 1:  # a unit of threads makes whole tiles of a matrix instruction
            amounts, size = tuple(tile * n for n in THREAD), 2 * size
        yield from ((opt("UPCAST", name, n),) for n in amounts if n <= size)


UPCAST = Option(
    name="UPCAST",
    letter="U",
    on="axis",
    kind="upcast",
    copies=True,
    legend="into registers",
    docs=(
        Doc(
            "UPCAST(axis, n)",
            "Keep n elements in registers. The part that is consecutive in most accesses becomes vector lanes. On "
            "a reduce axis these are n independent partial results, combined at the end (`REASSOC`). Along a "
            "scan it is so many steps at a time; as lanes, where its loops are innermost, a vector of prefixes (`REASSOC`).",
        ),
    ),
    golden={
        "upcast": Golden(*MATMUL, [["UPCAST", "m", 4], ["UPCAST", "n", 32]]),
        "upcast_masked": Golden("matmul", {"m": 7, "n": 27, "k": 16}, [["UPCAST", "m", 4], ["UPCAST", "n", 16]]),
        "upcast_partial": Golden("sum_rows", {"m": 4, "n": 96}, [["UPCAST", "n", 32]]),
    },
    act=act_upcast,
    propose=propose_upcast,
)
