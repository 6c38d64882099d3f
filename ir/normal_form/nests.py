"""A kernel as its loop nests alone, and which axes of different nests walk the same dimension, however they are called.

Axes are tied where a reference hands one to the other, and where both index the same dimension of one buffer. Two
axes of one nest never become one: in x·xᵀ the rows and the columns stay apart. Two more ties put loops together that
may run as one: independent reductions over the same spatial axes run over one dimension where their extents are equal
(Σx and Σy of each row), and so do two dimensions of a fold's block that no nest has both of, as the two products of
attention have when keys and values are equally long."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from ..body import Fold, Reduce, Store, Value, values_of
from ..buffer import Buffer, load_parts
from ..kernel import Kernel
from ..node import Node, axis, make, walk
from ..operators import substitute_on

INSIDE = "\0"
"""Begins the name in a reference from a fold's block to a value of that block. There a component is what a tile has
of it; outside it is the whole result."""


@dataclass(frozen=True, slots=True, eq=False)
class RawNest:
    """A reduction, a scan, a store, or a pointwise component of a fold, with its expressions: of a value its element,
    of a store what is stored, the indices, and the mask where there is one."""

    item: Value | Store
    fold: Fold | None
    exprs: tuple[Node, ...]
    level: int
    """How many reductions and scans follow one another up to this one, at the most; a store's is that of what it
    reads."""

    @property
    def name(self) -> str:
        """The value's name; none for a store."""
        return self.item.name if isinstance(self.item, Value) else ""

    @property
    def axes(self) -> tuple[Node, ...]:
        """The axes of the result."""
        return self.item.axes

    @property
    def over(self) -> tuple[Node, ...]:
        """The axes that are reduced."""
        return self.item.reduce_axes if isinstance(self.item, Value) else ()


def own_name(n: Node) -> str:
    """The name of the value that a reference means."""
    return str(n.arg).removeprefix(INSIDE)


def raw_nests(kernel: Kernel) -> list[RawNest]:
    """The nests of `kernel`: values by level, those of one level as the stores come upon them, then the stores. So
    the order of values that do not read each other makes no difference."""
    inlining = _Inlining()
    found = []
    for item in kernel.body:
        fold = item if isinstance(item, Fold) else None
        inlining.enter(fold)
        for v in values_of(item):
            nest = inlining.value(v, fold)
            if nest is not None:
                found.append(nest)
        inlining.leave()
    for s in kernel.stores:
        exprs = (s.expr, *s.indices) if s.mask is None else (s.expr, *s.indices, s.mask)
        new, level = inlining.exprs(exprs)
        found.append(RawNest(s, None, new, max(level, 0)))
    met = [found[k] for k in order_from_stores([n.name for n in found], [n.exprs for n in found])]
    return sorted((n for n in met if n.name), key=lambda n: n.level) + [n for n in found if not n.name]


def order_from_stores(names: Sequence[str], exprs: Sequence[tuple[Node, ...]]) -> list[int]:
    """Positions in the order in which one meets them who goes from the stores to what they read, depth first. A store
    has the name ""."""
    number = {name: k for k, name in enumerate(names) if name}
    met: dict[int, None] = {}
    for stack in ([k for k, name in enumerate(names) if not name], list(number.values())):
        stack.reverse()
        while stack:
            k = stack.pop()
            if k not in met:
                met[k] = None
                stack += [number[own_name(n)] for n in walk(*exprs[k]) if n.op == "ref"][::-1]
    return list(met)


