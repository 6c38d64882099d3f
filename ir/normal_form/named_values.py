"""Values for what several nests compute again: the same elementary function of the same element, in sums and stores over one dimension.
And for what one nest computes again in each of its rows, of what another nest has found: the root of a column's largest element, that
scales all the elements below it.

A softmax that is written out holds its exponential twice, and one that drops small probabilities four times. A pointwise value costs
nothing where it stands: it is computed where it is read, unless a schedule keeps it (`STAGE`). So giving such an expression a name
takes nothing away, and lets a schedule keep it. Of what is read at the same places only the largest expression gets one
(`tidy_kernel` does the same for kernels that are pulled out of tensors)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import prod

from .. import index as ix
from ..body import Fold, Store, Value
from ..buffer import loads
from ..dtypes import bool_, index
from ..kernel import Kernel
from ..node import COSTLY, Node, SymInfo, axes_of, axis, const, make, ref, walk
from ..operators import rebuild, substitute, substitute_on

_PLAIN = frozenset({"const", "axis", "sym", "arg", "load", "ref", "cast", "placeholder", "tuple"})

ROWS = 4
"""How many rows compute something again at least, so that it gets a name."""


def name_repeated(kernel: Kernel) -> Kernel:
    """An equal kernel that names what several of its nests compute by an elementary function, a root or a division; `kernel` itself
    where there is nothing, and where it has a fold, whose block is computed tile by tile."""
    if any(isinstance(item, Fold) for item in kernel.body) or not _worth_looking(kernel):
        return kernel
    return _Repeated(kernel).named()


def _worth_looking(kernel: Kernel) -> bool:
    """Whether two nests hold an elementary function at all, or one does that reads a value."""
    found = [{n.op == "ref" for r in roots for n in walk(r) if n.op == "ref" or _costs(n)} for _, roots in _nests(kernel)]
    return sum(False in ops for ops in found) > 1 or {True, False} in found


def _costs(n: Node) -> bool:
    return n.op in COSTLY and n.dtype is not index and bool(axes_of(n))


def _nests(kernel: Kernel) -> Iterator[tuple[Value | Store, tuple[Node, ...]]]:
    """What computes something at each of its points, with its expressions; pointwise values do so where they are read."""
    for v in kernel.values.values():
        if not isinstance(v.expr, Node) and not isinstance(v.body, tuple):
            yield v, (v.body,)
    for s in kernel.stores:
        yield s, (s.expr,) if s.mask is None else (s.expr, s.mask)


def _numbered_axes(n: Node) -> tuple[Node, tuple[Node, ...]]:
    """(an expression over axes that are numbered as they are met, those it has)."""
    own = tuple(dict.fromkeys(x for x in walk(n) if x.op == "axis"))
    return substitute(n, {a: axis(f"#{k}", a.arg.extent, f"#{k}") for k, a in enumerate(own)}), own


@dataclass(slots=True)
class _Chosen:
    """An expression over stand-ins that gets a name, and the value that it becomes: one for all expressions that differ in their axes
    alone."""

    many: bool = False
    value: Value | None = None
    order: tuple[int, ...] = ()
    """Which of an expression's axes, as `_numbered_axes` gives them, is each axis of the value."""


