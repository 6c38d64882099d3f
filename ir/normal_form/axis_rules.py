"""Rules of the normal form for axes and values: which are dropped, split, merged, and called alike."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import count

from .. import index as ix
from ..body import Fold, Reduce, Scan, Value, values_of
from ..buffer import Buffer, Extent, loads
from ..dtypes import index
from ..kernel import Kernel
from ..node import COMPARE, Node, as_node, axes_of, axis, const, make, walk
from ..rewriter import OtherAxes, Rewriter

# unread values ----------------------------------------------------------------------------------------------------


def drop_unread(kernel: Kernel) -> Kernel:
    """The kernel with the values that its stores need, directly or not; its parameters stay as they are."""
    wanted = {n.arg for s in kernel.stores for n in walk(s.expr, *s.indices, *(() if s.mask is None else (s.mask,))) if n.op == "ref"}
    kept: list[Value | Fold] = []
    for item in reversed(kernel.body):
        made = set(item.components) if isinstance(item, Fold) else {item.name}
        if made & wanted:
            kept.append(item)
            wanted |= {n.arg for n in walk(*(v.body for v in values_of(item))) if n.op == "ref"}
    return kernel if len(kept) == len(kernel.body) else replace(kernel, body=tuple(reversed(kept)))


# unit axes --------------------------------------------------------------------------------------------------------


def drop_units(kernel: Kernel) -> Kernel:
    """The kernel without axes and dimensions of extent 1, and with constants folded; itself where nothing changes."""
    found = _DropUnits(kernel).run()
    same = found.axes == kernel.axes and found.buffers == kernel.buffers and list(found.expressions()) == list(kernel.expressions())
    return kernel if same else found


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


# families ---------------------------------------------------------------------------------------------------------
# Axes of one family that meet in one nest are of two: in sums over all pairs, an option on the rows is not one on the columns.
#
# A family is what options name together: the sites of a dimension in softmax's maximum, sum and output. Whoever writes all pairs of n
# bodies calls both axes n, since both are as long. Where one nest has both, those that references do not tie to the first get a family of
# their own, n2: `n@sum` becomes `n2@sum`.


def separate_families(kernel: Kernel) -> Kernel:
    """The kernel with a family for each of several axes of one family in one nest; itself where there are none."""
    nests = [frozenset((*v.axes, *v.reduce_axes)) for item in kernel.body for v in values_of(item)] + [
        frozenset(s.axes) for s in kernel.stores
    ]
    folded = {item.axis.arg.family for item in kernel.body if isinstance(item, Fold)}
    shared = dict.fromkeys(f for n in nests for f in _repeated(a.arg.family for a in n) if f not in folded)
    table: dict[Node, Node] = {}
    for family in shared:
        table |= _new(kernel, family, nests)
    return OtherAxes(kernel, table).run() if table else kernel


def _repeated(families: Iterable[str]) -> Iterator[str]:
    seen: set[str] = set()
    for f in families:
        if f in seen:
            yield f
        seen.add(f)


def _new(kernel: Kernel, family: str, nests: list[frozenset[Node]]) -> dict[Node, Node]:
    """Other axes for some of a family's: those that references tie stay together, those that meet do not."""
    mine = [a for a in kernel.axes if a.arg.family == family]
    parent = {a: a for a in mine}

    def find(a: Node) -> Node:
        while parent[a] is not a:
            a = parent[a]
        return a

    for n in walk(*kernel.expressions()):
        if n.op == "ref" and n.arg in kernel.values:
            for a, i in zip(kernel.values[n.arg].axes, n.src, strict=True):
                if a in parent and i in parent and find(a) is not find(i):
                    one, two = find(a), find(i)
                    if not any(_meet(nests, x, y) for x in mine if find(x) is one for y in mine if find(y) is two):
                        parent[two] = one
    names = {x for a in kernel.axes for x in (a.arg.name, a.arg.family)} | {b.name for b in kernel.buffers} | set(kernel.values)
    families: list[tuple[str, list[Node]]] = [(family, [])]
    classes: dict[Node, list[Node]] = {}
    for a in mine:
        classes.setdefault(find(a), []).append(a)
    # (what stores are over comes first, and keeps its name)
    stored = {a for s in kernel.stores for a in s.axes}
    for group in sorted(classes.values(), key=lambda g: not any(a in stored for a in g)):
        for _, members in families:
            if not any(_meet(nests, x, y) for x in group for y in members):
                members += group
                break
        else:
            number = next(k for k in range(2, len(names) + 3) if f"{family}{k}" not in names)
            names.add(f"{family}{number}")
            families.append((f"{family}{number}", list(group)))
    out = {}
    for name, members in families[1:]:
        for a in members:
            site = a.arg.name.partition("@")[2]
            out[a] = axis(f"{name}@{site}" if site else name, a.arg.extent, name)
    return out


