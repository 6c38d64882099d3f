"""A scatter into copies of its output, which are combined in a second phase.

Writes of a scatter can meet, so the axis they come along stays serial, and a write waits for the one before it where
both go to one place. With private copies of the output, chunks of that axis are work items, each with copies of its
own; and within a chunk, points that follow each other write to several copies in turn, so that equal indices need not
wait for each other (Nugteren et al. 2011, "High performance predictable histogramming on GPUs", do the same in shared
memory). The second kernel combines the copies in order, so the result is deterministic."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from math import prod
from typing import overload

from ...ir import index as ix
from ...ir.body import Reduce, Store, Value
from ...ir.buffer import Buffer, load
from ...ir.dtypes import DType
from ...ir.errors import OptError
from ...ir.kernel import Kernel
from ...ir.node import Node, axes_of, const
from ...ir.node import axis as make_axis
from ...ir.operators import cast, substitute
from ..analysis.write_order import kernel_ordered, meeting, own_dimensions, scatter_ordered, scatters
from ..defaults import added_phase, fit
from ..memory_limits import check_work
from ..nests import Nest, flat, plain
from ..opt import Opt, Opts, opt
from ..registry import OPTIONS, Rewriting
from ..schedule import Scheduled
from .kernel_parts import guarded, loaded


@dataclass(frozen=True)
class Scatter:
    """What is scattered into one output: the nests of its stores, and the axes along which its writes can meet, in the order they run."""

    nests: tuple[Nest, ...]
    serial: tuple[Node, ...]

    @property
    def store(self) -> Store:
        """The first of the stores."""
        return self.stores[0]

    @property
    def stores(self) -> tuple[Store, ...]:
        """All of them: with one combine, and over the same serial axes."""
        return tuple(n.store for n in self.nests if n.store is not None)


def privatisable(kernel: Kernel, name: str) -> Scatter | None:
    """The scatter into the output `name`, if nothing but pointwise values and inputs decides it; else None. Of several stores it is all, or
    those whose own writes can meet; the others then combine with the copies."""
    nests = tuple(n for n in flat(plain(kernel)) if n.kind == "store" and n.store is not None and n.store.buffer.name == name)
    stores = Scatter(nests, ()).stores
    if not stores or stores[0].combine is None or any(s.own is not None for s in stores):
        return None
    shape = stores[0].buffer.shape
    if not shape or not all(isinstance(d, int) and d > 0 for d in shape):
        return None
    return _scatter(nests) or _scatter(tuple(n for n in nests if n.store is not None and scatter_ordered(n.store)))


def _scatter(nests: tuple[Nest, ...]) -> Scatter | None:
    """What some nests scatter together, if they read inputs alone, and their writes meet along the same axes."""
    if not nests or any(n.op == "ref" for x in nests for n in x.nodes):
        return None
    stores = Scatter(nests, ()).stores
    ordered = meeting(stores)
    serial = {tuple(a for a in s.axes if a in ordered) for s in stores}
    axes = serial.pop()
    return Scatter(nests, axes) if axes and not serial else None


def alike(kernel: Kernel) -> list[tuple[str, ...]]:
    """The outputs that may have private copies, those over the same points together."""
    found: dict[tuple[Node, ...], list[str]] = {}
    for b in kernel.outputs:
        known = privatisable(kernel, b.name)
        if known is not None:
            found.setdefault(known.serial, []).append(b.name)
    return [tuple(names) for names in found.values()]


_LINE, _PAGE, _TRIES = 64, 4096, 64


@lru_cache(maxsize=64)
def privatised(kernel: Kernel, names: tuple[str, ...], o: Opt) -> tuple[Kernel, Kernel]:
    """(the scatters into copies, the rest of `kernel`, which combines them), for outputs that are scattered into over the same points.
    OptError where that cannot be done."""
    stores: list[Store] = []
    rest, serial = kernel, None
    if o.amount * int(o.fields["copies"]) < 2 or int(o.fields["copies"]) < 1:
        raise OptError(f"{o}: give it at least 2 chunks or copies")
    for name in names:
        found = privatisable(kernel, name)
        if found is None:
            raise OptError(
                f"{o}: copies are made of an output that is scattered into with a combine, from inputs alone, whose sizes are known, by "
                f"stores over the same points; {name} is none"
            )
        if serial not in (None, found.serial):
            raise OptError(f"{o}: copies of several outputs are made in one loop over the same points")
        serial = found.serial
        made = _scattered(o, name, found)
        stores += made
        rest = _combined(rest, found, made[0].buffer)
    works = dict.fromkeys(s.buffer for s in stores)
    first = Kernel(f"{kernel.name}_copies", (), tuple(stores), (*loaded(kernel.inputs, (), stores), *works))
    return first, rest


def _scattered(o: Opt, name: str, scatter: Scatter) -> list[Store]:
    """The scatter into copies of the output `name`, a buffer (chunks, copies, *shape) without a 1 in front."""
    chunks, copies = o.amount, int(o.fields["copies"])
    long, last = scatter.serial[0], scatter.serial[-1]
    table: dict[Node, Node] = {}
    inside: list[Node] = []
    lead: list[Node] = []
    if chunks > 1:
        size = long.arg.extent
        if not isinstance(size, int) or chunks > size:
            raise OptError(f"{o}: {long.arg.name} has {size} points; take at most as many chunks" if isinstance(size, int)
                           else f"{o}: {long.arg.name} has a symbolic extent; take copies alone")  # fmt: skip
        length = -(-size // chunks)
        length = -(-length // copies) * copies if long is last else length
        if length >= size:
            raise OptError(f"{o}: {size} points are too few for that; take fewer chunks or copies")
        part = make_axis(f"{long.arg.name}.s", -(-size // length), f"{long.arg.name}.s")
        inner = make_axis(long.arg.name, length, long.arg.name)
        at = ix.add(ix.mul(part, const(length)), inner)
        table[long] = at
        inside.append(ix.compare("lt", at, const(size)))
        lead.append(part)
        last = inner if last is long else last
    if copies > 1:
        lead.append(ix.mod(last, copies))
    count = (*((lead[0].arg.extent,) if chunks > 1 else ()), *((copies,) if copies > 1 else ()))
    dtype = copied_type(scatter.store)
    shape = _padded(scatter, dtype)
    check_work(o, prod((*count, *shape)) * dtype.size)
    work = Buffer(f"{name}.copies", dtype, (*count, *shape), "out")
    masks = [c for c in inside if c.op != "const"]
    return [_into(work, n, tuple(lead), table, masks) for n in scatter.nests]


def _into(work: Buffer, nest: Nest, lead: tuple[Node, ...], table: Mapping[Node, Node], masks: Sequence[Node]) -> Store:
    """A store of the scatter, into the copy at `lead`; `table`: what stands for an axis that is cut into chunks."""
    store = nest.store
    assert store is not None
    expr, mask = _placed(nest.expr, table, masks), _placed(nest.mask, table, masks)
    indices = tuple(_placed(i, table, masks) for i in nest.indices)
    for c in masks:
        mask = c if mask is None else mask & c
    cut = {a: next(x for x in axes_of(at) if x is not lead[0]) for a, at in table.items()}
    axes = (*lead[: len(table)], *(cut.get(a, a) for a in store.axes))
    return Store(work, (*lead, *indices), cast(_unrounded(expr, work.dtype), work.dtype), axes, store.combine, mask)


@overload
def _placed(e: Node, table: Mapping[Node, Node], masks: Sequence[Node]) -> Node: ...
@overload
def _placed(e: None, table: Mapping[Node, Node], masks: Sequence[Node]) -> None: ...
def _placed(e: Node | None, table: Mapping[Node, Node], masks: Sequence[Node]) -> Node | None:
    """An expression with the chunks' indices put in; what it loads past the last point touches no memory."""
    if e is None:
        return None
    return substitute(guarded(e, table.keys(), masks[0]) if masks else e, dict(table))


