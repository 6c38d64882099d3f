"""Canonical naming: one way to write a kernel, for all ways in which it can be written with other values named and
other axes shared.

A kernel that is pulled out of a tensor expression names no pointwise value, and each of its values has axes of its
own. `tidy` writes it as the named kernels are written: it inlines every pointwise value, finds anew which axes walk
the same dimension (`nests.AxisTies`), names the expressions that are worth keeping (`Naming`), and gives loops that
do not run together axes of their own where some nest reduces their dimension (`named_nests`). What is computed stays
the same; `canonical` of the result is then the key."""

from __future__ import annotations

import heapq
import weakref
from collections.abc import Sequence
from dataclasses import dataclass, replace

from ..body import Fold, Reduce, Scan, Store, Value
from ..dtypes import bool_, index
from ..kernel import Kernel
from ..node import COSTLY, Node, axes_of, axis, const, make, walk
from ..operators import rebuild, substitute_on
from .nests import INSIDE, AxisTies, RawNest, order_from_stores, own_name, raw_nests

_PLAIN = frozenset({"const", "axis", "sym", "arg", "load", "ref", "cast"})


@dataclass(frozen=True, slots=True, eq=False)
class SharedValue:
    """An expression that gets a name. `whole` is it over stand-ins with nothing named, `body` with others named."""

    name: str
    whole: Node
    body: Node
    fold: Fold | None
    dear: bool
    """Whether it holds an elementary function or a division, also where another value has it."""


@dataclass(slots=True)
class _Facts:
    """What one expression holds."""

    elementary: bool = False
    dear: bool = False
    data: bool = False
    fold: Fold | None = None


class Naming:
    """Names for shared expressions: `values`, and `forms`, the nests' expressions that refer to them. `names` are
    taken."""

    def __init__(self, ties: AxisTies, names: set[str]) -> None:
        self.ties, self.nests = ties, ties.nests
        order = list(walk(*(e for form in ties.forms for e in form)))
        self._facts = self._look(order)
        chosen = self._choose(order)
        labels = self._labels(chosen, names)
        self.values: list[SharedValue] = []
        new: dict[Node, Node] = {}
        for n in order:
            body = rebuild(n, tuple(new[s] for s in n.src)) if n.src else n
            if n in labels:
                fact = self._facts[n]
                self.values.append(SharedValue(labels[n], n, body, chosen[n], fact.elementary))
                axes = sorted(axes_of(n), key=ties.rank)
                inside = INSIDE if chosen[n] is not None else ""
                body = make("ref", n.dtype, tuple(axes), inside + labels[n])
            new[n] = body
        self.forms = [tuple(new[e] for e in form) for form in ties.forms]

    # what expressions hold --------------------------------------------------------------------------------------------
    def _look(self, order: list[Node]) -> dict[Node, _Facts]:
        found: dict[Node, _Facts] = {}
        summed = {k for k in range(len(self.nests)) if self._operands(k)[1]}
        for n in order:
            fact = found[n] = _Facts()
            for s in n.src:
                below = found[s]
                fact.elementary |= below.elementary
                fact.dear |= below.dear
                fact.data |= below.data
                fact.fold = fact.fold or below.fold
            if n.op in COSTLY and n.dtype is not index:
                if fact.data:  # 1/√d of a symbol is computed once
                    fact.elementary = fact.dear = True
            elif n.op == "ref":
                owner = self.ties.place[own_name(n)]
                fact.data = True
                fact.dear |= owner in summed
                fact.fold = self.nests[owner].fold if n.arg.startswith(INSIDE) else fact.fold
            elif n.op in ("load", "axis"):
                fact.data = True
        return found

    def _operands(self, k: int) -> tuple[list[Node], bool]:
        """Of nest `k`: the factors of its sum that lack one of its result's axes, and whether all lack one (then it
        is a contraction)."""
        nest = self.nests[k]
        e = nest.item.expr
        if not (isinstance(e, Reduce) and e.combine == "add"):
            return [], False
        spatial = {a for a in self.ties.axes(k) if a.arg.extent != 1}
        found, whole = [], True
        stack = [self.ties.forms[k][0]]
        while stack:
            n = stack.pop()
            while n.op == "cast":
                n = n.src[0]
            if spatial - axes_of(n):
                if n.op != "const":
                    found.append(n)
            elif n.op == "mul":
                stack += n.src
            else:
                whole = False
        return found, whole and len(found) > 1

    # which get a name -------------------------------------------------------------------------------------------------
    def _choose(self, order: list[Node]) -> dict[Node, Fold | None]:
        """The chosen expressions, with the fold in whose block each belongs. From the largest down: what a named
        expression holds is read by that alone. Readers are bits: first the nests, then the named."""
        readers = dict.fromkeys(order, 0)
        inside: dict[Fold, int] = {}
        for k, form in enumerate(self.ties.forms):
            for e in form:
                readers[e] |= 1 << k
            fold = self.nests[k].fold
            if fold is not None:
                inside[fold] = inside.get(fold, 0) | 1 << k
        operands = {n for k in range(len(self.nests)) for n in self._operands(k)[0]}
        chosen: dict[Node, Fold | None] = {}
        for n in reversed(order):
            mask = readers[n]
            if self._may(n) and (mask & (mask - 1) or n in operands):
                fold = self._facts[n].fold
                if fold is None:
                    own = axes_of(n)
                    fold = next((f for f, m in inside.items() if not mask & ~m and self.ties.folded(f) in own), None)
                mask = 1 << len(self.nests) + len(chosen)
                chosen[n] = fold
                if fold is not None:
                    inside[fold] |= mask
            for s in n.src:
                readers[s] |= mask
        return chosen

    def _may(self, n: Node) -> bool:
        fact = self._facts[n]
        return fact.dear and n.op not in _PLAIN and n.dtype is not index and n.dtype is not bool_

    def _labels(self, chosen: dict[Node, Fold | None], names: set[str]) -> dict[Node, str]:
        """Names in the order in which the nests meet them."""
        free = (f"p{n}" for n in range(len(chosen) + len(names)) if f"p{n}" not in names)
        return {n: next(free) for n in self._facts if n in chosen}


