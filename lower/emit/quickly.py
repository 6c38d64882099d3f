"""Stores of what is computed for ordinary arguments first, and again where some were not.

An elementary function spends a good part of its instructions on what hardly ever comes: subnormal numbers, infinities,
results that overflow, angles of millions of turns. A step of a nest is computed as if none of these came, and notes in
which lanes that was right. One test of all of them follows. Where it fails, the step is computed once more, with
everything, and stored over the first results; so are the extremes of windows that it reads (`windows.py`). (Tests of
each function by itself would keep the chains of neighbouring copies from being interleaved.)"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext

from ...ir.node import Node, walk
from ...opts.nests import Nest
from ...program.builder import Builder
from ...program.program import Stmt, Val
from ..expr import NestEval
from ..lowering import Lowering
from ..storage import Array, Registers


def quickly(low: Lowering, n: Nest, ev: NestEval, store: Callable[[NestEval], None], whole: bool) -> None:
    """Run `store`, which computes and stores a step of a nest by a NestEval, for ordinary arguments; and again for any,
    where some were not ordinary. Once, for any, where a second time would read what the first one stored, or would store
    elsewhere (values decide where), or where threads of a group would part. `whole`: nothing is left out of what it stores."""
    b = low.b
    own = _reads_its_output(low, n)
    in_place = any(buffer.alias for buffer in low.ctx.kernel.outputs) or (own and not whole)
    decided = any(_supposes(x) for x in walk(*n.indices, *([] if n.mask is None else [n.mask])))
    hurried = [v for r in dict.fromkeys(n.refs) if isinstance(v := low.storage.values.get(r.arg), Registers) and v.again is not None]
    if low.sched.target.groups or ev.lane is None or n.fills or in_place or decided or not b.expand:
        with _anew(low, hurried):
            store(ev)
        return
    supposed: list[Val] = []
    b.ordinary = supposed
    stores: list[Stmt] = []
    with b.waiting(stores) if own else nullcontext():
        store(ev)
    b.ordinary = None
    supposed = [*supposed, *(c for v in hurried for c in v.supposed)]
    ordinary = _all(b, list(dict.fromkeys(supposed))) if supposed else None
    if ordinary is None or not own:
        b.append(stores)
    else:  # what is stored there is read by both
        with b.when(ordinary):
            b.append(stores)
    if ordinary is not None:
        with b.when(b.op("not", ordinary)), _anew(low, hurried):
            store(NestEval(low, n))


def _supposes(node: Node) -> bool:
    """Whether a node of a store's mask or index may be computed for ordinary arguments only."""
    return node.op == "ref" or (node.dtype.is_float and node.op not in ("load", "const"))


@contextmanager
def _anew(low: Lowering, hurried: Sequence[Registers]) -> Iterator[None]:
    """Inside, values that were computed under suppositions are those that are computed without."""
    before = dict(low.storage.values)
    for value in hurried:
        assert value.again is not None
        value.again()
    yield
    low.storage.values = before


def _reads_its_output(low: Lowering, n: Nest) -> bool:
    """Whether a value that a store reads is kept where it stores (`in_place.in_output`)."""
    kept = (low.storage.values.get(r.arg) for r in n.refs)
    own = None if n.store is None else low.ctx.params.get(n.store.buffer.name)
    return any(isinstance(v, Array) and v.param and v.mem.base == own for v in kept)


def _all(b: Builder, conditions: Sequence[Val]) -> Val:
    """Whether conditions hold in every lane: a scalar."""
    widest = max(c.lanes for c in conditions)
    every = b.splat(conditions[0], widest)
    for c in conditions[1:]:
        every = b.op("and", every, b.splat(c, widest))
    while every.lanes > 2:
        half = every.lanes // 2
        every = b.op("and", *(b.shuffle(every, every, tuple(range(at, at + half))) for at in (0, half)))
    return b.op("and", b.extract(every, 0), b.extract(every, 1)) if every.lanes == 2 else every
