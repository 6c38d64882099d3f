"""One reduction becomes two kernels, or one scan three, so that the axis it runs along can be spread over the grid.

Of a reduction the first computes a partial result for each of n chunks into a workspace; the second reduces the workspace over the chunks
in order (so the result is deterministic) and does the rest of the kernel."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from math import prod

from ...ir import index as ix
from ...ir.body import COMBINE, Fold, Reduce, Scan, Store, TupleScan, Value, identity, in_steps, tuple_scan
from ...ir.buffer import Buffer, load, load_parts
from ...ir.dtypes import DType
from ...ir.errors import OptError
from ...ir.functions import where
from ...ir.kernel import Kernel
from ...ir.node import Node, axes_of, const, placeholder, ref, walk
from ...ir.node import axis as make_axis
from ...ir.operators import arith, substitute
from ..analysis.structure import extent, scanned_axes
from ..defaults import added_phase, legal_prefix
from ..memory_limits import check_work
from ..nests import Nest, plain
from ..opt import Opt, Opts, opt
from ..options.fuse import FUSE, siblings
from ..options.phase import concerns
from ..registry import OPTIONS, Rewriting
from ..schedule import Scheduled
from .kernel_parts import guarded, loaded, needed

# split scan -----------------------------------------------------------------------------------------------------------
#
# One scan becomes three kernels, so that the axis it runs along can be spread over the grid.
#
# The first combines the elements of each chunk, the second scans these results, and the third scans each chunk from
# what all before it come to (reduce-then-scan: G. E. Blelloch, "Prefix sums and their applications", 1990; D. Merrill
# and A. Grimshaw, "Parallel scan for stream architectures", 2009). The input is read twice, and nothing but one state
# a chunk is written in between.


@dataclass(frozen=True, slots=True)
class _ChunkedAxis:
    """A kernel whose axis `axis` is cut into chunks `part` of as many elements as `inner` has."""

    kernel: Kernel
    o: Opt
    axis: Node
    part: Node
    inner: Node

    @property
    def at(self) -> Node:
        """The place on the axis."""
        return ix.add(ix.mul(self.part, const(self.inner.arg.extent)), self.inner)

    @property
    def inside(self) -> Node | None:
        """The condition that a place is one of the axis; None where all are."""
        found = ix.compare("lt", self.at, const(self.axis.arg.extent))
        return None if found.op == "const" else found

    def axes(self, axes: tuple[Node, ...], *instead: Node) -> tuple[Node, ...]:
        """Axes with others for the one that is cut."""
        return tuple(x for a in axes for x in (instead if a is self.axis else (a,)))

    def placed(self, e: Node) -> Node:
        """An expression at the places of a chunk; what it loads past the end touches no memory. OptError where it reads a value
        elsewhere along the axis."""
        table: dict[Node, Node] = {self.axis: self.at}
        for n in walk(e):
            if n.op == "ref" and self.axis in self.kernel.values[n.arg].axes:
                theirs = self.kernel.values[n.arg].axes
                if any((i is self.axis) != (a is self.axis) for a, i in zip(theirs, n.src, strict=True)):
                    raise OptError(
                        f"{self.o}: {n.arg} is read at another place along {self.axis.arg.name}; give it a PHASE, or compute it again"
                    )
                src = (x for a, i in zip(theirs, n.src) for x in ((self.part, self.inner) if a is self.axis else (substitute(i, table),)))
                table[n] = ref(n.arg, tuple(src), n.dtype)
            elif n.op == "load" and self.inside is not None and self.axis in axes_of(n):
                buffer, indices, mask = load_parts(n)
                mask = self.inside if mask is None else substitute(mask, table) & self.inside
                table[n] = load(buffer, tuple(substitute(i, table) for i in indices), mask)
        return substitute(e, table)

    def item(self, x: Value | Fold) -> Value | Fold:
        """A value (or a fold that knows nothing of the axis) of the kernel in chunks."""
        if isinstance(x, Fold) or self.axis in x.reduce_axes:
            values = x.block if isinstance(x, Fold) else (x,)
            if any(self.axis in (*v.axes, *v.reduce_axes, *axes_of(v.body)) for v in values):
                raise OptError(f"{self.o}: {x.name} goes over {self.axis.arg.name} as well, and not as a scan")
            return x
        e = x.expr
        if isinstance(e, Node):
            new: Node | Reduce | Scan = self.placed(e)
        else:
            new = replace(e, expr=self.placed(e.expr))
        if isinstance(new, Scan) and new.axis is self.axis:
            new = replace(new, axis=self.inner)
        return replace(x, axes=self.axes(x.axes, self.part, self.inner), expr=new)

    def store(self, s: Store) -> Store:
        """A store of the kernel in chunks."""
        mask = None if s.mask is None else self.placed(s.mask)
        if self.inside is not None and self.axis in s.axes:
            mask = self.inside if mask is None else mask & self.inside
        indices = tuple(self.placed(i) for i in s.indices)
        return replace(s, indices=indices, expr=self.placed(s.expr), axes=self.axes(s.axes, self.part, self.inner), mask=mask)


@dataclass(frozen=True, slots=True)
class _State:
    """What a scan carries from chunk to chunk: one component, its type, and the neutral element."""

    scan: Value
    component: int
    dtype: DType
    neutral: Node

    def buffer(self, kind: str, cut: _ChunkedAxis) -> Buffer:
        """An array of one state for each chunk."""
        extents = (cut.part.arg.extent if a is cut.axis else a.arg.extent for a in self.scan.axes)
        return Buffer(f"{self.scan.name}.{kind}{self.component}", self.dtype, tuple(extents), "out")


def _states(v: Value) -> list[_State]:
    """What a scan carries; of tuples what its result needs where parts are put together."""
    assert isinstance(v.expr, Scan)
    if v.expr.combine != COMBINE:
        return [_State(v, 0, v.dtype, identity(v.expr.combine, v.dtype))]
    t = tuple_scan(v.expr.expr)
    return [_State(v, c, t.elements[c].dtype, t.identity[c]) for c in t.needed(True)]


@lru_cache(maxsize=64)
def in_chunks(kernel: Kernel, axis: Node, o: Opt) -> tuple[Kernel, Kernel, Kernel]:
    """(what each chunk comes to, what comes before each chunk, the scans of the chunks) of `kernel` with the scanned `axis` cut into
    `o.amount` chunks or a few less. OptError where that cannot be."""
    steps = next((v for v in kernel.values.values() if in_steps(v) and isinstance(v.expr, Scan) and v.expr.axis is axis), None)
    if steps is not None:
        raise OptError(f"{o}: {steps.name} goes along {axis.arg.name} step by step; no chunk of it is known before the one before is")
    if any(not isinstance(a.arg.extent, int) for v in kernel.values.values() for a in v.axes):
        raise OptError(f"{o}: {kernel.name} has symbolic extents; take a kernel of known sizes")
    size = axis.arg.extent
    if not 2 <= o.amount <= size:
        raise OptError(f"{o}: cut it into 2 to {size} chunks")
    chunk = -(-size // o.amount)
    count = -(-size // chunk)
    name = axis.arg.name

    part = make_axis(f"{name}.s", count, f"{name}.s")
    # others of its family, which stay whole, have another extent than a chunk
    family = axis.arg.family if len(kernel.families[axis.arg.family]) == 1 else f"{name}.c"
    cut = _ChunkedAxis(kernel, o, axis, part, make_axis(name, chunk, family))
    scans = [v for v in kernel.values.values() if isinstance(v.expr, Scan) and v.expr.axis is axis]
    states = [s for v in scans for s in _states(v)]
    check_work(o, 2 * sum(count * prod(a.arg.extent for a in s.scan.axes if a is not axis) * s.dtype.size for s in states))
    before: dict[str, list[_State]] = {s.scan.name: [] for s in states}
    for s in states:
        before[s.scan.name].append(s)
    return _totals(cut, states), _carries(cut, states), _chunks(cut, before)


def _totals(cut: _ChunkedAxis, states: list[_State]) -> Kernel:
    """What the elements of each chunk come to (of the last, which nobody needs, something)."""
    values: list[Value] = []
    stores: list[Store] = []
    for s in states:
        v, e = s.scan, s.scan.expr
        assert isinstance(e, Scan)
        other = next((n.arg for n in walk(*_needed_by(cut.kernel, v)) if n.op == "ref" and _scans(cut.kernel, n.arg, cut.axis)), None)
        if other is not None:
            raise OptError(f"{cut.o}: {v.name} needs the scan {other} along {cut.axis.arg.name} first; give that a PHASE")
        axes = cut.axes(v.axes, cut.part)
        body, made = cut.placed(e.expr), f"{v.name}.all{s.component}"
        mask = None
        if e.combine == COMBINE:
            t = tuple_scan(body)
            points_ = cut.axes(v.axes, cut.part, cut.inner)
            scan = Scan(COMBINE, cut.inner, TupleScan(t.elements, t.identity, t.merge, s.component).node, s.dtype)
            total, mask = Value(made, points_, scan, s.dtype), cut.inner.eq(const(cut.inner.arg.extent - 1))
        else:
            points_ = axes
            total = Value(made, axes, Reduce(e.combine, (cut.inner,), body, s.dtype), s.dtype)
        values.append(total)
        stores.append(Store(s.buffer("sums", cut), axes, total[points_], points_, mask=mask))
    # scans, and what stores their last elements, one behind the other: they run in one loop then
    values.sort(key=lambda v: isinstance(v.expr, Scan))
    stores.sort(key=lambda s: s.mask is None)
    body_ = (*(cut.item(x) for x in needed(cut.kernel.body, [v.body for v in values])), *values)
    buffers = (*loaded(cut.kernel.inputs, body_, stores), *(s.buffer for s in stores))
    return Kernel(f"{cut.kernel.name}_sums", body_, tuple(stores), buffers)


def _needed_by(kernel: Kernel, v: Value) -> list[Node]:
    """The body of a value, and of all that it needs."""
    return [v.body, *(x.body for item in needed(kernel.body, (v.body,)) for x in (item.block if isinstance(item, Fold) else (item,)))]


def _scans(kernel: Kernel, name: str, axis: Node) -> bool:
    e = kernel.values[name].expr
    return isinstance(e, Scan) and e.axis is axis


def _carries(cut: _ChunkedAxis, states: list[_State]) -> Kernel:
    """What comes before each chunk: a scan over the results of the chunks."""
    name = f"{cut.o.on}.carry"
    part = make_axis(name, cut.part.arg.extent, name)
    values: list[Value] = []
    stores: list[Store] = []
    inputs: list[Buffer] = []
    for s in states:
        e = s.scan.expr
        assert isinstance(e, Scan)
        mine = [x for x in states if x.scan is s.scan]
        axes, earlier = cut.axes(s.scan.axes, part), cut.axes(s.scan.axes, ix.add(part, const(-1)))
        first = ix.compare("lt", const(0), part)
        found = {}
        for x in mine:
            work = replace(x.buffer("sums", cut), role="in")
            inputs += [work] if x is s else []
            found[x.component] = where(first, load(work, earlier, first), x.neutral)
        if e.combine == COMBINE:
            t = tuple_scan(e.expr)
            elements = tuple(found.get(c, n) for c, n in enumerate(t.identity))
            scan = Scan(COMBINE, part, TupleScan(elements, t.identity, t.merge, s.component).node, s.dtype)
        else:
            scan = Scan(e.combine, part, found[0], s.dtype)
        v = Value(f"{s.scan.name}.carried{s.component}", axes, scan, s.dtype)
        values.append(v)
        stores.append(Store(s.buffer("before", cut), axes, v[axes], axes))
    return Kernel(f"{cut.kernel.name}_carry", tuple(values), tuple(stores), (*inputs, *(s.buffer for s in stores)))


def _chunks(cut: _ChunkedAxis, before: dict[str, list[_State]]) -> Kernel:
    """The kernel with each chunk scanned from what comes before it: the first element of a chunk is put to that."""
    body: list[Value | Fold] = []
    works: list[Buffer] = []
    start = cut.inner.eq(const(0))
    for item in cut.kernel.body:
        new = cut.item(item)
        if isinstance(new, Value) and isinstance(new.expr, Scan) and item.name in before:
            found = {}
            for s in before[item.name]:
                works.append(replace(s.buffer("before", cut), role="in"))
                found[s.component] = load(works[-1], cut.axes(s.scan.axes, cut.part))
            new = replace(new, expr=replace(new.expr, expr=_begun(new.expr, found, start)))
        body.append(new)
    stores = tuple(cut.store(s) for s in cut.kernel.stores)
    kept = [w for w in works if w in loaded(works, body, stores)]
    return Kernel(cut.kernel.name, tuple(body), stores, (*loaded(cut.kernel.inputs, body, stores), *kept, *cut.kernel.outputs))


def _begun(e: Scan, before: dict[int, Node], start: Node) -> Node:
    """The elements of a scan, of which the first is put to what comes before."""
    if e.combine != COMBINE:
        return where(start, arith(e.combine, before[0], e.expr), e.expr)
    t = tuple_scan(e.expr)
    given = {placeholder(f"a.#{c}", n.dtype): before.get(c, n) for c, n in enumerate(t.identity)}
    given |= {placeholder(f"b.#{c}", n.dtype): n for c, n in enumerate(t.elements)}
    merged = [substitute(m, given) for m in t.merge]
    needs = t.needed(False)
    elements = tuple(where(start, m, n) if c in needs else n for c, (m, n) in enumerate(zip(merged, t.elements, strict=True)))
    return TupleScan(elements, t.identity, t.merge, t.pick).node


def splittable(kernel: Kernel) -> tuple[Node, ...]:
    """The axes that are scanned along, of known extents."""
    steps = {v.expr.axis for v in kernel.values.values() if in_steps(v) and isinstance(v.expr, Scan)}
    return tuple(a for a in kernel.axes if a in scanned_axes(kernel) - steps and isinstance(a.arg.extent, int) and a.arg.extent > 1)


def rewrite_scan(r: Rewriting, axis: Node) -> Scheduled:
    """Three schedules. An option is for the sums of the chunks and for their scans, as far as they have what it names; what is scanned in
    between has a fixed one."""
    o = r.only("only one axis can be split so")
    sums, carry, chunks = in_chunks(r.kernel, axis, o)
    axes = frozenset(x for k in (sums, chunks) for a in k.axes for x in (a.arg.name, a.arg.family))
    lost = next((x for x in r.others if not concerns(x, chunks, axes)), None)
    if lost is not None:
        names = sorted({a.arg.name for a in chunks.axes} | {b.name for b in chunks.buffers})
        raise OptError(f"{lost}: no phase has what it names (there are: {', '.join(names)})")
    grid = opt("PARALLEL", f"{axis.arg.name}.s")
    a, c = (r.apply(k, (grid, *(x for x in r.others if concerns(x, k, axes))), r.target) for k in (sums, chunks))
    b = r.apply(carry, added_phase(carry, r.target, r.apply), r.target)
    exact = all(_exact(v) for v in r.kernel.values.values())
    return r.schedule((a, b, c), a.effects | c.effects | (frozenset() if exact else {"REASSOC"}))


def _exact(v: Value) -> bool:
    """Whether a value is the same in whichever order the elements of its scan are put together."""
    if not isinstance(v.expr, Scan) or v.expr.combine in ("max", "min"):
        return True
    if v.expr.combine == COMBINE:  # a result that is a whole number may depend on sums of floats
        return not any(e.dtype.is_float for e in tuple_scan(v.expr.expr).elements)
    return not v.dtype.is_float


# split reduction ------------------------------------------------------------------------------------------------------

WORK = "work"
"""What the workspace is called, unless the kernel calls something so."""
FEW = 32
"""Results for which one thread each is too little, on a GPU."""
_WARP, _MOST = 32, 256


@lru_cache(maxsize=64)
def split(kernel: Kernel, value: Value, axis: Node, o: Opt, unit: int = 1, together: bool = False) -> tuple[Kernel, Kernel]:
    """(partial results, the rest) of `kernel` with the axis that `value` reduces over cut into `o.amount` chunks, or a few less: each is a
    multiple of `unit` elements. `together`: the reductions that may run in one loop with this one are split with it."""
    assert isinstance(value.expr, Reduce)
    size = axis.arg.extent
    if not isinstance(size, int):
        raise OptError(f"{o}: {axis.arg.name} has a symbolic extent")
    if not 2 <= o.amount <= size:
        raise OptError(f"{o}: cut it into 2 to {size} chunks")
    chunk = -(-size // o.amount)
    chunk = -(-chunk // unit) * unit
    if any(not isinstance(a.arg.extent, int) for a in value.axes):
        raise OptError(f"{o}: {value.name} has a symbolic axis")
    values = _group(kernel, value, axis.arg.family) if together else (value,)
    check_work(o, prod((-(-size // chunk), *(a.arg.extent for a in value.axes))) * sum(v.dtype.size for v in values))
    name = axis.arg.name
    part = make_axis(f"{name}.s", -(-size // chunk), f"{name}.s")
    inner = make_axis(name, chunk, name)
    place = value.reduce_axes.index(axis)
    again = make_axis(f"{name}.sum", part.arg.extent, f"{name}.sum")
    # A name for the workspace that nothing else has.
    taken = {*(b.name for b in kernel.buffers), *kernel.values}
    workspace = next(n for n in (WORK, *(f"{WORK}.{i}" for i in range(len(taken)))) if n not in taken)
    partial, stores, totals, works = [], [], {}, []
    for v in values:
        assert isinstance(v.expr, Reduce)
        v1, store = _partial(kernel, v, v.reduce_axes[place], part, inner, workspace if v is value else f"{workspace}.{v.name}")
        work = replace(store.buffer, role="in")
        total = Reduce(v.expr.combine, (again,), load(work, (again, *v.axes)), v.dtype)
        partial.append(v1)
        stores.append(store)
        works.append(work)
        totals[v.name] = Value(v.name, v.axes, total, v.dtype)
    first = Kernel(
        f"{kernel.name}_part", tuple(partial), tuple(stores), (*loaded(kernel.inputs, partial, stores), *(s.buffer for s in stores))
    )
    body = tuple(totals.get(v.name, v) if isinstance(v, Value) else v for v in kernel.body)
    buffers = (*loaded(kernel.inputs, body, kernel.stores), *works, *kernel.outputs)
    return first, Kernel(kernel.name, body, kernel.stores, buffers)


def _group(kernel: Kernel, value: Value, family: str) -> tuple[Value, ...]:
    """The value with its siblings over a family, in the kernel's order."""
    names = {n.name for g in siblings(plain(kernel), family) if any(n.name == value.name for n in g) for n in g} | {value.name}
    return tuple(v for v in kernel.body if isinstance(v, Value) and v.name in names)