def copied_type(store: Store) -> DType:
    """The type of the copies: that of the output; where it rounds, the type that is computed with."""
    dtype = store.buffer.dtype
    return dtype.compute if dtype.is_float else dtype


def _unrounded(expr: Node, dtype: DType) -> Node:
    return expr.src[0] if expr.op == "cast" and expr.dtype.is_float and expr.src[0].dtype is dtype else expr


def _padded(scatter: Scatter, dtype: DType) -> tuple[int, ...]:
    """The shape of one copy: that of the output, with a few more rows where copies would share a line, or lie a multiple of a page
    apart, so that a read would seem to wait for the write before it."""
    shape = [ix.upper(d) for d in scatter.store.buffer.shape]
    by = next((d for s in scatter.stores for d, i in enumerate(s.indices) if i.op != "axis"), None)
    if by is None:
        return tuple(shape)
    row = prod(shape) // shape[by] * dtype.size
    more = next((n for n in range(_TRIES) if (shape[by] + n) * row % _LINE == 0 and (shape[by] + n) * row % _PAGE), 0)
    shape[by] += more
    return tuple(shape)


def _combined(kernel: Kernel, scatter: Scatter, work: Buffer) -> Kernel:
    """The kernel with the scatter's output read from its copies, which are combined in order."""
    store = scatter.store
    name, size = store.buffer.name, len(store.buffer.shape)
    count = work.shape[: len(work.shape) - size]
    over = tuple(make_axis(f"{name}.copy{d}", n, f"{name}.copy{d}") for d, n in enumerate(count))
    axes = tuple(make_axis(f"{name}.{d}", n, f"{name}.{d}") for d, n in enumerate(store.buffer.shape))
    assert store.combine is not None
    dtype, work = work.dtype.compute, replace(work, role="in")
    total = Value(f"{name}.sum", axes, Reduce(store.combine, over, cast(load(work, (*over, *axes)), dtype), dtype), dtype)
    alone = len(scatters(kernel, name)) == len(scatter.stores)
    again = Store(store.buffer, axes, cast(total[axes], store.buffer.dtype), axes, None if alone else store.combine)
    body = (*kernel.body, total)
    stores = tuple(again if s is store else s for s in kernel.stores if s is store or s not in scatter.stores)
    return Kernel(kernel.name, body, stores, (*loaded(kernel.inputs, body, stores), work, *kernel.outputs))