# named nests ------------------------------------------------------------------------------------------------
# The nests of a kernel with their names chosen: which loops are apart, and how axes are ordered.


_ZERO = const(0)


@dataclass(slots=True, eq=False)
class NamedNest:
    """A nest over stand-ins: `axes` and `over` of its result, `forms` its expressions, in which `reads` are values by
    name and indices."""

    name: str
    source: Value | Store | SharedValue
    fold: Fold | None
    level: int
    axes: tuple[Node, ...]
    over: tuple[Node, ...]
    forms: tuple[Node, ...]
    reads: tuple[Node, ...]

    @property
    def label(self) -> str:
        """What its loops are called after."""
        return self.source.buffer.name if isinstance(self.source, Store) else self.source.name


def named_nests(ties: AxisTies, naming: Naming) -> list[NamedNest]:
    """All nests, in the order in which they are met from the stores. The axes of a value lie in the order of its
    first reader."""
    found = [_of_raw(ties, naming, k) for k in range(len(ties.nests))]
    level = {n.name: n.level for n in found if n.name}
    for v in naming.values:
        read = [level[own_name(n)] for n in walk(v.whole) if n.op == "ref"]
        axes = tuple(sorted(axes_of(v.whole), key=ties.rank))
        found.append(NamedNest(v.name, v, v.fold, max(read, default=-1), axes, (), (v.body,), _reads((v.body,))))
    order = [found[k] for k in order_from_stores([n.name for n in found], [n.forms for n in found])]
    by_name = {n.name: n for n in order if n.name}
    placed: set[str] = set()
    for n in order:
        rank = {a: k for k, a in enumerate((*n.axes, *n.over))}
        for r in n.reads:
            value = by_name[own_name(r)]
            if value.name not in placed:
                placed.add(value.name)
                value.axes = tuple(sorted(value.axes, key=lambda a: rank.get(a, len(rank))))
    return order


def _of_raw(ties: AxisTies, naming: Naming, k: int) -> NamedNest:
    nest: RawNest = ties.nests[k]
    forms = naming.forms[k]
    return NamedNest(nest.name, nest.item, nest.fold, nest.level, ties.axes(k), ties.over(k), forms, _reads(forms))


def _reads(forms: tuple[Node, ...]) -> tuple[Node, ...]:
    return tuple(n for n in walk(*forms) if n.op == "ref")


