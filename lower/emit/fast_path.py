"""Stores with a fast path for ordinary arguments.

An elementary function spends many instructions on rare arguments: subnormal numbers, infinities, results that overflow, angles of
millions of turns. A step of a nest is computed as if none of these came, and notes in which lanes that was right. One test of all
notes follows. Where it fails, the step is computed again for any argument and stored over the first results. The extremes of windows
that it reads are computed again as well (`reduce.WindowExtremes`). (A test for each function would keep the chains of neighbouring
copies from being interleaved.)"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import TypeVar

from ...ir.node import Node, walk
from ...opts.nests import Nest
from ...program.builder import Builder
from ...program.program import Stmt, Val
from ..expr import NestEval
from ..lowering import Lowering
from ..storage import Array, Registers

T = TypeVar("T")


def with_fast_path(low: Lowering, n: Nest, ev: NestEval, store: Callable[[NestEval], None], whole: bool) -> None:
    """Run `store`, which computes and stores a step of a nest by a NestEval, for ordinary arguments; and again for any,
    where some were not ordinary. Once, for any, where a second time would read what the first one stored, or would store
    elsewhere (values decide where), or where threads of a group would part. `whole`: nothing is left out of what it stores."""
    b = low.b
    own, speculated = _reads_its_output(low, n), _speculated(low, [n])
    if not _may_repeat(low, n, ev) or (own and not whole):
        with _exact(low, speculated):
            store(ev)
        return
    stores: list[Stmt] = []
    with b.waiting(stores) if own else nullcontext():
        _, ordinary = _for_ordinary(low, speculated, lambda: store(ev))
    # what is stored where both read it waits for the answer
    with b.when(ordinary) if own and ordinary is not None else nullcontext():
        b.append(stores)
    if ordinary is not None:
        with b.when(b.op("not", ordinary)), _exact(low, speculated):
            store(NestEval(low, n))


def step_with_fast_path(low: Lowering, stores: Sequence[Nest], step: Callable[[], list[Val]]) -> list[Val]:
    """What `step` yields, which computes and stores one of some reductions and of the stores in their loop: for ordinary arguments, and
    again for any where some were not."""
    b, speculated = low.b, _speculated(low, stores)
    if any(_reads_its_output(low, n) or not _may_repeat(low, n, NestEval(low, n)) for n in stores):
        with _exact(low, speculated):
            return step()
    found, ordinary = _for_ordinary(low, speculated, step)
    if ordinary is None:
        return found
    with b.branch(b.op("not", ordinary), found, rare=True) as loop, _exact(low, speculated):
        loop.yields = step()
    return loop.results


def _for_ordinary(low: Lowering, speculated: Sequence[Registers], run: Callable[[], T]) -> tuple[T, Val | None]:
    """What `run` gives for ordinary arguments, and whether all were; None where nothing was supposed."""
    supposed: list[Val] = []
    low.b.ordinary = supposed
    found = run()
    low.b.ordinary = None
    supposed = [*supposed, *(c for v in speculated for c in v.supposed)]
    return found, all_lanes(low.b, list(dict.fromkeys(supposed))) if supposed else None


def _speculated(low: Lowering, nests: Sequence[Nest]) -> list[Registers]:
    """The values that some nests read which were computed under suppositions."""
    refs = dict.fromkeys(r for n in nests for r in n.refs)
    return [v for r in refs if isinstance(v := low.storage.values.get(r.arg), Registers) and v.again is not None]


def _may_repeat(low: Lowering, n: Nest, ev: NestEval) -> bool:
    """Whether what a nest stores may be stored again: at the same places, with nothing changed that it reads."""
    in_place = any(buffer.alias for buffer in low.ctx.kernel.outputs)
    decided = any(_supposes(x) for x in walk(*n.indices, *([] if n.mask is None else [n.mask])))
    return not (low.sched.target.groups or ev.lane is None or n.fills or in_place or decided or not low.b.expand)


def _supposes(node: Node) -> bool:
    """Whether a node of a store's mask or index may be computed for ordinary arguments only."""
    return node.op == "ref" or (node.dtype.is_float and node.op not in ("load", "const"))


@contextmanager
def _exact(low: Lowering, speculated: Sequence[Registers]) -> Iterator[None]:
    """Inside, values that were computed under suppositions are those that are computed without."""
    before = dict(low.storage.values)
    for value in speculated:
        assert value.again is not None
        value.again()
    yield
    low.storage.values = before


def _reads_its_output(low: Lowering, n: Nest) -> bool:
    """Whether a value that a store reads is kept where it stores (`in_place.in_output`)."""
    kept = (low.storage.values.get(r.arg) for r in n.refs)
    own = None if n.store is None else low.ctx.params.get(n.store.buffer.name)
    return any(isinstance(v, Array) and v.param and v.mem.base == own for v in kept)


def all_lanes(b: Builder, conditions: Sequence[Val]) -> Val:
    """Whether conditions hold in every lane: a scalar."""
    widest = max(c.lanes for c in conditions)
    every = b.splat(conditions[0], widest)
    for c in conditions[1:]:
        every = b.op("and", every, b.splat(c, widest))
    return b.every(every)
