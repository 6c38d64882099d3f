"""SPLITK: one reduction becomes two kernels, so that its reduce axis can be spread over the grid.

The first computes a partial result for each of n chunks into a workspace; the second reduces the workspace over the chunks
in order (so the result is deterministic) and does the rest of the kernel."""

from __future__ import annotations

from math import prod

from ..ir import index as ix
from ..ir.body import Fold, Reduce, Store, Value
from ..ir.buffer import Buffer, load, load_parts
from ..ir.errors import OptError
from ..ir.functions import where
from ..ir.kernel import Kernel
from ..ir.node import Node, axes_of, const, walk
from ..ir.node import axis as make_axis
from ..ir.operators import substitute
from .memory_limits import check_work
from .nests import build, identity
from .opt import Opt

WORK = "work"


def split(kernel: Kernel, o: Opt) -> tuple[Kernel, Kernel]:
    """(partial results, the rest) of `kernel` with the reduce axis `o.on` cut into `o.amount` chunks."""
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
    if any(not isinstance(a.arg.extent, int) for a in value.axes):
        raise OptError(f"{o}: {value.name} has a symbolic axis")
    check_work(o, prod((-(-size // chunk), *(a.arg.extent for a in value.axes))) * value.dtype.size)
    name = axis.arg.name
    part = make_axis(f"{name}.s", -(-size // chunk), f"{name}.s")
    inner = make_axis(name, chunk, name)
    at = ix.add(ix.mul(part, const(chunk)), inner)
    first = _partial(kernel, value, axis, part, inner, at, size)
    work = Buffer(WORK, value.dtype, tuple(b for b in first.outputs[0].shape))
    again = make_axis(f"{name}.sum", part.arg.extent, f"{name}.sum")
    total = Value(value.name, value.axes, Reduce(value.expr.combine, (again,), load(work, (again, *value.axes)), value.dtype), value.dtype)
    body = tuple(total if v is value else v for v in kernel.body)
    used = {b for e in _expressions(body, kernel.stores) for n in walk(e) if n.op == "load" for b in (n.arg[0],)}
    buffers = (*(b for b in kernel.inputs if b in used), work, *kernel.outputs)
    return first, Kernel(kernel.name, body, kernel.stores, buffers)


def _partial(kernel: Kernel, value: Value, axis: Node, part: Node, inner: Node, at: Node, size: int) -> Kernel:
    assert isinstance(value.expr, Reduce)
    nest = next(n for n in build(kernel, {}) if getattr(n, "name", "") == value.name)
    expr = nest.expr  # type: ignore[union-attr]
    if any(n.op == "ref" for n in walk(expr)):
        raise OptError(f"SPLITK({axis.arg.name}): {value.name} needs another reduction first")
    inside = ix.compare("lt", at, const(size))
    if inside.op != "const":
        # the last chunk reaches past the extent: it touches no memory there, and adds nothing
        guarded = {}
        for n in walk(expr):
            if n.op == "load" and axis in axes_of(n):
                buffer, indices, mask = load_parts(n)
                guarded[n] = load(buffer, indices, ix.compare("lt", at, const(size)) if mask is None else mask & inside)
        expr = substitute(substitute(expr, guarded), {axis: at})
        expr = where(inside, expr, identity(value.expr.combine, value.dtype))
    else:
        expr = substitute(expr, {axis: at})
    rest = tuple(inner if a is axis else a for a in value.expr.axes)
    shape = (part.arg.extent, *(a.arg.extent for a in value.axes))
    out = Buffer(WORK, value.dtype, shape, "out")
    v = Value(value.name, (part, *value.axes), Reduce(value.expr.combine, rest, expr, value.dtype), value.dtype)
    store = Store(out, (part, *value.axes), v[(part, *value.axes)], (part, *value.axes))
    used = {n.arg[0] for n in walk(expr) if n.op == "load"}
    if axes_of(expr) - {part, *value.axes, *rest}:
        raise OptError(f"SPLITK({axis.arg.name}): {value.name} uses an axis it does not bind")
    return Kernel(f"{kernel.name}_part", (v,), (store,), (*(b for b in kernel.inputs if b in used), out))


def _expressions(body: tuple[object, ...], stores: tuple[Store, ...]) -> list[Node]:
    out: list[Node] = []
    for item in body:
        if isinstance(item, Fold):
            out += [v.body for v in item.block]
        elif isinstance(item, Value):
            out.append(item.body)
    for s in stores:
        out += [s.expr, *s.indices, *([] if s.mask is None else [s.mask])]
    return out
