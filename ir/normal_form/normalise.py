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
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import reduce
from itertools import count, islice

from .. import index as ix
from ..body import Fold, Scan, Value, values_of
from ..buffer import Buffer, Extent, loads
from ..dtypes import index, rounded
from ..kernel import Kernel
from ..node import COMPARE, Node, as_node, axes_of, axis, const, make, walk
from ..operators import unary
from ..rewrite import OtherAxes, Rewriter
from .masked_weights import mask_weights
from .narrowing import narrow, narrow_sums
from .repeated import name_repeated
from .windowed import name_windowed

# window rows ------------------------------------------------------------------------------------------------
# Extremes of windows that are written out, row by row: the largest of 3 × 3 neighbours as the largest of three rows'
# largest.
#
# What such a row of a window holds is a part of the windows beside it as well, which a schedule with several rows of
# results makes once (decision 77 does the same for windows over axes). Extremes may be taken in any order, so no bit
# changes.


LEAST = 4
"""Elements of the smallest window that has rows."""


def rows_first(kernel: Kernel) -> Kernel:
    """An equal kernel whose chains of maxima, or minima, over elements of one array go through it row by row; `kernel` itself where
    there are none."""
    if not any(_links(n) for root in kernel.expressions() for n in walk(root)):
        return kernel
    found = _RowsFirst(kernel)
    out = found.run()
    return out if found.changed else kernel


def _links(n: Node) -> bool:
    """Whether a node may be in a chain of several."""
    return n.op in ("max", "min") and n.dtype is not index and any(s.op == n.op for s in n.src)


class _RowsFirst(Rewriter):
    """Chains are written anew where they begin; what is inside one has no other reader."""

    def __init__(self, kernel: Kernel) -> None:
        super().__init__(kernel)
        self.changed = False
        self.inside: set[Node] = set()
        roots = list(kernel.expressions())
        self.readers = Counter([*roots, *(s for n in walk(*roots) for s in n.src)])

    def node(self, n: Node) -> Node | None:
        if n in self.inside or not _links(n):
            return None
        elements = self._elements(n)
        places = [_place(x) for x in elements]
        if len(elements) < LEAST or None in places or len({p[0] for p in places if p}) > 1:
            return None
        at = [p[1] for p in places if p]
        if _by_rows(n.op, list(zip(elements, at, strict=True))) is n:
            return None
        self.changed = True
        return _by_rows(n.op, [(self.go(x), i) for x, i in zip(elements, at, strict=True)])

    def _elements(self, n: Node) -> list[Node]:
        """What a chain takes the extreme of, in order. (Without recursion: chains may be long.)"""
        out, stack = list[Node](), [*reversed(n.src)]
        while stack:
            x = stack.pop()
            if x.op == n.op and self.readers[x] == 1:
                self.inside.add(x)
                stack.extend(reversed(x.src))
            else:
                out.append(x)
        return out


def _place(n: Node) -> tuple[object, tuple[Node, ...]] | None:
    """(array, indices) of the only element that an expression reads, of two dimensions or more."""
    read = list(islice((x for x in walk(n) if x.op in ("load", "ref")), 2))
    if len(read) != 1:
        return None
    indices = read[0].src[:-1] if read[0].op == "load" and read[0].arg[1] else read[0].src
    return (read[0].arg, indices) if len(indices) > 1 else None


def _by_rows(op: str, elements: Sequence[tuple[Node, tuple[Node, ...]]]) -> Node:
    """The extreme of some elements, those together first that have the same index in the first dimension, and so on."""
    if len(elements) == 1 or not elements[0][1]:
        return reduce(lambda x, y: make(op, x.dtype, (x, y)), [x for x, _ in elements])
    rows: dict[Node, list[tuple[Node, tuple[Node, ...]]]] = {}
    for x, at in elements:
        rows.setdefault(at[0], []).append((x, at[1:]))
    return reduce(lambda x, y: make(op, x.dtype, (x, y)), [_by_rows(op, row) for row in rows.values()])


# bit idioms -------------------------------------------------------------------------------------------------
# The normal form of bits that are counted by shifts and masks: `popcount`.
#
# Written out it is a dozen operations: sums of neighbouring bits, then of pairs, of groups of four, and of bytes (H. S.
# Warren, "Hacker's Delight", 2nd edition, 2012, figure 5-2). Many processors have an instruction, and others do it in
# fewer.


def count_bits(kernel: Kernel) -> Kernel:
    """An equal kernel in which such counts of 32 or 64 bits are `popcount`; `kernel` itself where there are none."""
    found = _Counts(kernel)
    roots = (*(v.body for v in kernel.values.values()), *(s.expr for s in kernel.stores))
    return found.run() if any(_counted(n) is not None for n in walk(*roots)) else kernel


class _Counts(Rewriter):
    def node(self, n: Node) -> Node | None:
        x = _counted(n)
        return None if x is None else unary("popcount", self.go(x))


def _counted(n: Node) -> Node | None:
    """The integer whose bits an expression counts: the sum of its bytes' counts, which is in the highest byte of a product, or
    in the lowest one of sums of halves."""
    if n.op not in ("shr", "and") or not n.dtype.is_int or n.dtype.size < 4:
        return None
    bits = 8 * n.dtype.size
    if n.op == "shr":
        product = _by(n, "shr", bits - 8)
        each = None if product is None else _by(product, "mul", _repeated(1, 8, bits))
        return None if each is None else _in_bytes(each)
    total, left = _by(n, "and", 2 * bits - 1), {d for d in (8, 16, 32) if d < bits}
    while total is not None and left:
        found = next(((a, d) for a, b in _sums(total) for d in left if _by(b, "shr", d) is a), None)
        total = None if found is None else found[0]
        left -= set() if found is None else {found[1]}
    return None if total is None else _in_bytes(total)