def _partial(kernel: Kernel, value: Value, axis: Node, part: Node, inner: Node, name: str) -> tuple[Value, Store]:
    """The partial results of a value, and their store to the workspace `name`."""
    assert isinstance(value.expr, Reduce)
    size, at = axis.arg.extent, ix.add(ix.mul(part, const(inner.arg.extent)), inner)
    expr = next(n for n in plain(kernel) if isinstance(n, Nest) and n.name == value.name).expr
    if any(n.op == "ref" for n in walk(expr)):
        raise OptError(f"SPLIT({axis.arg.name}): {value.name} needs another reduction first")
    inside = ix.compare("lt", at, const(size))
    if inside.op != "const":
        # the last chunk reaches past the extent: it touches no memory there, and adds nothing
        expr = substitute(guarded(expr, {axis}, inside), {axis: at})
        expr = where(inside, expr, identity(value.expr.combine, value.dtype))
    else:
        expr = substitute(expr, {axis: at})
    rest = tuple(inner if a is axis else a for a in value.expr.axes)
    shape = (part.arg.extent, *(a.arg.extent for a in value.axes))
    out = Buffer(name, value.dtype, shape, "out")
    v = Value(value.name, (part, *value.axes), Reduce(value.expr.combine, rest, expr, value.dtype), value.dtype)
    store = Store(out, (part, *value.axes), v[(part, *value.axes)], (part, *value.axes))
    if axes_of(expr) - {part, *value.axes, *rest}:
        raise OptError(f"SPLIT({axis.arg.name}): {value.name} uses an axis it does not bind")
    return v, store