@dataclass(eq=False)
class _Inlining:
    """Expressions without references to pointwise values. What a reference becomes depends on the fold it is read
    in."""

    point: dict[str, Value] = field(default_factory=dict)
    inlined: dict[str, Node] = field(default_factory=dict)
    level: dict[str, int] = field(default_factory=dict)
    memo: dict[Node, Node] = field(default_factory=dict)
    _outside: dict[Node, Node] = field(default_factory=dict)
    _block: frozenset[str] = frozenset()
    _components: tuple[str, ...] = ()

    def enter(self, fold: Fold | None) -> None:
        """The block of a fold begins."""
        if fold is not None:
            self._outside, self.memo = self.memo, {}
            self._block = frozenset(v.name for v in fold.block)
            self._components = fold.components

    def leave(self) -> None:
        """The block ends: its components are known from here on, when all of it is done."""
        if self._block:
            self.memo = self._outside
            last = max(self.level[n] for n in self._block if n in self.level)
            self.level |= dict.fromkeys(self._components, last)
            for name in self._block:
                self.point.pop(name, None)
        self._block, self._components = frozenset(), ()

    def value(self, v: Value, fold: Fold | None) -> RawNest | None:
        """The nest of a value; None for one that is inlined where it is read."""
        (body,), level = self.exprs((v.body,))
        if isinstance(v.expr, Node) and v.name not in self._components:
            self.point[v.name], self.inlined[v.name] = v, body
            return None
        self.level[v.name] = level if isinstance(v.expr, Node) else level + 1
        return RawNest(v, fold, (body,), self.level[v.name])

    def exprs(self, exprs: Iterable[Node]) -> tuple[tuple[Node, ...], int]:
        """The expressions inlined, and the highest level they read (-1: none)."""
        new = tuple(substitute_on(e, self.memo, self._ref) for e in exprs)
        return new, max((self.level[own_name(n)] for n in walk(*new) if n.op == "ref"), default=-1)

    def _ref(self, n: Node, src: tuple[Node, ...]) -> Node:
        v = self.point.get(n.arg)
        if v is not None:
            return substitute_on(self.inlined[n.arg], dict(zip(v.axes, src, strict=True)))
        return make("ref", n.dtype, src, INSIDE + n.arg if n.arg in self._block else n.arg)


def is_reduction(nest: RawNest) -> bool:
    """Whether it reduces over axes."""
    return isinstance(nest.item, Value) and isinstance(nest.item.expr, Reduce)


