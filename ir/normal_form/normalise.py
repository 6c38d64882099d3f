"""The same kernel with fewer axes: values that nobody reads dropped (`unread`), unit axes dropped, adjacent axes merged
where every access allows, constants folded, masked weights masked (`masked_weights`), narrow integers computed narrowly
(`narrowing`), bits that are counted `popcount` (`bit_idioms`), choices by parity made places of a group (`parity`), what
nests compute again named (`repeated`).

Two families a, b (b's extent E an int) become one, of extent |a|·E, when every nest binds both next to each other or
neither, and a and b are used only as a·E + b: in a dimension's index, or as the indices of two adjacent dimensions of
which the inner has extent E (or E·s, and steps of s: a head of keys for each s heads of queries). An element-wise kernel over (m, n) becomes one over m·n; softmax, which reduces along n
alone, stays as it is. Parameters keep their order, names, types and element counts; their shapes become views. A
dimension of which it is not proved that every index stays inside (`ir/checks/access_bounds.py`) keeps its place."""

from __future__ import annotations

import itertools
import weakref
from dataclasses import replace

from .. import index as ix
from ..body import Fold, Scan, Value
from ..buffer import Buffer, Extent, loads
from ..dtypes import index
from ..kernel import Kernel
from ..node import Node, as_node, axis, const, make
from ..rewrite import Rewriter
from .apart import apart
from .bit_idioms import count_bits
from .masked_weights import mask_weights
from .narrow_sums import narrow_sums
from .narrowing import narrow
from .parity import split_by_parity
from .repeated import name_repeated
from .unread import without_unread
from .window_rows import rows_first
from .windowed import name_windowed

_DONE: weakref.WeakKeyDictionary[Kernel, Kernel | None] = weakref.WeakKeyDictionary()
"""Normal forms; None for a kernel that is its own, because a value that is the key would keep it for ever."""


def normalise(kernel: Kernel) -> Kernel:
    """An equal kernel in normal form (idempotent; the kernel itself when nothing changes)."""
    if kernel in _DONE:
        return _DONE[kernel] or kernel
    found = apart(_DropUnits(without_unread(kernel)).run())
    merged = _merge_once(found)
    while merged is not None:
        found, merged = merged, _merge_once(merged)
    found = narrow(narrow_sums(count_bits(split_by_parity(mask_weights(rows_first(found))))))
    found = name_repeated(name_windowed(found))
    found = kernel if _same(kernel, found) else found
    _DONE[found] = None
    if found is not kernel:
        _DONE[kernel] = found
    return found


def _same(a: Kernel, b: Kernel) -> bool:
    return a.axes == b.axes and a.buffers == b.buffers and list(a.expressions()) == list(b.expressions())


def _ordered(kernel: Kernel) -> set[str]:
    """Families whose axes keep their place: those of folds and scans."""
    out = {item.axis.arg.family for item in kernel.body if isinstance(item, Fold)}
    return out | {v.expr.axis.arg.family for v in kernel.values.values() if isinstance(v.expr, Scan)}


class _DropUnits(Rewriter):
    """Axes and dimensions of extent 1 disappear."""

    def __init__(self, kernel: Kernel) -> None:
        super().__init__(kernel)
        kept = _ordered(kernel)
        # what an index may leave stays as it is: evaluation is to find it there
        open_ = {v.axes[d] for v in kernel.values.values() for d in range(len(v.axes)) if (v.name, d) in kernel.unproved}
        self.units = {a for a in kernel.axes if a.arg.extent == 1 and a.arg.family not in kept and a not in open_}
        self.positions = {v.name: [i for i, a in enumerate(v.axes) if a not in self.units] for v in kernel.values.values()}
        self.buffers = {b: replace(b, shape=tuple(d for _, d in self._kept(b))) for b in kernel.buffers}

    def _kept(self, buffer: Buffer) -> list[tuple[int, Extent]]:
        return [(n, d) for n, d in enumerate(buffer.shape) if d != 1 or (buffer.name, n) in self.kernel.unproved]

    def node(self, n: Node) -> Node | None:
        if n in self.units:
            return const(0)
        if n.op == "ref":
            return make("ref", n.dtype, tuple(self.go(n.src[i]) for i in self.positions[n.arg]), n.arg)
        return None

    def axes(self, axes: tuple[Node, ...]) -> tuple[Node, ...]:
        return tuple(a for a in axes if a not in self.units)

    def indices(self, buffer: Buffer, indices: tuple[Node, ...]) -> tuple[Node, ...]:
        return tuple(indices[n] for n, _ in self._kept(buffer))


class _CannotMergeError(Exception):
    """These two families do not merge."""


def _nests(kernel: Kernel) -> list[tuple[Node, ...]]:
    """Every tuple of axes bound together."""
    out = []
    for v in kernel.values.values():
        out += [v.axes, v.reduce_axes]
    return out + [s.axes for s in kernel.stores]


def _merge_once(kernel: Kernel) -> Kernel | None:
    tried: set[tuple[str, str]] = set()
    kept = _ordered(kernel) | set(() if kernel.blocks is None else kernel.blocks.axes)  # those are cut one by one
    for axes in _nests(kernel):
        for a, b in itertools.pairwise(axes):
            families = (a.arg.family, b.arg.family)
            if families in tried or families[0] == families[1] or kept & set(families) or not isinstance(b.arg.extent, int):
                continue
            tried.add(families)
            try:
                return _Merge(kernel, *families).run()
            except _CannotMergeError:
                pass
    return None


