"""What stands in brackets, taken apart as NumPy does: slices, integers, new axes, the Ellipsis, masks and index tensors."""

from __future__ import annotations

import operator
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from ...ir.dtypes import bool_
from ...ir.errors import UsageError
from ..graph.checked import IndexMark, checked
from ..graph.maps import Shape
from ..graph.node import TensorNode
from ..graph.numbers import plain
from ..graph.symbols import SymbolicSize, below, int_size, symbolic
from ..leaves import from_data, from_numpy, values
from ..running.capturing import check_captured, current

Pick = tuple[int, int, int]
"""(start, step, length) along a dimension."""


@dataclass(frozen=True)
class IndexKey:
    """A key of a source of shape `source`. `picks`: of every dimension, an integer being a pick of one. `layout`: the result's
    dimensions of the picked array, in order: a source's dimension, None for a new axis. `loaded`: source dimensions that are
    read at places in a tensor, with these. `front`: where in the layout the dimensions of the index tensors go. `flag`: the value of
    a mask without dimensions, which is such a tensor of one element or of none, and of no dimension; None without one."""

    source: Shape
    picks: tuple[Pick, ...]
    layout: tuple[int | None, ...]
    loaded: tuple[tuple[int, TensorNode], ...] = ()
    front: int = 0
    flag: bool | None = None


def parsed(shape: Shape, key: Any, name: str = "getitem") -> IndexKey:
    """The key of an array of a shape, given to the function `name`. Masks are read at once, since the result's shape depends on
    them."""
    key = plain(key)
    items = list(key) if isinstance(key, tuple) else [key]
    given, items = items, [_item(i) for i in items]
    written = {id(n) for i, n in zip(given, items, strict=True) if isinstance(i, list)}
    used = 0
    for i in items:
        used += 0 if i is None or i is Ellipsis else len(i.shape) if _is_mask(i) else 1
    if used > len(shape):
        raise IndexError(f"{used} indices for an array of shape {list(shape)}")
    if not any(i is Ellipsis for i in items):
        items.append(Ellipsis)
    if sum(i is Ellipsis for i in items) > 1:
        raise IndexError("an index can hold only one Ellipsis")
    return _Parser(name, shape, len(shape) - used, written).parse(items)


class _Parser:
    def __init__(self, name: str, shape: Shape, hidden: int, written: Collection[int]) -> None:
        """`hidden`: dimensions that the Ellipsis stands for; `written`: ids of index tensors that stand in the key as lists."""
        self.name, self.shape, self.hidden, self.written = name, shape, hidden, written
        self.picks: list[Pick] = []
        self.layout: list[int | None] = []
        self.loaded: list[tuple[int, TensorNode]] = []
        self.flag: bool | None = None
        self.fronts: list[tuple[int, int]] = []
        """Of each item that counts as an index tensor: its place among the items, and in the layout."""

    def parse(self, items: Sequence[Any]) -> IndexKey:
        advanced = any(isinstance(i, TensorNode) for i in items)
        for at, item in enumerate(items):
            d = len(self.picks)
            if item is None:
                self.layout.append(None)
            elif item is Ellipsis:
                for _ in range(self.hidden):
                    self._slice(slice(None))
            elif isinstance(item, slice):
                self._slice(item)
            elif isinstance(item, TensorNode):
                self.fronts.append((at, len(self.layout)))
                if item.dtype is bool_ and not item.shape:
                    self.flag = bool(values(item)) and self.flag is not False
                    continue
                for index in _places(item, self.shape[d : d + len(item.shape)]) if item.dtype is bool_ else (item,):
                    self._load(index, index is not item or id(item) in self.written)
            else:
                self._integer(item)
                if advanced:
                    self.fronts.append((at, len(self.layout)))
        first, last = (self.fronts[0], self.fronts[-1]) if self.fronts else ((0, 0), (0, 0))
        together = last[0] - first[0] == len(self.fronts) - 1
        front = first[1] if together else 0
        if self.flag is not None and not self.loaded:
            self.layout.insert(front, None)
        return IndexKey(self.shape, tuple(self.picks), tuple(self.layout), tuple(self.loaded), front, self.flag)

    def _slice(self, s: slice) -> None:
        d = len(self.picks)
        self.layout.append(d)
        if symbolic((self.shape[d], s.start, s.stop)):
            self.picks.append(_symbolic_pick(s, self.shape[d]))
            return
        start, stop, step = s.indices(self.shape[d])
        self.picks.append((start, step, len(range(start, stop, step))))

    def _integer(self, i: int) -> None:
        d = len(self.picks)
        n = self.shape[d]
        if symbolic((n, i)):
            self.picks.append((_inside(i, n, n - 1), 1, 1))
            return
        if not -n <= i < n:
            raise IndexError(f"index {i} is out of bounds for dimension {d} of shape {list(self.shape)}")
        self.picks.append((i % n, 1, 1))

    def _load(self, index: TensorNode, own: bool) -> None:
        """`own`: nobody else has the memory of the index tensor, so that it is checked here, once."""
        d = len(self.picks)
        n = self.shape[d]
        self.loaded.append((d, checked(index, IndexMark("index", self.name, d, n, True), own or current() is None)))
        self.picks.append((0, 1, n))


