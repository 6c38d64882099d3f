"""Which values a node's integers can have, as far as types, declared ranges and operators show."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

from ...ir import index as ix
from ...ir.dtypes import bool_
from ...ir.index import BIG, Interval
from ...ir.integer_ranges import inside, whole
from ...ir.intervals import INTERVALS
from .nodes import Mark, TensorNode, range_of, walk
from .symbolic_sizes import most, number

NOTHING = (-BIG, BIG)
_KNOWN: weakref.WeakKeyDictionary[TensorNode, Interval] = weakref.WeakKeyDictionary()


class RangeMark(Mark):
    """The mark of integers between `low` and `high`, both included: by what they are, or since others are an error."""

    __slots__ = ("high", "low")

    def __init__(self, name: str, low: int, high: int) -> None:
        super().__init__(name)
        self.low, self.high = low, high

    @property
    def key(self) -> tuple[Any, ...]:
        """What distinguishes marks."""
        return self.name, self.low, self.high

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)


def interval(n: TensorNode) -> Interval:
    """The least and the largest value that elements of `n` may have; of floats nothing is known."""
    found = _KNOWN.get(n)
    if found is None:
        for m in walk([n], lambda m: m in _KNOWN or m.op not in _SHOWN or m.data is not None):
            if m not in _KNOWN:
                _KNOWN[m] = _fitted(m)
        found = _KNOWN[n]
    return found


def _fitted(n: TensorNode) -> Interval:
    if n.dtype is bool_:
        return 0, 1
    if not n.dtype.is_int:
        return NOTHING
    found, every = _interval(n), whole(n.dtype)
    return found if found != NOTHING and inside(found, n.dtype) else every


def _interval(n: TensorNode) -> Interval:
    every = whole(n.dtype)
    if n.data is not None or n.op in ("buffer", "slot"):
        return range_of(n) or every
    if n.op == "const":
        return int(n.arg), int(n.arg)
    if n.op == "iota":
        return 0, max(0, most(n.shape[0]) - 1)
    if n.op == "extent":
        return ix.bounds(number(n.arg))
    if n.op == "host":
        return _HOSTED[n.arg.name](n) if n.arg.name in _HOSTED else every
    if n.op not in _SHOWN:
        return every
    first = _KNOWN[n.src[0]]
    if n.op == "cast" and isinstance(n.arg, RangeMark):
        return max(first[0], n.arg.low), min(first[1], n.arg.high)
    if n.op == "view":
        return first if n.arg.mask is None else (min(0, first[0]), max(0, first[1]))
    if n.op in ("reduce", "scan"):
        empty = any(ix.bounds(number(e))[0] < 1 for e in n.src[0].shape)  # a reduction of nothing is its identity
        return first if n.arg[0] in ("max", "min") and not empty else every
    if n.op == "elementwise":
        of = INTERVALS.get(n.arg) if n.arg != "shl" else None
        return (of and of(*(_KNOWN[s] for s in n.src))) or every
    return first


_SHOWN = frozenset({"cast", "after", "view", "reduce", "scan", "elementwise", "gather"})
"""Operations that are looked behind."""

_HOSTED: dict[str, Callable[[TensorNode], Interval]] = {
    "argsort": lambda n: (0, max(0, most(n.src[0].shape[n.arg.key[0]]) - 1)),
    "searchsorted": lambda n: (0, most(n.src[0].shape[0])),
}
"""Of NumPy's own code."""
