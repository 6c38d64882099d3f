"""FUSE: reductions over one axis that do not need each other run in one loop, and so do stores at the points that are reduced.

Written as separate values (three components of a force, a sum and a maximum of one row), sibling reductions are loops of
their own, and each computes again what they have in common. In one loop, an input is read once and an equal
subexpression is computed once, for as many more registers as there are more accumulators.

The place of an extreme (`opts.analysis.extremes`) needs the extreme, and joins it all the same: it is kept up to date beside it. Stores that
need no result of the loop join it where they have something in common with it (`joins`), on processors."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace

from ...ir.dtypes import index
from ...ir.errors import OptError
from ...ir.kernel import Kernel
from ...ir.node import Node, axes_of, walk
from ...ir.operators import substitute
from ...targets import Target
from ..analysis.extremes import place_of
from ..analysis.ragged import conditions, selected, sides
from ..analysis.write_order import scatter_ordered
from ..axis_plan import AxisPlan
from ..builder import ScheduleBuilder
from ..neighbourhood import Neighbourhood
from ..nests import Item, Nest, flat, plain
from ..opt import Opt, Opts, opt
from ..plans import ExtremePlace
from ..registry import Doc, Option
from ..schedule import Scheduled

Table = Mapping[Node, Node]


def sites(n: Nest, first: Nest) -> Table | None:
    """For each axis of a store the one of a reduction whose points it shares; None where they have different points."""
    own = [a for a in n.axes if a not in first.axes]
    if len(n.axes) != len(first.all_axes) or len(own) != len(first.reduce_axes):
        return None
    table, left = {}, list(first.reduce_axes)
    for a in own:
        found = next((b for b in left if b.arg.family == a.arg.family and b.arg.extent == a.arg.extent), None)
        if found is None:
            return None
        left.remove(found)
        table[a] = found
    return table


def over(n: Nest, table: Table) -> Nest:
    """A store over other sites of its axes."""
    assert n.store is not None
    there = dict(table)
    axes = tuple(there.get(a, a) for a in n.axes)
    indices = tuple(substitute(i, there) for i in n.indices)
    expr, mask = substitute(n.expr, there), None if n.mask is None else substitute(n.mask, there)
    store = replace(n.store, indices=indices, expr=expr, axes=axes, mask=mask)
    return replace(n, axes=axes, expr=expr, indices=indices, mask=mask, store=store)


def joins(n: Nest, group: Sequence[Nest], late: Collection[str]) -> bool:
    """Whether a store may run in the loop of a group, the first of which is a reduction, and has something in common with one of it there. `late`:
    what is made from the first of the group on."""
    first = group[0]
    if (
        n.kind != "store"
        or n.store is None
        or n.store.combine is not None
        or n.store.own is not None
        or n.fills
        or scatter_ordered(n.store)
    ):
        return False
    table = sites(n, first)
    if table is None or any(r.arg in late for r in n.refs) or any(_limited(m) for m in group if m.kind == "reduce"):
        return False
    reduced = set(first.reduce_axes)
    mine, theirs = _read(over(n, table), reduced), set().union(*(_read(_nest_at(m, first), reduced) for m in group))
    # (what a value's own loop hands on in registers is read there, unless the reduction reads it here as well)
    return not mine.isdisjoint(theirs) and all(x in theirs for x in mine if x.op == "ref")


def _nest_at(m: Nest, first: Nest) -> Nest:
    """A nest of a group over the sites of its first."""
    if m.store is None:
        return replace(m, expr=substitute(m.expr, dict(zip(m.reduce_axes, first.reduce_axes, strict=True))))
    table = sites(m, first)
    return m if table is None else over(m, table)


def _read(n: Nest, axes: Collection[Node]) -> set[Node]:
    """What a nest reads along some axes."""
    return {x for x in n.nodes if x.op in ("load", "ref") and not axes_of(x).isdisjoint(axes)}


def _limited(n: Nest) -> bool:
    """Whether a reduction's loops may leave out iterations that reduce nothing, or data a step of all results."""
    where = selected(n)
    if (
        where is not None
        and where.op == "where"
        and set(n.axes) - axes_of(where.src[0])
        and any(x.op == "load" for x in walk(where.src[0]))
    ):
        return True
    return any(sides(c) is not None or (c.src[0].dtype is index and len(axes_of(c)) > 1) for c in conditions(n))


def act(b: ScheduleBuilder, o: Opt) -> None:
    """Note an axis whose reductions share their loop."""
    if not any(a in b.reduced for a in b.find(o.on, o)):
        raise OptError(f"{o}: nothing is reduced over {o.on}; FUSE is for reductions over one axis")
    b.mark(o)


