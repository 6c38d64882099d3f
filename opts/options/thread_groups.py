"""Groups of threads: LOCAL and GROUP share an axis among the threads of a group, SWIZZLE runs groups in bands.

Also which axes threads share and how they are numbered, and the default grid of GPUs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import prod

from ...ir import index as ix
from ...ir.body import Scan
from ...ir.buffer import Buffer, load_parts
from ...ir.errors import OptError
from ...ir.node import Node
from ...ir.node import axis as make_axis
from ..analysis.structure import extent
from ..analysis.write_order import kernel_ordered
from ..builder import ScheduleBuilder
from ..neighbourhood import Neighbourhood
from ..nests import Item, Nest, build, flat, plain
from ..opt import Opt, Opts, opt
from ..plans import ThreadAxis
from ..registry import Doc, Option
from ..schedule import Scheduled


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


def family_sites(s: ScheduleBuilder, o: Opt, family: str) -> list[Node]:
    """Every site of `family`; OptError where a nest runs over two of them, as a thread would be at one place along both."""
    for item in flat(plain(s.kernel)):
        twice = [a.arg.name for a in item.all_axes if a.arg.family == family]
        if len(twice) > 1:
            raise OptError(f"{o}: {item.name} runs over {' and '.join(twice)}, which cannot share one numbering of threads")
    return [a for a in s.plans if a.arg.family == family and a not in s.folds]


def share(s: ScheduleBuilder, o: Opt, sites: Sequence[Node]) -> None:
    """Give `sites` the threads of `o`; OptError where a group may not have so many."""
    if s.launch.threads == 1:
        raise OptError(f"{o}: GRID(threads=1) asks for one thread a group")
    check_size(s, o, {a.arg.family: o.amount for a in sites})
    widest = max(b.dtype.compute.size for b in s.kernel.buffers)
    for a in (a for a in sites if s.plans[a].dot == 1):  # a matrix instruction sums over the others
        s.plans[a] = s.plans[a].with_threads(str(o), o.amount, max(1, s.target.vector_bytes // widest))


def unit(s: ScheduleBuilder) -> int:
    """Threads of a group that go together because a matrix instruction takes so many, 1 without one."""
    return max((t.row.unit for t in s.tensors.values()), default=1)


def check_size(s: ScheduleBuilder, o: Opt, more: Mapping[str, int] | None = None) -> None:
    """Raise OptError where a group has too many threads; `more`: what families are about to get."""
    counts = {a.arg.family: p.threads for a, p in s.plans.items() if p.dot == 1}
    total = prod((counts | dict(more or {})).values()) * unit(s)
    if total > s.target.max_threads:
        raise OptError(f"{o}: {total} threads in a group; {s.target.name} takes at most {s.target.max_threads}")


def thread_axes(s: ScheduleBuilder, items: Sequence[Item]) -> tuple[ThreadAxis, ...]:
    """The dimensions of a group: those inside a unit, whose places a matrix instruction gives, then the others, the one whose
    neighbours touch neighbouring words most often first (it varies fastest)."""
    found: dict[str, tuple[int, int]] = {}
    for a, p in s.plans.items():
        if p.threads > 1 and a.arg.family not in found:
            found[a.arg.family] = (p.threads, s.order.index(a.arg.name))
    score = dict.fromkeys(found, 0)
    for nest in flat(items):
        for buffer, indices in _accesses(nest):
            last = _consecutive(buffer, indices)
            if last in score:
                score[last] += 1
    out, stride = _unit_axes(s), unit(s)
    for family in sorted(found, key=lambda f: (-score[f], -found[f][1])):
        count = found[family][0]
        dealt = any(p.unit for a, p in s.plans.items() if a.arg.family == family)
        out.append(ThreadAxis(family, count, stride, make_axis(f"{family}.{'w' if dealt else 'l'}", count, family)))
        stride *= count
    return tuple(out)


def _unit_axes(s: ScheduleBuilder) -> list[ThreadAxis]:
    """The dimensions inside a unit. Two instructions may deal two families out to the same threads."""
    found: dict[tuple[int, int], dict[str, Node]] = {}
    for a, plan in s.plans.items():
        for row, p in zip(plan.unit, plan.parts[len(plan.parts) - len(plan.unit) :], strict=True):
            if p.kind == "thread":
                found.setdefault((row.bits, row.count), {})[a.arg.family] = p.var
    return [ThreadAxis(next(iter(x)), n, bits, *_first(tuple(x.values()))) for (bits, n), x in sorted(found.items(), key=lambda f: f[0])]


def _first(variables: tuple[Node, ...]) -> tuple[Node, tuple[Node, ...]]:
    return variables[0], variables[1:]


def _accesses(nest: Nest) -> list[tuple[Buffer, tuple[Node, ...]]]:
    out = [(b, i) for b, i, _ in map(load_parts, nest.loads)]
    if nest.store is not None:
        out.append((nest.store.buffer, nest.indices))
    return out


def _consecutive(buffer: Buffer, indices: tuple[Node, ...]) -> str:
    """The family along which an access is consecutive, '' if there is none."""
    if not indices:
        return ""
    terms, _ = ix.parts(indices[-1])
    return next((t.arg.family for t, k in terms.items() if k == 1 and t.op == "axis"), "")


def default_grid(s: ScheduleBuilder) -> None:
    """Every outer spatial part that all nests share, and where no item would need what another makes, becomes a grid loop."""
    staged = {n: fill for n, (_, fill) in s.value_stages.items() if n not in s.held}
    nests = flat(build(s.kernel, staged, s.held))
    ordered = {*kernel_ordered(s.kernel)} | {n.value.expr.axis for n in nests if n.value is not None and isinstance(n.value.expr, Scan)}
    made = {name: axes for n in nests for name, axes in n.made.items()}
    symbolic = any(p.grid and isinstance(p.extent, Node) for p in s.plans.values())
    # the symbolic one goes first, where the grid may have it
    axes = sorted((a for a in s.kernel.axes if not s.plans[a].grid), key=lambda a: isinstance(a.arg.extent, int))
    grid = [a for a in s.plans if s.plans[a].grid]
    for a in axes:
        moving = isinstance(a.arg.extent, Node)
        if (
            a in s.folds
            or a in ordered
            or a in s.fold_of
            or s.plans[a].fold
            or any(a not in n.axes for n in nests)
            or (moving and (symbolic or grid))
        ):
            continue
        if any(b is a and at is not b for n in nests for r in n.refs for b, at in zip(made.get(r.arg, ()), r.src)):
            continue
        s.to_grid(a)
        grid.append(a)
        symbolic |= moving


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
