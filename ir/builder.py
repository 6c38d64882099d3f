"""`KernelBuilder`: kernels read top to bottom like their definition."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from . import builder_arguments as given
from . import index as ix
from . import node as N
from .body import (
    BITWISE,
    COMBINE,
    COMBINES,
    STEPS,
    Combine,
    Fold,
    Monoid,
    Reduce,
    Scan,
    Store,
    TupleScan,
    Value,
    identity,
    sides,
    values_of,
)
from .buffer import PATTERNS, Buffer, Extent, load, load_parts
from .checks.access_bounds import check_between, largest
from .checks.misuse import mask_of
from .checks.structure_checks import check_reads
from .checks.written_once import check_written_once
from .dtypes import DType, DTypeLike, bool_, index, int8, int16, int32, int64
from .errors import KernelError
from .functions import maximum, minimum
from .joined_stores import joined_stores
from .kernel import Kernel
from .literals import together
from .node import COMPARE, MASKED, Expr, Node, as_node, axes_of, const, pending, ref, walk
from .node import axis as make_axis
from .operators import cast, logical, rebuild, substitute, where
from .rewriter import Rewriter, in_place

_CALLED = {"sum": "add", "+": "add", "prod": "mul", "*": "mul", "maximum": "max", "minimum": "min", "any": "max", "all": "min"}
"""What combines are called elsewhere."""


def reduced(
    combine: str,
    name: str,
    axes: Sequence[Node],
    over: Node | Sequence[Node],
    expr: Node,
    dtype: DTypeLike | None,
    body: Sequence[Value | Fold],
) -> Value:
    """A reduction over `over`, accumulated in `dtype` (None: the type of `expr` that results have). `body`: the values before it.
    KernelError for an unknown combine, one that the type has not, and an axis that is both kept and reduced over."""
    what = f"value {given.name('a value', name)}"
    _known(combine, what)
    bound, folded = given.axes(what, axes), given.axes(f"the reduce axes of {name}", over)
    both = next((a for a in folded if a in bound), None)
    if both is not None:
        raise KernelError(
            f"{what} reduces over {both!r}, which is one of its own axes too; leave it out there, or make kb.axis('{both!r}@2', ...)"
        )
    how, each, to = _combined(combine, what, expr, dtype, body)
    found = Value(name, bound, Reduce(how, folded, each, each.dtype), each.dtype)
    return conditions(found) if to is bool_ else found


def scanned(
    combine: str, name: str, axes: Sequence[Node], along: Node, expr: Node, dtype: DTypeLike | None, body: Sequence[Value | Fold]
) -> Value:
    """An inclusive prefix along one of `axes`; the rest as of `reduced`."""
    what = f"scan {given.name('a scan', name)}"
    _known(combine, what)
    bound, axis = given.axes(what, axes), given.one_axis(what, along)
    how, each, to = _combined(combine, what, expr, dtype, body, scan=True)
    found = Value(name, bound, Scan(how, axis, each, each.dtype), each.dtype)
    return conditions(found) if to is bool_ else found


def placed(combine: str, name: str, axes: Sequence[Node], over: Node, expr: Node, body: Sequence[Value | Fold]) -> tuple[Value, Value]:
    """The extreme of `expr` along the axis `over`, as a value of its own, and the first place where it is (int32; the last of all where
    nothing equals the extreme, which is NaN). Conditions are 1 and 0. KernelError for several axes, and for none to find a place on."""
    what = f"value {given.name('a value', name)}"
    found = given.axes(f"the axis of {what}", over)
    if len(found) != 1:
        raise KernelError(
            f"{what} is a place along one axis, not {len(found)}; merge them: an axis k of m * n points, and k // n and k % n for both"
        )
    axis = found[0]
    size = as_node(axis.arg.extent)
    if ix.bounds(size)[1] < 1:
        raise KernelError(f"{what}: {axis!r} has no elements, so there is no place")
    if isinstance(axis.arg.extent, int) and axis.arg.extent > 1 << 31:
        raise KernelError(f"{what}: {axis!r} has more elements than int32 has places")
    each = given.expression(what, expr)
    each = cast(each, int32 if each.dtype is bool_ else each.dtype.compute)
    best = reduced(combine, f"{name}_{'largest' if combine == 'max' else 'smallest'}", axes, axis, each, None, body)
    again = make_axis(f"{axis.arg.family}@{name}", axis.arg.extent)
    hit = substitute(each, {axis: again}).eq(best[best.axes])
    return best, reduced("min", name, axes, again, where(hit, cast(again, int32), cast(ix.add(size, const(-1)), int32)), None, body)


def stored(combine: str, what: str, of: DType) -> str:
    """How the elements of an output of type `of` are combined, for the combine that was given. KernelError for one that it has not."""
    _known(combine, what)
    _bits(combine, what, of)
    return how_combined(combine, what) if of is bool_ else combine


def _known(combine: str, what: str) -> None:
    """Raise KernelError where nothing is called so."""
    if combine not in COMBINES:
        hint = _CALLED.get(combine)
        known = repr(hint) if hint else f"one of {', '.join(COMBINES)}"
        raise KernelError(f"{what}: unknown combine {combine!r}; use {known}")


def _bits(combine: str, what: str, *types: DType) -> None:
    """Raise KernelError where a bitwise combine meets floats, or has them for its result."""
    for t in types if combine in BITWISE else ():
        if t.is_float:
            raise KernelError(f"{what}: {combine!r} of {t}; cast it to an integer type")


def _combined(
    combine: str, what: str, expr: Node, dtype: DTypeLike | None, body: Sequence[Value | Fold], scan: bool = False
) -> tuple[str, Node, DType]:
    """How elements are combined, what of each (of conditions, bits), and the type of the result."""
    expr = given.expression(what, expr)
    to = _result(combine, expr.dtype, scan) if dtype is None else given.element_type(what, dtype)
    _bits(combine, what, expr.dtype, to)
    each = cast(expr, to)
    how, each = bits_of(combine, what, each, body) if to is bool_ else (combine, each)
    return how, each, to


def _result(combine: str, of: DType, scan: bool) -> DType:
    """The type of a reduction or a scan where none is given."""
    if combine in ("add", "mul"):
        return int32 if of is bool_ else of.acc
    return of.acc if scan else of.compute


def with_whole_values(kernel: Kernel) -> Kernel:
    """`kernel` without masked elements of values; `kernel` itself where there are none."""
    return _Clamped(kernel).run() if any(n.op == MASKED for n in walk(*kernel.expressions())) else kernel


class _Clamped(Rewriter):
    """where(mask, v[an index that is inside], 0) for each."""

    def node(self, n: Node) -> Node | None:
        if n.op != MASKED:
            return None
        *indices, mask = (self.go(s) for s in n.src)
        value = self.kernel.values[n.arg]
        extents = [a.arg.extent for a in value.axes]
        if 0 in extents:  # it has no element, and the mask holds nowhere
            return const(0, n.dtype)
        element = ref(n.arg, [_inside(i, size) for i, size in zip(indices, extents, strict=True)], value.dtype)
        return logical("and", mask, element) if n.dtype is bool_ else where(mask, element, 0)


def read_where(expr: Node, axis: Node, place: Node, mask: Node) -> Node:
    """`expr` with a place in an axis's stead; what is read there is read where a mask holds only."""
    memo: dict[Node, Node] = {axis: place}
    for n in pending(expr, memo.__contains__):
        src = tuple(memo[s] for s in n.src)
        found = rebuild(n, src) if src else n
        if axis in axes_of(n) and n.op == "load":
            buffer, indices, own = load_parts(found)
            found = load(buffer, indices, mask if own is None else own & mask)
        elif axis in axes_of(n) and n.op in ("ref", MASKED):
            at, kept = (found.src[:-1], found.src[-1] & mask) if n.op == MASKED else (found.src, mask)
            found = N.make(MASKED, n.dtype.compute, (*at, kept), n.arg)
        memo[n] = found if found.dtype is n.dtype else cast(found, n.dtype)
    return memo[expr]


