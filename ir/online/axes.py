"""A kernel in family form: pointwise values inlined, and all axes that walk one dimension written as one node.

Two axes walk one dimension where a reference hands one to the other, or where both index the same dimension of one
buffer. Two axes of one nest never become one: in x·xᵀ the rows and the columns stay apart."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property

from .. import node as N
from ..body import Fold, Reduce, Scan, Store, Value
from ..buffer import Buffer, loads
from ..dtypes import index
from ..functions import where
from ..kernel import Kernel
from ..node import Node, walk
from ..operators import logical, substitute, unary


@dataclass(frozen=True, eq=False)
class ChainNest:
    """A reduction, a scan or a store with its expressions: of a value its element; of a store what is stored, the
    indices and the mask."""

    item: Value | Store
    axes: tuple[Node, ...]
    over: tuple[Node, ...]
    exprs: tuple[Node, ...]

    @property
    def name(self) -> str:
        """The value's name, or the output's."""
        return self.item.name if isinstance(self.item, Value) else self.item.buffer.name

    @property
    def combine(self) -> str:
        """How a reduction or scan combines; empty for a store."""
        expr = self.item.expr
        return expr.combine if isinstance(expr, Reduce | Scan) else ""

    @cached_property
    def reads(self) -> set[str]:
        """The values that it refers to."""
        return {n.arg for n in walk(*self.exprs) if n.op == "ref"}


def inline(kernel: Kernel) -> list[ChainNest]:
    """The nests of `kernel`, which has no fold, with pointwise values written out where they are read."""
    pointwise: dict[str, Value] = {}
    found: list[ChainNest] = []
    for item in kernel.body:
        assert not isinstance(item, Fold)
        body = written_out(item.body, {n: (v.axes, v.body) for n, v in pointwise.items()})
        if isinstance(item.expr, Node):
            pointwise[item.name] = replace(item, expr=body)
        else:
            found.append(ChainNest(item, item.axes, item.reduce_axes, (body,)))
    known = {n: (v.axes, v.body) for n, v in pointwise.items()}
    for s in kernel.stores:
        roots = (s.expr, *s.indices) if s.mask is None else (s.expr, *s.indices, s.mask)
        found.append(ChainNest(s, s.axes, (), tuple(written_out(e, known) for e in roots)))
    return found


def written_out(e: Node, known: dict[str, tuple[tuple[Node, ...], Node]]) -> Node:
    """`e` with references to `known` values replaced by what those are; the replacements hold no such references."""
    table: dict[Node, Node] = {}
    for n in walk(e):
        if n.op == "ref" and n.arg in known:
            axes, body = known[n.arg]
            at = (substitute(i, table) for i in n.src)
            table[n] = substitute(body, dict(zip(axes, at, strict=True)))
    return substitute(e, table) if table else e


def negation(cond: Node) -> Node:
    """Where `cond` does not hold; comparisons of indices stay such, by which idle tiles are seen."""
    if cond.op in ("lt", "le") and cond.src[0].dtype is index:
        x, y = cond.src
        return y <= x if cond.op == "lt" else y < x
    if cond.op in ("and", "or"):
        return logical("or" if cond.op == "and" else "and", *map(negation, cond.src))
    return cond.src[0] if cond.op == "not" else unary("not", cond)


def masked_last(e: Node) -> Node:
    """`e` with where(c, −∞, x) written as where(not c, x, −∞), as masks are mostly written."""
    table: dict[Node, Node] = {}
    for n in walk(e):
        new = substitute(n, {s: table[s] for s in n.src if s in table}) if n.src else n
        if new.op == "where" and new.src[1].op == "const" and new.src[1].arg == float("-inf"):
            new = where(negation(new.src[0]), new.src[2], new.src[1])
        if new is not n:
            table[n] = new
    return table.get(e, e)


class _Groups:
    """Axes joined into families."""

    def __init__(self, nests: Iterable[ChainNest]) -> None:
        self.of: dict[Node, set[Node]] = {}
        self.nests = [{*n.axes, *n.over} for n in nests]
        for bound in self.nests:
            for a in bound:
                self.of.setdefault(a, {a})

    def join(self, a: Node, b: Node) -> None:
        """One family for both, unless their extents differ or one nest has both."""
        x, y = self.of[a], self.of[b]
        both = x | y
        if x is y or a.arg.extent != b.arg.extent or any(len(bound & both) > 1 for bound in self.nests):
            return
        for member in both:
            self.of[member] = both


def family_form(nests: list[ChainNest]) -> list[ChainNest]:
    """The nests with one axis node a family, named after its first axis, and masks as `masked_last` has them."""
    groups = _Groups(nests)
    by_name = {n.name: n for n in nests if isinstance(n.item, Value)}
    for a, b in (*_handed(nests, by_name), *_beside(nests)):
        groups.join(a, b)
    node: dict[Node, Node] = {}
    taken: set[str] = set()
    for n in nests:
        for a in (*n.axes, *n.over):
            if a not in node:
                name = a.arg.family
                while name in taken:
                    name += "_"
                taken.add(name)
                whole = N.axis(name, a.arg.extent)
                node.update(dict.fromkeys(groups.of[a], whole))
    return [
        replace(
            n,
            axes=tuple(node[a] for a in n.axes),
            over=tuple(node[a] for a in n.over),
            exprs=tuple(masked_last(substitute(e, {a: node[a] for a in (*n.axes, *n.over)})) for e in n.exprs),
        )
        for n in nests
    ]


def _handed(nests: list[ChainNest], by_name: dict[str, ChainNest]) -> Iterator[tuple[Node, Node]]:
    """Axes of values, and the axes at which others read them."""
    for n in nests:
        for r in walk(*n.exprs):
            if r.op == "ref":
                yield from ((a, i) for a, i in zip(by_name[r.arg].axes, r.src, strict=True) if i.op == "axis")


def _beside(nests: list[ChainNest]) -> Iterator[tuple[Node, Node]]:
    """Axes that index the same dimension of one buffer; then the axes of reductions of which one reads the other."""
    seen: dict[tuple[Buffer, int], list[Node]] = {}
    for n in nests:
        for buffer, indices, _ in loads(*n.exprs):
            for d, i in enumerate(indices):
                if i.op == "axis":
                    yield from ((other, i) for other in seen.setdefault((buffer, d), []))
                    seen[buffer, d].append(i)
    by_name = {n.name: n for n in nests}
    for n in nests:
        for name in sorted(n.reads):
            if len(n.over) == 1 and len(by_name[name].over) == 1:
                yield by_name[name].over[0], n.over[0]


class Sites:
    """Family form back to axes of nests: a family that some nest reduces or scans has one a nest."""

    def __init__(self, nests: Iterable[ChainNest]) -> None:
        self.reduced: set[Node] = set()
        for n in nests:
            self.reduced |= {*n.over}
            if isinstance(n.item, Value) and isinstance(n.item.expr, Scan):
                self.reduced |= {a for a, old in zip(n.axes, n.item.axes, strict=True) if old is n.item.expr.axis}

    def table(self, axes: Iterable[Node], site: str) -> dict[Node, Node]:
        """What stands for each family in the nest called `site`."""
        return {a: N.axis(f"{a.arg.name}@{site}", a.arg.extent) if a in self.reduced else a for a in axes}