class _Repeated:
    """A kernel on the way. Its nests' expressions are written over stand-ins, one for each family of axes, so that equal ones are one."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.nests = [item for item, _ in _nests(kernel)]
        self.own: list[dict[Node, Node]] = []  # of each nest, its axes by their stand-ins
        self.forms: list[tuple[Node, ...]] = []
        for _, roots in _nests(kernel):
            table: dict[Node, Node] = {}
            met: dict[str, int] = {}
            for a in sorted(axes_of(*roots), key=kernel.axes.index):
                place = met[a.arg.family] = met.get(a.arg.family, -1) + 1
                table[a] = axis(f"{a.arg.family}#{place}", a.arg.extent, f"{a.arg.family}#{place}")
            self.own.append({stand_in: a for a, stand_in in table.items()})
            self.forms.append(tuple(substitute(r, table) for r in roots))
        self.of_named: list[set[int]] = []
        """The nests that read what was named first, second and so on."""
        self.order = list(walk(*(r for form in self.forms for r in form)))
        self.taken = {b.name for b in kernel.buffers} | {s.arg.name for s in kernel.symbols} | set(kernel.values) | set(kernel.families)
        self.sites = {a.arg.name for a in kernel.axes}

    def named(self) -> Kernel:
        """The kernel with values for what is repeated."""
        chosen = self._choose(frozenset())
        if not chosen:
            return self.kernel
        chosen = self._choose(frozenset(_numbered_axes(n)[0] for n in chosen))
        refs: dict[Node, Node] = {}
        for n in self.order:
            body = rebuild(n, tuple(refs[s] for s in n.src)) if n.src else n
            found = chosen.get(n)
            if found is not None:
                met = _numbered_axes(n)[1]
                if found.value is None:
                    found.value = self._value(n, body, found.many)
                    found.order = tuple(map(met.index, self._axes(n)))
                body = ref(found.value.name, tuple(met[k] for k in found.order), n.dtype)
            refs[n] = body
        values = list(dict.fromkeys(c.value for n in self.order if (c := chosen.get(n)) is not None and c.value is not None))
        new: dict[tuple[int, Node], Node] = {}
        for (item, roots), own, form in zip(_nests(self.kernel), self.own, self.forms, strict=True):
            new |= {(id(item), root): substitute(refs[r], own) for root, r in zip(roots, form, strict=True)}
        return _with(self.kernel, values, lambda item, root: new.get((id(item), root), root))

    def _choose(self, alike: frozenset[Node]) -> dict[Node, _Chosen]:
        """From the largest down: what a named expression holds is read by that alone. `alike`: expressions as `_numbered_axes` gives them of
        which each is named, wherever it stands."""
        readers: dict[Node, set[int]] = {n: set() for n in self.order}
        for k, form in enumerate(self.forms):
            for r in form:
                readers[r].add(k)
        whole = [axes_of(*form) for form in self.forms]
        costs: dict[Node, frozenset[Node]] = {}  # the axes of what costs much in an expression, where those are all of its axes
        for n in self.order:
            own = axes_of(n)
            costs[n] = frozenset(own) if _costs(n) or any(costs[s] == own for s in n.src) else frozenset()
        self.of_named.clear()
        chosen: dict[Node, _Chosen] = {}
        found: dict[Node, _Chosen] = {}
        for n in reversed(self.order):
            mine = readers[n]
            named = costs[n] and n.op not in _PLAIN and n.dtype is not index and n.dtype is not bool_
            # (what does not vary from point to point leaves the loop by itself)
            again = len(mine) > 1 and any(whole[k] == costs[n] for k in self._nests_of(mine))
            if named and (again or self._in_rows(n, mine) or (alike and _numbered_axes(n)[0] in alike)):
                number = len(self.nests) + len(self.of_named)
                self.of_named.append(self._nests_of(mine))
                same = _numbered_axes(n)[0]
                if same in found:
                    found[same].many = True
                chosen[n] = found.setdefault(same, _Chosen())
                mine = {number}
            for s in n.src:
                readers[s] |= mine
        return chosen

    def _in_rows(self, n: Node, readers: Iterable[int]) -> bool:
        """Whether a nest among the readers computes `n`, which reads a value, again in each of its rows."""
        outermost = [self._rows(k) for k in readers if k < len(self.nests)]
        return any(r is not None and r not in axes_of(n) for r in outermost) and any(x.op == "ref" for x in walk(n))

    def _rows(self, k: int) -> Node | None:
        """The stand-in of the outermost axis of nest `k`; None where nothing in it varies along that, or hardly."""
        item = self.nests[k]
        axes = item.axes if isinstance(item, Store) else (*item.axes, *item.reduce_axes)
        found = next((s for s, a in self.own[k].items() if a is axes[0]), None) if axes else None
        return None if found is None or (isinstance(found.arg.extent, int) and found.arg.extent < ROWS) else found

    def _nests_of(self, readers: Iterable[int]) -> set[int]:
        """The nests among readers, and those that read a named expression among them."""
        n = len(self.nests)
        return {k for r in readers for k in ([r] if r < n else self.of_named[r - n])}

    def _axes(self, n: Node) -> tuple[Node, ...]:
        """The stand-ins of an expression, in the order of the kernel's axes."""
        return tuple(sorted(axes_of(n), key=lambda a: self._rank(a)))

    def _rank(self, stand_in: Node) -> int:
        return min(self.kernel.axes.index(own[stand_in]) for own in self.own if stand_in in own)

    def _value(self, whole: Node, body: Node, many: bool) -> Value:
        """The value of an expression: over an axis of the kernel where all of its nests have the same one, else over a site of its own.
        `many`: it is read over other axes as well."""
        name = next(f"p{k}" for k in range(len(self.taken) + 1) if f"p{k}" not in self.taken)
        self.taken.add(name)
        table = {}
        for a in self._axes(whole):
            theirs = {own[a] for own in self.own if a in own}
            first = min(theirs, key=self.kernel.axes.index)
            family = first.arg.family
            alone = not many and len(theirs) == 1 and len(self.kernel.families[family]) == 1
            table[a] = first if alone else self._site(name, first)
        return Value(name, tuple(table.values()), substitute(body, table), body.dtype)

    def _site(self, value: str, of: Node) -> Node:
        """An axis like `of` that nothing else has, for a value of this name."""
        free = (f"{of.arg.family}@{value}{'' if k == 0 else f'_{k}'}" for k in range(len(self.sites) + 1))
        name = next(n for n in free if n not in self.sites)
        self.sites.add(name)
        return axis(name, of.arg.extent, of.arg.family)


