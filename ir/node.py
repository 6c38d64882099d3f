"""Hash-consed expression nodes: equal expressions are one object, so equality is identity.

Index arithmetic (dtype `index`) is kept in a normal form by `ir.index`: a `sum` node holds distinct terms with integer
coefficients. Everything else is a plain operator node over value types.

Leaves:  const(arg=number)  axis(arg=AxisInfo)  sym(arg=SymInfo)  arg(arg=str: a placeholder in a monoid's merge)
Memory:  load(src=indices [+ mask], arg=(Buffer, masked))  ref(src=indices, arg=(value name))
Index:   sum(src=terms, arg=(coefficients, constant))  prod  div  mod  min  max   (div and mod floor, by positive ints)
Values:  add sub mul div max min neg abs sqrt floor round trunc where cast lt le eq ne and or not
Functions: exp expm1 log log1p tanh erf sin cos atan; of two floats pow floor_div floor_mod
Integers: and or xor not shl shr floordiv remainder popcount clz, of any integer type (an index, too, may be the operand of these)
"""

from __future__ import annotations

import weakref
from _weakref import _remove_dead_weakref  # type: ignore[attr-defined]
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Protocol, TypeVar, Union

from .checks.misuse import NoValue, number
from .dtypes import DType, DTypeLike, bool_, float32, index
from .errors import KernelError

H = TypeVar("H")

FUNCTIONS = frozenset({"exp", "expm1", "log", "log1p", "tanh", "erf", "sin", "cos", "atan"})
"""Elementary functions, which are evaluated by polynomials."""
PAIRED = frozenset({"pow", "floor_div", "floor_mod"})
"""Functions of two floats: a power, and a quotient rounded down with what it leaves."""
COSTLY_FLOATS = FUNCTIONS | PAIRED | {"div", "sqrt"}
"""What takes many times as long as an addition."""
COUNTS = frozenset({"popcount", "clz"})
"""What counts bits of an integer: those that are set, and those that are not above the highest that is."""
UNARY = FUNCTIONS | COUNTS | {"neg", "abs", "sqrt", "floor", "round", "trunc", "not"}
INTEGER = COUNTS | {"and", "or", "xor", "not", "shl", "shr", "floordiv", "remainder"}
"""What integers have beside arithmetic. Indices of these operators are plain values: `ir.index` keeps no normal form of them."""
COSTLY = COSTLY_FLOATS | COUNTS | {"floordiv", "remainder"}
"""What costs many instructions."""
COMMUTATIVE = frozenset({"add", "mul", "max", "min", "eq", "ne", "and", "or", "xor"})
COMPARE = frozenset({"lt", "le", "eq", "ne"})
ABOUT = "about"
"""A float that may have been rounded to another type, so often (its `arg`): only in kernels that say how far results may lie off."""
MASKED = "masked_ref"
"""An element of a value where a mask holds, else 0: only in kernels that are being built (`ir/builder.py`)."""


Number = Union[int, float, bool]
Expr = Union["Node", int, float, bool]


@dataclass(frozen=True, slots=True)
class AxisInfo:
    """What an axis node stands for: a binding site `name`, its family, and its extent (an int or an index node)."""

    name: str
    family: str
    extent: Any


@dataclass(frozen=True, slots=True)
class SymInfo:
    """A symbolic extent or integer parameter with its inclusive range."""

    name: str
    lo: int
    hi: int


class Rules(Protocol):
    """What operators of nodes mean (`ir.operators`)."""

    def arith(self, op: str, a: Expr, b: Expr) -> Node: ...
    def logical(self, op: str, a: Expr, b: Expr) -> Node: ...
    def unary(self, op: str, a: Node) -> Node: ...
    def cast(self, a: Node, to: DTypeLike) -> Node: ...
    def integer(self, op: str, a: Expr, b: Expr) -> Node: ...
    def divide(self, op: str, a: Expr, b: Expr) -> Node: ...
    def power(self, a: Expr, b: Expr) -> Node: ...
    def text(self, a: Node) -> str: ...


_rules: Rules


def install(rules: Rules) -> None:
    """Give the operators of nodes their meaning; done once, when the package is imported."""
    global _rules
    _rules = rules


