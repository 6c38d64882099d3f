"""Values for what windows compute again: a function of elements, in a sum over windows of them or at several shifted places.

A filter of logarithms takes the logarithm of an element once for each window that the element is in, and the difference of two fluxes
through the sides of a cell computes every flux twice. As in `repeated`, giving such a function a name takes nothing away: it is computed
where it is read, unless a schedule keeps it, in a phase of its own or in tiles with a halo."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import prod

from .. import index as ix
from ..body import Fold, Value
from ..buffer import loads
from ..dtypes import index
from ..kernel import Kernel
from ..node import Node, SymInfo, axes_of, axis, const, make, ref, walk
from ..operators import substitute
from .shared_values import ELEMENTARY

AGAIN = 2
"""How often a function is computed at least, for each of its elements, so that it gets a name."""
LONG = 16
"""Operations that are as dear as an elementary function."""
MOST_NODES, MOST_VALUES = 2500, 8
"""Nodes of a kernel's expressions above which none is looked for, and how many get a name."""
_PLAIN = frozenset({"const", "axis", "sym", "arg", "load", "ref", "cast", "placeholder", "tuple", "neg"})
_WHOLE = frozenset({"floordiv", "remainder"})
"""What integers cannot be put through at places that nothing reads."""


def name_windowed(kernel: Kernel) -> Kernel:
    """An equal kernel that names such functions, the largest first; `kernel` itself where there are none, where an extent is a symbol, and
    where it has a fold."""
    if kernel.symbols or any(isinstance(item, Fold) for item in kernel.body) or kernel.blocks is not None:
        return kernel
    for _ in range(MOST_VALUES):
        found = _next(kernel)
        if found is None:
            break
        kernel = found
    return kernel


@dataclass(frozen=True, slots=True)
class _Place:
    """Where an expression stands: over `dims`, each an index less its constant, and these constants."""

    form: Node
    """The expression over stand-ins for its first index of each dimension."""
    dims: tuple[Node, ...]
    shifts: tuple[int, ...]

    @property
    def ranges(self) -> list[tuple[int, int]]:
        """The least and the largest of each index."""
        return [(lo + c, hi + c) for n, c in zip(self.dims, self.shifts, strict=True) for lo, hi in (ix.bounds(n),)]

    @property
    def often(self) -> float:
        """How often a nest over its axes computes each element."""
        points = prod(a.arg.extent for n in self.dims for a in axes_of(n))
        return float(points / max(1, prod(hi - lo + 1 for lo, hi in self.ranges)))


def _next(kernel: Kernel) -> Kernel | None:
    """The kernel with one more value; None where nothing is left to name."""
    nests = [list(walk(*roots)) for roots in _roots(kernel)]
    order = list(dict.fromkeys(n for nest in nests for n in nest))
    if len(order) > MOST_NODES or not any(_dear(n) for n in order):
        return None
    count: dict[Node, int] = {}
    for n in order:
        count[n] = 1 + sum(count[s] for s in n.src) if n.dtype is not index else 0
    holds = _holds(order, count)
    places = {n: p for n in order if holds[n] and n.op not in _PLAIN and n.dtype.is_float and (p := _place(n)) is not None}
    together: dict[Node, dict[Node, _Place]] = {}
    for n, p in places.items():
        together.setdefault(p.form, {})[n] = p
    for n in sorted(places, key=lambda n: -count[n]):
        same = together[places[n].form]
        if any(p.often >= AGAIN for p in same.values()) or any(sum(x in same for x in nest) >= AGAIN for nest in nests):
            found = _named(kernel, same)
            if found is not None:
                return found
    return None


def _roots(kernel: Kernel) -> Iterator[tuple[Node, ...]]:
    """The expressions of everything that a kernel computes."""
    for v in kernel.values.values():
        if not isinstance(v.body, tuple):
            yield (v.body,)
    for s in kernel.stores:
        yield (s.expr,) if s.mask is None else (s.expr, s.mask)


def _dear(n: Node) -> bool:
    return n.op in ELEMENTARY and n.dtype.is_float and bool(axes_of(n))


def _holds(order: Sequence[Node], count: dict[Node, int]) -> dict[Node, bool]:
    """Whether each expression holds what is dear, over all of its axes, and nothing that has no place in a value."""
    dear: dict[Node, bool] = {}
    plain: dict[Node, bool] = {}
    for n in order:
        plain[n] = n.op not in ("arg", "tuple") and not (n.op in _WHOLE and n.dtype is not index) and all(plain[s] for s in n.src)
        own = axes_of(n)
        dear[n] = _dear(n) or (bool(own) and count[n] >= LONG) or any(dear[s] and axes_of(s) == own for s in n.src)
    return {n: dear[n] and plain[n] for n in order}


