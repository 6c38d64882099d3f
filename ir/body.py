"""The parts of a kernel: named values over axes, folds, and the stores that make them visible.

A `Value` is pointwise or one `Reduce`/`Scan`; a `Fold` is a tuple reduction in block form. Values refer to each other by
`ref` nodes (write `v[i, j]`). Axes of one family walk the same dimension; each binding site is its own node.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import inf
from typing import Literal, get_args

from .buffer import Buffer
from .checks.misuse import NotIndexed, index_of, mask_of
from .dtypes import DType
from .errors import KernelError
from .node import MASKED, Expr, Node, as_node, const, make, placeholder, ref, walk

IDENTITY = {"add": 0, "mul": 1, "or": 0, "xor": 0}
Combine = Literal["add", "mul", "max", "min", "and", "or", "xor"]
COMBINES: tuple[str, ...] = get_args(Combine)
BITWISE = frozenset({"and", "or", "xor"})
"""Combines of integers, bit by bit."""


@dataclass(frozen=True, slots=True)
class SumOrder:
    """The one order of the additions of a sum (`fixed_sums`): `partials` interleaved partial results along its last axis; chains of `chain`
    additions, 0 where none is cut, whose sums are added in chains of `above`."""

    partials: int
    chain: int
    above: int


def identity(combine: str, dtype: DType) -> Node:
    """What changes nothing when it is combined, in `dtype`."""
    if combine in IDENTITY:
        return const(IDENTITY[combine], dtype)
    low = combine == "max"
    if dtype.is_float:
        return const(-inf if low else inf, dtype)
    if combine == "and" and dtype.kind == "i":
        return const(-1, dtype)
    bits = 8 * dtype.size - (dtype.kind == "i")
    return const((-(1 << bits) if dtype.kind == "i" else 0) if low else (1 << bits) - 1, dtype)


@dataclass(frozen=True, slots=True, eq=False)
class Reduce:
    """`combine` over `axes` of `expr`, accumulated in `dtype` from the identity. `order`: the one order of its additions; None where any
    will do."""

    combine: str
    axes: tuple[Node, ...]
    expr: Node
    dtype: DType
    order: SumOrder | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Scan:
    """Inclusive prefix `combine` of `expr` along `axis`, which stays an axis of the value."""

    combine: str
    axis: Node
    expr: Node
    dtype: DType


@dataclass(frozen=True, slots=True, eq=False)
class Value(NotIndexed):
    """A named value over its spatial `axes`; `v[i, j]` is an element."""

    name: str
    axes: tuple[Node, ...]
    expr: Node | Reduce | Scan
    dtype: DType

    def __getitem__(self, indices: Expr | tuple[Expr, ...]) -> Node:
        return ref(self.name, self._at(indices if isinstance(indices, tuple) else (indices,)), self.dtype)

    def masked(self, mask: Node, *indices: Expr) -> Node:
        """The element where `mask` holds, else 0, in the type that is computed with; indices may leave the axes where it does not."""
        mask_of(self.name, mask)
        at, dtype = self._at(indices), self.dtype.compute
        if mask.op == "const":
            return ref(self.name, at, self.dtype) if mask.arg else const(0, dtype)
        return make(MASKED, dtype, (*at, mask), self.name)

    def _at(self, indices: tuple[Expr, ...]) -> tuple[Node, ...]:
        if len(indices) != len(self.axes):
            raise KernelError(f"value {self.name} has {len(self.axes)} axes and was indexed with {len(indices)}")
        at = tuple(as_node(i) for i in indices)
        for i in at:
            index_of(self.name, i)
        return at

    @property
    def body(self) -> Node:
        """The element expression, also of a Reduce or Scan."""
        return self.expr if isinstance(self.expr, Node) else self.expr.expr

    @property
    def reduce_axes(self) -> tuple[Node, ...]:
        """The axes a Reduce folds (a Scan's axis is spatial)."""
        return self.expr.axes if isinstance(self.expr, Reduce) else ()


@dataclass(frozen=True, slots=True, eq=False)
class Monoid:
    """How partial states merge. `merge[i]` is written over placeholders `a.NAME` and `b.NAME` of the components; it must
    not depend on how the reduce axis was cut. `identity[i]` is the state of an empty range."""

    identity: tuple[Node, ...]
    merge: tuple[Node, ...]
    associative: bool = True
    commutative: bool = True


@dataclass(frozen=True, slots=True, eq=False)
class Fold:
    """A tuple reduction over the family of `axis` in block form.

    `block` computes the `components` (names of block values) over a tile of the axis; each block value reduces over its
    own site of that family. Uncut, the block covers the axis and the result is the block's; TILE on the family makes a
    loop whose states are merged. (Attention: M = max s, L = Σ exp(s−M), O = Σ exp(s−M)·v.)"""

    name: str
    axis: Node
    block: tuple[Value, ...]
    components: tuple[str, ...]
    monoid: Monoid

    def component(self, name: str) -> Value:
        """The block value behind a component; later values refer to it by this name."""
        for v in self.block:
            if v.name == name:
                return v
        raise KernelError(f"fold {self.name} has no component {name}")


def values_of(item: Value | Fold) -> tuple[Value, ...]:
    """The values of an item of a kernel's body: of a fold those of its block."""
    return item.block if isinstance(item, Fold) else (item,)


@dataclass(frozen=True, slots=True, eq=False)
class Store:
    """`buffer[indices] = expr` for every point of `axes` (where `mask` holds). With `combine` the output starts at that
    combine's identity and every write is combined into it in axis order (scatter); of several stores to one output, which all have that
    `combine`, in any order between them. `own` is (axis, dimension, size) where
    every point of an axis starts and writes just a block of that dimension, from `axis · size` on."""

    buffer: Buffer
    indices: tuple[Node, ...]
    expr: Node
    axes: tuple[Node, ...]
    combine: str | None = None
    mask: Node | None = None
    own: tuple[Node, int, int] | None = None


@dataclass(frozen=True, eq=False)
class KernelBody:
    """What a kernel consists of: `body` in order, then `stores`. Parameters are the inputs by first use, then the outputs."""

    name: str
    body: tuple[Value | Fold, ...]
    stores: tuple[Store, ...]
    buffers: tuple[Buffer, ...]

    @cached_property
    def inputs(self) -> tuple[Buffer, ...]:
        """Read-only parameters, in call order."""
        return tuple(b for b in self.buffers if b.role == "in")

    @cached_property
    def outputs(self) -> tuple[Buffer, ...]:
        """Written parameters, in call order after the inputs."""
        return tuple(b for b in self.buffers if b.role == "out")

    @cached_property
    def values(self) -> dict[str, Value]:
        """Every value by name, block values of folds included."""
        out: dict[str, Value] = {}
        for item in self.body:
            for v in values_of(item):
                out[v.name] = v
        return out

    @cached_property
    def axes(self) -> tuple[Node, ...]:
        """Every axis node, in first-visit order."""
        seen: dict[Node, None] = {}
        for item in self.body:
            if isinstance(item, Fold):
                seen.setdefault(item.axis)
            for v in values_of(item):
                for a in (*v.axes, *v.reduce_axes):
                    seen.setdefault(a)
        for s in self.stores:
            for a in s.axes:
                seen.setdefault(a)
        return tuple(seen)

    @cached_property
    def families(self) -> dict[str, tuple[Node, ...]]:
        """Axis nodes by family name."""
        out: dict[str, list[Node]] = {}
        for a in self.axes:
            out.setdefault(a.arg.family, []).append(a)
        return {k: tuple(v) for k, v in out.items()}

    @cached_property
    def symbols(self) -> tuple[Node, ...]:
        """Symbolic extents, sorted by name: the `vars` array of the compiled function."""
        roots: list[Node] = list(self.expressions())
        for b in self.buffers:
            roots.extend(d for d in b.shape if isinstance(d, Node))
        for a in self.axes:
            if isinstance(a.arg.extent, Node):
                roots.append(a.arg.extent)
        return tuple(sorted({n for n in walk(*roots) if n.op == "sym"}, key=lambda n: n.arg.name))

    def expressions(self) -> Iterator[Node]:
        """Every expression of the kernel (values, merges, stores, indices, masks)."""
        for item in self.body:
            if isinstance(item, Fold):
                yield from (v.body for v in item.block)
                yield from item.monoid.identity
                yield from item.monoid.merge
            else:
                yield item.body
        for s in self.stores:
            yield s.expr
            yield from s.indices
            if s.mask is not None:
                yield s.mask


COMBINE = "tuple"
"""What `Scan.combine` says of a scan of tuples."""
STEPS = "steps"
"""What it says of one whose rule is no more than a step: (state, element) → state. Such a scan has one order."""


def in_steps(v: Value | None) -> bool:
    """Whether a value is a recurrence: no part of it is known before what comes before is."""
    return v is not None and isinstance(v.expr, Scan) and v.expr.combine == STEPS


@dataclass(frozen=True, slots=True)
class TupleScan:
    """The parts of a scan of tuples, a component each; its value is component `pick`."""

    elements: tuple[Node, ...]
    identity: tuple[Node, ...]
    merge: tuple[Node, ...]
    pick: int

    @property
    def node(self) -> Node:
        """The body of the scan."""
        return make("tuple", self.elements[self.pick].dtype, (*self.elements, *self.identity, *self.merge), self.pick)

    def needed(self, whole: bool) -> tuple[int, ...]:
        """The components that the picked one follows from: of the state before (it is merged with one element after the other), or,
        with `whole`, of both sides (parts are merged with each other)."""
        found = {self.pick}
        while True:
            used = {int(n.arg[3:]) for i in found for n in walk(self.merge[i]) if n.op == "arg" and (whole or n.arg[0] == "a")}
            if used <= found:
                return tuple(sorted(found))
            found |= used


def tuple_scan(body: Node) -> TupleScan:
    """The parts of a body that `TupleScan.node` made."""
    count = len(body.src) // 3
    return TupleScan(body.src[:count], body.src[count : 2 * count], body.src[2 * count :], body.arg)


def sides(types: Iterable[DType]) -> tuple[tuple[Node, ...], tuple[Node, ...]]:
    """The placeholders of the state before, and of what follows."""
    kinds = tuple(types)

    def of(side: str) -> tuple[Node, ...]:
        return tuple(placeholder(f"{side}.#{i}", t) for i, t in enumerate(kinds))

    return of("a"), of("b")


def names(side: str, values: Sequence[object]) -> dict[str, object]:
    """Values by the placeholders of a side, 'a' or 'b'."""
    return {f"{side}.#{i}": v for i, v in enumerate(values)}
