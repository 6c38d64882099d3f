"""Kernels as they come out of plain tensor expressions: no pointwise value has a name, and every reduction, scan and
store has axes of its own, each a family for itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tilewright.ir import axis, cast, dtypes
from tilewright.ir.body import Fold, Monoid, Reduce, Scan, Store, Value
from tilewright.ir.buffer import Buffer
from tilewright.ir.kernel import Kernel
from tilewright.ir.node import Node, as_node, const, placeholder

Indices = tuple[Node, ...]


class Inlined:
    """Collects what a kernel consists of. Extents come first, elements are functions of indices."""

    def __init__(self, dtype: dtypes.DType = dtypes.float32) -> None:
        self.dtype = dtype
        self.inputs: list[Buffer] = []
        self.stores: list[Store] = []
        self.body: list[Value | Fold] = []
        self.block: list[Value] | None = None

    def input(self, name: str, *shape: int, dtype: dtypes.DType | None = None, range: tuple[int, int] | None = None) -> Buffer:
        """An input."""
        self.inputs.append(Buffer(name, dtype or self.dtype, shape, "in", range=range))
        return self.inputs[-1]

    def reduce(
        self,
        combine: str,
        extents: Sequence[int],
        over: Sequence[int],
        element: Callable[[Indices, Indices], Node],
        acc: dtypes.DType | None = None,
    ) -> Value:
        """`combine` of element(spatial, reduced)."""
        name = f"r{len(self._all)}"
        i = tuple(axis(f"{name}_{d}", n) for d, n in enumerate(extents))
        j = tuple(axis(f"{name}_k{d}", n) for d, n in enumerate(over))
        e = element(i, j)
        dtype = acc or (e.dtype.acc if combine == "add" else e.dtype.compute)
        return self._add(Value(name, i, Reduce(combine, j, cast(e, dtype), dtype), dtype))

    def scan(self, combine: str, extents: Sequence[int], along: int, element: Callable[[Indices], Node]) -> Value:
        """A running `combine` of element(spatial)."""
        name = f"s{len(self._all)}"
        i = tuple(axis(f"{name}_{d}", n) for d, n in enumerate(extents))
        e = element(i)
        return self._add(Value(name, i, Scan(combine, i[along], cast(e, e.dtype.acc), e.dtype.acc), e.dtype.acc))

    def store(
        self,
        name: str,
        shape: Sequence[int],
        element: Callable[[Indices], Node],
        dtype: dtypes.DType | None = None,
        *,
        over: Sequence[int] | None = None,
        at: Callable[[Indices], Sequence[Node]] | None = None,
        combine: str | None = None,
    ) -> None:
        """name[at(i)] = element(i), by default for every place of the output."""
        i = tuple(axis(f"{name}_o{d}", n) for d, n in enumerate(shape if over is None else over))
        dtype = dtype or self.dtype
        indices = tuple(map(as_node, i if at is None else at(i)))
        self.stores.append(Store(Buffer(name, dtype, tuple(shape), "out"), indices, cast(element(i), dtype), i, combine))

    def fold(self, extent: int, components: Sequence[Value], identity: Sequence[float], merge: Sequence[Node]) -> None:
        """Everything since `self.block = []` becomes a fold's block. Its axis is of a family that nothing else
        has."""
        assert self.block is not None
        start = tuple(const(x, v.dtype) for x, v in zip(identity, components, strict=True))
        block, self.block = tuple(self.block), None
        self.body.append(Fold("state", axis("folded", extent), block, tuple(v.name for v in components), Monoid(start, tuple(merge))))

    def build(self) -> Kernel:
        """The kernel."""
        return Kernel("pulled", tuple(self.body), tuple(self.stores), (*self.inputs, *(s.buffer for s in self.stores)))

    @property
    def _all(self) -> list[object]:
        return [*self.body, *(self.block or ())]

    def _add(self, v: Value) -> Value:
        (self.body if self.block is None else self.block).append(v)
        return v


def sides(v: Value) -> tuple[Node, Node]:
    """A component's two states in a merge."""
    return placeholder(f"a.{v.name}", v.dtype), placeholder(f"b.{v.name}", v.dtype)