def rewrite(r: Rewriting, outputs: tuple[str, ...]) -> Scheduled:
    """Two schedules: the options are for the scatter, but for those that belong to the outputs; the second has a fixed one."""
    o = r.mine[0]
    if any(x.arg != o.arg for x in r.mine) or len(set(outputs)) < len(outputs):
        raise OptError(f"{r.mine[-1]}: copies of several outputs are made in one loop over the same points; write it as {o}, for each once")
    first, second = privatised(r.kernel, outputs, o)
    names = {b.name for b in r.kernel.outputs}
    late = tuple(x for x in r.others if OPTIONS[x.op].late(x, names))
    early = tuple(x for x in r.others if x not in late)
    mine = (
        *_grid(first.stores[0], o),
        *_copies(first, o, early),
        *(x for b in first.outputs for x in _cleared(r, scatters(first, b.name), early)),
    )
    a = r.apply(first, (*mine, *early), r.target)
    b = r.apply(second, (*added_phase(second, r.target, r.apply), *late), r.target)
    reorders = any(s.combine in ("add", "mul") and s.buffer.dtype.is_float for s in first.stores)
    return r.schedule((a, b), a.effects | ({"REASSOC"} if reorders else frozenset()))


def _grid(store: Store, o: Opt) -> Opts:
    return (opt("PARALLEL", str(store.axes[0].arg.name)),) if o.amount > 1 else ()


def _copies(first: Kernel, o: Opt, given: Opts) -> Opts:
    """One point for each copy at a time, unless the options say how many."""
    ordered, copies = kernel_ordered(first), int(o.fields["copies"])
    serial = [a for a in first.stores[0].axes if a in ordered]
    if not serial:  # a copy for each point
        return ()
    last = serial[-1].arg
    if copies == 1 or any(x.op == "UPCAST" and x.on in (last.name, last.family) for x in given):
        return ()
    return (opt("UPCAST", str(last.name), copies),)


def _cleared(r: Rewriting, stores: Sequence[Store], given: Opts) -> Opts:
    """Whole vectors of a copy cleared at once, where its rows are not those of the scatter."""
    store, d = stores[0], len(stores[0].indices) - 1
    size, lanes = ix.upper(store.buffer.shape[d]), r.target.lanes(store.buffer.dtype.compute)
    width = fit(size, 4 * lanes) if r.target.kind == "cpu" else 1
    name = f"{store.buffer.name}.{d}"
    if any(i is store.indices[d] and e == d for i, e in own_dimensions(stores)) or width < 2 or any(x.on == name for x in given):
        return ()
    return (opt("UPCAST", name, width),)
