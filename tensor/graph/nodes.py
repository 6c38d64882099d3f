"""Nodes: interned operations with a shape and a type. Equal expressions are one node.

The primitives, and what `arg` holds:

    buffer       a TensorBuffer                    memory that has values
    slot         a Slot                            an argument of a captured function
    given        (a place, a Python number)        shape (), a parameter of kernels; equal numbers of other places are apart
    const        a Python number                   shape ()
    iota         None                              0, 1, 2 … (n,) of int64
    extent       a SymbolicSize                    its value, shape ()
    cast         None                              to the node's type
    cast         a mark                            to its own type: the same values, but a node apart from its source, with
                                                   what the mark says about gradients (`STOP`, or one of `grad`'s own)
    after        None                              the first source, computed when the second one is known
    elementwise  an operator of `ELEMENTWISE`      sources of the node's own shape
    view         an IndexMap                       any movement
    reduce       (combine, dimensions)             dimensions leave the shape
    scan         (combine, dimension)              inclusive prefixes
    gather       an index for each dimension of    source first, then the index tensors (of the node's shape): each
                 the source: IndexMap's, or Loaded  place of the source is computed or loaded
    scatter      Scattered                         values, then index tensors; combined into an identity
    host         a HostCall                        NumPy's own code (sorting, decompositions)
    loop         a LoopOutput                      an output of a loop over a body (`loop_nodes`)
    kernel       an OwnOutput                      an output of a kernel of the user's (`own_kernels`)"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterable, Iterator, MutableMapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from math import prod
from typing import Any

from ...ir.dtypes import DType
from ...ir.errors import UsageError
from ...ir.node import Node
from .index_maps import Shape, placeholder_axes
from .source_lines import Line, user_line
from .symbolic_sizes import product

_elementwise: Callable[..., TensorNode]


def install(elementwise: Callable[..., TensorNode]) -> None:
    """Say what operators between nodes make: `primitives.elementwise`, which builds on this file."""
    global _elementwise
    _elementwise = elementwise


def _operator(op: str, swapped: bool = False) -> Callable[[TensorNode, Any], TensorNode]:
    return lambda a, b: _elementwise(op, b, a) if swapped else _elementwise(op, a, b)


def _unary(op: str) -> Callable[[TensorNode], TensorNode]:
    return lambda a: _elementwise(op, a)


class TensorNode:
    """One interned operation. Make them with the functions below, never directly. `data` is its memory once it was
    computed; `line` is the user's line that made it first; `tracked`: a gradient may be asked for through it, so that its
    sources must be kept when it has memory.

    Operators take nodes of the same shape and type, and numbers: nothing is broadcast or promoted here (`ops.operands` does that).
    `==` compares identities, since equal expressions are one node; `eq` and `ne` compare elements."""

    __slots__ = ("__weakref__", "arg", "data", "dtype", "line", "op", "shape", "src", "tracked")
    __array_ufunc__ = None  # a NumPy number on the left leaves the operator to the node
    op: str
    src: tuple[TensorNode, ...]
    arg: Any
    shape: Shape
    dtype: DType
    line: Line
    data: Any
    tracked: bool

    __add__, __radd__ = _operator("add"), _operator("add", True)
    __sub__, __rsub__ = _operator("sub"), _operator("sub", True)
    __mul__, __rmul__ = _operator("mul"), _operator("mul", True)
    __truediv__, __rtruediv__ = _operator("div"), _operator("div", True)
    __floordiv__, __mod__ = _operator("floordiv"), _operator("remainder")
    __and__, __or__, __xor__ = _operator("and"), _operator("or"), _operator("xor")
    __lshift__, __rshift__ = _operator("shl"), _operator("shr")
    __lt__, __le__, __gt__, __ge__ = _operator("lt"), _operator("le"), _operator("lt", True), _operator("le", True)
    eq, ne = _operator("eq"), _operator("ne")
    __neg__, __abs__, __invert__ = _unary("neg"), _unary("abs"), _unary("not")

    def __repr__(self) -> str:
        what = self.arg if self.op in ("const", "elementwise", "reduce", "scan", "slot") else ""
        return f"<{self.op} {what} {list(self.shape)} {self.dtype}>"

    @property
    def size(self) -> int:
        """Elements; where sizes are symbolic, the most there can be."""
        return product(self.shape)

    @property
    def count(self) -> int:
        """Elements, as a size: symbolic where one of the shape is."""
        return prod(self.shape)


@dataclass(frozen=True, slots=True)
class Loaded:
    """An index of a gather or scatter that is read from its index tensor number `place`."""

    place: int


@dataclass(frozen=True)
class Gathered:
    """Where a gather reads: for each dimension of the source an index expression over `axes` (placeholders of the
    result's dimensions), or Loaded."""

    axes: tuple[Node, ...]
    indices: tuple[Node | Loaded, ...]

    @classmethod
    def along(cls, shape: Shape, dim: int) -> Gathered:
        """Each line along a dimension of the result is read at loaded places of the same line."""
        axes = placeholder_axes(shape)
        return cls(axes, tuple(Loaded(0) if d == dim else a for d, a in enumerate(axes)))


@dataclass(frozen=True)
class Scattered:
    """Where a scatter writes: for each dimension of the result an index expression over `axes` (placeholders of the
    dimensions of the values), or Loaded. `combine` is one of add, mul, max, min. What leaves the result is dropped."""

    combine: str
    axes: tuple[Node, ...]
    indices: tuple[Node | Loaded, ...]

    @classmethod
    def along(cls, combine: str, shape: Shape, dim: int) -> Scattered:
        """Each line along a dimension of the values is written at loaded places of the same line."""
        by = Gathered.along(shape, dim)
        return cls(combine, by.axes, by.indices)


@dataclass(frozen=True)
class HostCall:
    """A function of NumPy arrays to one NumPy array of the node's shape and type; `key` says which (for reports and
    for what distinguishes calls). `by`: the operation of the user's that it is, which knows its gradient. `batches`: it takes further
    dimensions in front of all arrays."""

    name: str
    function: Callable[..., Any]
    key: tuple[Any, ...] = ()
    by: Any = None
    batches: bool = False

    def __hash__(self) -> int:
        return hash((self.name, self.key, id(self.by)))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, HostCall) and (self.name, self.key) == (other.name, other.key) and self.by is other.by