def _meet(nests: list[frozenset[Node]], a: Node, b: Node) -> bool:
    return any(a in n and b in n for n in nests)


# merged axes ------------------------------------------------------------------------------------------------------
# Two families a, b (b's extent E an int) become one, of extent |a|·E, when every nest binds both next to each other or neither, and a and
# b are used only as a·E + b: in a dimension's index, or as the indices of two adjacent dimensions of which the inner has extent E (or E·s,
# and steps of s: a head of keys for each s heads of queries). An element-wise kernel over (m, n) becomes one over m·n; softmax, which
# reduces along n alone, stays as it is. Parameters keep their order, names, types and element counts; their shapes become views. A
# dimension of which it is not proved that every index stays inside (`ir/checks/access_bounds.py`) keeps its place.


class _CannotMergeError(Exception):
    """These two families do not merge."""


def _nests(kernel: Kernel) -> list[tuple[Node, ...]]:
    """Every tuple of axes bound together."""
    out = []
    for v in kernel.values.values():
        out += [v.axes, v.reduce_axes]
    return out + [s.axes for s in kernel.stores]


def merge_axes(kernel: Kernel) -> Kernel:
    """The kernel with the first two families merged that can be; itself where none can."""
    tried: set[tuple[str, str]] = set()
    kept = _ordered(kernel) | set(() if kernel.blocks is None else kernel.blocks.axes)  # those are cut one by one
    sums = {a.arg.family for v in kernel.values.values() if isinstance(v.expr, Reduce) and v.expr.order for a in v.reduce_axes}
    for axes in _nests(kernel):
        for a, b in itertools.pairwise(axes):
            families = (a.arg.family, b.arg.family)
            if families in tried or families[0] == families[1] or kept & set(families) or not isinstance(b.arg.extent, int):
                continue
            tried.add(families)
            if families[1] in sums:
                continue  # partial results are those of the last axis as it was written
            try:
                return _Merge(kernel, *families).run()
            except _CannotMergeError:
                pass
    return kernel


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


# parity -----------------------------------------------------------------------------------------------------------
# An axis whose points are told apart by their number modulo two to four is split in groups and places inside a group.
#
# A kernel that interleaves two arrays (an inverse wavelet transform, stereo sound, the halves of packed bytes) may write one output over
# one axis, and decide by i % 2 what to store. Over groups and places, the choice is known for each place, and the places of a group can be
# computed in one iteration.


MOST = 4
"""Places of the largest group that is split: as many as vectors are interleaved."""


def split_by_parity(kernel: Kernel) -> Kernel:
    """The kernel with the first such axis split; itself where there is none."""
    found = next(_interleaving(kernel), None)
    return kernel if found is None else _Split(kernel, *found).run()


def _interleaving(kernel: Kernel) -> Iterator[tuple[Node, int]]:
    """Axes of a single store, and no other nest, with the size of their groups."""
    bound = [a for v in kernel.values.values() for a in (*v.axes, *v.reduce_axes)] + [a for s in kernel.stores for a in s.axes]
    for s in kernel.stores:  # (a quotient of floats is a `div` too)
        compared = [n for n in walk(s.expr) if n.op in COMPARE and n.src[0].dtype is index]
        for a in s.axes:
            if not isinstance(a.arg.extent, int) or bound.count(a) != 1 or len(kernel.families[a.arg.family]) > 1 or s.combine is not None:
                continue
            sizes = {int(n.arg) for c in compared for n in walk(c) if n.op == "mod" and n.dtype is index and n.src[0] is a}
            others = {int(n.arg) for n in walk(s.expr, *s.indices) if n.op in ("div", "mod") and n.dtype is index and a in axes_of(n)}
            if len(sizes) == 1 and others == sizes and max(sizes) <= MOST and a.arg.extent % max(sizes) == 0 and a.arg.extent > max(sizes):
                yield a, max(sizes)


def join_dimensions(kernel: Kernel) -> Kernel:
    """The kernel with two dimensions of a buffer joined that are read everywhere by the quotient and the remainder of one index, as the
    rows and columns of images are whose pixels were made rows of a matrix; itself where there are none."""
    found = next(_digits(kernel), None)
    return kernel if found is None else _JoinDimensions(kernel, *found).run()


def _digits(kernel: Kernel) -> Iterator[tuple[Buffer, int]]:
    """Buffers that are only read so, each with the first of its two dimensions."""
    reads: dict[Buffer, list[tuple[Node, ...]]] = {}
    for b, indices, _ in loads(*kernel.expressions()):
        reads.setdefault(b, []).append(indices)
    for b in {s.buffer for s in kernel.stores}:
        reads.pop(b, None)
    for b, every in reads.items():
        for d in range(len(b.shape) - 1):
            if (b.name, d + 1) not in kernel.unproved and all(_of_digits(b.shape, i, d) is not None for i in every):
                yield b, d


