"""Index maps: where an element of a result lies in its source, as index expressions over placeholder axes.

Every movement operation is one, and none copies. `mask` says where the source is read at all; elsewhere the element
is 0. A reshape is marked, since memory that is read in another shape is a parameter of that shape and needs no
arithmetic at all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from math import prod

from ...ir import index as ix
from ...ir.errors import UsageError
from ...ir.node import Node, axes_of, const, walk
from ...ir.operators import substitute
from .symbolic_sizes import SymbolicSize, axis, most, number

Shape = tuple[int, ...]
Indices = tuple[Node, ...]


@dataclass(frozen=True)
class IndexMap:
    """Result index → (source index, mask). `shape` is the result's, `source` the source's; `axes` are placeholders of
    the result's dimensions (a constant 0 for a dimension of size 1). `lies`: a reshape whose source index would be divided by a symbolic
    size; `indices` then are axes of the source's own, and its source is always memory, which is read in the result's shape."""

    shape: Shape
    source: Shape
    axes: Indices
    indices: Indices
    mask: Node | None = None
    reshape: bool = False
    lies: bool = False

    def __call__(self, index: Indices) -> tuple[Indices, Node | None]:
        """The source's index and mask for a result's index."""
        plain = self.plain
        if plain is not None:
            return tuple(const(0) if p is None else index[p] for p in plain), None
        table = {a: i for a, i in zip(self.axes, index, strict=True) if a.op == "axis"}
        return tuple(substitute(i, table) for i in self.indices), None if self.mask is None else substitute(self.mask, table)

    @cached_property
    def plain(self) -> tuple[int | None, ...] | None:
        """For each dimension of the source the result's dimension that it is (None: a constant 0); None where any is more."""
        if self.mask is not None:
            return None
        places = {a: d for d, a in enumerate(self.axes) if a.op == "axis"}
        found = [places.get(i, -1) if i.op == "axis" else None if i is _ZERO else -1 for i in self.indices]
        return None if -1 in found else tuple(found)

    @cached_property
    def permutes(self) -> bool:
        """Whether every element of the source is one of the result, by axes changing places (and unit dimensions coming or going)."""
        if self.plain is None:
            return False
        used = [p for p in self.plain if p is not None]
        whole = all(n == (1 if p is None else self.shape[p]) for p, n in zip(self.plain, self.source))
        rest = prod(self.shape[d] for d in range(len(self.shape)) if d not in used)
        return whole and rest == 1 and len(set(used)) == len(used)

    @cached_property
    def bijective(self) -> bool:
        """Whether the result holds each element of the source exactly once, as far as it can be seen, and `back` can say where."""
        return self.permutes or (self.reshape and self.mask is None and not reshape(self.shape, self.source).lies)

    @cached_property
    def units(self) -> bool:
        """Whether nothing but unit dimensions come or go, in order."""
        return self.reshape and [n for n in self.shape if n != 1] == [n for n in self.source if n != 1]

    @cached_property
    def varies(self) -> frozenset[int]:
        """The result's dimensions that the source's index depends on."""
        if self.lies:
            return frozenset(d for d, a in enumerate(self.axes) if a.op == "axis")
        used = axes_of(*self.indices, *(() if self.mask is None else (self.mask,)))
        return frozenset(d for d, a in enumerate(self.axes) if a in used)

    def along(self, source: frozenset[int]) -> frozenset[int]:
        """The result's dimensions along which elements differ where those of the source do along `source`: where they are
        zeros is part of what they are."""
        if self.lies:
            return self.varies
        used = axes_of(*(self.indices[d] for d in source), *(() if self.mask is None else (self.mask,)))
        return frozenset(d for d, a in enumerate(self.axes) if a in used)

    @cached_property
    def divides(self) -> bool:
        """Whether an index is divided, as where a reshape splits what lies in order otherwise."""
        if self.lies:
            return True
        parts = (*self.indices, *(() if self.mask is None else (self.mask,)))
        return any(n.op in ("div", "mod") for p in parts for n in walk(p))

    def back(self, at: Indices) -> Indices:
        """Of a bijective map: the result's index of a source's element."""
        if self.permutes:
            places = {p: i for p, i in zip(self.plain or (), at) if p is not None}
            return tuple(places.get(d, _ZERO) for d in range(len(self.shape)))
        if any(isinstance(n, SymbolicSize) for n in self.shape[1:]):  # by groups, of which none divides by a symbol
            return reshape(self.shape, self.source)(at)[0]
        return unravel(ravel(self.source, at), self.shape)

    @property
    def identity(self) -> bool:
        """Whether it maps every index to itself."""
        return self.shape == self.source and self.mask is None and self.indices == self.axes


_ZERO = const(0)
MOST_MAPS = 4096
"""Maps that are remembered: the same few are made again for every step of a loop."""


def placeholder_axes(shape: Sequence[int]) -> Indices:
    """Placeholder axes of a shape; a dimension of size 1 is a constant 0."""
    return tuple(axis(f"_{d}", n) if n != 1 else _ZERO for d, n in enumerate(shape))