class Node(NoValue):
    """One interned expression. Build with the functions and operators of this module, never directly."""

    __slots__ = ("__weakref__", "_memo", "arg", "dtype", "op", "src")
    op: str
    dtype: DType
    src: tuple[Node, ...]
    arg: Any
    _memo: dict[str, Any]

    def __reduce__(self) -> tuple[Any, ...]:
        return make, (self.op, self.dtype, self.src, self.arg)

    def __repr__(self) -> str:
        return _rules.text(self)

    def __add__(self, other: Expr) -> Node:
        return _rules.arith("add", self, other)

    def __radd__(self, other: Expr) -> Node:
        return _rules.arith("add", other, self)

    def __sub__(self, other: Expr) -> Node:
        return _rules.arith("sub", self, other)

    def __rsub__(self, other: Expr) -> Node:
        return _rules.arith("sub", other, self)

    def __mul__(self, other: Expr) -> Node:
        return _rules.arith("mul", self, other)

    def __rmul__(self, other: Expr) -> Node:
        return _rules.arith("mul", other, self)

    def __truediv__(self, other: Expr) -> Node:
        return _rules.arith("div", self, other)

    def __rtruediv__(self, other: Expr) -> Node:
        return _rules.arith("div", other, self)

    def __floordiv__(self, other: Expr) -> Node:
        return _rules.divide("floordiv", self, other)

    def __rfloordiv__(self, other: Expr) -> Node:
        return _rules.divide("floordiv", other, self)

    def __mod__(self, other: Expr) -> Node:
        return _rules.divide("remainder", self, other)

    def __rmod__(self, other: Expr) -> Node:
        return _rules.divide("remainder", other, self)

    def __pow__(self, other: Expr) -> Node:
        return _rules.power(self, other)

    def __rpow__(self, other: Expr) -> Node:
        return _rules.power(other, self)

    def __abs__(self) -> Node:
        return _rules.unary("abs", self)

    def __neg__(self) -> Node:
        return self * -1 if self.dtype is index else _rules.unary("neg", self)

    def __lt__(self, other: Expr) -> Node:
        return _rules.arith("lt", self, other)

    def __le__(self, other: Expr) -> Node:
        return _rules.arith("le", self, other)

    def __gt__(self, other: Expr) -> Node:
        return _rules.arith("lt", other, self)

    def __ge__(self, other: Expr) -> Node:
        return _rules.arith("le", other, self)

    def __and__(self, other: Expr) -> Node:
        return _rules.logical("and", self, other)

    def __or__(self, other: Expr) -> Node:
        return _rules.logical("or", self, other)

    def __rand__(self, other: Expr) -> Node:
        return _rules.logical("and", other, self)

    def __ror__(self, other: Expr) -> Node:
        return _rules.logical("or", other, self)

    def __xor__(self, other: Expr) -> Node:
        return _rules.integer("xor", self, other)

    def __rxor__(self, other: Expr) -> Node:
        return _rules.integer("xor", other, self)

    def __lshift__(self, other: Expr) -> Node:
        return _rules.integer("shl", self, other)

    def __rlshift__(self, other: Expr) -> Node:
        return _rules.integer("shl", other, self)

    def __rshift__(self, other: Expr) -> Node:
        return _rules.integer("shr", self, other)

    def __rrshift__(self, other: Expr) -> Node:
        return _rules.integer("shr", other, self)

    def __invert__(self) -> Node:
        return _rules.unary("not", self)

    def eq(self, other: Expr) -> Node:
        """Elementwise equality (`==` compares objects)."""
        return _rules.arith("eq", self, other)

    def ne(self, other: Expr) -> Node:
        """Elementwise inequality."""
        return _rules.arith("ne", self, other)

    def cast(self, to: DTypeLike) -> Node:
        """This value converted to `to`; rounds to nearest even for floats, truncates from float to int."""
        return _rules.cast(self, to)


class _TableEntry(weakref.ref[Node]):
    """A place in the table of all nodes, for as long as anybody has its node."""

    __slots__ = ("key",)
    key: tuple[Any, ...]


_TABLE: dict[tuple[Any, ...], _TableEntry] = {}
"""What `weakref.WeakValueDictionary` does, without its calls of Python: nodes are made, and asked for, all the time."""


def _forget(
    kept: _TableEntry, table: dict[tuple[Any, ...], _TableEntry] = _TABLE, remove: Callable[..., None] = _remove_dead_weakref
) -> None:
    remove(table, kept.key)  # (unless another thread has put a new node there)


def make(op: str, dtype: DType, src: tuple[Node, ...] = (), arg: Any = None) -> Node:
    """The unique node with these fields (a bool or float constant never aliases an int one)."""
    key = (op, dtype, src, arg, type(arg), str(arg)) if op == "const" else (op, dtype, src, arg)
    kept = _TABLE.get(key)
    found = None if kept is None else kept()
    if found is None:
        found = Node.__new__(Node)
        found.op, found.dtype, found.src, found.arg, found._memo = op, dtype, src, arg, {}
        kept = _TableEntry(found, _forget)
        kept.key = key
        _TABLE[key] = kept
    return found


_NUMBERS: dict[int, Node] = {}
"""Small constants of indices: half of all nodes that are asked for."""


def const(value: Number, dtype: DType | None = None) -> Node:
    """A constant; without `dtype` an int is an index and a float is float32."""
    if dtype is None and type(value) is int and (known := _NUMBERS.get(value)) is not None:
        return known
    if type(value) not in (int, float, bool):
        value = number(value)
    if dtype is None:
        dtype = bool_ if isinstance(value, bool) else index if isinstance(value, int) else float32
    if dtype.is_float:
        value = float(value)
    elif dtype is bool_:
        value = bool(value)
    elif isinstance(value, float):
        raise KernelError(f"{value} is not a whole number, but its type is {dtype}")
    return make("const", dtype, (), value)


_NUMBERS |= {n: const(n) for n in range(-64, 1025)}


