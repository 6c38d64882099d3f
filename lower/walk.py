"""Walks the items of a schedule in order, opening loops; neighbours whose next loop is the same run inside one loop."""

from __future__ import annotations

from collections.abc import Sequence

from ..ir.kernel import Scan
from ..ir.node import Node
from ..opts.axis_plan import Part
from ..opts.nests import FoldItem, Item, Nest
from .lowering import Lowering


def emit_items(low: Lowering, items: Sequence[Item]) -> None:
    """Emit items in order; neighbours that share their next loop run inside one loop."""
    i = 0
    while i < len(items):
        part = _next(low, items[i])
        j = i + 1
        if part is not None and _sharable(items[i], part):
            while j < len(items) and _joins(low, items[i:j], items[j], part):
                j += 1
        if part is None or not _sharable(items[i], part) or (j == i + 1 and isinstance(items[i], Nest)):
            _emit(low, items[i])
            i += 1
            continue
        group = items[i:j]
        _reserve(low, group)
        with low.within(nests=tuple(_nests(group))):
            for piece in low.versions(low.pieces(part)):
                with low.open(part, piece=piece):
                    emit_items(low, group)
        i = j


def empty(item: Item) -> bool:
    """Whether an item has no points, because an axis of it has the extent 0."""
    if isinstance(item, Nest):
        return item.empty
    return all(any(a.arg.extent == 0 for a in item.fold.component(c).axes) for c in item.fold.components)


def _emit(low: Lowering, item: Item) -> None:
    with low.within(nests=tuple(_nests([item]))):
        if isinstance(item, FoldItem):
            low.emitters.fold(low, item)
        else:
            low.emitters.nests[item.kind](low, item)


def _nests(items: Sequence[Item]) -> list[Nest]:
    return [n for i in items for n in (i.nests if isinstance(i, FoldItem) else (i,))]


def _reserve(low: Lowering, group: Sequence[Item]) -> None:
    """Give every value of a group that is read outside it an array out here, before its loop opens."""
    inside, storage = _nests(group), low.storage
    for n in inside:
        for name, axes in n.made.items():
            outside = name in low.ctx.merged or any(all(r is not m for m in inside) for r, _ in low.ctx.reads.get(name, ()))
            if outside and name not in storage.values and name not in storage.reserved:
                value = n.value if n.value is not None and n.name == name else low.ctx.kernel.values[name]
                storage.reserved[name] = low.array(value, axes)


def _next(low: Lowering, item: Item) -> Part | None:
    if isinstance(item, Nest):
        rest = low.remaining(item)
        return rest[0] if rest else None
    per = [low.remaining(n) for n in item.nests]
    first = per[0][0] if per[0] else None
    same = first is not None and first.kind != "fold" and all(r and r[0].name == first.name for r in per)
    return first if same else None


def _sharable(item: Item, part: Part) -> bool:
    return all(part.axis in n.axes and not (n.kind == "scan" and _scan_axis(n) is part.axis) for n in _nests([item]))


def _joins(low: Lowering, group: Sequence[Item], item: Item, part: Part) -> bool:
    nxt = _next(low, item)
    if nxt is None or nxt.name != part.name or not _sharable(item, part):
        return False
    made = {n.name: n for n in _nests(group)}
    made |= {f: n for n in list(made.values()) for f in n.fills}
    mine = {n.name for n in _nests([item])}
    # a reader may share the loop only if it reads just what this iteration made
    for name, maker in made.items():
        axes = maker.fills.get(name, maker.axes)
        for reader, src in low.ctx.reads.get(name, ()):
            elsewhere = any(a is part.axis and s is not a for a, s in zip(axes, src, strict=True))
            if reader.name in mine and (_apart(low, reader) or elsewhere):
                return False
    return True


def _apart(low: Lowering, store: Nest) -> bool:
    """Whether a staged output is stored by loops of its own from here on: its tile is complete in the loop it is staged at."""
    held = store.store is not None and store.name in low.sched.held
    return held and low.sched.value_stages[store.name] in low.scope.opened


def _scan_axis(nest: Nest) -> Node:
    assert nest.value is not None and isinstance(nest.value.expr, Scan)
    return nest.value.expr.axis