def _inside(i: Node, size: Extent) -> Node:
    """An index, from 0 to the size less 1."""
    i, last = cast(i, index), ix.add(as_node(size), const(-1))
    if largest(ix.add(i, last, -1)) > 0:
        i = minimum(i, last)
    return i if largest(ix.mul(i, const(-1))) <= 0 else maximum(i, 0)


class KernelBuilder:
    """Collects buffers, values and stores; `build()` returns the checked Kernel.

    kb = KernelBuilder("matmul")
    i, j, l = kb.axis("m", m), kb.axis("n", n), kb.axis("k", k)
    a, b = kb.input("a", (m, k), float32), kb.input("b", (k, n), float32)
    c = kb.sum("acc", (i, j), l, a[i, l] * b[l, j])
    kb.store("c", float32, (m, n), (i, j), c[i, j])
    """

    def __init__(self, name: str) -> None:
        self.name = given.name("a kernel", name)
        self._buffers: list[Buffer] = []
        self._body: list[Value | Fold] = []
        self._stores: list[Store] = []
        self._aliases: dict[str, str] = {}
        self._between: dict[Node, tuple[Node, Node] | None] = {}
        """By axis, in the order of their making: where it starts and ends, if it does not go through all of its extent."""

    # declarations -------------------------------------------------------------------------------------------------
    def axis(self, name: str, extent: Extent | tuple[Expr, Expr]) -> Node:
        """An axis; `n@max` is the site `max` of family `n`: axes of one family go through the same dimension.

        (start, end): one that only reductions go along, from start to end − 1, integers that vary with other axes and may be read
        from memory: `kb.axis("k", (p[i], p[i + 1]))` are the entries of row i of a sparse matrix, where `p = kb.input("p", (rows + 1,),
        "int32", range=(0, entries), ascending=True)`. No start is below 0. The largest end is the extent, so an end that is read has a
        stated range. An end that is not past the start leaves nothing. Raises KernelError for an end that may be anything."""
        name = given.name("an axis", name)
        ends = given.between(f"axis {name}", extent) if isinstance(extent, tuple) else None
        size = given.extent(f"the extent of axis {name}", extent) if ends is None else given.largest_end(f"axis {name}", ends[1])
        found = N.axis(name, size)
        if self._between.setdefault(found, ends) != ends:
            raise KernelError(f"axis {name} has another start or end already; give this one another name, such as {name}@2")
        return found

    def input(
        self,
        name: str,
        shape: Sequence[Extent],
        dtype: DTypeLike,
        *,
        constant: bool = False,
        range: tuple[int, int] | tuple[float, float] | None = None,
        ascending: bool = False,
        regular: bool = False,
        pattern: str = "",
    ) -> Buffer:
        """An input parameter (row-major). `range`: the least and largest element it ever has, which test data keeps to. Calls
        check it for integers that are indices or say where masks and loops end. `ascending`: no element of a row is less than the one
        before, as of the places where the rows of a sparse matrix begin; calls check that too. KernelError for anything but
        integers of at least one dimension. `regular`: most rows that begin there are as long as those beside them (see
        `tilewright.sparse.regular`). `pattern`: how most integers, the columns of a sparse matrix, follow each other: "runs of 8" or
        "runs of 4" in a row, or "diagonals" from row to row (see `tilewright.sparse.pattern`). Both decide how fast code is, never
        what it computes."""
        of = given.element_type(given.name("an input", name), dtype)
        dims = given.shape(name, shape)
        if ascending and not (of.is_int and dims):
            raise KernelError(f"{name} is {of}{list(dims)}; integers of at least one dimension may be ascending")
        if regular and not ascending:
            raise KernelError(f"{name} is regular, and not ascending: regular rows begin in order")
        if pattern not in PATTERNS or (pattern and not (of.is_int and dims)):
            raise KernelError(f"{name} is {of}{list(dims)} in {pattern!r}; integers may be in {', '.join(filter(None, PATTERNS))}")
        limits = given.limits(name, of, range)
        buffer = Buffer(name, of, dims, "in", constant, limits, ascending=ascending, regular=regular, pattern=pattern)
        self._buffers.append(buffer)
        return buffer

    # values -------------------------------------------------------------------------------------------------------
    def value(self, name: str, axes: Sequence[Node], expr: Node) -> Value:
        """A pointwise value: inlined where it is used, unless staged."""
        expr = given.expression(f"value {name}", expr)
        return self._add(Value(given.name("a value", name), self._all_of(f"value {name}", axes), expr, expr.dtype))

    def reduce(
        self, combine: Combine, name: str, axes: Sequence[Node], over: Node | Sequence[Node], expr: Node, dtype: DTypeLike | None = None
    ) -> Value:
        """A reduction of `expr` over axes, accumulated in `dtype` (default: the accumulate type of the expression).

        Of conditions, "add" and "mul" are numbers (int32), and all others conditions: "max" and "or" say whether any holds, "min" and
        "and" whether all do, "xor" whether their number is odd. Of none, "min" and "and" are True and the others False."""
        bound, found = self._all_of(f"value {name}", axes), given.axes(f"the reduce axes of {name}", over)
        if between := {a: ends for a, ends in self._between.items() if a in found and ends is not None}:
            expr = given.expression(f"value {name}", expr)
            shapes = {v.name: tuple(x.arg.extent for x in v.axes) for item in self._body for v in values_of(item)}
            check_between(self.name, f"value {name}", (expr, *(e for ends in between.values() for e in ends)), between, shapes)
        for a, ends in reversed(between.items()):  # (where an axis ends may be read at the place on one made before)
            expr = self._inside(name, combine, a, *ends, expr)
        return self._add(reduced(combine, name, bound, found, expr, dtype, self._body))

    def sum(self, name: str, axes: Sequence[Node], over: Node | Sequence[Node], expr: Node, dtype: DTypeLike | None = None) -> Value:
        """Σ expr; of conditions, how many hold (int32)."""
        return self.reduce("add", name, axes, over, expr, dtype)

    def max(self, name: str, axes: Sequence[Node], over: Node | Sequence[Node], expr: Node) -> Value:
        """max expr; of conditions, whether any holds."""
        return self.reduce("max", name, axes, over, expr)

    def min(self, name: str, axes: Sequence[Node], over: Node | Sequence[Node], expr: Node) -> Value:
        """min expr; of conditions, whether all hold."""
        return self.reduce("min", name, axes, over, expr)

    def argmax(self, name: str, axes: Sequence[Node], over: Node, expr: Node) -> Value:
        """The first place along one axis where expr is largest (int32); the last place of all where any is NaN. The largest is a value of
        its own, `NAME_largest`. Raises KernelError for several axes and for one without elements."""
        self._all_of(f"value {name}", over)
        return [self._add(v) for v in placed("max", name, axes, over, expr, self._body)][1]

    def argmin(self, name: str, axes: Sequence[Node], over: Node, expr: Node) -> Value:
        """The first place along one axis where expr is smallest, as `argmax`; the smallest is `NAME_smallest`."""
        self._all_of(f"value {name}", over)
        return [self._add(v) for v in placed("min", name, axes, over, expr, self._body)][1]

    def scan(self, combine: Combine, name: str, axes: Sequence[Node], along: Node, expr: Node, dtype: DTypeLike | None = None) -> Value:
        """Inclusive prefix along one of `axes`. Conditions are combined as by `reduce`."""
        return self._add(scanned(combine, name, self._all_of(f"scan {name}", axes), along, expr, dtype, self._body))

    def associative_scan(
        self,
        names: Sequence[str],
        axes: Sequence[Node],
        along: Node,
        elements: Sequence[Node],
        identity: Sequence[float | int | bool],
        merge: Callable[[tuple[Node, ...], tuple[Node, ...]], Sequence[Node]],
    ) -> tuple[Value, ...]:
        """Inclusive prefixes, along one of `axes`, of tuples that an associative rule combines: a value for each component.

        `elements` is the tuple at each point, `identity` the one before the first, and `merge(before, after)` the rule, over the
        components of two neighbouring parts. A linear recurrence h[t] = a[t]·h[t−1] + b[t]:

            _, h = kb.associative_scan(("p", "h"), (i, t), t, (a[i, t], b[i, t]), (1.0, 0.0),
                                       lambda x, y: (x[0] * y[0], x[1] * y[0] + y[1]))

        Raises KernelError where the rule is not associative on some numbers, or the identity changes what follows it."""
        called = [given.name("a scan", n) for n in given.each("the names of a scan of tuples", names)]
        what = f"scan {', '.join(called)}"
        bound, axis = self._all_of(what, axes), given.one_axis(what, along)
        values = [given.expression(what, e) for e in given.each(f"the elements of {what}", elements)]
        identity = given.each(f"the identity of {what}", identity)
        if not len(called) == len(values) == len(identity):
            raise KernelError(f"{what}: {len(called)} names, {len(values)} elements, {len(identity)} identities; give as many of each")
        values = [cast(e, e.dtype.acc) for e in together(values)]
        before, after = sides(e.dtype for e in values)
        rule = [given.expression(f"the rule of {what}", m) for m in given.each(f"what the rule of {what} gives", merge(before, after))]
        if len(rule) != len(values):
            raise KernelError(f"{what}: the rule gives {len(rule)} components of {len(values)}")
        alien = next((n for n in N.walk(*rule) if n.op in ("load", "ref", MASKED, "axis", "sym")), None)
        if alien is not None:
            raise KernelError(f"{what}: the rule uses {alien!r}; it may use the components of both sides and numbers only")
        types = [e.dtype for e in values]
        parts = tuple(given.of_type(f"component {k} of the rule of {what}", m, t) for k, (m, t) in enumerate(zip(rule, types, strict=True)))
        start = tuple(N.const(x, t) for x, t in zip(identity, types, strict=True))
        scans = [TupleScan(tuple(values), start, parts, k) for k in range(len(values))]
        from .checks.associative import check_associative  # needs NumPy, which a kernel without such scans does not

        check_associative(what, scans[0])
        found = [Value(n, bound, Scan(COMBINE, axis, s.node, t), t) for n, s, t in zip(called, scans, types, strict=True)]
        self._body += found
        return tuple(found)

    def recurrence(
        self,
        names: Sequence[str],
        axes: Sequence[Node],
        along: Node,
        start: Sequence[Expr],
        step: Callable[..., Node | Sequence[Node]],
        dtype: DTypeLike | Sequence[DTypeLike] = "float32",
    ) -> tuple[Value, ...]:
        """What a state is after each step along one of `axes`, where nothing but a step follows from a step: a value for each part of the state.

        `start` is the state before the first step (numbers, or elements that do not depend on `along`), and `step(*state)` the state after the
        step at a point, of the state before and of whatever is known at the point. `dtype`: of all parts, or of each. A filter with feedback:

            y, _ = kb.recurrence(("y", "before"), (i, t), t, (0.0, 0.0), lambda y, z: (x[i, t] + a * y + b * z, y))

        The other axes are batches: they have lanes and threads. A step after another is slow where there are none; a linear recurrence is
        faster as an `associative_scan`. Raises KernelError where the step reads an array at a place that the state says."""
        called = [given.name("a recurrence", n) for n in given.each("the names of a recurrence", names)]
        what = f"recurrence {', '.join(called)}"
        bound, axis = self._all_of(what, axes), given.one_axis(what, along)
        kinds = list(dtype) if isinstance(dtype, (list, tuple)) else [dtype] * len(called)
        begin = given.each(f"the start of {what}", start)
        if not len(called) == len(kinds) == len(begin):
            raise KernelError(f"{what}: {len(called)} names, {len(begin)} starts, {len(kinds)} types; give as many of each")
        types = [given.element_type(what, k).compute for k in kinds]
        before, _ = sides(types)
        known = [N.const(x, t) if not isinstance(x, Node) or x.op == "const" else cast(x, t) for x, t in zip(begin, types, strict=True)]
        late = next((x for x in known if axis in N.axes_of(x)), None)
        if late is not None:
            raise KernelError(f"{what} begins with {late!r}, which depends on {axis!r}: the start is before all steps")
        first = axis.eq(0)
        old = [b if k.op == "const" else where(first, k, b) for b, k in zip(before, known, strict=True)]
        try:
            made = step(*old)
        except KernelError as e:
            if "cast one of them" not in str(e):
                raise
            raise KernelError(f"{e} (the state of {what} is {', '.join(dict.fromkeys(map(str, types)))}, as dtype= says)") from None
        new = [given.expression(f"the step of {what}", m) for m in (made if isinstance(made, (tuple, list)) else (made,))]
        if len(new) != len(types):
            raise KernelError(f"{what}: the step gives {len(new)} parts of a state of {len(types)}")
        new = [given.of_type(f"part {k} of the step of {what}", m, t) for k, (m, t) in enumerate(zip(new, types, strict=True))]
        inputs = _without_state(what, new)
        every = [*types, *(n.dtype for n in inputs)]
        _, after = sides(every)
        table = dict(zip(inputs, after[len(types) :], strict=True))
        merge = (*(substitute(m, table) for m in new), *after[len(types) :])
        elements = (*(N.const(0, t) for t in types), *inputs)
        identity = (*(k if k.op == "const" else N.const(0, k.dtype) for k in known), *(N.const(0, n.dtype) for n in inputs))
        scans = [TupleScan(elements, identity, merge, k) for k in range(len(types))]
        found = [Value(n, bound, Scan(STEPS, axis, s.node, t), t) for n, s, t in zip(called, scans, types, strict=True)]
        self._body += found
        return tuple(found)

    def fold(
        self,
        name: str,
        axis: Node,
        block: Sequence[Value],
        components: Sequence[Value],
        identity: Sequence[float | int],
        merge: Sequence[Node],
    ) -> tuple[Value, ...]:
        """A tuple reduction in block form (see `Fold`). Make block values with `block_value`/`block_reduce`, merge
        expressions over `lhs(v)` and `rhs(v)`; later values use the returned components."""
        self._all_of(f"fold {name}", axis)
        ids = tuple(N.const(x, c.dtype) for x, c in zip(identity, components, strict=True))
        self._body.append(Fold(name, axis, tuple(block), tuple(c.name for c in components), Monoid(ids, tuple(merge))))
        return tuple(components)

    @staticmethod
    def block_value(name: str, axes: Sequence[Node], expr: Node) -> Value:
        """A pointwise value inside a fold's block."""
        return Value(name, tuple(axes), expr, expr.dtype)

    @staticmethod
    def block_reduce(
        combine: Combine, name: str, axes: Sequence[Node], over: Node | Sequence[Node], expr: Node, dtype: DTypeLike | None = None
    ) -> Value:
        """A reduction inside a fold's block."""
        found = reduced(combine, name, axes, over, expr, dtype, ())
        if isinstance(found, Conditions):
            raise KernelError(f"value {name}: a fold's block has no conditions; reduce cast(condition, int32)")
        return found

    @staticmethod
    def lhs(v: Value) -> Node:
        """The left state of a component in a merge expression."""
        return N.placeholder(f"a.{v.name}", v.dtype)

    @staticmethod
    def rhs(v: Value) -> Node:
        """The right state of a component in a merge expression."""
        return N.placeholder(f"b.{v.name}", v.dtype)

    # stores -------------------------------------------------------------------------------------------------------
    def store(
        self,
        name: str,
        dtype: DTypeLike,
        shape: Sequence[Extent],
        axes: Sequence[Node],
        expr: Expr,
        indices: Sequence[Expr] | None = None,
        combine: Combine | None = None,
        mask: Node | None = None,
    ) -> Buffer:
        """An output: `name[indices] = expr` (indices default to the axes), converted to `dtype`; only where `mask` holds.

        With `combine` elements that several points write are combined; without, each is written once. Several stores may
        write parts of one output that have no element in common (concatenation), or combine into one output in one way (the ends of
        edges): each names the whole shape."""
        what = f"the store to {given.name('an output', name)}"
        bound, of = self._all_of(what, axes), given.element_type(name, dtype)
        buffer = Buffer(name, of, given.shape(name, shape), "out")
        at = bound if indices is None else (indices,) if isinstance(indices, N.Node) else tuple(indices)
        ix = tuple(given.plain_index(f"index {d} of {what}", i) for d, i in enumerate(at))
        if mask is not None:
            mask_of(name, given.expression(f"the mask of {name}", mask))
        how = None if combine is None else stored(combine, what, of)
        earlier = next((b for b in self._buffers if b.name == name and b.role == "out"), None)
        if earlier is not None and earlier != buffer:
            raise KernelError(
                f"{what}: it is {earlier.dtype}{list(earlier.shape)} in an earlier store and {of}{list(buffer.shape)} in this one; "
                "stores to one output name its whole shape"
            )
        if earlier is None:
            self._buffers.append(buffer)
        self._stores.append(Store(earlier or buffer, ix, cast(given.expression(what, expr), of), bound, how, mask))
        return earlier or buffer

    def in_place(self, output: Buffer, source: Buffer) -> None:
        """Let `output` lie in the memory of the input `source`, as an optimiser's step does (`ir.rewriter`). Raises KernelError
        for an output that lies in another input already; `build` does where an element might be read after its place was written."""
        for what, b in (("output", output), ("input", source)):
            if not isinstance(b, Buffer):
                raise KernelError(f"in_place: the {what} is {b!r}; give what kb.store and kb.input returned")
        earlier = self._aliases.setdefault(output.name, source.name)
        if earlier != source.name:
            raise KernelError(f"{output.name} is to lie in {earlier} and in {source.name}; an output lies in one input")

    def build(self) -> Kernel:
        """The finished kernel; raises KernelError where it is malformed, where an index leaves its dimension, and where an
        element is written twice, with the points."""
        ordered = sorted(self._buffers, key=lambda b: b.role == "out")
        roots = [v.body for item in self._body for v in values_of(item)]
        roots += [e for s in self._stores for e in (s.expr, *s.indices, *(() if s.mask is None else (s.mask,)))]
        used = {n.arg for n in N.walk(*roots) if n.op in ("ref", MASKED)}
        # a component of a tuple scan that nobody reads is no value of its own
        body = tuple(v for v in self._body if isinstance(v, Fold) or v.name in used or v.body.op != "tuple")
        made = with_whole_values(Kernel(self.name, body, tuple(self._stores), tuple(ordered)))
        check_reads(made)
        check_written_once(made)
        return in_place(joined_stores(made), self._aliases)

    def _inside(self, name: str, combine: str, axis: Node, start: Node, end: Node, expr: Node) -> Node:
        """The element of a reduction along an axis that starts and ends somewhere: the axis counts from the start, nothing is read past
        the end, and the element is neutral there."""
        _known(combine, f"value {name}")
        place = ix.add(start, axis)
        there = place < end
        expr = read_where(expr, axis, place, there)
        neutral = const(combine in ("min", "and", "mul"), bool_) if expr.dtype is bool_ else identity(combine, expr.dtype)
        return where(there, expr, neutral)

    def _all_of(self, what: str, axes: Node | Sequence[Node]) -> tuple[Node, ...]:
        """The axes of what is no reduction. KernelError for one with a start and an end."""
        found = given.axes(what, axes)
        for a in found:
            if self._between.get(a) is not None:
                raise KernelError(f"{what} goes along {a!r}, which has a start and an end; only kb.sum, kb.max, kb.min and kb.reduce do")
        return found

    def _add(self, v: Value) -> Value:
        self._body.append(v.bits if isinstance(v, Conditions) else v)
        return v