class AxisTies:
    """The families of a kernel's nests. A family is known by a stand-in, an axis that belongs to no nest: expressions
    over stand-ins can be compared across nests. `forms` are the nests' expressions so written."""

    def __init__(self, nests: Sequence[RawNest]) -> None:
        self.nests = nests
        self.place = {n.name: k for k, n in enumerate(nests) if n.name}
        self._number: list[dict[Node, int]] = []
        self._parent: list[int] = []
        self._nests: list[int] = []
        self._allowed: list[int] = []
        self._extent: list[int | Node] = []
        for k, nest in enumerate(nests):
            mine: dict[Node, int] = {}
            for a in (*nest.axes, *nest.over):
                mine[a] = len(self._parent)
                self._parent.append(len(self._parent))
                self._nests.append(1 << k)
                self._allowed.append(-1)
                self._extent.append(a.arg.extent)
            self._number.append(mine)
        self._of_folds()
        self._by_reading()
        self._siblings()
        self._twins()
        self._name()

    # the result -----------------------------------------------------------------------------------------------------
    def axes(self, k: int) -> tuple[Node, ...]:
        """The stand-ins of the axes of nest `k`'s result, in order."""
        return tuple(self._stand_in[self._find(self._number[k][a])] for a in self.nests[k].axes)

    def over(self, k: int) -> tuple[Node, ...]:
        """The stand-ins of the axes that nest `k` reduces."""
        return tuple(self._stand_in[self._find(self._number[k][a])] for a in self.nests[k].over)

    def stand_in(self, k: int, a: Node) -> Node:
        """The family of one axis of nest `k`."""
        return self._stand_in[self._find(self._number[k][a])]

    def rank(self, stand_in: Node) -> int:
        """Where a family comes in the order in which the nests have them."""
        return self._rank[stand_in]

    def folded(self, fold: Fold) -> Node:
        """The family that a fold is cut along."""
        return self._stand_in[self._find(self._folded[fold])]

    def _name(self) -> None:
        roots = dict.fromkeys(self._find(i) for i in range(len(self._parent)))
        self._stand_in = {r: axis(f"\0{n}", self._extent[r]) for n, r in enumerate(roots)}
        self._rank = {h: n for n, h in enumerate(self._stand_in.values())}
        self.forms: list[tuple[Node, ...]] = []
        for k, nest in enumerate(self.nests):
            memo = {a: self.stand_in(k, a) for a in self._number[k]}
            self.forms.append(tuple(substitute_on(e, memo) for e in nest.exprs))
        self.reduced = frozenset(h for k in range(len(self.nests)) for h in self.over(k))
        """Families that some nest reduces: their loops are apart in nests that do not run together."""

    # union and find ---------------------------------------------------------------------------------------------------
    def _find(self, i: int) -> int:
        while self._parent[i] != i:
            self._parent[i] = self._parent[self._parent[i]]
            i = self._parent[i]
        return i

    def _tie(self, i: int, j: int) -> None:
        """One family of two, where extents are equal and no nest has an axis of each, nor a nest that may have
        none."""
        i, j = sorted((self._find(i), self._find(j)))
        both, allowed = self._nests[i] | self._nests[j], self._allowed[i] & self._allowed[j]
        if i == j or self._extent[i] != self._extent[j] or self._nests[i] & self._nests[j] or both & ~allowed:
            return
        self._parent[j] = i
        self._nests[i], self._allowed[i] = both, allowed

    # ties -------------------------------------------------------------------------------------------------------------
    def _by_reading(self) -> None:
        """By references, then by buffers. Where one nest reads the same dimension along two of its axes, neither
        counts."""
        handed: dict[tuple[int, int], dict[int, set[int]]] = {}
        indexed: dict[tuple[Buffer, int], dict[int, set[int]]] = {}
        for k, nest in enumerate(self.nests):
            mine = self._number[k]
            for n in walk(*nest.exprs):
                if n.op == "ref":
                    owner = self.place[own_name(n)]
                    for its, i in zip(self.nests[owner].axes, n.src, strict=True):
                        if i.op == "axis":
                            handed.setdefault((owner, self._number[owner][its]), {}).setdefault(k, set()).add(mine[i])
                elif n.op == "load":
                    buffer, indices, _ = load_parts(n)
                    for d, i in enumerate(indices):
                        if i.op == "axis":
                            indexed.setdefault((buffer, d), {}).setdefault(k, set()).add(mine[i])
        for (_, own), readers in handed.items():
            for found in readers.values():
                if len(found) == 1:
                    self._tie(own, *found)
        for users in indexed.values():
            alone = [next(iter(found)) for found in users.values() if len(found) == 1]
            for other in alone[1:]:
                self._tie(alone[0], other)

    def _of_folds(self) -> None:
        """What a fold's block has of the folded family: a tile of it, and so no nest outside the block is of that
        family. A fold whose axis is of no family in its block folds what its first component reduces last."""
        self._folded: dict[Fold, int] = {}
        for fold, members in _blocks(self.nests).items():
            sites = [i for k in members for a, i in self._number[k].items() if a.arg.family == fold.axis.arg.family]
            if not sites:
                first = next(k for k in members if self.nests[k].name in fold.components and self.nests[k].over)
                sites = [self._number[first][self.nests[first].over[-1]]]
            self._allowed[sites[0]] = sum(1 << k for k in members)
            for i in sites[1:]:
                self._tie(sites[0], i)
            self._folded[fold] = sites[0]

    def _siblings(self) -> None:
        first: dict[object, int] = {}
        for k in sorted(range(len(self.nests)), key=lambda k: self.nests[k].level):
            nest = self.nests[k]
            if not is_reduction(nest):
                continue
            spatial = frozenset(self._find(self._number[k][a]) for a in nest.axes)
            other = first.setdefault((nest.fold, nest.level, spatial, tuple(a.arg.extent for a in nest.over)), k)
            for mine, its in zip(nest.over, self.nests[other].over, strict=True):
                self._tie(self._number[other][its], self._number[k][mine])

    def _twins(self) -> None:
        for members in _blocks(self.nests).values():
            roots = list(dict.fromkeys(self._find(i) for k in members for i in self._number[k].values()))
            partners: dict[int, list[int]] = {r: [] for r in roots}
            for n, a in enumerate(roots):
                for b in roots[n + 1 :]:
                    if self._extent[a] == self._extent[b] != 1 and not self._nests[a] & self._nests[b]:
                        partners[a].append(b)
                        partners[b].append(a)
            for a, found in partners.items():
                if len(found) == 1 and partners[found[0]] == [a]:
                    self._tie(a, found[0])


def _blocks(nests: Sequence[RawNest]) -> dict[Fold, list[int]]:
    """The nests of each fold's block."""
    out: dict[Fold, list[int]] = {}
    for k, nest in enumerate(nests):
        if nest.fold is not None:
            out.setdefault(nest.fold, []).append(k)
    return out
