"""A kernel as its loop nests alone: every pointwise value inlined, so that it does not matter which of them had
names."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from ..body import Fold, Reduce, Store, Value, values_of
from ..kernel import Kernel
from ..node import Node, make, walk
from ..operators import rebuild

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


def replaced(root: Node, memo: dict[Node, Node], ref: Callable[[Node, tuple[Node, ...]], Node] = rebuild) -> Node:
    """`root` with every key of `memo` replaced, rebuilt through the simplifying constructors; `memo` learns what it
    meets. `ref` makes a reference over new indices. Any depth: it does not recurse."""
    stack = [root]
    while stack:
        n = stack[-1]
        missing = () if n in memo else [s for s in n.src if s not in memo]
        if missing:
            stack.extend(reversed(missing))
            continue
        if n not in memo:
            src = tuple(memo[s] for s in n.src)
            memo[n] = ref(n, src) if n.op == "ref" else rebuild(n, src) if src else n
        stack.pop()
    return memo[root]


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
    met = [found[k] for k in met_from_stores([n.name for n in found], [n.exprs for n in found])]
    return sorted((n for n in met if n.name), key=lambda n: n.level) + [n for n in found if not n.name]


def met_from_stores(names: Sequence[str], exprs: Sequence[tuple[Node, ...]]) -> list[int]:
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
        new = tuple(replaced(e, self.memo, self._ref) for e in exprs)
        return new, max((self.level[own_name(n)] for n in walk(*new) if n.op == "ref"), default=-1)

    def _ref(self, n: Node, src: tuple[Node, ...]) -> Node:
        v = self.point.get(n.arg)
        if v is not None:
            return replaced(self.inlined[n.arg], dict(zip(v.axes, src, strict=True)))
        return make("ref", n.dtype, src, INSIDE + n.arg if n.arg in self._block else n.arg)


def is_reduction(nest: RawNest) -> bool:
    """Whether it reduces over axes."""
    return isinstance(nest.item, Value) and isinstance(nest.item.expr, Reduce)