def as_node(value: Expr, dtype: DType | None = None) -> Node:
    """`value` as a node; a Python number takes `dtype`."""
    return value if isinstance(value, Node) else const(value, dtype)


def sym(name: str, lo: int, hi: int) -> Node:
    """A symbolic extent or integer parameter that lies in [lo, hi]."""
    if not 0 <= lo <= hi:
        raise KernelError(f"symbol {name}: range [{lo}, {hi}] must satisfy 0 <= lo <= hi")
    return make("sym", index, (), SymInfo(name, lo, hi))


def axis(name: str, extent: int | Node, family: str | None = None) -> Node:
    """An axis. `name` may be `family@site`; the family defaults to the part before '@'."""
    if isinstance(extent, int) and extent < 0:
        raise KernelError(f"axis {name}: extent {extent} is negative")
    if isinstance(extent, Node) and extent.op == "const":
        extent = int(extent.arg)
    return make("axis", index, (), AxisInfo(name, family or name.split("@")[0], extent))


def placeholder(name: str, dtype: DType) -> Node:
    """A named operand of a monoid's merge expression."""
    return make("arg", dtype, (), name)


def ref(name: str, indices: Iterable[Expr], dtype: DType) -> Node:
    """The element of value `name` at `indices`."""
    return make("ref", dtype, tuple(as_node(i) for i in indices), name)


# traversal --------------------------------------------------------------------------------------------------------
WALKED = 96
"""Nodes of an expression whose order is remembered: a longer one is walked anew each time."""


def walk(*roots: Node) -> Iterator[Node]:
    """Every distinct node below `roots`, operands first. Axis extents are not entered."""
    if len(roots) > 1:
        return _walk(roots)
    known = roots[0]._memo.get("walk") if roots else ()
    return _walk_once(roots) if known is None else chain(known, roots)


def _walk_once(roots: tuple[Node, ...]) -> Iterator[Node]:
    """The same of one expression, and its order is remembered."""
    found: list[Node] = []
    for n in _walk(roots):
        found.append(n)
        yield n
    if len(found) <= WALKED:
        roots[0]._memo["walk"] = tuple(found[:-1])  # (a node must not hold itself)


def _walk(roots: Sequence[Node]) -> Iterator[Node]:
    seen: set[Node] = set()
    stack: list[Node | None] = [*reversed(roots)]
    while stack:
        node = stack.pop()
        if node is None:  # what lies under it has had its operands
            node = stack.pop()
            assert node is not None
            yield node
        elif node not in seen:
            seen.add(node)
            if node.src:
                stack += (node, None)
                stack += [s for s in reversed(node.src) if s not in seen]
            else:
                yield node


def reachable(roots: Iterable[H], more: Callable[[H], Iterable[H]]) -> Iterator[H]:
    """Everything that `more` leads to from some roots, these included, once each; what is met last is looked behind first."""
    seen: set[H] = set()
    stack = list(roots)
    while stack:
        found = stack.pop()
        if found not in seen:
            seen.add(found)
            yield found
            stack += more(found)


def axes_of(*roots: Node) -> frozenset[Node]:
    """The axis nodes that `roots` depend on (memoised on the nodes)."""
    if len(roots) == 1:
        return _axes(roots[0])
    out: set[Node] = set()
    for r in roots:
        out |= _axes(r)
    return frozenset(out)


def _axes(node: Node) -> frozenset[Node]:
    known: frozenset[Node] | None = node._memo.get("axes")
    if known is not None:
        return known
    # a node must not hold itself: that cycle would keep it alive for ever
    if node.op == "axis":
        return frozenset((node,))
    for n in pending(node, lambda n: n.op == "axis" or "axes" in n._memo):
        each = {frozenset((s,)) if s.op == "axis" else s._memo["axes"] for s in n.src}
        n._memo["axes"] = each.pop() if len(each) == 1 else frozenset().union(*each)
    found: frozenset[Node] = node._memo["axes"]
    return found


def pending(root: Node, known: Callable[[Node], bool]) -> Iterator[Node]:
    """The nodes from `root` down that are not `known`, operands first, without recursion: expressions may be deep. Whoever
    asks makes each known before the next one."""
    stack = [root]
    while stack:
        n = stack[-1]
        todo = [] if known(n) else [s for s in n.src if not known(s)]
        if todo:
            stack.extend(reversed(todo))
            continue
        stack.pop()
        if not known(n):
            yield n


def reads_data(n: Node) -> bool:
    """Whether an expression is made of what a kernel reads or computes, and not of places alone (memoised)."""
    for m in pending(n, lambda m: "data" in m._memo):
        m._memo["data"] = m.op in ("load", "ref") or any(s._memo["data"] for s in m.src)
    return bool(n._memo["data"])


def ordered_axes(node: Node) -> tuple[Node, ...]:
    """The axes that a node depends on, in the order in which one meets them (memoised)."""
    if node.op == "axis":
        return (node,)
    found: tuple[Node, ...] | None = node._memo.get("met")
    if found is None:
        found = node._memo["met"] = tuple(n for n in walk(node) if n.op == "axis")
    return found
