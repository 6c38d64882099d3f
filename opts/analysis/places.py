"""Places of extremes: the first index at which something equals its own maximum or minimum, written as a minimum of indices.

Argmax in two reductions, best = max x[r] and at = min (r where x[r] = best), needs a second pass over what is compared. In the loop of
the first, the place is kept beside the extreme and replaced where a better element comes: `FUSE` does that."""

from __future__ import annotations

from dataclasses import dataclass

from ...ir.body import Reduce
from ...ir.node import Node
from ...ir.operators import substitute
from ..nests import Nest


@dataclass(frozen=True, slots=True)
class ExtremePlace:
    """The place of the reduction `extreme`: the least `index`, an expression of that one's axis; `none` where nothing equals it."""

    extreme: str
    index: Node
    none: int


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