def _in_bytes(n: Node) -> Node | None:
    """What is counted where a number holds the counts of its bytes."""
    mask = _repeated(15, 8, 8 * n.dtype.size)
    both = _by(n, "and", mask)  # (the sum of two groups of four fits four bits)
    found = next((a for a, b in _sums(both) if _by(b, "shr", 4) is a), None) if both is not None else _halves(n, 4, mask)
    pairs = None if found is None else _halves(found, 2, _repeated(3, 4, 8 * n.dtype.size))
    return None if pairs is None else _in_pairs(pairs)


def _in_pairs(n: Node) -> Node | None:
    """The same where it holds the counts of pairs of bits, as v − (high bits) or as a sum."""
    mask = _repeated(1, 2, 8 * n.dtype.size)
    if n.op == "sub":
        high = _by(n.src[1], "and", mask)
        return n.src[0] if high is not None and _by(high, "shr", 1) is n.src[0] else None
    return _halves(n, 1, mask)


def _halves(n: Node, distance: int, mask: int) -> Node | None:
    """x of (x & mask) + ((x >> distance) & mask)."""
    for a, b in _sums(n):
        x, high = _by(a, "and", mask), _by(b, "and", mask)
        if x is not None and high is not None and _by(high, "shr", distance) is x:
            return x
    return None


def _by(n: Node, op: str, value: int) -> Node | None:
    """The other operand of an operator with a number, which stands second where the order counts."""
    if n.op != op:
        return None
    for x, number in (n.src, n.src[::-1])[: 1 if op == "shr" else 2]:
        if number.op == "const" and rounded(number.arg, n.dtype) == rounded(value, n.dtype):
            return x
    return None


def _sums(n: Node) -> tuple[tuple[Node, ...], ...]:
    return (n.src, n.src[::-1]) if n.op == "add" else ()


def _repeated(value: int, every: int, bits: int) -> int:
    """A number in all fields of so many bits."""
    return sum(value << at for at in range(0, bits, every))


# apart ------------------------------------------------------------------------------------------------------
# Axes of one family that meet in one nest are of two: in sums over all pairs, an option on the rows is not one on the
# columns.
#
# A family is what options name together: the sites of a dimension in softmax's maximum, sum and output. Whoever writes
# all pairs of n bodies calls both axes n, since both are as long. Where one nest has both, those that references do not
# tie to the first get a family of their own, n2: `n@sum` becomes `n2@sum`.


def apart(kernel: Kernel) -> Kernel:
    """The kernel with such families taken apart; itself where there are none."""
    nests = [frozenset((*v.axes, *v.reduce_axes)) for item in kernel.body for v in values_of(item)] + [
        frozenset(s.axes) for s in kernel.stores
    ]
    folded = {item.axis.arg.family for item in kernel.body if isinstance(item, Fold)}
    met = dict.fromkeys(f for n in nests for f in _twice(a.arg.family for a in n) if f not in folded)
    table: dict[Node, Node] = {}
    for family in met:
        table |= _new(kernel, family, nests)
    return OtherAxes(kernel, table).run() if table else kernel


def _twice(families: Iterable[str]) -> Iterator[str]:
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


# parity -----------------------------------------------------------------------------------------------------
# The normal form of a choice by parity: an axis whose points are told apart by their number modulo two to four is split
# in groups and places inside a group.
#
# Who interleaves two arrays (an inverse wavelet transform, stereo sound, the halves of packed bytes) may write one
# output over one axis, and ask of i % 2 what to store. Over groups and places, the choice is known for each place, and
# the places of a group can be computed side by side.


MOST = 4
"""Places of the largest group that is split: what vectors are picked from and woven into."""


def split_by_parity(kernel: Kernel) -> Kernel:
    """An equal kernel whose stores over such an axis are over two; `kernel` itself where there is none."""
    while (found := next(_chosen(kernel), None)) is not None:
        kernel = _Split(kernel, *found).run()
    return kernel


def _chosen(kernel: Kernel) -> Iterator[tuple[Node, int]]:
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
        return self.index if n is self.whole else None

    def axes(self, axes: tuple[Node, ...]) -> tuple[Node, ...]:
        return tuple(b for a in axes for b in (self.parts if a is self.whole else (a,)))


# unread -----------------------------------------------------------------------------------------------------
# Values that nobody reads are no part of what a kernel does.


def without_unread(kernel: Kernel) -> Kernel:
    """The kernel with the values that its stores need, directly or not; its parameters stay as they are."""
    wanted = {n.arg for s in kernel.stores for n in walk(s.expr, *s.indices, *(() if s.mask is None else (s.mask,))) if n.op == "ref"}
    kept: list[Value | Fold] = []
    for item in reversed(kernel.body):
        made = set(item.components) if isinstance(item, Fold) else {item.name}
        if made & wanted:
            kept.append(item)
            wanted |= {n.arg for n in walk(*(v.body for v in values_of(item))) if n.op == "ref"}
    return kernel if len(kept) == len(kernel.body) else replace(kernel, body=tuple(reversed(kept)))


# normalise --------------------------------------------------------------------------------------------------
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