class Mark:
    """What distinguishes a cast to its own type from its source. Each is equal to itself only, so it is no part of keys of
    graphs."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return self.name


class OpenArgument(Mark):
    """The mark of an argument of a function that is being differentiated: `open` until its gradient was taken."""

    __slots__ = ("open",)

    def __init__(self) -> None:
        super().__init__("argument")
        self.open = True


class OwnGradient(Mark):
    """The mark of a result whose gradient is a rule of its own, where that of what it is composed of is wrong or not a number:
    `rule(dy, y, *of)` gives the gradients of the nodes `of`, between which and the result everything lies, None for one without."""

    __slots__ = ("of", "rule")

    def __init__(self, name: str, of: tuple[TensorNode, ...], rule: Callable[..., tuple[TensorNode | None, ...]]) -> None:
        super().__init__(name)
        self.of, self.rule = of, rule

    def __eq__(self, other: object) -> bool:
        return isinstance(other, OwnGradient) and (self.of, self.rule) == (other.of, other.rule)

    def __hash__(self) -> int:
        return hash((self.of, self.rule))


STOP = Mark("stop")
"""No gradient passes."""


@dataclass(frozen=True)
class Slot:
    """An argument of a captured function. `number` is unique in the process; `range` that of its integers."""

    number: int
    range: tuple[int, int] | None = None

    @classmethod
    def new(cls, range: tuple[int, int] | None = None) -> Slot:
        """One that no other node has."""
        return cls(next(_slots), range)


_slots = count()

FROM_OUTSIDE = frozenset({"buffer", "slot", "given"})
"""Operations whose values come from outside of a graph."""
MOST_DIMENSIONS = 64
"""NumPy's limit, and so that of everything that has a value."""

Table = MutableMapping[tuple[Any, ...], TensorNode]