def _without_state(what: str, roots: Sequence[Node]) -> list[Node]:
    """The largest expressions in the steps of a recurrence that do not depend on the state."""
    states = {n for n in walk(*roots) if n.op == "arg"}
    for n in walk(*roots):
        if any(s in states for s in n.src):
            if n.op in ("load", "ref", MASKED):
                raise KernelError(
                    f"{what}: the step reads {n!r} at a place that the state says; read all that a step may need, and choose with where()"
                )
            states.add(n)
    found: dict[Node, None] = {}
    for n in walk(*roots):
        if n in states:
            found.update((s, None) for s in n.src if s not in states and s.op != "const")
    found.update((r, None) for r in roots if r not in states and r.op != "const")
    return list(found)


# conditions -----------------------------------------------------------------------------------------------------------
# Reductions and scans of conditions: whether any, all, or an odd number of them hold.
#
# A kernel has integers for them, all of whose bits are set where a condition holds and none where it does not: what comparing vectors
# gives. These are combined bit by bit, and compared with 0 where they are read.


COMBINED = {"max": "or", "min": "and", **{c: c for c in BITWISE}}
"""How the bits of conditions are combined for what is asked of them."""


@dataclass(frozen=True, slots=True, eq=False)
class Conditions(Value):
    """A value of type bool that a kernel has as the integers `bits`, of the same name and over the same axes: not 0 where it holds."""

    bits: Value

    def __getitem__(self, indices: Expr | tuple[Expr, ...]) -> Node:
        return self.bits[indices].ne(0)

    def masked(self, mask: Node, *indices: Expr) -> Node:
        return self.bits.masked(mask, *indices).ne(0)


