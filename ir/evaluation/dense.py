"""Evaluates expressions over whole ranges of axes: every node becomes one array with a position per axis (1 where it does
not vary), so NumPy broadcasting does the looping."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np

from .. import index as ix
from ..buffer import Buffer, load_parts
from ..dtypes import index
from ..errors import KernelError
from ..node import ABOUT, Node, axes_of
from .algebra import Algebra, Array, Quantity

Span = tuple[int, int]
"""A half-open range of an axis."""


@dataclass(slots=True)
class Stored:
    """A value computed over `spans` of its `axes`."""

    axes: tuple[Node, ...]
    spans: tuple[Span, ...]
    data: Quantity


@dataclass(slots=True)
class Env:
    """What expressions can see: input arrays, values computed so far, symbols, and the algebra."""

    algebra: Algebra
    inputs: Mapping[Buffer, Array]
    symbols: Mapping[Node, int]
    values: dict[str, Stored] = field(default_factory=dict)
    placeholders: dict[str, Stored] = field(default_factory=dict)
    scanned: tuple[Any, dict[tuple[Span, ...], Any]] | None = None
    """The last scan of tuples, and all its components by the spans of a piece: values that pick others of it follow each other."""

    def extent(self, axis: Node) -> int:
        """The extent of an axis with the symbols in place."""
        e = axis.arg.extent
        return e if isinstance(e, int) else ix.evaluate(e, dict(self.symbols))


class DenseContext:
    """Evaluates expressions over `dims`, each axis running over its span; every node is evaluated once."""

    def __init__(self, env: Env, dims: Sequence[Node], spans: Sequence[Span]) -> None:
        self.env, self.dims, self.spans = env, tuple(dims), tuple(spans)
        self.shape = tuple(max(0, hi - lo) for lo, hi in spans)
        self.position = {a: i for i, a in enumerate(self.dims)}
        self._memo: dict[Node, Quantity] = {}

    def eval(self, node: Node) -> Quantity:
        """The quantity of a node; rank = number of dims."""
        found = self._memo.get(node)
        if found is None:
            stack = [node]
            while stack:  # operands first, without recursion: expressions may be deep
                n = stack[-1]
                todo = [] if n.op in ("load", "ref") else [s for s in n.src if s not in self._memo]
                if todo:
                    stack.extend(todo)
                else:
                    stack.pop()
                    if n not in self._memo:
                        self._memo[n] = self._node(n)
            found = self._memo[node]
        return found

    def array(self, node: Node) -> Array:
        """The plain array of an index or mask."""
        return self.env.algebra.array(self.eval(node))

    def size(self, node: Node) -> int:
        """How many elements the array of a node has at most."""
        return prod(self.shape[self.position[a]] for a in axes_of(node))

    # nodes --------------------------------------------------------------------------------------------------------
    def _node(self, n: Node) -> Quantity:
        op, algebra = n.op, self.env.algebra
        if op == "const":
            return self._scalar(algebra.number(n.arg, n.dtype))
        if op == "axis":
            return algebra.wrap(self._range(n))
        if op == "sym":
            return self._scalar(algebra.wrap(np.array(self._symbol(n), np.int64)))
        if op == "arg":
            return self._placeholder(n)
        if op == "load":
            return self._load(n)
        if op == "ref":
            return self._ref(n)
        v = [self._memo[s] for s in n.src]
        if n.dtype is index and (op in ("sum", "prod", "mod") or (op == "div" and n.arg is not None)):
            return algebra.wrap(index_values(n, [algebra.array(x) for x in v]))
        if op == "cast":
            return algebra.cast(v[0], n.src[0].dtype, n.dtype)
        if op == ABOUT:
            return algebra.about(v[0], *n.arg)
        if op == "where":
            return algebra.where(v[0], v[1], v[2], n.dtype)
        if len(v) == 1:
            return algebra.unary(op, v[0], n.src[0].dtype)
        return algebra.binary(op, v[0], v[1], n.src[0].dtype)

    def _scalar(self, q: Quantity) -> Quantity:
        return self.env.algebra.map(q, lambda a: a.reshape((1,) * len(self.dims)))

    def _range(self, axis: Node) -> Array:
        p = self.position.get(axis)
        if p is None:
            raise KernelError(f"axis {axis.arg.name} is not bound here")
        lo, hi = self.spans[p]
        return np.arange(lo, hi, dtype=np.int64).reshape([-1 if i == p else 1 for i in range(len(self.dims))])

    def _symbol(self, n: Node) -> int:
        found = self.env.symbols.get(n)
        if found is None:
            raise KernelError(f"symbol {n.arg.name} has no value: give it in vars")
        return found

    # memory -------------------------------------------------------------------------------------------------------
    def _load(self, n: Node) -> Quantity:
        buffer, indices, mask = load_parts(n)
        raw = self.env.inputs.get(buffer)
        if raw is None:
            raise KernelError(f"no input {buffer.name} was given")
        view = self._strided(raw, indices, buffer, mask is not None)
        keep = None if mask is None else self.array(mask)
        if view is None:
            view = _gather(raw, [self.array(i) for i in indices], keep, f"load from {buffer.name}")
        q = self.env.algebra.leaf(view, buffer.dtype)
        return q if keep is None else self.env.algebra.mask(keep, q)

    def _strided(self, raw: Array, indices: tuple[Node, ...], buffer: Buffer, masked: bool) -> Array | None:
        """A view of `raw` where every index is affine in the axes and in bounds."""
        strides = [0] * len(self.dims)
        used = [False] * len(self.dims)
        start = []
        for d, i in enumerate(indices):
            terms, at = ix.parts(i)
            low = high = at
            for t, k in terms.items():
                if t.op == "sym":
                    at, low, high = (x + k * self._symbol(t) for x in (at, low, high))
                    continue
                p = self.position.get(t)
                if p is None:
                    return None
                lo, hi = self.spans[p]
                used[p] = True
                strides[p] += k * raw.strides[d]
                at += k * lo
                low, high = low + min(k * lo, k * (hi - 1)), high + max(k * lo, k * (hi - 1))
            if (low < 0 or high >= raw.shape[d]) and all(self.shape):
                if masked:
                    return None
                raise KernelError(
                    f"load from {buffer.name}: index {i!r} runs over {low}..{high}, but dimension {d} has {raw.shape[d]} elements"
                )
            start.append(at)
        shape = [s if u else 1 for s, u in zip(self.shape, used, strict=True)]
        if not all(shape) or not raw.size:
            return np.zeros(shape, raw.dtype) if 0 in shape else None
        corner = np.asarray(raw[tuple(slice(s, s + 1) for s in start)])
        bits = corner.view(f"u{corner.itemsize}") if buffer.dtype.foreign else corner  # NumPy cannot name those types
        return np.lib.stride_tricks.as_strided(bits, shape, strides, writeable=False).view(corner.dtype)

    def _ref(self, n: Node) -> Quantity:
        stored = self.env.values.get(n.arg)
        if stored is None:
            raise KernelError(f"value {n.arg} is used before it is computed")
        algebra, src = self.env.algebra, n.src
        if len(set(src)) == len(src) and all(s in self.position for s in src):
            places = [self.position[s] for s in src]
            spans = [self.spans[p] for p in places]
            if all(lo >= a and hi <= b for (lo, hi), (a, b) in zip(spans, stored.spans, strict=True)):
                cut = tuple(slice(lo - a, hi - a) for (lo, hi), (a, _) in zip(spans, stored.spans, strict=True))
                return algebra.map(stored.data, lambda x: spread(x[cut], places, len(self.dims)))
        at = [self.array(s) - a for s, (a, _) in zip(src, stored.spans, strict=True)]
        return algebra.map(stored.data, lambda x: _gather(np.asarray(x), at, None, f"use of value {n.arg}"))

    def _placeholder(self, n: Node) -> Quantity:
        """A state of a merge: its axes are matched by node, else by family."""
        stored = self.env.placeholders.get(n.arg)
        if stored is None:
            raise KernelError(f"placeholder {n.arg} has no meaning outside a merge")
        families = {a.arg.family: p for p, a in enumerate(self.dims)}
        places = []
        for a in stored.axes:
            p = self.position.get(a, families.get(a.arg.family))
            if p is None:
                raise KernelError(f"merge: component {n.arg} varies over {a.arg.name}, which the merged component does not have")
            places.append(p)
        return self.env.algebra.map(stored.data, lambda x: spread(x, places, len(self.dims)))


def spread(x: Array, places: Sequence[int], rank: int) -> Array:
    """Dimension i of `x` moved to position places[i] of `rank`; 1 elsewhere."""
    order = sorted(range(len(places)), key=lambda i: places[i])
    shape = [1] * rank
    for i, p in enumerate(places):
        shape[p] = x.shape[i]
    return x.transpose(order).reshape(shape)


def _wide(at: Sequence[Array]) -> list[Array]:
    """Indices that were read from narrow types, so that what is computed from them does not overflow."""
    return [np.asarray(a, np.int64) for a in at]


def index_values(n: Node, v: list[Array]) -> Array:
    """A sum, product, quotient or remainder of indices, of the values of its operands (int64)."""
    v = _wide(v)
    if n.op == "sum":
        coeffs, c = n.arg
        out = v[0] * coeffs[0]
        for x, k in zip(v[1:], coeffs[1:], strict=True):
            out = out + x * k
        return np.asarray(out + c)
    if n.op == "prod":
        out = v[0]
        for x in v[1:]:
            out = out * x
        return np.asarray(out)
    return np.asarray(v[0] // n.arg if n.op == "div" else v[0] % n.arg)


def _gather(raw: Array, at: list[Array], keep: Array | None, what: str) -> Array:
    """raw[at]; where `keep` is false the index may lie outside and the element is arbitrary."""
    if not at:
        return raw
    at = _wide(at)
    shape = np.broadcast_shapes(*(a.shape for a in at))
    if 0 in shape:
        return np.zeros(shape, raw.dtype)
    clipped = []
    for d, a in enumerate(at):
        size = raw.shape[d]
        if int(a.min()) < 0 or int(a.max()) >= size:
            outside = (a < 0) | (a >= size)
            if keep is not None:
                outside = outside & keep
            if outside.any():
                worst = np.broadcast_to(a, outside.shape)[outside][0]
                raise KernelError(f"{what}: index {int(worst)} of dimension {d} is outside its {size} elements; mask it")
            if not size:
                return np.zeros(shape, raw.dtype)
            a = np.clip(a, 0, size - 1)
        clipped.append(a)
    raw = np.ascontiguousarray(raw)
    step, flat = 1, np.zeros((1,) * len(shape), np.int64)
    for d in range(raw.ndim - 1, -1, -1):
        flat = flat + clipped[d] * step
        step *= raw.shape[d]
    return raw.reshape(-1).take(flat)


def flat_positions(at: Sequence[Array], shape: Sequence[int], what: str, keep: Array | None) -> Array:
    """Row-major positions of indices into an array of `shape`, checked (masked ones may lie outside: they are clipped)."""
    at = _wide(at)
    step, flat = 1, np.zeros((1,) * (at[0].ndim if at else 0), np.int64)
    for d in range(len(shape) - 1, -1, -1):
        a = at[d]
        outside = (a < 0) | (a >= shape[d])
        if outside.any():
            bad = outside if keep is None else outside & keep
            if bad.any():
                worst = int(np.broadcast_to(a, bad.shape)[bad][0])
                raise KernelError(f"{what}: index {worst} of dimension {d} is outside its {shape[d]} elements; mask it")
            a = np.clip(a, 0, max(0, shape[d] - 1))
        flat = flat + a * step
        step *= shape[d]
    return flat
