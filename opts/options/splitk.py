"""SPLITK: one reduction becomes two kernels, so that its reduce axis can be spread over the grid.

The first computes a partial result for each of n chunks into a workspace; the second reduces the workspace over the chunks
in order (so the result is deterministic) and does the rest of the kernel."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from math import prod

from ...ir import index as ix
from ...ir.body import Fold, Reduce, Store, Value
from ...ir.buffer import Buffer, load
from ...ir.errors import OptError
from ...ir.functions import where
from ...ir.kernel import Kernel
from ...ir.node import Node, axes_of, const, walk
from ...ir.node import axis as make_axis
from ...ir.operators import substitute
from ..analysis.guarded import guarded
from ..analysis.structure import extent
from ..defaults import added_phase, legal_prefix
from ..kernel_parts import loaded
from ..memory_limits import check_work
from ..neighbourhood import Neighbourhood
from ..nests import Nest, identity, plain
from ..opt import Opt, Opts, opt
from ..registry import OPTIONS, Doc, Golden, Option
from ..rewriting import Rewriting
from ..schedule import Scheduled
from .fuse import FUSE, siblings

CHUNKS = (2, 4, 8, 16, 64)
TOGETHER = (2, 4, 8)
"""Chunks that one work item may go through at once."""
LEAST = 64
"""Elements of a chunk that is worth a work item."""
WORK = "work"
"""What the workspace is called, unless the kernel calls something so."""
FEW = 32
"""Results for which one thread each is too little, on a GPU."""
_WARP, _MOST = 32, 256


@lru_cache(maxsize=64)
def split(kernel: Kernel, o: Opt, unit: int = 1, together: bool = False) -> tuple[Kernel, Kernel]:
    """(partial results, the rest) of `kernel` with the reduce axis `o.on` cut into `o.amount` chunks, or a few less: each is a multiple of
    `unit` elements. `together`: the reductions that may run in one loop with this one are split with it."""
    value = next((v for v in kernel.body if isinstance(v, Value) and any(o.on in (a.arg.name, a.arg.family) for a in v.reduce_axes)), None)
    if value is None or not isinstance(value.expr, Reduce):
        if any(isinstance(i, Fold) for i in kernel.body):
            raise OptError(f"{o}: a fold is not split yet; TILE it instead")
        names = sorted({a.arg.name for v in kernel.values.values() for a in v.reduce_axes})
        raise OptError(f"{o}: {o.on} is not a reduce axis of {kernel.name} (reduce axes: {', '.join(names) or 'none'})")
    axis = next(a for a in value.reduce_axes if o.on in (a.arg.name, a.arg.family))
    size = axis.arg.extent
    if not isinstance(size, int):
        raise OptError(f"{o}: {o.on} has a symbolic extent")
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
        raise OptError(f"SPLITK({axis.arg.name}): {value.name} needs another reduction first")
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
        raise OptError(f"SPLITK({axis.arg.name}): {value.name} uses an axis it does not bind")
    return v, store


def rewrite(r: Rewriting) -> Scheduled:
    """Two schedules: the options are for the first phase, but for those that belong to the outputs; the second has a fixed one."""
    o = r.only("only one reduction can be split")
    kept = next((x for x in r.opts if OPTIONS[x.op].outlives_call(x)), None)
    if kept is not None:
        raise OptError(f"{kept}: the workspace between the phases of {o} is made anew by each call; use one of them")
    first, second = split(r.kernel, o, _unit(r, o), any(x.op == FUSE.name and _alike(r.kernel, x.on, o.on) for x in r.others))
    value = first.body[0]
    assert isinstance(value, Value)
    chunks = opt("PARALLEL", value.axes[0].arg.name)
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


def _unit(r: Rewriting, o: Opt) -> int:
    """What chunks are multiples of on a GPU: four rounds of vectors of all the threads that share one, so that no load but the last
    chunk's is masked; fewer where that would be more than an eighth of a chunk."""
    axis = next((a for v in r.kernel.body if isinstance(v, Value) for a in v.reduce_axes if o.on in (a.arg.name, a.arg.family)), None)
    if r.target.kind != "gpu" or axis is None or not isinstance(axis.arg.extent, int):
        return 1
    amounts = {x.op: x.amount for x in r.others if x.on in (axis.arg.name, axis.arg.family) and x.op in ("GROUP", "UPCAST")}
    vector, threads = amounts.get("UPCAST", 1), amounts.get("GROUP", 1)
    chunk = -(-axis.arg.extent // o.amount)
    return next((n for n in (4 * threads * vector, threads * vector, vector) if 8 * n <= chunk), 1)


def propose(near: Neighbourhood) -> Iterator[Opts]:
    """Chunks of a long reduction; once it is split, several of them at once."""
    cut = next((o.on for o in near.schedule.opts if o.op == "SPLITK"), None)
    if cut is None:
        folded = {f.axis for f in near.kernel.body if isinstance(f, Fold)}
        single = dict.fromkeys(a for n in near.schedule.nests if n.kind == "reduce" for a in n.reduce_axes if a not in folded)
        yield from ((opt("SPLITK", a.arg.name, n),) for a in single for n in CHUNKS if extent(a) >= LEAST * n)
    elif ("UPCAST", f"{cut}.s") not in near.taken:
        yield from ((opt("UPCAST", f"{cut}.s", n),) for n in TOGETHER)


SPLITK = Option(
    name="SPLITK",
    letter="K",
    on="axis",
    kind="serial",
    legend="split the reduce",
    docs=(
        Doc(
            "SPLITK(axis, n)",
            "Compute a reduction in n chunks on the grid. A second phase adds them up in order (`REASSOC`). "
            "Options that follow are for the first phase, where the chunks are the axis `axis.s`.",
        ),
    ),
    golden={"splitk": Golden("sum_all", {"n": 256}, [["SPLITK", "n", 4], ["UPCAST", "n", 16]])},
    rewrite=rewrite,
    propose=propose,
)