def siblings(items: Sequence[Item], family: str, beside: bool = False) -> list[list[Nest]]:
    """The reductions over `family` that may run in one loop, in groups of two or more: over the same points, and over axes of the same
    families; none of them, nor what stands between them and the first, makes what a later one reads. With `beside` a later one may
    be the place of an extreme in the group, and stores at the same points may follow the reductions."""
    groups: list[list[Nest]] = []
    late: list[set[str]] = []  # what is made from the first of a group on
    for item in items:
        made = {name for n in flat([item]) for name in n.made}
        joined = False
        for group, names in zip(groups, late, strict=True):
            if joined or not isinstance(item, Nest):
                pass
            elif (_alike(group[0], item) and not _needs(item, names, group, beside)) or (beside and joins(item, group, names)):
                group.append(item)
                joined = True
            names |= made
        if not joined and isinstance(item, Nest) and _reduces(item, family):
            groups.append([item])
            late.append(set(made))
    return [g for g in groups if len(g) > 1]


def _needs(n: Nest, names: set[str], group: Sequence[Nest], places: bool) -> bool:
    """Whether a nest reads what is made from the first of a group on, other than as the place of an extreme that is in it."""
    place = _place(n, group) if places else None
    return any(r.arg in names and (place is None or r.arg != place.extreme) for r in n.refs)


def _place(n: Nest, group: Sequence[Nest]) -> ExtremePlace | None:
    return next((p for m in group if (p := place_of(n, m)) is not None), None)


def combines_in_loops(target: Target) -> bool:
    """Threads of a group combine reductions one by one, so places and stores beside them are for processors' own loops."""
    return target.kind != "gpu" and not target.groups


def _reduces(n: Nest, family: str) -> bool:
    return n.kind == "reduce" and not n.fills and any(a.arg.family == family for a in n.reduce_axes)


def _alike(first: Nest, n: Nest) -> bool:
    over = [a.arg.family for a in n.reduce_axes]
    return n.kind == "reduce" and not n.fills and n.axes == first.axes and over == [a.arg.family for a in first.reduce_axes]


def finish(s: Scheduled, b: ScheduleBuilder) -> Scheduled:
    """The schedule with siblings next to each other, all over the axes of the first."""
    items, names, places = list(s.items), list(s.siblings), dict(s.places)
    for on in s.marked("FUSE"):
        family = next(a.arg.family for a in b.plans if on in (a.arg.name, a.arg.family))
        joined = {name for done in names for name in done}
        free = ([n for n in g if n.store is None or n.name not in joined] for g in siblings(items, family, combines_in_loops(s.target)))
        found = [g for g in free if len(g) > 1 and not any(n.name in joined for n in g)]
        if not found:
            stores = ", nor does a store at these points share anything with one" if combines_in_loops(s.target) else ""
            raise OptError(f"FUSE({on}): no two reductions over {on} run over the same points without needing each other{stores}")
        for group in _possible(s, on, found):
            places |= {n.name: p for n in group if (p := _place(n, group)) is not None}
            items = _joined(s, on, items, group)
            names.append(tuple(n.name for n in group))
    return replace(s, items=tuple(items), siblings=tuple(names), places=places)


def check(s: Scheduled) -> None:
    """Raise OptError where several partial places would wait in memory, of which the first one counts."""
    for n in s.nests:
        if n.name not in s.places:
            continue
        axis = n.reduce_axes[0]
        reducing = [p.axis is axis for p in s.loops(n)]
        partial = s.shared_by((axis,)) or any(p.axis is axis and p.kind == "upcast" for p in s.registers(n))
        if reducing != sorted(reducing) and partial:
            raise OptError(
                f"FUSE: {n.name} is the place of {s.places[n.name].extreme}; keep the loops over {axis.arg.name} innermost, or take "
                f"UNROLL in place of UPCAST, so that each result has one place"
            )


def _possible(s: Scheduled, on: str, found: Sequence[list[Nest]]) -> list[list[Nest]]:
    """The groups, without stores of which the schedule makes something else. OptError where nothing is left."""
    out = [[n for n in g if n.store is None or _cut_alike(s, n, g[0])] for g in found]
    out = [g for g in out if len(g) > 1]
    if not out:
        n = found[0][-1]
        raise OptError(
            f"FUSE({on}): the store of {n.name} runs in the loop of {found[0][0].name} only if both have the same copies along {on} (name the family), "
            f"and neither is kept in a tile nor made by a matrix instruction"
        )
    return out


