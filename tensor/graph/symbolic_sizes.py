"""Symbolic sizes: extents of captured tensors that have a value at each call only.

A size is an index expression of `ir`, so equal sizes are one node and are equal; a size that is the same number whatever
its symbols are is that number. Sizes compute with ints and with one another (division by ints only). What is asked of a
size is answered where it holds for every value of its symbols, and is a UsageError else: a kernel made under a guess
would be wrong for some calls."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import accumulate, pairwise
from math import prod
from operator import index
from typing import TYPE_CHECKING, Any

from ...ir import index as ix
from ...ir.errors import SizeError, UsageError
from ...ir.node import Node, const, sym
from ...ir.node import axis as _axis
from .source_lines import at, user_line

if TYPE_CHECKING:
    _Base = int  # for the checker sizes are ints: shapes hold both, and compute alike
else:
    _Base = object


class SymbolicSize(_Base):
    """A size that is not known while a function is captured; `node` is its index expression. Made by `Var` and arithmetic."""

    __slots__ = ("node",)
    node: Node

    def __repr__(self) -> str:
        return repr(self.node)

    def __hash__(self) -> int:
        return hash(self.node)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SymbolicSize) and other.node is self.node

    def __ne__(self, other: object) -> bool:
        return not self == other

    # arithmetic ---------------------------------------------------------------------------------------------------
    def __add__(self, other: Any) -> Any:
        return _size(ix.add(self.node, number(other))) if _is_size(other) else NotImplemented

    __radd__ = __add__

    def __sub__(self, other: Any) -> Any:
        return _size(ix.add(self.node, number(other), -1)) if _is_size(other) else NotImplemented

    def __rsub__(self, other: Any) -> Any:
        return _size(ix.add(number(other), self.node, -1)) if _is_size(other) else NotImplemented

    def __mul__(self, other: Any) -> Any:
        return _size(ix.mul(self.node, number(other))) if _is_size(other) else NotImplemented

    __rmul__ = __mul__

    def __neg__(self) -> Any:
        return self * -1

    def __floordiv__(self, other: Any) -> Any:
        return _size(ix.floordiv(self.node, self._divisor(other, "//")))

    def __mod__(self, other: Any) -> Any:
        return _size(ix.mod(self.node, self._divisor(other, "%")))

    def _divisor(self, other: Any, op: str) -> int:
        if type(other) is not int or other < 1:
            raise UsageError(f"{self!r} {op} {other!r}: a symbolic size is divided by whole numbers above 0 only{at(user_line())}")
        return other

    def _no(self, other: Any) -> Any:
        raise UsageError(f"{self!r} and {other!r}: a symbolic size has +, -, * and // and % by whole numbers{at(user_line())}")

    __truediv__ = __rtruediv__ = __rfloordiv__ = __rmod__ = _no
    __pow__ = __rpow__ = _no  # type: ignore[assignment]

    # questions ----------------------------------------------------------------------------------------------------
    def __lt__(self, other: Any) -> bool:
        return self._below(other, 0, "<") if _is_number(other) else NotImplemented

    def __le__(self, other: Any) -> bool:
        return self._below(other, 1, "<=") if _is_number(other) else NotImplemented

    def __gt__(self, other: Any) -> bool:
        return not self._below(other, 1, ">") if _is_number(other) else NotImplemented

    def __ge__(self, other: Any) -> bool:
        return not self._below(other, 0, ">=") if _is_number(other) else NotImplemented

    def _below(self, other: Any, more: int, op: str) -> bool:
        """self < other + more, where that is so, or is not so, for every value of the symbols."""
        if isinstance(other, float):
            return _always(f"{self!r} {op} {other}", *(float(b) < other + more * 1e-9 for b in ix.bounds(self.node)))
        low, high = ix.bounds(ix.add(ix.add(self.node, number(other), -1), const(-more)))
        return _always(f"{self!r} {op} {other!r}", low < 0, high < 0)

    def __bool__(self) -> bool:
        low, high = ix.bounds(self.node)
        return _always(f"{self!r} != 0", low > 0 or high < 0, not low == high == 0)

    def __index__(self) -> int:
        raise UsageError(
            f"{self!r} is a symbolic size, which has no value while a function is captured: it can be a size, a bound of a slice, or "
            f"an operand of a tensor, but no Python number{at(user_line())}"
        )

    def __int__(self) -> int:
        return self.__index__()

    def __float__(self) -> float:
        return float(self.__index__())


def _always(text: str, first: bool, second: bool) -> bool:
    if first is not second:
        raise UsageError(
            f"{text} holds for some values of a symbolic size and not for others: a captured function cannot branch on it{at(user_line())}"
        )
    return first


def _is_size(x: Any) -> bool:
    return isinstance(x, SymbolicSize) or type(x) is int


def _is_number(x: Any) -> bool:
    return isinstance(x, (SymbolicSize, int, float))


def _size(node: Node) -> int:
    if node.op == "const":
        return int(node.arg)
    new = SymbolicSize.__new__(SymbolicSize)
    new.node = node
    return new


def Var(name: str, low: int, high: int) -> int:
    """A symbolic size between `low` and `high`, both included: `jit(symbols={"x": {0: Var("n", 1, 4096)}})`. Within a captured
    function it computes as an int does, as far as that needs no value. Equal names and ranges are one size. Raises UsageError."""
    if type(low) is not int or type(high) is not int or not 0 <= low < high or not name.isidentifier():
        raise UsageError(f"Var({name!r}, {low!r}, {high!r}): give a name and a range of at least two numbers, from 0 on")
    return _size(sym(name, low, high))


# what the rest of the package asks ----------------------------------------------------------------------------------
def extent(n: int) -> int | Node:
    """A size as `ir` has it."""
    return n.node if isinstance(n, SymbolicSize) else n


def size_of(found: int | Node) -> int:
    """An extent of `ir` as a size."""
    return _size(found) if isinstance(found, Node) else found


def extents(shape: Iterable[int]) -> tuple[int | Node, ...]:
    """A shape as `ir` has it."""
    return tuple(n.node if isinstance(n, SymbolicSize) else n for n in shape)


def size(n: Any) -> int:
    """A size as it is, or a whole number of another kind as an int. Raises SizeError."""
    try:
        return n if isinstance(n, SymbolicSize) else index(n)
    except TypeError:
        raise SizeError(f"a size is a whole number, not {n!r}") from None


def int_size(name: str, n: int) -> int:
    """A size that is at least 0 whatever its symbols are. Raises UsageError."""
    if isinstance(n, SymbolicSize) and not below(-1, n):
        raise UsageError(f"{name}: {n!r} elements may be less than 0 within the ranges of its symbols: make these narrower")
    return n


def number(n: int) -> Node:
    """A size as an index."""
    return n.node if isinstance(n, SymbolicSize) else const(n)


def axis(name: str, n: int) -> Node:
    """An axis of a size."""
    return _axis(name, extent(n))


def most(n: int) -> int:
    """The most that a size can be: what costs are weighed by."""
    return max(0, ix.bounds(n.node)[1]) if isinstance(n, SymbolicSize) else n


def below(a: int, b: int) -> bool:
    """Whether a < b for every value of the symbols, as far as intervals tell, and that n // k is between (n - k + 1) / k and n / k."""
    away = ix.add(number(a), number(b), -1)
    while ix.bounds(away)[1] >= 0:
        terms, _ = ix.parts(away)
        part = next((t for t in terms if t.op == "div"), None)
        if part is None:
            return False
        k, scale = part.arg, terms[part]
        whole = part.src[0] if scale > 0 else ix.add(part.src[0], const(1 - k))
        away = ix.add(ix.mul(ix.add(away, part, -scale), const(k)), whole, scale)
    return True


def product(sizes: Iterable[int]) -> int:
    """The most that a product of sizes can be."""
    return prod(map(most, sizes))


def symbolic(shape: Iterable[int]) -> bool:
    """Whether a shape has symbolic sizes."""
    return any(isinstance(n, SymbolicSize) for n in shape)


def sized_shapes(shapes: Sequence[tuple[int, ...]], symbols: Sequence[str]) -> Callable[..., list[tuple[int, ...]]]:
    """A function of the symbols' values, in this order, that gives the shapes."""
    sizes = ix.function([number(n) for shape in shapes for n in shape], symbols)
    ends = list(accumulate(map(len, shapes), initial=0))
    spans = [slice(a, b) for a, b in pairwise(ends)]

    def sized(*values: int) -> list[tuple[int, ...]]:
        found = sizes(*values)
        return [found[s] for s in spans]

    return sized


def concrete(shape: Iterable[int], values: Mapping[Node, int]) -> tuple[int, ...]:
    """A shape with these values of its symbols."""
    return tuple(ix.evaluate(n.node, dict(values)) if isinstance(n, SymbolicSize) else n for n in shape)
