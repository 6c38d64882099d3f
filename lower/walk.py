"""Walks the loop tree of a schedule in order, opening the loops that nests share."""

from __future__ import annotations

from collections.abc import Sequence

from ..opts.loop_tree import Chain, Folded, Shared, Together, Tree
from .lowering import Lowering


def emit_tree(low: Lowering, items: Sequence[Tree]) -> None:
    """Emit items in order at the builder's position."""
    for item in items:
        if isinstance(item, Shared):
            _reserve(low, item)
            with low.within(nests=item.nests):
                for piece in low.versions(low.pieces(item.part)):
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