class _Merge(Rewriter):
    """Two families become one, or _CannotMergeError."""

    def __init__(self, kernel: Kernel, outer: str, inner: str) -> None:
        super().__init__(kernel)
        self.outer, self.inner = outer, inner
        self.extent: int = kernel.families[inner][0].arg.extent
        self.partner: dict[Node, Node] = {}
        self.merged: dict[Node, Node] = {}
        for axes in _nests(kernel):
            self._pair(axes)
        self.positions = {v.name: self._position(v) for v in kernel.values.values()}
        if any(p is not None and (name, p + 1) in kernel.unproved for name, p in self.positions.items()):
            raise _CannotMergeError
        self.dims: dict[Buffer, int] = {}
        for buffer, indices in _accesses(kernel):
            self._view(buffer, indices)
        self.buffers = {b: replace(b, shape=_joined(b.shape, d)) for b, d in self.dims.items()}

    def _pair(self, axes: tuple[Node, ...]) -> None:
        inner = [a for a in axes if a.arg.family == self.inner]
        for n, a in enumerate(axes):
            if a.arg.family != self.outer:
                continue
            b = axes[n + 1] if n + 1 < len(axes) else None
            if b is None or b not in inner or self.partner.setdefault(a, b) is not b:
                raise _CannotMergeError
            inner.remove(b)
            if a not in self.merged:
                self.merged[a] = self._merged_axis(a, b)
        if inner:
            raise _CannotMergeError

    def _merged_axis(self, a: Node, b: Node) -> Node:
        family = f"{self.outer}_{self.inner}"
        sites = [x.arg.name.partition("@")[2] for x in (a, b)]
        site = sites[1] or sites[0]
        name = f"{family}@{site}" if site else family
        taken = {x.arg.name for x in self.kernel.axes} | {x.arg.name for x in self.merged.values()} | {x.name for x in self.kernel.buffers}
        while name in taken or family in self.kernel.families:
            family, name = family + "_", (f"{family}_@{site}" if site else f"{family}_")
        extent = ix.mul(as_node(a.arg.extent), const(self.extent))
        return axis(name, int(extent.arg) if extent.op == "const" else extent, family)

    def _position(self, v: Value) -> int | None:
        return next((i for i, a in enumerate(v.axes) if a in self.merged), None)

    def _view(self, buffer: Buffer, indices: tuple[Node, ...]) -> None:
        for d in range(len(indices) - 1):
            a = next((t for t in ix.parts(indices[d])[0] if t in self.merged), None)
            if a is not None and self._steps_into(buffer.shape[d + 1], ix.parts(indices[d])[0][a], self.partner[a], indices[d + 1]):
                if (buffer.name, d + 1) in self.kernel.unproved:  # x[i, n] would be x[i + 1, 0]
                    raise _CannotMergeError
                if self.dims.setdefault(buffer, d) != d:
                    raise _CannotMergeError
                return

    def _steps_into(self, size: Extent, factor: int, b: Node, inner: Node) -> bool:
        """Whether a step of the outer axis is as long, in memory, as all steps of `b` in the next dimension (of `size`)."""
        steps = ix.parts(inner)[0].get(b, 0)
        return steps != 0 and (size == self.extent or (isinstance(size, int) and factor * size == steps * self.extent))

    # rewriting ----------------------------------------------------------------------------------------------------
    def node(self, n: Node) -> Node | None:
        if n.op == "axis":
            if n.arg.family in (self.outer, self.inner):
                raise _CannotMergeError
            return n
        if n.op == "sum" and n.dtype is index:
            return self._sum(n)
        if n.op == "ref":
            p = self.positions[n.arg]
            return None if p is None else make("ref", n.dtype, tuple(self.go(i) for i in self._joined_at(n.src, p, self.extent)), n.arg)
        return None

    def _sum(self, n: Node) -> Node:
        terms, c = ix.parts(n)
        new: dict[Node, int] = {}
        for t, k in terms.items():
            if t in self.merged:
                b = self.partner[t]
                if terms.get(b, 0) * self.extent != k:
                    raise _CannotMergeError
                new[self.merged[t]] = terms[b]
        done = {*self.merged, *(self.partner[t] for t in terms if t in self.merged)}
        out = ix.linear(new, c)
        for t, k in terms.items():
            if t not in done:
                out = ix.add(out, self.go(t), k)
        return out

    def _joined_at(self, indices: tuple[Node, ...], d: int, size: Extent) -> tuple[Node, ...]:
        both = ix.add(ix.mul(indices[d], as_node(size)), indices[d + 1])
        return (*indices[:d], both, *indices[d + 2 :])

    def indices(self, buffer: Buffer, indices: tuple[Node, ...]) -> tuple[Node, ...]:
        d = self.dims.get(buffer)
        return indices if d is None else self._joined_at(indices, d, buffer.shape[d + 1])

    def axes(self, axes: tuple[Node, ...]) -> tuple[Node, ...]:
        return tuple(self.merged.get(a, a) for a in axes if a.arg.family != self.inner)


def _accesses(kernel: Kernel) -> list[tuple[Buffer, tuple[Node, ...]]]:
    out = [(b, indices) for b, indices, _ in loads(*kernel.expressions())]
    return out + [(s.buffer, s.indices) for s in kernel.stores]


def _joined(shape: tuple[Extent, ...], d: int) -> tuple[Extent, ...]:
    size = ix.mul(as_node(shape[d]), as_node(shape[d + 1]))
    return (*shape[:d], int(size.arg) if size.op == "const" else size, *shape[d + 2 :])