def _inside(v: int, n: int, last: int) -> int:
    """A place in a dimension of `n` elements, counted from its end where it is below 0, that is 0 to `last` whatever the symbols
    are. Raises UsageError."""
    place = v + n if not isinstance(v, SymbolicSize) and v < 0 else v
    if below(place, 0) or below(last, place):
        raise IndexError(f"index {v!r} is out of bounds for a dimension of {n!r}")
    if not below(-1, place) or not below(place, last + 1):
        raise UsageError(f"index {v!r} lies in a dimension of {n!r} for some values of the symbols only: make their ranges narrower")
    return place


def _symbolic_pick(s: slice, n: int) -> Pick:
    """A slice of a symbolic dimension, or with symbolic bounds: the bounds must lie inside of it for every value."""
    step = 1 if s.step is None else s.step
    if isinstance(step, SymbolicSize) or step == 0 or (step < 0 and (s.start, s.stop) != (None, None)):
        raise UsageError(f"slice {s.start!r}:{s.stop!r}:{s.step!r} of {n!r}: the step is a number, and -1 only without bounds")
    if step < 0:
        if step != -1:
            raise UsageError(f"slice ::{step} of {n!r}: of symbolic sizes the step is at least -1")
        return n - 1, -1, n
    start = 0 if s.start is None else _inside(s.start, n, n)
    stop = n if s.stop is None else _inside(s.stop, n, n)
    length = int_size(f"slice {s.start!r}:{s.stop!r} of {n!r}", stop - start)
    return start, step, length if step == 1 else (length + step - 1) // step


def _item(i: Any) -> Any:
    if i is None or i is Ellipsis or isinstance(i, TensorNode):
        if isinstance(i, TensorNode) and not (i.dtype.is_int or i.dtype is bool_):
            raise IndexError(f"indices are integers or masks, not {i.dtype}")
        return i
    if isinstance(i, slice):
        return slice(*(None if v is None else _whole(v) for v in (i.start, i.stop, i.step)))
    if isinstance(i, bool) or (isinstance(i, list) and i != []):
        return from_data(i)
    if isinstance(i, list):
        return from_data(i, "int64")
    return _whole(i)


def _whole(v: Any) -> int:
    if isinstance(v, SymbolicSize):
        check_captured(v)
        return v
    if isinstance(v, TensorNode):
        return int(values(v).item())
    try:
        return operator.index(v)
    except TypeError:
        raise IndexError(f"{v!r} is no index: use integers, slices, None, Ellipsis, masks or integer tensors") from None


def _is_mask(i: Any) -> bool:
    return isinstance(i, TensorNode) and i.dtype is bool_


def _places(mask: TensorNode, shape: Shape) -> tuple[TensorNode, ...]:
    """The places where a mask is true, one index tensor a dimension."""
    import numpy as np

    if mask.shape != shape:
        raise IndexError(f"a mask of shape {list(mask.shape)} for dimensions of {list(shape)}")
    return tuple(from_numpy(np.ascontiguousarray(p, np.int64)) for p in np.nonzero(values(mask)))