def ravel(shape: Sequence[int], at: Indices) -> Node:
    """The row-major place of an index."""
    flat = _ZERO
    for n, i in zip(shape, at, strict=True):
        flat = ix.add(ix.mul(flat, number(n)), i)
    return flat


def unravel(flat: Node, shape: Sequence[int]) -> Indices:
    """The index of a row-major place."""
    out: list[Node] = []
    for n in reversed(shape[1:]):
        if isinstance(n, SymbolicSize):
            raise NotImplementedError(f"an index divided by the symbolic size {n!r}")
        out.append(ix.mod(flat, n) if n else _ZERO)
        flat = ix.floordiv(flat, n) if n else _ZERO
    if shape:
        out.append(flat)
    return tuple(reversed(out))


@lru_cache(MOST_MAPS)
def reshape(source: Shape, shape: Shape) -> IndexMap:
    """Row-major reshape; both shapes have as many elements."""
    axes = placeholder_axes(shape)
    if 0 in source:
        return IndexMap(shape, source, axes, tuple(_ZERO for _ in source), None, True)
    try:
        return IndexMap(shape, source, axes, _regrouped(source, shape, axes), None, True)
    except NotImplementedError:
        own = tuple(axis(f"_lies{d}", n) if n != 1 else _ZERO for d, n in enumerate(source))
        return IndexMap(shape, source, axes, own, None, True, True)


def _regrouped(source: Shape, shape: Shape, axes: Indices) -> Indices:
    """Source indices, by groups of dimensions of equal size, so that (a, b·c) ↔ (a·b, c) mixes no more than it must. Raises
    NotImplementedError where an index would be divided by a symbolic size, and UsageError where no groups are equal."""
    out: list[Node] = []
    i = j = 0
    while i < len(source) or j < len(shape):
        a, b, i0, j0 = 1, 1, i, j
        while True:
            if i < len(source) and (_behind(a, b) or (a == b and i == i0)):
                a, i = a * source[i], i + 1
            elif j < len(shape) and (_behind(b, a) or (a == b and j == j0)):
                b, j = b * shape[j], j + 1
            elif a != b:
                raise UsageError(f"reshape of {list(source)} to {list(shape)}: no groups of dimensions have equal symbolic sizes")
            if a == b and (i > i0 or j > j0):
                break
        out += unravel(ravel(shape[j0:j], axes[j0:j]), source[i0:i])
    return tuple(out)


def _behind(a: int, b: int) -> bool:
    """Which of two products gets the next dimension: the smaller one, symbolic ones by the most they can be."""
    return most(a) < most(b)


def permute(source: Shape, order: Sequence[int]) -> IndexMap:
    """Dimension d of the result is dimension `order[d]` of the source."""
    shape = tuple(source[d] for d in order)
    axes = placeholder_axes(shape)
    return IndexMap(shape, source, axes, tuple(axes[list(order).index(d)] for d in range(len(source))))


@lru_cache(MOST_MAPS)
def broadcast(source: Shape, shape: Shape) -> IndexMap:
    """NumPy's broadcasting of `source` to `shape` (which must fit)."""
    axes, lead = placeholder_axes(shape), len(shape) - len(source)
    return IndexMap(shape, source, axes, tuple(axes[lead + d] if n != 1 else _ZERO for d, n in enumerate(source)))


def strided(source: Shape, picks: Sequence[tuple[int, int, int]]) -> IndexMap:
    """A slice: (start, step, length) of each dimension; steps may be negative."""
    shape = tuple(n for _, _, n in picks)
    axes = placeholder_axes(shape)
    return IndexMap(shape, source, axes, tuple(ix.add(ix.mul(a, const(step)), number(start)) for a, (start, step, _) in zip(axes, picks)))


def padded(source: Shape, before: Sequence[int], after: Sequence[int]) -> IndexMap:
    """`before[d]` and `after[d]` zeros around each dimension."""
    shape = tuple(b + n + a for n, b, a in zip(source, before, after))
    axes, mask = placeholder_axes(shape), const(True)
    for i, n, b, a in zip(axes, source, before, after):
        if b != 0:
            mask = mask & (i >= number(b))
        if a != 0:
            mask = mask & (i < number(b + n))
    indices = tuple(ix.add(i, number(-b)) for i, b in zip(axes, before))
    return IndexMap(shape, source, axes, indices, None if mask.op == "const" and mask.arg else mask)


def composable(outer: IndexMap, inner: IndexMap) -> bool:
    """Whether two maps can be one: of a reshape that is read from memory in the other shape, only with a reshape."""
    return not (outer.lies or inner.lies) or (outer.reshape and inner.reshape)


def compose(outer: IndexMap, inner: IndexMap) -> IndexMap:
    """First `inner`, then `outer`: one map from the result of `outer` to the source of `inner`."""
    if outer.lies or inner.lies:
        assert composable(outer, inner)
        return reshape(inner.source, outer.shape)
    middle, mask = outer(outer.axes)
    indices, more = inner(middle)
    both = more if mask is None else mask if more is None else mask & more
    if both is not None and both.op == "const" and both.arg:
        both = None
    return IndexMap(outer.shape, inner.source, outer.axes, indices, both, outer.reshape and inner.reshape)
