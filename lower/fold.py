"""Emits folds: the block once, or for each tile of the folded axis with the states merged."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..ir.errors import OptError
from ..ir.node import Node, axes_of, placeholder, ref, substitute, walk
from ..opts.nests import FoldItem, Nest
from .loops import through
from .point import point_body
from .storage import Array

if TYPE_CHECKING:
    from .lowering import Lowering


def fold(low: Lowering, item: FoldItem) -> None:
    """A fold: its block once, or for each tile with the states merged."""
    f = item.fold
    cut = next((low.sched.plans[a].fold for n in item.nests for a in n.all_axes if low.sched.plans[a].fold), None)
    if cut is None and f.axis.arg.extent != 0:
        low.emit_items([n for n in item.nests if not n.empty])
        return
    parts = {c: f.component(c) for c in f.components if all(a.arg.extent != 0 for a in f.component(c).axes)}
    state: dict[str, Array] = {}
    for c, v in parts.items():
        # what is read after the loops around the fold was given room outside them; a tile's own result needs none there
        state[c] = low.forced.pop(c) if c in low.forced else low.array(v, v.axes)
    by_axes: dict[tuple[Node, ...], list[str]] = {}
    for c, v in parts.items():
        by_axes.setdefault(v.axes, []).append(c)
    groups = sorted(by_axes.items(), key=lambda g: -len(g[0]))
    for axes, names in groups:
        start = [(f.monoid.identity[f.components.index(c)], state[c]) for c in names]
        n = Nest(f"{f.name}.start", "point", axes, (), start[0][0])
        through(low, low.remaining(n), lambda n=n, start=start: point_body(low, n, start))  # type: ignore[misc]
    if cut is None:  # nothing is folded: the state stays as it began
        low.storage |= state
        return
    table: dict[Node, Node] = {}
    for c, v in parts.items():
        low.storage[f"{f.name}.{c}"] = state[c]
        table[placeholder(f"a.{c}", v.dtype)] = ref(f"{f.name}.{c}", v.axes, v.dtype)
        table[placeholder(f"b.{c}", v.dtype)] = ref(c, v.axes, v.dtype)
    with low.open(cut):
        inside = dict(low.storage)
        low.emit_items([n for n in item.nests if not n.empty])
        for axes, names in groups:
            writes = [(substitute(f.monoid.merge[f.components.index(c)], table), state[c]) for c in names]
            n = Nest(f"{f.name}.merge", "point", axes, (), writes[0][0])
            _check_ranks(f.name, axes, writes)
            through(low, low.remaining(n), lambda n=n, writes=writes: point_body(low, n, writes))  # type: ignore[misc]
        low.storage = inside
    for c in parts:
        low.storage[c] = state[c]


def _check_ranks(name: str, axes: tuple[Node, ...], writes: Sequence[tuple[Node, Array]]) -> None:
    for e, _ in writes:
        if axes_of(*(s for w in walk(e) for s in w.src)) - set(axes):
            raise OptError(f"fold {name}: a merge uses a component with more axes than its own")