def _cut_alike(s: Scheduled, n: Nest, first: Nest) -> bool:
    """Whether the points of a store are copied in registers as those of a reduction, but for steps that are spelled out, and both are made as
    they stand. (Its loops become those of the reduction.)"""
    table = sites(n, first)
    special = n.name in s.held or first.name in s.dots or first.name in s.tensors
    return table is not None and not special and all(_copied(s.plans[a]) == _copied(s.plans[b]) for a, b in table.items())


def _copied(plan: AxisPlan) -> list[tuple[object, ...]]:
    return [(p.kind, p.size, p.stride) for p in plan.parts if p.kind not in ("serial", "unroll")]


def _joined(s: Scheduled, on: str, items: list[Item], group: list[Nest]) -> list[Item]:
    """The items with those of a group right after its first, over the first one's reduce axes."""
    first, rest = group[0], group[1:]
    for n in group:
        if n.name in s.dots or n.name in s.tensors:
            raise OptError(f"FUSE({on}): {n.name} is made by a matrix instruction, in a loop of its own")
    out: list[Item] = []
    for item in items:
        if item is first:
            out += [first, *(_over(s, on, n, group) for n in rest)]
        elif not any(item is n for n in rest):
            out.append(item)
    return out


def _over(s: Scheduled, on: str, n: Nest, group: Sequence[Nest]) -> Nest:
    """A nest over the sites of the reduce axes that the first of its group has, which must be cut alike. Of the place of an extreme
    only its index is left."""
    axes = group[0].reduce_axes
    if n.store is not None:
        table = sites(n, group[0])
        assert table is not None
        return over(n, table)
    for mine, other in zip(n.reduce_axes, axes, strict=True):
        if _part_shapes(s.plans[mine]) != _part_shapes(s.plans[other]):
            raise OptError(
                f"FUSE({on}): {mine.arg.name} and {other.arg.name} are cut differently; name the family {mine.arg.family} instead"
            )
    place = _place(n, group)
    if place is not None:
        own = next(m for m in group if m.name == place.extreme).reduce_axes
        return replace(n, reduce_axes=axes, expr=substitute(place.index, dict(zip(own, axes, strict=True))))
    if n.reduce_axes == axes:
        return n
    table = dict(zip(n.reduce_axes, axes, strict=True))
    return replace(n, reduce_axes=axes, expr=substitute(n.expr, table))


def _part_shapes(plan: AxisPlan) -> list[tuple[object, ...]]:
    return [(p.kind, p.size, p.stride, p.clip) for p in plan.parts]


def propose(near: Neighbourhood) -> Iterator[Opts]:
    """Each family that has siblings."""
    taken = {on for op, on in near.taken if op == "FUSE"}
    for family in dict.fromkeys(a.arg.family for n in near.schedule.nests for a in n.reduce_axes) if not near.schedule.phases else ():
        found = siblings(near.schedule.items, family, combines_in_loops(near.target))
        if found and taken.isdisjoint((family, _name(found, family))):
            yield (opt("FUSE", _name(found, family)),)


def by_family(kernel: Kernel, target: Target) -> dict[str, list[list[Nest]]]:
    """The groups of a kernel that may run in one loop each, by the family that is reduced over."""
    families = dict.fromkeys(str(a.arg.family) for v in kernel.values.values() for a in v.reduce_axes)
    found = {f: siblings(plain(kernel), f, combines_in_loops(target)) for f in families}
    return {f: groups for f, groups in found.items() if groups}


def with_rows(kernel: Kernel, target: Target) -> Opts:
    """Each family that has siblings: they read the same rows."""
    return tuple(opt("FUSE", _name(groups, f)) for f, groups in by_family(kernel, target).items())


def _name(groups: Sequence[Sequence[Nest]], family: str) -> str:
    """What names a family: of a single reduction, which only stores join, the site, which no other phase has."""
    alone = len(groups) == 1 and groups[0][1].store is not None
    return next(str(a.arg.name) for a in groups[0][0].reduce_axes if a.arg.family == family) if alone else family


FUSE = Option(
    name="FUSE",
    letter="J",
    on="axis",
    arg=None,
    kind="reduce",
    legend="reductions in one loop",
    docs=(
        Doc(
            "FUSE(axis)",
            "Run reductions over the axis that do not need each other in one loop, and compute once what they have in common: the sums of "
            "three components, a sum and a maximum of one row. Their sites must be cut alike. The place of an extreme, written as the least "
            "index at which something equals its own maximum or minimum, is kept beside the extreme. On processors, stores at the points that "
            "are reduced join the loop where they share something with it and need no result of it: a gradient beside the sum of its loss.",
        ),
    ),
    act=act,
    check=check,
    finish=finish,
    propose=propose,
    with_rows=with_rows,
)