class LoopSites:
    """Which nests run in the same loops, also where a reduction over a family keeps others apart: independent
    reductions over the same axes; stores over the same axes; and a store, or a value that holds an elementary
    function or a division, with the reduction whose result it takes element by element."""

    def __init__(self, ties: AxisTies, nests: Sequence[NamedNest]) -> None:
        self.ties, self.nests = ties, nests
        self._group = {n: n for n in nests}
        self._by_name = {n.name: n for n in nests if n.name}
        self._own = {nest.name: ties.axes(k) for k, nest in enumerate(ties.nests)}
        first: dict[object, NamedNest] = {}
        for n in nests:
            if isinstance(n.source, Store):
                self._join(n, first.setdefault((frozenset(n.axes), n.level), n))
            elif n.over:
                self._join(n, first.setdefault((n.fold, n.level, frozenset(n.axes), frozenset(n.over)), n))
        wholes = {nest.item: form for nest, form in zip(ties.nests, ties.forms, strict=True)}
        for n in nests:
            if isinstance(n.source, Store):
                self._follow(n, wholes[n.source])
            elif isinstance(n.source, SharedValue) and n.source.dear:
                self._follow(n, (n.source.whole,))

    def group(self, n: NamedNest) -> NamedNest:
        """The nest that stands for all that share `n`'s loops."""
        while self._group[n] is not n:
            n = self._group[n]
        return n

    def _join(self, a: NamedNest, b: NamedNest) -> None:
        self._group[self.group(a)] = self.group(b)

    def _follow(self, n: NamedNest, exprs: tuple[Node, ...]) -> None:
        """`n` joins the last reduction that it reads at just its own axes. A value that waits for others too does
        not."""
        last = [(self._by_name[own_name(r)], r) for r in walk(*exprs) if r.op == "ref"]
        last = [(v, r) for v, r in last if v.level == n.level]
        mine = frozenset(_long(n.axes))
        read = [(v, _long(r.src)) for v, r in last if v.over]
        like = [v for v, at in read if frozenset(at) == mine and at == _long(self._own[v.name])]
        groups = {self.group(v) for v in like}
        if len(groups) == 1 and (isinstance(n.source, Store) or (len(like) == len(last) and like[0].fold is n.fold)):
            self._join(n, groups.pop())


def _long(axes: tuple[Node, ...]) -> tuple[Node, ...]:
    """What is left of axes, or indices, without those of one element."""
    return tuple(a for a in axes if not (a.op == "axis" and a.arg.extent == 1) and a is not _ZERO)


# naming -----------------------------------------------------------------------------------------------------
_DONE: weakref.WeakKeyDictionary[Kernel, Kernel | None] = weakref.WeakKeyDictionary()
"""Tidy forms; None for a kernel that is one."""


def tidy(kernel: Kernel) -> Kernel:
    """`kernel` in its one writing: the same parameters, stores and reductions, by the same names; pointwise values
    are called p0, p1 …, and axes d0, d1 …, with a site where loops are apart (`d1@top`).

    The result depends on nothing that `canonical` does not see, except for these names. It is its own tidy form.
    Every output element is computed by the same operations."""
    if kernel in _DONE:
        return _DONE[kernel] or kernel
    found = _Writing(kernel).kernel
    _DONE[found], _DONE[kernel] = None, found
    return found


def tidy_as_named(kernel: Kernel) -> Kernel:
    """As `tidy`, with the kernel's own names for families: of those that become one, the first that its nests have."""
    return _Writing(kernel, kept=True).kernel


