"""One reduction becomes two kernels, so that its reduce axis can be spread over the grid.

The first computes a partial result for each of n chunks into a workspace; the second reduces the workspace over the chunks
in order (so the result is deterministic) and does the rest of the kernel."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from math import prod

from ...ir import index as ix
from ...ir.body import Reduce, Store, Value, identity
from ...ir.buffer import Buffer, load
from ...ir.errors import OptError
from ...ir.functions import where
from ...ir.kernel import Kernel
from ...ir.node import Node, axes_of, const, walk
from ...ir.node import axis as make_axis
from ...ir.operators import substitute
from ..analysis.structure import extent
from ..defaults import added_phase, legal_prefix
from ..memory_limits import check_work
from ..nests import Nest, plain
from ..opt import Opt, Opts, opt
from ..options.fuse import FUSE, siblings
from ..registry import OPTIONS, Rewriting
from ..schedule import Scheduled
from .kernel_parts import guarded, loaded

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
    workspace = _work(kernel)
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


def _work(kernel: Kernel) -> str:
    """A name for the workspace that nothing else has."""
    taken = {*(b.name for b in kernel.buffers), *kernel.values}
    return next(n for n in (WORK, *(f"{WORK}.{i}" for i in range(len(taken)))) if n not in taken)


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
