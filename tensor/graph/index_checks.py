"""Index tensors that must lie inside: the mark that says so, and the check of a graph's marks.

A mark is a cast to the node's own type, so kernels compute nothing for it. Whoever computes a graph asks `check_of` for one more
output: of each marked tensor a kernel finds the element that is furthest away, as the largest of (element − lowest place)
without a sign, and NumPy's side compares these few numbers and raises. It runs before whatever does not need it."""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ...ir import index as ix
from ...ir.dtypes import DType, bool_, int32, int64, uint8, uint32, uint64
from ...ir.errors import OutOfRangeError
from ...ir.index import BIG, INTERVALS, Interval
from ...ir.integer_ranges import inside, whole
from . import index_maps as maps
from .loop_nodes import final
from .nodes import HostCall, Mark, TensorNode, range_of, walk
from .primitives import cast, const, elementwise, host, marked, reduce, view
from .source_lines import Line, at, user_line
from .symbolic_sizes import SymbolicSize, below, most, number, symbolic

# which values a node's integers can have, as far as types, declared ranges and operators show -------------------------

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


# index checks ---------------------------------------------------------------------------------------------------------

CHECK = "index check"
"""The name of the call that compares."""


class IndexMark(RangeMark):
    """The mark of integers that must be places in `size` elements. `what` they are to people: an index, a label; `name`: of the
    function that they were given to; `dim`: the dimension that they are places in, `negative`: counted from its end as well; `ascending`:
    none along the last dimension may be less than the one before."""

    __slots__ = ("ascending", "dim", "negative", "size", "what")

    def __init__(self, what: str, name: str, dim: int, size: int, negative: bool, ascending: bool = False) -> None:
        super().__init__(name, -most(size) if negative else 0, most(size) - 1)
        self.what, self.dim, self.size, self.negative, self.ascending = what, dim, size, negative, ascending

    @property
    def key(self) -> tuple[Any, ...]:
        """What distinguishes checks."""
        return self.what, self.name, self.dim, self.size, self.negative, self.ascending

    def look(self, values: Any, line: Line) -> None:
        """Raise OutOfRangeError where an integer of a NumPy array lies outside. The size is a number."""
        if not values.size:
            return
        low, high = int(values.min()), int(values.max())
        first = -self.size if self.negative else 0
        if low < first or high >= self.size:
            raise self.error(low if low < first else high, self.size, line)
        if self.ascending and (values[..., 1:] < values[..., :-1]).any():
            raise self.descent(line)

    def descent(self, line: Line) -> OutOfRangeError:
        """What is said of a value that is less than the one before."""
        return OutOfRangeError(f"{self.name}: one {self.what} is less than the one before: they ascend, as was declared{at(line)}")

    def error(self, value: int | str, size: int, line: Line) -> OutOfRangeError:
        """What is said of a value outside."""
        return OutOfRangeError(
            f"{self.name}: {self.what} {value}{' ' if value != '' else ''}is out of range for dimension {self.dim} of {size} elements{at(line)}"
        )

    def holds(self, n: TensorNode) -> bool:
        """Whether the elements of a node cannot be outside, by what is known of them."""
        if (
            isinstance(n.arg, IndexMark)
            and n.arg.size == self.size
            and (self.negative or not n.arg.negative)
            and n.arg.ascending >= self.ascending
        ):
            return True
        low, high = interval(n)
        if self.ascending:
            return False
        if isinstance(self.size, SymbolicSize):
            return (low >= 0 or (self.negative and below(-low - 1, self.size))) and below(high, self.size)
        return low >= (-self.size if self.negative else 0) and high < self.size


class ValueMark(IndexMark):
    """The mark of the numbers of the values that the true elements of a mask take, −1 where values are left over."""

    __slots__ = ()

    def error(self, value: int | str, size: int, line: Line) -> OutOfRangeError:
        """What is said of a value outside."""
        if value != -1:
            return super().error(value, size, line)
        return OutOfRangeError(f"{self.name}: {size} values for a mask with fewer true elements{at(line)}")


def switched_off() -> bool:
    """TILEWRIGHT_INDEX_CHECKS=0: indices are not checked; outside, the nearest place is read, and nothing is written."""
    return os.environ.get("TILEWRIGHT_INDEX_CHECKS", "1") == "0"


def checked(index: TensorNode, by: IndexMark, now: bool) -> TensorNode:
    """`index`, whose elements are known to be inside when they are used. `now`: what has values is checked here, once; else
    whenever the node is computed. Raises OutOfRangeError."""
    if switched_off() or index.size == 0 or by.holds(index):
        return index
    if now and index.data is not None and not isinstance(by.size, SymbolicSize):
        by.look(index.data.array, user_line())
        return index
    return marked(index, by)


# the check of a graph ---------------------------------------------------------------------------------------------
def check_of(outs: Sequence[TensorNode]) -> list[TensorNode]:
    """One node that raises OutOfRangeError where a marked tensor behind `outs` has an element outside; none where none is
    marked. Of several the first is named, in the order in which they were made."""
    found = furthest(walk(outs))
    if not found:
        return []
    rows = [row for row, _ in found]
    call = HostCall(CHECK, _Look(rows), tuple(row.key for row in rows))
    return [host(call, tuple(s for row, top in found for s in row.sources(top)), (1,), uint8)]


