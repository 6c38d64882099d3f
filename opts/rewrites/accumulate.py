"""A sum over rows is added to in memory, row by row, in the loop that goes through the rows already.

The gradient of a loss reads the rows of a matrix twice: Σ_j x[i,j]·w[j] decides by how much row i counts, and Σ_i c[i]·x[i,j] adds up
the rows. Each result of the second sum has a loop over the rows of its own, so all rows are read again, from wherever they lie by then.
In the push form a row is added to totals in memory as soon as its factor is known: one pass (Belter et al. 2009, "Automating the
generation of composed linear algebra kernels", fuse AᵀAx like this). What is stored of each row comes in the same phase; a second one
does with the sums what the kernel does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache

from ...ir import index as ix
from ...ir.body import Fold, Reduce, Scan, Store, Value, values_of
from ...ir.buffer import Buffer, load_parts
from ...ir.dtypes import bool_, index
from ...ir.errors import OptError
from ...ir.kernel import Kernel
from ...ir.node import Node, axes_of, const, ref, walk
from ...ir.node import axis as make_axis
from ...ir.operators import substitute
from .kernel_parts import changed_store, guarded, left, loaded, needed, renamed, store_roots, totals
from .rule import Named, RewriteRule, together

Rows = frozenset[tuple[Buffer, int]]
"""Dimensions of buffers that an axis is the index of."""
Along = dict[Node, Node]
"""An axis → the one that stands for it."""
_LINE = 64


def accumulable(kernel: Kernel) -> dict[str, Node]:
    """The sums over rows that others read as well, each with the axis of these rows: a spatial one of what makes the sum's operands, or of
    what reads the same rows for results of its own."""
    found = {}
    for v in kernel.body:
        if isinstance(v, Value) and isinstance(v.expr, Reduce) and v.axes and v.dtype not in (index, bool_) and not v.dtype.narrow:
            row = _row(kernel, v)
            if row is not None:
                found[v.name] = row
    return found


def accumulated(kernel: Kernel, names: Sequence[str]) -> tuple[Kernel, Kernel] | None:
    """(the rows, and the sums `names` added up; what is left and loads these). The first has what is stored of the same rows too. None where
    the sums are not over the same rows, or one needs another."""
    possible = accumulable(kernel)
    if not names or any(n not in possible for n in names):
        return None
    sums = [v for v in kernel.body if isinstance(v, Value) and v.name in names]
    if any(set(names) & _reads(kernel, v.body) for v in sums):
        return None
    made = _Rows(kernel, possible[sums[0].name])
    if not all(made.add_sum(v) for v in sums):
        return None
    for s in kernel.stores:
        if not set(names) & _reads(kernel, *store_roots(s)):
            made.add_store(s)
    first = made.first()
    return first, _remaining(kernel, made, first)


@dataclass(eq=False)
class _Rows:
    """The kernel that goes through rows once; `row` is their axis."""

    kernel: Kernel
    row: Node
    stores: list[Store] = field(default_factory=list)
    taken: set[int] = field(default_factory=set)
    works: dict[str, Buffer] = field(default_factory=dict)
    parts: dict[str, Value] = field(default_factory=dict)
    """What is summed inside a row."""
    beside: dict[tuple[Buffer, int, int], Node] = field(default_factory=dict)
    """Which axis is the index of a dimension where the row is that of another: results along it are computed in one loop."""

    def add_sum(self, v: Value) -> bool:
        """Add up a sum. False where it is not over these rows."""
        assert isinstance(v.expr, Reduce)
        own = _over(self.kernel, v, self.row)
        if own is None:
            return False
        along = self._along(v.body, own, v.axes, v.reduce_axes)
        rest = tuple(a for a in v.reduce_axes if a is not own)
        axes, expr = tuple(along.get(a, a) for a in v.axes), substitute(v.body, along)
        if rest:  # (a sum inside the row is one still)
            part = Value(f"{v.name}.part", (self.row, *axes), Reduce(v.expr.combine, rest, expr, v.dtype), v.dtype)
            self.parts[part.name] = part
            expr = ref(part.name, part.axes, v.dtype)
        self.works[v.name] = Buffer(totals(v.name), v.dtype, tuple(a.arg.extent for a in axes), "out")
        self.stores.append(Store(self.works[v.name], axes, expr, (self.row, *axes), v.expr.combine))
        return True

    def add_store(self, s: Store) -> None:
        """Take along a store of something of these rows, if it is one, and its output has no other that it is combined with."""
        if s.combine is not None and sum(o.buffer == s.buffer for o in self.kernel.stores) > 1:
            return
        shared = self._dimensions()
        made = {x.name for x in self._body(self.stores) if isinstance(x, Value) and self.row in x.axes}
        place = next((a for a in s.axes if a.arg.extent == self.row.arg.extent and _is_row(self.kernel, s, a, shared, made)), None)
        if place is None or (self.row in s.axes and place is not self.row):
            return
        along = self._along(s.expr, place, s.axes)
        change = replace(s, axes=tuple(along.get(a, a) for a in s.axes))
        self.stores.append(changed_store(change, lambda e: substitute(e, along)))
        self.taken.add(id(s))

    def _along(self, expr: Node, own: Node, axes: Sequence[Node], reduced: Sequence[Node] = ()) -> Along:
        """What stands for the axes of an expression, whose rows are along `own`, and which some others are `reduced` over."""
        along: Along = {own: self.row}
        if self.row in axes and own is not self.row:  # (both dimensions of a square matrix may be gone through along one axis)
            along[self.row] = make_axis(f"{self.row.arg.name}.c", self.row.arg.extent, f"{self.row.arg.family}.c")
        for n in walk(expr):
            if n.op != "load":
                continue
            buffer, at, _ = load_parts(n)
            for p in (p for p, i in enumerate(at) if i is own):
                for q, i in enumerate(at):
                    if i in axes and i is not own:
                        known = self.beside.setdefault((buffer, p, q), along.get(i, i))
                        if known.arg.extent == i.arg.extent and known not in (*along.values(), *axes, *reduced):
                            along.setdefault(i, known)
        return along

    def _dimensions(self) -> Rows:
        return frozenset(d for s in self.stores for d in _indexed(self.kernel, self.row, *store_roots(s)))

    def _body(self, stores: Sequence[Store]) -> tuple[Value | Fold, ...]:
        """What some stores need, over the rows' axis where they read it there."""
        roots = [r for s in stores for r in store_roots(s)]
        out: list[Value | Fold] = []
        for item in reversed(needed((*self.kernel.body, *self.parts.values()), roots)):
            new = self._at_row(item, roots) if isinstance(item, Value) else item
            out.append(new)
            roots += [v.body for v in values_of(new)]
        return tuple(reversed(out))

    def _at_row(self, v: Value, readers: Sequence[Node]) -> Value:
        """A value, over the rows' axis where all of some readers want it there."""
        reads = [n.src for n in walk(*readers) if n.op == "ref" and n.arg == v.name]
        at = {p for p in range(len(v.axes)) if all(src[p] is self.row for src in reads)}
        bound = {*v.axes, *v.reduce_axes}
        place = next((v.axes[p] for p in at if v.axes[p].arg.extent == self.row.arg.extent), None)
        if place is None or place is self.row or self.row in bound:
            return v
        table = {place: self.row}
        e = v.expr
        new: Node | Reduce | Scan = substitute(e, table) if isinstance(e, Node) else replace(e, expr=substitute(e.expr, table))
        if isinstance(new, Scan):
            new = replace(new, axis=table.get(new.axis, new.axis))
        return replace(v, axes=tuple(table.get(a, a) for a in v.axes), expr=new)

    def first(self) -> Kernel:
        """The kernel."""
        stores = [self._padded(s) for s in self.stores]
        body = self._body(stores)
        outputs = dict.fromkeys(s.buffer for s in stores)
        return Kernel(f"{self.kernel.name}_rows", body, tuple(stores), (*loaded(self.kernel.inputs, body, stores), *outputs))

    def _padded(self, s: Store) -> Store:
        """Totals in whole vectors: a store under a mask could not hand its elements on to the next row's load."""
        works = {b.name for b in self.works.values()}
        last, unit = s.axes[-1], _LINE // s.buffer.dtype.size
        size = last.arg.extent
        if s.buffer.name not in works or not isinstance(size, int):
            return s
        shared = any(last in o.axes for o in self.stores if o.buffer.name not in works)
        read = any(n.op == "ref" and last in axes_of(*n.src) for n in walk(s.expr))
        if shared or read or size % unit == 0 or size < unit:
            return s
        wide = make_axis(f"{last.arg.name}.w", -(-size // unit) * unit, f"{last.arg.family}.w")
        expr = guarded(substitute(s.expr, {last: wide}), {wide}, ix.compare("lt", wide, const(size)))
        work = replace(s.buffer, shape=(*s.buffer.shape[:-1], wide.arg.extent))
        return Store(work, (*s.indices[:-1], wide), expr, (*s.axes[:-1], wide), s.combine)


def _remaining(kernel: Kernel, rows: _Rows, first: Kernel) -> Kernel:
    """What is left of a kernel, which loads the sums that the `first` one adds up."""
    kept = {s.buffer.name: replace(s.buffer, role="in") for s in first.stores}
    return left(kernel, {name: kept[totals(name)] for name in rows.works}, rows.taken)


def _row(kernel: Kernel, v: Value) -> Node | None:
    """The axis of the rows that a sum is over: of a reduction or a scan that its operands need, else of what else reads them."""
    known = kernel.values
    for own in v.reduce_axes:
        for n in walk(v.body):
            if n.op == "ref" and n.arg in known and own in n.src and _reduces(kernel, n.arg):
                axis = known[n.arg].axes[n.src.index(own)]
                same = axis.arg.extent == own.arg.extent and axis not in v.reduce_axes
                if same and _direct(own, v.body) & _indexed(kernel, axis, known[n.arg].body):
                    return axis
    for own in v.reduce_axes:
        mine = _direct(own, v.body)
        for other in kernel.body:
            if isinstance(other, Value) and other is not v and isinstance(other.expr, (Reduce, Scan)):
                for a in other.axes:
                    if a.arg.extent == own.arg.extent and a not in (*v.axes, *v.reduce_axes) and mine & _indexed(kernel, a, other.body):
                        return a
    return None


def _over(kernel: Kernel, v: Value, row: Node) -> Node | None:
    """The reduce axis of a sum that runs over the rows of an axis."""
    found = _row(kernel, v)
    if found is None or found.arg.extent != row.arg.extent or row in v.reduce_axes:
        return None
    return next((a for a in v.reduce_axes if a.arg.extent == row.arg.extent and _direct(a, v.body)), None)


def _reads(kernel: Kernel, *roots: Node) -> set[str]:
    """The values that expressions need."""
    return {v.name for item in needed(kernel.body, roots) for v in values_of(item)}


def _reduces(kernel: Kernel, name: str) -> bool:
    """Whether a value is a reduction or a scan, or needs one."""
    v = kernel.values[name]
    needs = needed(kernel.body, (ref(name, v.axes, v.dtype),))
    return any(isinstance(x.expr, (Reduce, Scan)) for item in needs for x in values_of(item))


def _direct(axis: Node, *roots: Node) -> Rows:
    """The dimensions of buffers, but for the last ones, that an axis is the index of."""
    found = (load_parts(n) for n in walk(*roots) if n.op == "load")
    return frozenset((buffer, p) for buffer, at, _ in found for p, i in enumerate(at[:-1]) if i is axis)


def _indexed(kernel: Kernel, axis: Node, *roots: Node) -> Rows:
    """The same, and of what expressions read at the axis."""
    found = set(_direct(axis, *roots))
    for n in walk(*roots):
        if n.op == "ref" and axis in n.src and n.arg in kernel.values:
            v = kernel.values[n.arg]
            found |= _indexed(kernel, v.axes[n.src.index(axis)], v.body)
    return frozenset(found)


def _is_row(kernel: Kernel, s: Store, axis: Node, rows: Rows, made: set[str]) -> bool:
    """Whether a store's axis runs along rows: it reads them there, or a value that is made of each."""
    roots = store_roots(s)
    if rows & _indexed(kernel, axis, *roots):
        return True
    return any(n.op == "ref" and n.arg in made and axis in n.src for n in walk(*roots))


END = ".a"
"""Behind the names of the first phase's axes."""


@lru_cache(maxsize=64)
def _kernels(kernel: Kernel, named: tuple[Named, ...]) -> tuple[Kernel, ...]:
    """The kernels of the two phases; OptError where the sums are not over the same rows, or nobody else reads these."""
    names = tuple(name for name, _ in named)
    found = accumulated(kernel, names)
    if found is None:
        known = ", ".join(accumulable(kernel)) or f"{kernel.name} has none"
        raise OptError(
            f"accumulate of {', '.join(names)}: name a sum over rows that another reduction reads as well ({known}), or several over the same rows"
        )
    return renamed(found[0], END), found[1]


def _reorders(kernel: Kernel, named: tuple[Named, ...]) -> bool:
    return any(len(v.reduce_axes) > 1 and v.dtype.is_float for name, _ in named for v in (kernel.values[name],))


ACCUMULATE = RewriteRule(
    name="accumulate",
    kernels=_kernels,
    proposals=lambda kernel, taken: together(accumulable(kernel), taken),
    reorders=_reorders,
    processors="rows come one after the other, so threads would be idle",
    written="REWRITE(sum, rule=accumulate)",
    meaning="Add up a sum over rows in memory, row by row, by a phase that goes through the rows once: with what decides by how much "
    "each counts, and what is stored of it (`REASSOC` for sums of floats over more than the rows) ([below](#sums-over-rows)).",
)