_TABLE: Table = weakref.WeakValueDictionary()


class _Interned(threading.local):
    """Where this thread's nodes are interned."""

    table = _TABLE


_scope = _Interned()


@contextmanager
def interned_in(table: Table = _TABLE) -> Iterator[None]:
    """This thread's nodes are interned in a table of their own: those of a captured function are never ones that were
    computed outside, whose values would be taken for constants. (Without a table: in that of all others.)"""
    before = _scope.table
    _scope.table = table
    try:
        yield
    finally:
        _scope.table = before


def range_of(n: TensorNode) -> tuple[int, int] | None:
    """The declared range of a leaf's integers."""
    found: tuple[int, int] | None = getattr(n.arg if n.op == "slot" else n.data, "range", None)
    return found


def _key(op: str, src: tuple[TensorNode, ...], arg: Any, shape: Shape, dtype: DType) -> tuple[Any, ...]:
    return (op, tuple(map(id, src)), (type(arg), repr(arg)) if op == "const" else arg, shape, dtype)


def is_in(table: Table, n: TensorNode) -> bool:
    """Whether a node was made in a table."""
    return table.get(_key(n.op, n.src, n.arg, n.shape, n.dtype)) is n


def make(op: str, src: tuple[TensorNode, ...], arg: Any, shape: Shape, dtype: DType) -> TensorNode:
    """The node with these fields. (Numbers differ by type and text: True is not 1, -0.0 is not 0.0.)"""
    key = _key(op, src, arg, shape, dtype)
    table = _scope.table
    found = table.get(key)
    if found is None:
        if len(shape) > MOST_DIMENSIONS:
            raise UsageError(f"an array of {len(shape)} dimensions: at most {MOST_DIMENSIONS} are possible")
        found = TensorNode.__new__(TensorNode)
        found.op, found.src, found.arg, found.shape, found.dtype, found.data = op, src, arg, shape, dtype, None
        found.line, found.tracked = user_line(), arg is not STOP and any(s.tracked for s in src)
        table[key] = found
    return found


def constant_of(x: TensorNode) -> bool | int | float | None:
    """The number that every element of `x` is, where it is a broadcast constant."""
    while x.op == "view" and x.arg.mask is None:
        x = x.src[0]
    return x.arg if x.op == "const" else None


def is_constant(x: TensorNode) -> bool:
    """Whether a node without values is made of one number, or counts."""
    return x.data is None and (x.op == "iota" or constant_of(x) is not None)


_leaves = iter(range(1 << 62))


def leaf(data: Any) -> TensorNode:
    """A node on memory that has values (a TensorBuffer)."""
    node = TensorNode.__new__(TensorNode)
    node.op, node.src, node.arg, node.shape, node.dtype, node.data = "buffer", (), next(_leaves), data.shape, data.dtype, data
    node.line, node.tracked = data.line, False
    return node


# traversal --------------------------------------------------------------------------------------------------------
def differentiated(n: TensorNode) -> tuple[TensorNode, ...]:
    """The nodes that `n` may give gradients to. What a rule of its own is about need not lie behind a node: a view of a view reads what the
    first one reads, and `vmap` repeats an argument that all have for the rule alone."""
    return (*n.src, *n.arg.of) if isinstance(n.arg, OwnGradient) else n.src


def walk(
    roots: Iterable[TensorNode],
    leaves: Callable[[TensorNode], bool] = lambda n: n.data is not None,
    behind: Callable[[TensorNode], tuple[TensorNode, ...]] = lambda n: n.src,
) -> Iterator[TensorNode]:
    """Every node behind `roots` (by their sources, or what `behind` says), sources first. What `leaves` names is not looked behind."""
    seen: set[int] = set()
    stack: list[tuple[TensorNode, bool]] = [(r, False) for r in reversed(list(roots))]
    while stack:
        node, done = stack.pop()
        if done:
            yield node
        elif id(node) not in seen:
            seen.add(id(node))
            stack.append((node, True))
            if not leaves(node):
                stack.extend((s, False) for s in reversed(behind(node)))