def _of_digits(shape: tuple[Extent, ...], indices: tuple[Node, ...], d: int) -> Node | None:
    """The index in the joined dimension: x, or x % (m * n), of x // n, or x // n % m, and x % n."""
    (m, n), (high, low) = shape[d : d + 2], indices[d : d + 2]
    if not isinstance(m, int) or not isinstance(n, int) or low.op != "mod" or low.arg != n:
        return None
    x = low.src[0]
    whole = ix.floordiv(x, n)
    return x if high is whole else ix.mod(x, m * n) if high is ix.mod(whole, m) else None


class _JoinDimensions(Rewriter):
    """Two dimensions of a buffer become one."""

    def __init__(self, kernel: Kernel, buffer: Buffer, d: int) -> None:
        super().__init__(kernel)
        self.joined, self.d = buffer, d
        self.buffers = {buffer: replace(buffer, shape=_joined(buffer.shape, d))}

    def indices(self, buffer: Buffer, indices: tuple[Node, ...]) -> tuple[Node, ...]:
        both = _of_digits(buffer.shape, indices, self.d) if buffer == self.joined else None
        return indices if both is None else (*indices[: self.d], both, *indices[self.d + 2 :])


def split_flattened(kernel: Kernel) -> Kernel:
    """The kernel with the first axis split whose quotients and remainders are read, as the channels of a convolution in groups are, or
    pixels that became rows; itself where there is none."""
    found = next(_flattened(kernel), None)
    return kernel if found is None else _Split(kernel, *found).run()


LANES = 16
"""Elements of the longest vectors. An axis of results that are stored in groups of no whole vectors stays one: its lanes would be idle at the
end of each group."""


def _flattened(kernel: Kernel) -> Iterator[tuple[Node, int]]:
    """Axes of sums of products, and those that no store has last, that are divided by one size alone wherever they are divided, with that
    size."""
    if any(isinstance(v.expr, Scan) for v in kernel.values.values()):
        return
    everything = list(walk(*kernel.expressions()))
    refs = [n for n in everything if n.op == "ref"]
    read_at = {n for e in (*(v.body for v in kernel.values.values()), *(s.expr for s in kernel.stores)) for n in walk(e)}
    products = {a: None for v in kernel.values.values() if isinstance(v.expr, Reduce) and v.expr.expr.op == "mul" for a in v.axes}
    last = {s.axes[-1] for s in kernel.stores if s.axes}
    outer = dict.fromkeys(a for s in kernel.stores for a in s.axes if a not in last and not s.combine)
    kept = _ordered(kernel) | set(() if kernel.blocks is None else kernel.blocks.axes)
    for a in products | outer:
        if not isinstance(a.arg.extent, int) or a.arg.family in kept or len(kernel.families[a.arg.family]) > 1:
            continue
        divided = [n for n in everything if n.op in ("div", "mod") and n.dtype is index and a in axes_of(n)]
        sizes = {int(n.arg) for n in divided}
        read = all(i is a for n in refs for i, b in zip(n.src, kernel.values[n.arg].axes, strict=True) if b is a)
        (size,) = sizes if len(sizes) == 1 else (0,)
        if size > LANES // 2 and size % LANES and not any(n in read_at for n in divided):
            continue
        if a not in products and size <= LANES // 2:
            continue
        if read and 1 < size < a.arg.extent and a.arg.extent % size == 0 and all(n.src[0] is a for n in divided):
            yield a, size


class _Split(Rewriter):
    """One axis becomes two."""

    def __init__(self, kernel: Kernel, whole: Node, size: int) -> None:
        super().__init__(kernel)
        taken = {a.arg.name for a in kernel.axes} | {a.arg.family for a in kernel.axes} | {b.name for b in kernel.buffers}
        place = next(name for i in count() if (name := f"{whole.arg.name.replace('@', '_')}_of{size}{'_' * i}") not in taken)
        self.whole = whole
        self.parts = axis(whole.arg.name, whole.arg.extent // size), axis(place, size)
        self.index = ix.add(ix.mul(self.parts[0], const(size)), self.parts[1])

    def node(self, n: Node) -> Node | None:
        if n.op == "ref" and self.whole in self.kernel.values[n.arg].axes:
            mine = self.kernel.values[n.arg].axes
            src = (b for i, a in zip(n.src, mine, strict=True) for b in (self.parts if a is self.whole else (self.go(i),)))
            return make("ref", n.dtype, tuple(src), n.arg)
        return self.index if n is self.whole else None

    def axes(self, axes: tuple[Node, ...]) -> tuple[Node, ...]:
        return tuple(b for a in axes for b in (self.parts if a is self.whole else (a,)))
