"""The loop nests a kernel runs as: one for each Reduce, Scan, staged value and store, plus folds that hold nests.

Pointwise values are inlined into the nests that read them, unless they are staged."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache

from ..ir import index as ix
from ..ir.body import Fold, Reduce, Scan, Store, Value, identity
from ..ir.kernel import Kernel
from ..ir.node import Node, const, pending, ref, walk
from ..ir.node import axis as make_axis
from ..ir.operators import cast, rebuild, substitute
from .analysis.write_order import own_dimensions, scatters


@dataclass(frozen=True, eq=False)
class Nest:
    """One loop nest. kind: reduce, scan, point (a staged value), store, init (a scatter's identity). `expr` has its
    pointwise values inlined. `fills` are staged values this nest computes on the way (their only way of being read here): by
    name, the nest's axes that stand for theirs, and in `filled` the expression over those."""

    name: str
    kind: str
    axes: tuple[Node, ...]
    reduce_axes: tuple[Node, ...]
    expr: Node
    value: Value | None = None
    store: Store | None = None
    indices: tuple[Node, ...] = ()
    mask: Node | None = None
    fills: dict[str, tuple[Node, ...]] = field(default_factory=dict)
    filled: dict[str, Node] = field(default_factory=dict)

    @property
    def empty(self) -> bool:
        """Whether it has no point: a spatial axis of extent 0."""
        return any(a.arg.extent == 0 for a in self.axes)

    @property
    def roots(self) -> tuple[Node, ...]:
        """Every expression evaluated in the body, but for filled values."""
        return (self.expr, *self.indices, *(() if self.mask is None else (self.mask,)))

    @property
    def evaluated(self) -> tuple[Node, ...]:
        """Every expression evaluated in the body."""
        return (*self.roots, *self.filled.values())

    @cached_property
    def nodes(self) -> tuple[Node, ...]:
        """Every distinct node of `roots`, operands first."""
        return tuple(walk(*self.roots))

    @cached_property
    def all_nodes(self) -> tuple[Node, ...]:
        """Every distinct node of `evaluated`, operands first."""
        return tuple(walk(*self.evaluated)) if self.filled else self.nodes

    @cached_property
    def refs(self) -> tuple[Node, ...]:
        """The reads of kept values among `all_nodes`."""
        return tuple(n for n in self.all_nodes if n.op == "ref")

    @cached_property
    def loads(self) -> tuple[Node, ...]:
        """The loads among `all_nodes`."""
        return tuple(n for n in self.all_nodes if n.op == "load")

    @property
    def made(self) -> dict[str, tuple[Node, ...]]:
        """The values this nest computes, and the axes it computes them over."""
        return dict(self.fills) if self.value is None else {self.name: self.axes, **self.fills}

    @property
    def all_axes(self) -> tuple[Node, ...]:
        """Spatial, then reduce axes."""
        return (*self.axes, *self.reduce_axes)


@dataclass(frozen=True, eq=False)
class FoldItem:
    """A fold and the nests of its block."""

    fold: Fold
    nests: tuple[Nest, ...]
    expressions: dict[str, Node]


Item = Nest | FoldItem


Again = Callable[[Value, Nest, tuple[Node, ...]], bool]
"""(value, reader, the reader's axes that stand for the value's) → whether the reader would compute the value more than once."""


def build(kernel: Kernel, staged: Mapping[str, bool], held: Collection[str] = (), again: Again = lambda v, nest, by: False) -> list[Item]:
    """The items of `kernel` in order. `staged` names values kept in scratch; its flag is set where the first reader
    fills the value, unless it would do so `again` and again (else the value gets a nest of its own). `held` outputs
    are computed into a tile first, in a nest of its own."""
    for known, items in _built(kernel, tuple(staged.items()), frozenset(held)):
        if all(again(v, nest, by) == said for v, nest, by, said in known):
            return list(items)
    asked: list[tuple[Value, Nest, tuple[Node, ...], bool]] = []

    def noted(v: Value, nest: Nest, by: tuple[Node, ...]) -> bool:
        asked.append((v, nest, by, again(v, nest, by)))
        return asked[-1][-1]

    found = _build(kernel, staged, held, noted)
    _built(kernel, tuple(staged.items()), frozenset(held)).append((asked, found))
    return list(found)


_Answers = list[tuple[Value, "Nest", tuple[Node, ...], bool]]
"""What `again` said while items were made, in order."""


@lru_cache(maxsize=256)
def _built(kernel: Kernel, staged: tuple[tuple[str, bool], ...], held: frozenset[str]) -> list[tuple[_Answers, list[Item]]]:
    """The items made so far for these staged values, each with the answers that led to it: schedules of one kernel
    differ in their loops far more often than in their nests, and share what nests know about themselves."""
    return []


def _build(kernel: Kernel, staged: Mapping[str, bool], held: Collection[str], again: Again) -> list[Item]:
    made = _Items(kernel, staged, again)
    for item in kernel.body:
        if isinstance(item, Fold):
            made.fold(item)
        else:
            made.value(item)
    combined = [s for s in kernel.stores if s.combine is not None]
    for s in combined if len(combined) > 1 else ():  # all cleared before any point, so that points may share their loop
        made.clear(s)
    for s in kernel.stores:
        made.store(s, tiled=s.buffer.name in held and s.combine is None and not _stores_value(kernel, made.expand(s.expr)))
    return made.items


@lru_cache(maxsize=64)
def plain(kernel: Kernel) -> tuple[Item, ...]:
    """The items of `kernel` with nothing staged."""
    return tuple(build(kernel, {}))


def flat(items: Iterable[Item]) -> list[Nest]:
    """Every nest of `items`, folds opened."""
    return [n for i in items for n in (i.nests if isinstance(i, FoldItem) else (i,))]


class _Items:
    """The items made so far. `inline`: pointwise values that go into whoever reads them. `pending`: staged ones that
    nobody has read yet."""

    def __init__(self, kernel: Kernel, staged: Mapping[str, bool], again: Again) -> None:
        self.kernel, self.staged, self.again = kernel, staged, again
        self.inline: dict[str, Value] = {}
        self.pending: dict[str, Value] = {}
        self.items: list[Item] = []

    def expand(self, expr: Node) -> Node:
        """`expr` with inline values put in. (Their own bodies hold none: long chains are written out once.)"""
        found: dict[Node, Node] = {}
        for n in pending(expr, found.__contains__):
            src = tuple(found[s] for s in n.src)
            v = self.inline.get(n.arg) if n.op == "ref" else None
            if v is not None:
                found[n] = v.body if src == v.axes else substitute(v.body, dict(zip(v.axes, src)))
            else:
                found[n] = rebuild(n, src)
        return found[expr]

    def reader(self, nest: Nest) -> Nest:
        """`nest`, filling the staged values that it is the first to read: where it reads each place of one just once. Others
        get a nest of their own before it."""
        fills: dict[str, tuple[Node, ...]] = {}
        filled: dict[str, Node] = {}
        for name in reversed(list(self.pending)):  # later values first: they may read earlier ones
            refs = {n for n in walk(*nest.roots, *filled.values()) if n.op == "ref" and n.arg == name}
            if not refs or name not in self.pending:
                continue
            v = self.pending.pop(name)
            by = next(iter(refs)).src
            whole = all(s in nest.all_axes and s.arg.extent == a.arg.extent for s, a in zip(by, v.axes))
            runs = all(a in by or a.arg.extent != 0 for a in nest.all_axes)
            if len(refs) == 1 and whole and runs and len(set(by)) == len(by) and not self.again(v, nest, by):
                fills[name], filled[name] = by, substitute(v.body, dict(zip(v.axes, by)))
            else:
                self.items.append(self.reader(Nest(name, "point", v.axes, (), v.body, value=v)))
        return replace(nest, fills=fills, filled=filled)

    def value(self, v: Value) -> None:
        """The nest of a value, if it has one."""
        expr = self.expand(v.body)
        if isinstance(v.expr, (Reduce, Scan)):
            kind = "reduce" if isinstance(v.expr, Reduce) else "scan"
            self.items.append(self.reader(Nest(v.name, kind, v.axes, v.reduce_axes, expr, value=v)))
        elif v.name not in self.staged:
            self.inline[v.name] = Value(v.name, v.axes, expr, v.dtype)
        else:
            kept = Value(v.name, v.axes, expr, v.dtype)
            if self.staged[v.name]:
                self.pending[v.name] = kept
            else:
                self.items.append(self.reader(Nest(v.name, "point", v.axes, (), expr, value=kept)))

    def fold(self, fold: Fold) -> None:
        """A fold, with the nests of its block."""
        outer, self.items = self.items, []
        for v in fold.block:
            self.value(v)
        for c in fold.components:  # a pointwise component still needs storage to be merged
            v = fold.component(c)
            if c in self.inline:
                self.items.append(Nest(c, "point", v.axes, (), self.expand(v.body), value=v))
                del self.inline[c]
        block = tuple(n for n in self.items if isinstance(n, Nest))
        self.items = outer
        self.items.append(FoldItem(fold, block, {}))

    def store(self, s: Store, *, tiled: bool) -> None:
        """The nest of a store, after that of its tile or of a scatter's identity."""
        expr = self.expand(s.expr)
        indices = tuple(self.expand(i) for i in s.indices)
        mask = None if s.mask is None else self.expand(s.mask)
        if tiled:
            tile = Value(f"{s.buffer.name}.tile", s.axes, expr, expr.dtype)
            self.items.append(self.reader(Nest(tile.name, "point", s.axes, (), expr, value=tile)))
            expr = ref(tile.name, s.axes, expr.dtype)
        taken = {n.name for n in flat(self.items)}
        name = s.buffer.name if s.buffer.name not in taken else f"{s.buffer.name}.{len(taken)}"
        nest = self.reader(Nest(name, "store", s.axes, (), expr, store=s, indices=indices, mask=mask))
        self.clear(s)
        self.items.append(nest)

    def clear(self, s: Store) -> None:
        """The nest that fills a scatter's output with the identity, if it needs one and has none yet."""
        name = s.buffer.name
        cleared = any(isinstance(n, Nest) and n.kind == "init" and n.store is not None and n.store.buffer.name == name for n in self.items)
        if s.combine is not None and not cleared:
            stores = scatters(self.kernel, name)
            # an element is cleared by the step that writes it, if no other step does
            apart = own_dimensions(stores) if len(stores) > 1 else None
            self.items.append(_init_nest(s, tuple(self.expand(i) for i in s.indices), apart))


def _stores_value(kernel: Kernel, expr: Node) -> bool:
    """Whether a store writes a reduction as it is: then that value's own array is the tile."""
    return expr.op == "ref" and not isinstance(kernel.values[expr.arg].expr, Node)


def _init_nest(s: Store, indices: tuple[Node, ...], apart: Collection[tuple[Node, int]] | None) -> Nest:
    axes, at, mask = [], [], None
    for d, (i, extent) in enumerate(zip(indices, s.buffer.shape)):
        if s.own is not None and d == s.own[1]:
            block, _, size = s.own
            a = make_axis(f"{s.buffer.name}.{d}", size)
            axes += [block, a]
            at.append(ix.add(ix.mul(block, const(size)), a))
            mask = ix.compare("lt", at[-1], const(extent) if isinstance(extent, int) else extent)
            continue
        shared = i.op == "axis" and i.arg.extent == extent and (apart is None or (i, d) in apart)
        a = i if shared else make_axis(f"{s.buffer.name}.{d}", extent)
        axes.append(a)
        at.append(a)
    start = cast(identity(s.combine or "add", s.buffer.dtype.compute), s.buffer.dtype)
    store = Store(s.buffer, tuple(at), start, tuple(axes))
    return Nest(
        f"{s.buffer.name}.init",
        "init",
        tuple(axes),
        (),
        start,
        store=store,
        indices=tuple(at),
        mask=None if mask is None or mask.op == "const" else mask,
    )