AGAIN = 2
"""How often a function is computed at least, for each of its elements, so that it gets a name."""
LONG = 16
"""Operations that are as costly as an elementary function."""
MOST_NODES, MOST_VALUES = 2500, 8
"""Nodes of a kernel's expressions above which none is looked for, and how many get a name."""
_NEVER_NAMED = frozenset({"const", "axis", "sym", "arg", "load", "ref", "cast", "placeholder", "tuple", "neg"})
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
    if len(order) > MOST_NODES or not any(_is_costly(n) for n in order):
        return None
    count: dict[Node, int] = {}
    for n in order:
        count[n] = 1 + sum(count[s] for s in n.src) if n.dtype is not index else 0
    holds = _holds_costly(order, count)
    leaves: dict[Node, tuple[Node, ...]] = {}
    for n in order:
        leaves[n] = (n,) if n.dtype is index else tuple(dict.fromkeys(leaf for s in n.src for leaf in leaves[s]))
    rebuilt: dict[tuple[tuple[Node, Node], ...], dict[Node, Node]] = {}
    places = {
        n: p
        for n in order
        if holds[n] and n.op not in _NEVER_NAMED and n.dtype.is_float and (p := _place(n, leaves[n], rebuilt)) is not None
    }
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


def _is_costly(n: Node) -> bool:
    return n.op in COSTLY and n.dtype.is_float and bool(axes_of(n))


def _holds_costly(order: Sequence[Node], count: dict[Node, int]) -> dict[Node, bool]:
    """Whether each expression holds what is costly, over all of its axes, and nothing that has no place in a value."""
    costly: dict[Node, bool] = {}
    plain: dict[Node, bool] = {}
    for n in order:
        plain[n] = n.op not in ("arg", "tuple") and not (n.op in _WHOLE and n.dtype is not index) and all(plain[s] for s in n.src)
        own = axes_of(n)
        costly[n] = _is_costly(n) or (bool(own) and count[n] >= LONG) or any(costly[s] and axes_of(s) == own for s in n.src)
    return {n: costly[n] and plain[n] for n in order}


def _place(n: Node, leaves: Iterable[Node], rebuilt: dict[tuple[tuple[Node, Node], ...], dict[Node, Node]]) -> _Place | None:
    """Where `n` stands; None where its indices do not vary independently, or data decides one. `leaves`: the largest indices in it, as
    they are met. `rebuilt` has what expressions became over the same stand-ins, so that a chain of n operators takes n steps."""
    first: dict[Node, int] = {}
    table: dict[Node, Node] = {}
    for leaf in leaves:
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
    memo = rebuilt.setdefault(tuple(table.items()), dict(table))
    return _Place(substitute_on(n, memo), tuple(first), tuple(first.values()))


def _laid_out(form: Node, count: int) -> list[int]:
    """The dimensions of a form in the order in which what it reads lies in memory, the consecutive one last."""
    found = [indices for _, indices, _ in loads(form)]

    def last(d: int) -> int:
        return max((k - len(indices) for indices in found for k, i in enumerate(indices) if _stand_in(d) in walk(i)), default=-ix.BIG)

    return sorted(range(count), key=last)


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
    return _with(kernel, [value], lambda _, root: substitute(root, table))


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


def _with(kernel: Kernel, values: Iterable[Value], new: Callable[[Value | Store, Node], Node]) -> Kernel:
    """The kernel with more values, each before the first that reads it. `new`: what the expressions of everything in the kernel become."""
    waiting = {v.name: v for v in values}
    out: list[Value | Fold] = []

    def before(*roots: Node) -> None:
        for n in walk(*roots):
            if n.op == "ref" and n.arg in waiting:
                value = waiting.pop(n.arg)
                before(value.body)
                out.append(value)

    for item in kernel.body:
        assert isinstance(item, Value)
        if not isinstance(item.body, tuple):
            expr = new(item, item.body)
            before(expr)
            if expr is not item.body:
                item = replace(item, expr=expr if isinstance(item.expr, Node) else replace(item.expr, expr=expr))
        out.append(item)
    stores = tuple(replace(s, expr=new(s, s.expr), mask=None if s.mask is None else new(s, s.mask)) for s in kernel.stores)
    before(*(r for s in stores for r in (s.expr, s.mask) if r is not None))
    return replace(kernel, body=tuple(out), stores=stores)
