"""Extremes: their places, windows that share parts of them, and sizes compared as whole numbers.

The place of an extreme is the first index at which something equals its own maximum or minimum, written as a minimum of indices.

Argmax in two reductions, best = max x[r] and at = min (r where x[r] = best), needs a second pass over what is compared. In the loop of
the first, the place is kept beside the extreme and replaced where a better element comes: `FUSE` does that.

Lowering computes once what the extremes of neighbouring windows have in common, and the model counts it once. A window is given as its
steps (for each, which of its axis' steps it is) and as many elements: anything but a tuple that is equal where two windows have it."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from itertools import permutations
from typing import TypeVar

from ...ir.body import Combine, Reduce
from ...ir.operators import substitute
from ...targets import Target
from ..nests import Nest
from ..plans import ExtremePlace
from ..schedule import Scheduled


def combine_of(n: Nest) -> str:
    """How a reduction combines; '' for other nests."""
    return n.value.expr.combine if n.value is not None and isinstance(n.value.expr, Reduce) else ""


def place_of(n: Nest, extreme: Nest) -> ExtremePlace | None:
    """What a nest is the place of; None where it is not that of `extreme`. The number that stands for none must be no less than
    any index."""
    if combine_of(n) != "min" or combine_of(extreme) not in ("max", "min") or n.axes != extreme.axes:
        return None
    if len(n.reduce_axes) != 1 or len(extreme.reduce_axes) != 1 or n.expr.op != "where" or n.expr.src[0].op != "eq":
        return None
    (mine,), (axis,) = n.reduce_axes, extreme.reduce_axes
    alike, index, end = n.expr.src
    plain = index.src[0] if index.op == "cast" else index
    size = mine.arg.extent
    if plain is not mine or not index.dtype.is_int or not isinstance(size, int) or size < 1 or axis.arg.extent != size:
        return None
    if end.op != "const" or end.arg < size - 1:
        return None
    compared = substitute(extreme.expr, {axis: mine})
    for a, b in (alike.src, alike.src[::-1]):
        if a is compared and b.op == "ref" and b.arg == extreme.name and b.src == extreme.axes:
            return ExtremePlace(extreme.name, substitute(index, {mine: axis}), int(end.arg))
    return None


def by_bits(n: Nest, target: Target, combine: Combine | str) -> bool:
    """Whether a reduction takes the largest of float32 sizes on a target whose instruction for the larger of two floats drops what is no
    number: that for whole numbers does not."""
    expr = n.expr
    known = combine == "max" and expr.op == "abs" and expr.dtype.is_float and expr.dtype.size == 4
    return known and not target.keeps_nan and "sse41" in target.features


E = TypeVar("E")
Step = Mapping[str, int]
Group = Hashable
"""An element of a window, or a tuple of groups."""
ORDERED = 3
"""Axes of a window whose orders are all looked at."""
LEAST = 3
"""Steps of a window in which anything can be saved."""
MOST = 2048
"""Elements of all windows of a body, from which on the model does not look at them one by one."""


def fully_unrolled(s: Scheduled, n: Nest) -> bool:
    """Whether a reduction is a maximum or minimum over a window without a loop, for results in registers that stores alone read."""
    if combine_of(n) not in ("max", "min") or n.fills or n.name in s.places or n.name in s.dots or n.name in s.tensors:
        return False
    readers = [reader for reader, _ in s.tree.reads.get(n.name, ())]
    stored = bool(readers) and all(r.kind == "store" and r.store is not None and not r.store.combine for r in readers)
    lane = s.lanes(n).lane
    whole = all(p.axis in n.axes for p in s.loops(n)) and all(p.kind == "unroll" for p in s.registers(n) if p.axis not in n.axes)
    return stored and whole and lane is not None and lane.axis in n.axes and n.name in s.tree.registers


def grouped(order: Sequence[str], steps: Sequence[Step], elements: Sequence[Group]) -> Group:
    """The elements of one window as groups of groups, by the axes in this order, outermost first."""
    if not order:
        return elements[0]
    groups: dict[int, tuple[list[Step], list[Group]]] = {}
    for step, x in zip(steps, elements, strict=True):
        mine = groups.setdefault(step[order[0]], ([], []))
        mine[0].append(step)
        mine[1].append(x)
    return tuple(grouped(order[1:], *mine) for mine in groups.values())


def best_order(axes: Sequence[str], steps: Sequence[Step], windows: Sequence[Sequence[Group]]) -> tuple[tuple[str, ...], int]:
    """(the order of a window's axes in which all windows are reduced by the fewest operations, how many those are)."""
    orders = list(permutations(axes)) if len(axes) <= ORDERED else [tuple(axes)]
    counts = [_operations([grouped(order, steps, each) for each in windows]) for order in orders]
    best = min(range(len(orders)), key=counts.__getitem__)
    return orders[best], counts[best]


def _operations(groups: Sequence[Group]) -> int:
    """How many operations reduce all groups, where what begins alike is reduced once."""
    seen: set[object] = set()

    def look(group: Group) -> None:
        if isinstance(group, tuple):
            for g in group:
                look(g)
            seen.update(group[: at + 1] for at in range(1, len(group)))

    for g in groups:
        look(g)
    return len(seen)


def covering(at: Mapping[int, E], width: int) -> list[E]:
    """The fewest vectors of `width` consecutive elements that hold every element of all, each by where it begins."""
    out: list[E] = []
    starts = sorted(at)
    covered = starts[0]
    for start, following in zip(starts, [*starts[1:], None], strict=True):
        if start + width > covered and (following is None or following > covered):
            out.append(at[start])  # the last one that leaves no gap
            covered = start + width
    return out