def conditions(bits: Value) -> Conditions:
    """The conditions that a value of integers says."""
    return Conditions(bits.name, bits.axes, bits[bits.axes].ne(0), bool_, bits)


def how_combined(combine: str, what: str) -> str:
    """How bits of conditions are combined. Raises KernelError for sums and products, which are numbers."""
    if combine not in COMBINED:
        raise KernelError(
            f"{what}: {combine!r} of conditions is a number: give it an integer type, or 'max' (whether any holds) or 'min' (whether all do)"
        )
    return COMBINED[combine]


def bits_of(combine: str, what: str, condition: Node, body: Sequence[Value | Fold]) -> tuple[str, Node]:
    """How to combine conditions, and the integers to combine, as wide as what is compared. `body`: the values that `condition` may use.
    Raises KernelError as `how_combined` does."""
    to = _integer(condition, {v.name: v for item in body for v in values_of(item)})
    return how_combined(combine, what), where(condition, const(-1, to), const(0, to))


def _integer(condition: Node, values: Mapping[str, Value]) -> DType:
    """The integer type as wide as the widest elements that are compared; int32 where only places are."""
    size, seen, waiting = 0, set[Node](), [condition]
    while waiting:
        n = waiting.pop()
        if n in seen:
            continue
        seen.add(n)
        if n.dtype is not bool_:  # a computed index is no element, and lanes have it in 32 bits where it fits
            size = max(size, n.dtype.size if n.dtype is not index or n.op in ("load", "ref") else 0)
        elif n.op == "load":
            size = max(size, bool_.size)
        elif n.op in ("ref", MASKED):
            waiting += [values[n.arg].body] if n.arg in values else []
        elif n.op in COMPARE or n.op in ("and", "or", "xor", "not", "where", "cast"):
            waiting += [s for s in n.src if s.op != "const"]
    return {1: int8, 2: int16, 8: int64}.get(size, int32)
