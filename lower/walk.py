"""Walks the loop tree of a schedule in order, opening the loops that nests share."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby

from ..opts.loop_tree import Chain, Folded, Shared, Single, Together, Tree
from .lowering import Lowering
from .triangles import begun


def emit_tree(low: Lowering, items: Sequence[Tree]) -> None:
    """Emit items in order at the builder's position. Where stores in the loop of a reduction may go past the caches, they are asked
    before all items, so that these find the results in registers."""
    joined = [n.store.buffer.name for item in items if isinstance(item, Together) for n in item.nests if n.store is not None]
    low.emitters.streaming(low, [name for name in joined if name in low.sched.nt], lambda: _emit_all(low, items))


def _emit_all(low: Lowering, items: Sequence[Tree]) -> None:
    for stores, group in groupby(items, lambda item: isinstance(item, Single) and item.nest.kind in ("store", "init")):
        if stores:
            low.emitters.stores(low, [item.nest for item in group if isinstance(item, Single)])
        else:
            _emit(low, group)


def _emit(low: Lowering, items: Iterable[Tree]) -> None:
    for item in items:
        if isinstance(item, Shared):
            _reserve(low, item)
            with low.within(nests=item.nests):
                for piece in low.versions(begun(low, item.part)):
                    with low.open(item.part, piece=piece):
                        emit_tree(low, item.body)
        elif isinstance(item, Folded):
            with low.within(nests=item.item.nests):
                low.emitters.fold(low, item)
        elif isinstance(item, Together):
            with low.within(nests=item.nests):
                low.emitters.together(low, item.nests)
        elif isinstance(item, Chain):
            with low.within(nests=item.nests):
                low.emitters.chain(low, item.nests)
        else:
            with low.within(nests=(item.nest,)):
                low.emitters.nests[item.nest.kind](low, item.nest)


def _reserve(low: Lowering, loop: Shared) -> None:
    """Give every value that is read outside a loop an array out here, before it opens."""
    made = {n.name: n.value for n in loop.nests if n.value is not None}
    for name, axes in loop.reserved:
        if name not in low.storage.values:
            low.storage.reserved[name] = low.array(made.get(name) or low.ctx.kernel.values[name], axes)
