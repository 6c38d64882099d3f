"""PRIVATE: a scatter into copies of its output, which are combined in a second phase.

Writes of a scatter can meet, so the axis they come along stays serial, and a write waits for the one before it where
both go to one place. With private copies of the output, chunks of that axis are work items, each with copies of its
own; and within a chunk, points that follow each other write to several copies in turn, so that equal indices need not
wait for each other (Nugteren et al. 2011, "High performance predictable histogramming on GPUs", do the same in shared
memory). The second kernel combines the copies in order, so the result is deterministic."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
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
from ..analysis.guarded import guarded
from ..analysis.scattered import Scatter, alike, privatisable
from ..analysis.structure import extent
from ..defaults import added_phase, fit
from ..kernel_parts import loaded
from ..meeting import kernel_ordered, own_dimensions, scatters
from ..memory_limits import check_work
from ..neighbourhood import Neighbourhood
from ..nests import Nest
from ..opt import Opt, Opts, opt
from ..registry import OPTIONS, Doc, Golden, Option, always
from ..rewriting import Rewriting
from ..schedule import Scheduled

COPIES = (2, 4, 8)
CHUNKS = (2, 4, 8, 16)
LEAST = 1024
"""Points of a chunk that is worth a work item."""
MOST = 1 << 22
"""Bytes of all copies together that are worth a try."""
_LINE, _PAGE, _TRIES = 64, 4096, 64


@lru_cache(maxsize=64)
def privatised(kernel: Kernel, mine: Opts) -> tuple[Kernel, Kernel]:
    """(the scatters into copies, the rest of `kernel`, which combines them), for one output or several. OptError where that cannot be
    done."""
    stores: list[Store] = []
    rest, serial = kernel, None
    for o in mine:
        found = privatisable(kernel, o.on)
        if found is None:
            raise OptError(
                f"{o}: PRIVATE takes an output that is scattered into with a combine, from inputs alone, whose sizes are known, by "
                "stores over the same points"
            )
        chunks, copies = int(o.fields["chunks"]), int(o.fields["copies"])
        if min(chunks, copies) < 1 or chunks * copies < 2:
            raise OptError(f"{o}: give it at least 2 chunks or copies")
        if o is not mine[0] and (o.arg != mine[0].arg or found.serial != serial or any(x.on == o.on for x in mine if x is not o)):
            raise OptError(
                f"{o}: copies of several outputs are made in one loop over the same points; write it as {mine[0]}, for each once"
            )
        serial = found.serial
        made = _scattered(o, found, chunks, copies)
        stores += made
        rest = _combined(rest, found, made[0].buffer)
    works = dict.fromkeys(s.buffer for s in stores)
    first = Kernel(f"{kernel.name}_copies", (), tuple(stores), (*loaded(kernel.inputs, (), stores), *works))
    return first, rest


def _scattered(o: Opt, scatter: Scatter, chunks: int, copies: int) -> list[Store]:
    """The scatter into copies, a buffer (chunks, copies, *shape) without a 1 in front."""
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
    dtype = _kept(scatter.store)
    shape = _padded(scatter, dtype)
    check_work(o, prod((*count, *shape)) * dtype.size)
    work = Buffer(f"{o.on}.copies", dtype, (*count, *shape), "out")
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


def _kept(store: Store) -> DType:
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


def rewrite(r: Rewriting) -> Scheduled:
    """Two schedules: the options are for the scatter, but for those that belong to the outputs; the second has a fixed one."""
    o = r.mine[0]
    kept = next((x for x in r.opts if OPTIONS[x.op].outlives_call(x)), None)
    if kept is not None:
        raise OptError(f"{kept}: the copies of {o} are made anew by each call; use one of them")
    first, second = privatised(r.kernel, r.mine)
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
    return (opt("PARALLEL", str(store.axes[0].arg.name)),) if int(o.fields["chunks"]) > 1 else ()


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


def propose(near: Neighbourhood) -> Iterator[Opts]:
    """Chunks and copies of each output that is scattered into."""
    if "PRIVATE" in near.ops or "OWN" in near.ops:
        return
    for names in alike(near.kernel):
        found = privatisable(near.kernel, names[0])
        assert found is not None
        yield from (tuple(opt("PRIVATE", n, **f) for n in names) for f in _worth(found, (1, *CHUNKS), (1, *COPIES)))


def _worth(scatter: Scatter, chunks: Sequence[int], copies: Sequence[int]) -> Iterator[dict[str, int]]:
    """The numbers of chunks and copies that leave enough points to a chunk, and need not too much memory."""
    points_ = extent(scatter.serial[0])
    size = prod(ix.upper(d) for d in scatter.store.buffer.shape) * _kept(scatter.store).size
    for c in chunks:
        for n in copies:
            if c * n > 1 and c * n * size <= MOST and c * LEAST <= points_:
                yield {"chunks": c, "copies": n}


PRIVATE = Option(
    name="PRIVATE",
    letter="V",
    on="tensor",
    arg={"chunks": int, "copies": int},
    defaults={"chunks": 1, "copies": 1},
    short=(("", "chunks"), ("x", "copies")),
    choices={"chunks": (1, *CHUNKS), "copies": (1, *COPIES)},
    kind="grid",
    stored=always,
    legend="copies of a scatter's output",
    docs=(
        Doc(
            "PRIVATE(output, chunks=n, copies=c)",
            "Scatter into private copies of the output, which a second phase combines in order (`REASSOC` for sums of floats) "
            "([below](#scatters-into-copies)).",
        ),
    ),
    golden={
        "private": Golden(
            "embedding_grad", {"v": 6, "n": 64, "d": 16}, [["PRIVATE", "dtable", {"chunks": 2, "copies": 2}], ["UPCAST", "d", 16]]
        )
    },
    rewrite=rewrite,
    propose=propose,
)
