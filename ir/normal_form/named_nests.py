"""The nests of a kernel with their names chosen: which loops are apart, and how axes are ordered."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..body import Fold, Store, Value
from ..node import Node, axes_of, const, walk
from .axis_ties import AxisTies
from .raw_nests import RawNest, met_from_stores, own_name
from .shared_values import Naming, SharedValue

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
    order = [found[k] for k in met_from_stores([n.name for n in found], [n.forms for n in found])]
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
