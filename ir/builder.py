"""A small front end: kernels read top to bottom like their definition."""

from __future__ import annotations

from collections.abc import Sequence

from . import node as N
from .body import COMBINES, Fold, Monoid, Reduce, Scan, Store, Value
from .buffer import Buffer, Extent
from .dtypes import DType, bool_, index
from .errors import KernelError
from .kernel import Kernel
from .node import Expr, Node
from .operators import cast


class KernelBuilder:
    """Collects buffers, values and stores; `build()` returns the checked Kernel.

    kb = KernelBuilder("matmul")
    i, j, l = kb.axis("m", m), kb.axis("n", n), kb.axis("k", k)
    a, b = kb.input("a", (m, k), float32), kb.input("b", (k, n), float32)
    c = kb.sum("acc", (i, j), l, a[i, l] * b[l, j])
    kb.store("c", float32, (m, n), (i, j), c[i, j])
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self._buffers: list[Buffer] = []
        self._body: list[Value | Fold] = []
        self._stores: list[Store] = []

    # declarations -------------------------------------------------------------------------------------------------
    def axis(self, name: str, extent: Extent) -> Node:
        """An axis; `n@max` is the site `max` of family `n`."""
        return N.axis(name, extent)

    def input(
        self, name: str, shape: Sequence[Extent], dtype: DType, *, constant: bool = False, range: tuple[int, int] | None = None
    ) -> Buffer:
        """An input parameter (row-major)."""
        buffer = Buffer(name, dtype, tuple(shape), "in", constant, range)
        self._buffers.append(buffer)
        return buffer

    # values -------------------------------------------------------------------------------------------------------
    def value(self, name: str, axes: Sequence[Node], expr: Node) -> Value:
        """A pointwise value: inlined where it is used, unless staged."""
        return self._add(Value(name, tuple(axes), expr, expr.dtype))

    def reduce(
        self, combine: str, name: str, axes: Sequence[Node], over: Node | Sequence[Node], expr: Node, dtype: DType | None = None
    ) -> Value:
        """A reduction of `expr` over axes, accumulated in `dtype` (default: the accumulate type of the expression)."""
        if combine not in COMBINES:
            raise KernelError(f"unknown combine {combine!r}; use one of {', '.join(COMBINES)}")
        over = (over,) if isinstance(over, Node) else tuple(over)
        acc = dtype or (expr.dtype.acc if combine in ("add", "mul") else expr.dtype.compute)
        return self._add(Value(name, tuple(axes), Reduce(combine, over, cast(expr, acc), acc), acc))

    def sum(self, name: str, axes: Sequence[Node], over: Node | Sequence[Node], expr: Node, dtype: DType | None = None) -> Value:
        """Σ expr."""
        return self.reduce("add", name, axes, over, expr, dtype)

    def max(self, name: str, axes: Sequence[Node], over: Node | Sequence[Node], expr: Node) -> Value:
        """max expr."""
        return self.reduce("max", name, axes, over, expr)

    def min(self, name: str, axes: Sequence[Node], over: Node | Sequence[Node], expr: Node) -> Value:
        """min expr."""
        return self.reduce("min", name, axes, over, expr)

    def scan(self, combine: str, name: str, axes: Sequence[Node], along: Node, expr: Node, dtype: DType | None = None) -> Value:
        """Inclusive prefix along one of `axes`."""
        acc = dtype or expr.dtype.acc
        return self._add(Value(name, tuple(axes), Scan(combine, along, cast(expr, acc), acc), acc))

    def fold(
        self,
        name: str,
        axis: Node,
        block: Sequence[Value],
        components: Sequence[Value],
        identity: Sequence[float | int],
        merge: Sequence[Node],
    ) -> tuple[Value, ...]:
        """A tuple reduction in block form (see `Fold`). Make block values with `block_value`/`block_reduce`, merge
        expressions over `lhs(v)` and `rhs(v)`; later values use the returned components."""
        ids = tuple(N.const(x, c.dtype) for x, c in zip(identity, components, strict=True))
        self._body.append(Fold(name, axis, tuple(block), tuple(c.name for c in components), Monoid(ids, tuple(merge))))
        return tuple(components)

    @staticmethod
    def block_value(name: str, axes: Sequence[Node], expr: Node) -> Value:
        """A pointwise value inside a fold's block."""
        return Value(name, tuple(axes), expr, expr.dtype)

    @staticmethod
    def block_reduce(
        combine: str, name: str, axes: Sequence[Node], over: Node | Sequence[Node], expr: Node, dtype: DType | None = None
    ) -> Value:
        """A reduction inside a fold's block."""
        over = (over,) if isinstance(over, Node) else tuple(over)
        acc = dtype or (expr.dtype.acc if combine in ("add", "mul") else expr.dtype.compute)
        return Value(name, tuple(axes), Reduce(combine, over, cast(expr, acc), acc), acc)

    @staticmethod
    def lhs(v: Value) -> Node:
        """The left state of a component in a merge expression."""
        return N.placeholder(f"a.{v.name}", v.dtype)

    @staticmethod
    def rhs(v: Value) -> Node:
        """The right state of a component in a merge expression."""
        return N.placeholder(f"b.{v.name}", v.dtype)

    # stores -------------------------------------------------------------------------------------------------------
    def store(
        self,
        name: str,
        dtype: DType,
        shape: Sequence[Extent],
        axes: Sequence[Node],
        expr: Node,
        indices: Sequence[Expr] | None = None,
        combine: str | None = None,
        mask: Node | None = None,
    ) -> Buffer:
        """An output: `name[indices] = expr` (indices default to the axes), converted to `dtype`."""
        buffer = Buffer(name, dtype, tuple(shape), "out")
        ix = tuple(N.as_node(i, index) for i in (axes if indices is None else indices))
        if mask is not None and mask.dtype is not bool_:
            raise KernelError(f"the mask of {name} is {mask.dtype}, not bool")
        self._buffers.append(buffer)
        self._stores.append(Store(buffer, ix, cast(expr, dtype), tuple(axes), combine, mask))
        return buffer

    def build(self) -> Kernel:
        """The finished kernel; raises KernelError where it is malformed."""
        ordered = sorted(self._buffers, key=lambda b: b.role == "out")
        return Kernel(self.name, tuple(self._body), tuple(self._stores), tuple(ordered))

    def _add(self, v: Value) -> Value:
        self._body.append(v)
        return v