class _Writing:
    """Writes the kernel down from its nests. `kept`: families are called as they are in the kernel."""

    def __init__(self, kernel: Kernel, kept: bool = False) -> None:
        self.kept = kept
        self.ties = AxisTies(raw_nests(kernel))
        taken = {b.name for b in kernel.buffers} | {s.arg.name for s in kernel.symbols}
        taken |= {n.name for n in self.ties.nests} | {f.name for f in kernel.body if isinstance(f, Fold)}
        naming = Naming(self.ties, taken)
        self.nests = named_nests(self.ties, naming)
        self.sites = LoopSites(self.ties, self.nests)
        self.by_name = {n.name: n for n in self.nests if n.name}
        self.family = self._families(taken | {v.name for v in naming.values})
        self.order = {n.name: _index_order(self.ties, n) for n in self.nests if n.name}
        stores = {n.source: self._store(n, n.source) for n in self.nests if isinstance(n.source, Store)}
        self.kernel = Kernel(kernel.name, tuple(self._body()), tuple(stores[s] for s in kernel.stores), kernel.buffers)

    def _families(self, taken: set[str]) -> dict[Node, str]:
        """Names for the families, in the order in which the nests are met from the stores."""
        met = dict.fromkeys(a for n in self.nests for a in (*n.axes, *n.over))
        free = (name for k in range(len(met) + len(taken)) if (name := f"d{k}") not in taken)
        names = dict(zip(met, free, strict=False))
        return {a: self._old_names().get(a, name) for a, name in names.items()} if self.kept else names

    def _old_names(self) -> dict[Node, str]:
        """What the families are called in the kernel; without those that have a name which another has, too."""
        found: dict[Node, str] = {}
        for k, nest in enumerate(self.ties.nests):
            for a in (*nest.axes, *nest.over):
                found.setdefault(self.ties.stand_in(k, a), a.arg.family)
        return {a: name for a, name in found.items() if list(found.values()).count(name) == 1}

    def _axis(self, n: NamedNest, a: Node) -> Node:
        family = self.family[a]
        name = f"{family}@{self.sites.group(n).label}" if a in self.ties.reduced else family
        return axis(name, a.arg.extent, family)

    def _axes(self, n: NamedNest, axes: Sequence[Node]) -> tuple[Node, ...]:
        return tuple(self._axis(n, a) for a in axes)

    def _exprs(self, n: NamedNest) -> list[Node]:
        memo = {a: self._axis(n, a) for a in (*n.axes, *n.over)}
        return [substitute_on(e, memo, self._ref) for e in n.forms]

    def _ref(self, n: Node, src: tuple[Node, ...]) -> Node:
        name = own_name(n)
        return make("ref", n.dtype, tuple(src[k] for k in self.order[name]), name)

    # statements -------------------------------------------------------------------------------------------------------
    def _value(self, n: NamedNest) -> Value:
        (body,) = self._exprs(n)
        axes = self._axes(n, n.axes)
        if not isinstance(n.source, Value):
            return Value(n.name, axes, body, body.dtype)
        e = n.source.expr
        if isinstance(e, Reduce):
            return Value(n.name, axes, replace(e, axes=self._axes(n, n.over), expr=body), n.source.dtype)
        if isinstance(e, Scan):
            along = self._axis(n, self.ties.stand_in(self.ties.place[n.name], e.axis))
            return Value(n.name, axes, replace(e, axis=along, expr=body), n.source.dtype)
        return Value(n.name, axes, body, n.source.dtype)

    def _store(self, n: NamedNest, s: Store) -> Store:
        expr, *rest = self._exprs(n)
        indices = tuple(rest[: len(s.indices)])
        axes = self._axes(n, n.axes)
        own = None if s.own is None else (axes[s.axes.index(s.own[0])], *s.own[1:])
        return replace(s, expr=expr, indices=indices, axes=axes, mask=rest[-1] if s.mask is not None else None, own=own)

    def _body(self) -> list[Value | Fold]:
        """The values in order; those of a fold inside it."""
        made = {n.name: self._value(n) for n in self.nests if n.name}
        blocks: dict[Fold, list[NamedNest]] = {}
        for n in self.nests:
            if n.name and n.fold is not None:
                blocks.setdefault(n.fold, []).append(n)
        units = [[n] for n in self.nests if n.name and n.fold is None] + list(blocks.values())
        out: list[Value | Fold] = []
        for unit in _ordered(units):
            fold = unit[0].fold
            if fold is None:
                out.append(made[unit[0].name])
                continue
            block = tuple(made[n.name] for (n,) in _ordered([[n] for n in unit]))
            along = self.ties.folded(fold)
            out.append(replace(fold, axis=axis(self.family[along], along.arg.extent), block=block))
        return out


def _index_order(ties: AxisTies, n: NamedNest) -> tuple[int, ...]:
    """Where each of a value's axes is among the indices with which the forms read it."""
    before = ties.axes(ties.place[n.name]) if isinstance(n.source, Value) else tuple(sorted(n.axes, key=ties.rank))
    return tuple(before.index(a) for a in n.axes)


def _ordered(units: list[list[NamedNest]]) -> list[list[NamedNest]]:
    """Each after those it reads; else by level, small results first, so that reductions which may share loops come
    side by side, with the values made of their results behind them."""
    whose = {n.name: k for k, unit in enumerate(units) for n in unit}
    needs = [{whose.get(own_name(r), k) for n in unit for r in n.reads} - {k} for k, unit in enumerate(units)]
    readers: list[list[int]] = [[] for _ in units]
    for k, found in enumerate(needs):
        for j in found:
            readers[j].append(k)
    ready = [(_nest_rank(units[k]), k) for k, found in enumerate(needs) if not found]
    heapq.heapify(ready)
    waiting = [len(found) for found in needs]
    out = []
    while ready:
        _, k = heapq.heappop(ready)
        out.append(units[k])
        for j in readers[k]:
            waiting[j] -= 1
            if not waiting[j]:
                heapq.heappush(ready, (_nest_rank(units[j]), j))
    return out


def _nest_rank(unit: list[NamedNest]) -> tuple[int, bool, int]:
    return max((n.level, not isinstance(n.source, Value), len(n.axes)) for n in unit)