def rewrite(r: Rewriting, value: Value, axis: Node) -> Scheduled:
    """Two schedules: the options are for the first phase, but for those that belong to the outputs; the second has a fixed one."""
    o = r.only("only one reduction can be split")
    joined = any(x.op == FUSE.name and _alike(r.kernel, x.on, str(axis.arg.name)) for x in r.others)
    first, second = split(r.kernel, value, axis, o, _unit(r, axis, o.amount), joined)
    chunks = opt("PARALLEL", first.stores[0].axes[0].arg.name)
    # the outputs belong to the second phase; the first one's workspace is read again at once
    names = {b.name for b in r.kernel.outputs}
    late = tuple(x for x in r.others if OPTIONS[x.op].late(x, names))
    a = r.apply(first, (chunks, *(x for x in r.others if x not in late)), r.target)
    b = r.apply(second, (*_second(r, second), *late), r.target)
    return r.schedule((a, b), a.effects | {"REASSOC"})


def _second(r: Rewriting, kernel: Kernel) -> Opts:
    """The fixed schedule of the phase that sums the chunks; on a GPU threads share the chunks of a few sums."""
    found = added_phase(kernel, r.target, r.apply)
    if r.target.kind == "gpu":
        total = next(v for v in kernel.body if isinstance(v, Value) and isinstance(v.expr, Reduce) and _from_work(v, r.kernel))
        chunks, few = extent(total.reduce_axes[0]), prod(extent(a) for a in total.axes) <= FEW
        if few and chunks >= 2 * _WARP:  # one thread would wait for one chunk after the other
            threads = min(_MOST, 1 << (chunks.bit_length() - 1))
            shared = (opt("GROUP", str(total.reduce_axes[0].arg.name), threads),)
            found = legal_prefix(shared, lambda o: r.apply(kernel, o, r.target)) or found
    return found


def _alike(kernel: Kernel, one: str, other: str) -> bool:
    """Whether two names are those of one family's sites, or of the family."""
    return any({one, other} <= {family, *(a.arg.name for a in sites)} for family, sites in kernel.families.items())


def _from_work(value: Value, kernel: Kernel) -> bool:
    return any(n.op == "load" and n.arg[0] not in kernel.buffers for n in walk(value.body))


def _unit(r: Rewriting, axis: Node, amount: int) -> int:
    """What chunks are multiples of on a GPU: four rounds of vectors of all the threads that share one, so that no load but the last
    chunk's is masked; fewer where that would be more than an eighth of a chunk."""
    if r.target.kind != "gpu" or not isinstance(axis.arg.extent, int):
        return 1
    amounts = {x.op: x.amount for x in r.others if x.on in (axis.arg.name, axis.arg.family) and x.op in ("GROUP", "UPCAST")}
    vector, threads = amounts.get("UPCAST", 1), amounts.get("GROUP", 1)
    chunk = -(-axis.arg.extent // amount)
    return next((n for n in (4 * threads * vector, threads * vector, vector) if 8 * n <= chunk), 1)