def _place(n: Node) -> _Place | None:
    """Where `n` stands; None where its indices do not vary independently, or data decides one."""
    first: dict[Node, int] = {}
    table: dict[Node, Node] = {}
    for leaf in _leaves(n):
        terms, c = ix.parts(leaf)
        if not terms:
            continue
        if any(x.op in ("load", "ref", "cast", "sym") for x in walk(leaf)):
            return None
        base = ix.linear(terms, 0)
        at = first.setdefault(base, c)
        table[leaf] = ix.add(_stand_in(list(first).index(base)), const(c - at))
    axes = [a for base in first for a in axes_of(base)]
    if not first or len(set(axes)) < len(axes):
        return None
    return _Place(substitute(n, table), tuple(first), tuple(first.values()))


def _laid_out(form: Node, count: int) -> list[int]:
    """The dimensions of a form in the order in which what it reads lies in memory, the consecutive one last."""
    found = [indices for _, indices, _ in loads(form)]

    def last(d: int) -> int:
        return max((k - len(indices) for indices in found for k, i in enumerate(indices) if _stand_in(d) in walk(i)), default=-ix.BIG)

    return sorted(range(count), key=last)


def _leaves(n: Node) -> list[Node]:
    """The largest indices in an expression, as they are met."""
    out: dict[Node, None] = {}
    seen, stack = set[Node](), [n]
    while stack:
        x = stack.pop()
        if x in seen:
            continue
        seen.add(x)
        if x.dtype is index:
            out.setdefault(x)
        else:
            stack += reversed(x.src)
    return list(out)


def _stand_in(d: int) -> Node:
    """What an index of dimension `d` is replaced by: a number of which nothing is known."""
    return make("sym", index, (), SymInfo(f"#{d}", -ix.BIG, ix.BIG))


def _named(kernel: Kernel, same: dict[Node, _Place]) -> Kernel | None:
    """The kernel with a value for expressions of one form, over all that they read; None where that is less than the intervals of their
    indices say, and these reach outside."""
    taken = {b.name for b in kernel.buffers} | set(kernel.values) | set(kernel.families) | {a.arg.name for a in kernel.axes}
    name = next(f"p{k}" for k in range(len(taken) + 1) if f"p{k}" not in taken)
    places = list(same.values())
    ends = [p.ranges for p in places]
    least = [min(e[d][0] for e in ends) for d in range(len(places[0].dims))]
    most = [max(e[d][1] for e in ends) for d in range(len(least))]
    bases = [_family(kernel, places[0].dims[d], most[d] - least[d] + 1, name) for d in range(len(least))]
    own = [
        axis(f"{base}@{name}" if bases.index(base) == d else f"{base}@{name}{d}", most[d] - least[d] + 1, base)
        for d, base in enumerate(bases)
    ]
    body = substitute(places[0].form, {_stand_in(d): ix.add(a, const(least[d])) for d, a in enumerate(own)})
    if not _reads_inside(kernel, body):
        return None
    order = _laid_out(places[0].form, len(own))
    value = Value(name, tuple(own[d] for d in order), body, body.dtype)
    table = {n: ref(name, [ix.add(p.dims[d], const(p.shifts[d] - least[d])) for d in order], n.dtype) for n, p in same.items()}
    return _with(kernel, value, table)


def _reads_inside(kernel: Kernel, body: Node) -> bool:
    """Whether what a value reads is there at all of its places, whatever a mask says."""
    found = [(indices, b.shape) for b, indices, _ in loads(body)]
    found += [(n.src, tuple(a.arg.extent for a in kernel.values[n.arg].axes)) for n in walk(body) if n.op == "ref"]
    each = [(ix.bounds(i), size) for indices, shape in found for i, size in zip(indices, shape, strict=True)]
    return all(isinstance(size, int) and lo >= 0 and hi < size for (lo, hi), size in each)


def _family(kernel: Kernel, dim: Node, size: int, value: str) -> str:
    """The family of an axis of a value: the kernel's own where it is along one of its axes, from end to end."""
    if dim.op == "axis" and dim.arg.extent == size:
        return str(dim.arg.family)
    taken = {*kernel.families, *kernel.values, *(b.name for b in kernel.buffers)}
    name = "_".join(dict.fromkeys(a.arg.family for a in sorted(axes_of(dim), key=kernel.axes.index))) + f"_{value}"
    while name in taken:
        name += "_"
    return name


def _with(kernel: Kernel, value: Value, table: dict[Node, Node]) -> Kernel:
    """The kernel with a value before the first that reads it, and expressions replaced."""

    def go(n: Node) -> Node:
        return substitute(n, table)

    out: list[Value | Fold] = []
    for item in kernel.body:
        assert isinstance(item, Value)
        new = item
        if isinstance(item.expr, Node):
            new = replace(item, expr=go(item.expr))
        elif not isinstance(item.body, tuple):
            new = replace(item, expr=replace(item.expr, expr=go(item.body)))
        if value not in out and any(x.op == "ref" and x.arg == value.name for x in walk(new.body) if not isinstance(new.body, tuple)):
            out.append(value)
        out.append(new)
    if value not in out:
        out.append(value)
    stores = tuple(replace(s, expr=go(s.expr), mask=None if s.mask is None else go(s.mask)) for s in kernel.stores)
    return replace(kernel, body=tuple(out), stores=stores)