def furthest(nodes: Iterable[TensorNode]) -> list[tuple[IndexRow, TensorNode]]:
    """(row, how far outside its furthest element is) of each marked tensor among some nodes, and of those in the steps of loops."""
    found: list[tuple[IndexRow, TensorNode]] = []
    loops = set()
    for n in nodes:
        if n.data is not None:
            continue
        if isinstance(n.arg, IndexMark):
            if n.arg.size == 0 and not symbolic(n.shape):
                raise n.arg.error("", 0, n.line)  # whatever the index is
            row = IndexRow.of(n)
            found.append((row, row.furthest(n.src[0])))
        elif n.op == "loop" and n.arg.loop.checks and (n.arg.loop, n.src) not in loops:
            loops.add((n.arg.loop, n.src))
            for carry, row in n.arg.loop.checks:
                last = final(n.arg.loop, n.src, carry)
                found.append((row, reduce("max", last, range(len(last.shape)))))
    return found


@dataclass(frozen=True)
class IndexRow:
    """One marked tensor, of `dtype`. NumPy's side gets the largest of (element − lowest place) as a number without a sign
    (`plain`), in which what lies below is larger than everything that lies inside; and of `symbolic` sizes their values. `looped`: it is
    0 as well where a loop made no step."""

    by: IndexMark
    dtype: DType
    plain: DType
    symbolic: bool
    line: Line
    count: int = 1
    looped: bool = False

    @classmethod
    def of(cls, n: TensorNode) -> IndexRow:
        x = n.src[0]
        plain = uint32 if x.dtype.size <= 4 and most(n.arg.size) < 1 << 31 else uint64
        return cls(n.arg, x.dtype, plain, isinstance(n.arg.size, SymbolicSize) or symbolic(x.shape), n.line, x.count)

    @property
    def key(self) -> tuple[Any, ...]:
        """What distinguishes calls. (Lines do not: whoever runs another graph's call has its own lines.)"""
        return self.by.key, self.dtype.name, self.symbolic

    @property
    def signed(self) -> bool:
        """Whether elements can be below 0."""
        return self.dtype.kind != "u"

    def furthest(self, x: TensorNode) -> TensorNode:
        """The largest of (element − lowest place)."""
        by = self.by
        away = cast(cast(x, int32 if self.plain is uint32 else int64), self.plain) if self.signed else cast(x, self.plain)
        if by.negative and self.signed:
            away = elementwise("add", away, const(by.size, self.plain, x.shape))
        top = reduce("max", away, range(len(x.shape)))
        if not by.ascending or not below(1, x.shape[-1]):
            return top
        n = x.shape[-1] - 1
        now, before = (view(x, maps.strided(x.shape, [*((0, 1, m) for m in x.shape[:-1]), (k, 1, n)])) for k in (1, 0))
        return elementwise("where", reduce("add", elementwise("lt", now, before), range(len(x.shape))), self._descends, top)

    @property
    def _descends(self) -> int:
        """What stands for a value that is less than the one before."""
        return 1 << 8 * self.plain.size - 1

    def in_steps(self, top: TensorNode) -> tuple[IndexRow, TensorNode]:
        """The row in a loop's body, and `top` above 0 where the dimension has no elements: 0 is what no step found."""
        if self.looped or not self.symbolic or below(0, self.by.size):
            return self, top
        empty = elementwise("eq", const(self.by.size, int64), const(0, int64))
        return replace(self, looped=True), elementwise("max", top, cast(empty, self.plain))

    def sources(self, top: TensorNode) -> list[TensorNode]:
        """What NumPy's side gets: [the furthest element], or that, the size and how many elements there are."""
        return [top, const(self.by.size, int64), const(self.count, int64)] if self.symbolic else [top]

    def look(self, numbers: Iterator[Any]) -> None:
        """Raise OutOfRangeError where the furthest element is outside."""
        away = int(next(numbers))
        size, count = (int(next(numbers)), int(next(numbers))) if self.symbolic else (self.by.size, 1)
        first = -size if self.by.negative and self.signed else 0
        if away < size - first or not count or (self.looped and not away):
            return
        if self.looped and not size:
            raise self.by.error("", size, self.line)
        if self.by.ascending and away == self._descends:
            raise self.by.descent(self.line)
        bits = 8 * self.plain.size
        value = (away + first) % (1 << bits)
        raise self.by.error(value - (1 << bits) if self.signed and value >> (bits - 1) else value, size, self.line)


def outside_of(call: HostCall, places: Sequence[str]) -> list[str]:
    """Tests in C, one for each row, that say where a check raises. `places`: addresses of the numbers that it gets."""
    assert call.name == CHECK and isinstance(call.function, _Look), call
    at, tests = iter(places), []
    for row in call.function.rows:
        twice, top = (2 if row.by.negative and row.signed else 1), f"*(const uint{8 * row.plain.size}_t *){next(at)}"
        if not row.symbolic:
            tests.append(f"{top} >= {int(row.by.size) * twice}u")
            continue
        size, count = (f"*(const int64_t *){next(at)}" for _ in range(2))
        tests.append(f"({count} && {f'{top} && ' if row.looped else ''}{top} >= {twice} * (uint64_t){size})")
    return tests


class _Look:
    """NumPy's side of a check. It knows no nodes: what is remembered of a graph keeps no tensor alive."""

    def __init__(self, rows: Sequence[IndexRow]) -> None:
        self.rows = rows

    def __call__(self, *numbers: Any) -> int:
        """0, written to the check's result. Raises OutOfRangeError."""
        left = iter(numbers)
        for row in self.rows:
            row.look(left)
        return 0
