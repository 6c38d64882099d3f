"""What lanes along an axis would save of a nest's arithmetic."""

from __future__ import annotations

from collections.abc import Iterable

from ...ir.dtypes import index
from ...ir.node import COSTLY_FLOATS, Node, axes_of, walk

_NONE = frozenset(("load", "ref", "cast", "const", "axis", "sym"))
"""What computes nothing."""
_LONG = {**dict.fromkeys(COSTLY_FLOATS, 12.0), "div": 4.0, "sqrt": 4.0}
"""What takes several instructions, in additions; the functions are polynomials."""


SAVED = 0.25
"""What an operation counts beside an access, where no axis is consecutive in most accesses."""


def arithmetic(axis: Node, exprs: Iterable[Node]) -> float:
    """The operations on values (not on indices) that vary along an axis, each counted once, in additions."""
    return sum(_LONG.get(n.op, 1.0) for n in walk(*exprs) if n.op not in _NONE and n.dtype is not index and axis in axes_of(n))
