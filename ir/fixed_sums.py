"""Fixed sums: one order of additions for every sum of a kernel, which the kernel alone defines.

A sum of floats depends on the order of its additions, and schedules add in the order that is quickest. `fixed` gives each sum an order, as
part of the kernel: its key is another, and schedules that add in another order are illegal (`opts.addition_order`). The order follows
from what is summed and from how it lies in memory, never from the extent of an axis of the result: one row has the bits that it has
among many, so axes of one element are looked at before the normal form drops them.

* **Products** of two operands are added to one accumulator, in chains of 256: with lanes along the result, as every fast matrix product
  has them, there is nothing to combine at the end.
* **Rows**, which lie in memory along what is summed, have 64 partial results in float32 (32 in float64), element i in partial result i
  mod 64: four vectors of the widest processors, eight and sixteen of others. Halves are added, partial result j to j + 32, and so on.
* **Columns**, of which neighbours belong to different results, and sums of a fold's block are added to one accumulator.

The sums of chains are added up again, so that errors stay those of pairwise sums ([short chains](../docs/decisions/README.md))."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial

from .body import Fold, Reduce, SumOrder, Value
from .buffer import load_parts
from .errors import UsageError
from .kernel import Kernel
from .node import MASKED, Node, axes_of, walk
from .operators import substitute

ROW_BYTES = 256
"""Bytes of the partial results of a sum along rows."""
PRODUCTS = SumOrder(1, 256, 256)
COLUMNS = SumOrder(1, 32, 32)
BLOCK = SumOrder(1, 0, 0)
TILE = 64
"""Elements of a fold's tile."""

_DONE: weakref.WeakKeyDictionary[Kernel, Kernel] = weakref.WeakKeyDictionary()


def fixed(kernel: Kernel) -> Kernel:
    """The kernel with an order for each sum of floats; itself where each has one. Give it as it was written: the normal form drops axes."""
    if kernel.fixed and all(v.expr.order for v in kernel.values.values() if isinstance(v.expr, Reduce) and ordered(v.expr)):
        return kernel
    if kernel not in _DONE:
        added = [s.buffer.name for s in kernel.stores if s.combine in ("add", "mul") and s.buffer.dtype.is_float]
        if twice := sorted({name for name in added if added.count(name) > 1}):
            raise UsageError(
                f"{kernel.name}: several stores add to {twice[0]} in no order between them, which fixed numerics have no order for: give each an output of its own"
            )
        body = tuple(
            replace(item, block=tuple(_in_fold(kernel, item, v) for v in item.block))
            if isinstance(item, Fold)
            else _with_order(item, partial(_order, kernel))
            for item in kernel.body
        )
        _DONE[kernel] = replace(kernel, body=body, fixed=True)
    return _DONE[kernel]


def ordered(r: Reduce) -> bool:
    """Whether the order of a reduction's elements shows in its result."""
    return r.dtype.is_float and r.combine in ("add", "mul")


def _in_fold(kernel: Kernel, fold: Fold, v: Value) -> Value:
    """A value of a fold's block: a sum along what is folded has the elements of a tile."""
    along = isinstance(v.expr, Reduce) and ordered(v.expr) and any(a.arg.family == fold.axis.arg.family for a in v.reduce_axes)
    if along:
        assert isinstance(v.expr, Reduce)
        return replace(v, expr=replace(v.expr, order=BLOCK))
    return _with_order(v, partial(_order, kernel))


def _with_order(v: Value, order: Callable[[Reduce], SumOrder]) -> Value:
    if not isinstance(v.expr, Reduce) or not ordered(v.expr) or v.expr.order is not None:
        return v
    return replace(v, expr=replace(v.expr, order=order(v.expr)))


def _order(kernel: Kernel, r: Reduce) -> SumOrder:
    body = _expanded(kernel, r.expr)
    if r.combine == "add" and _multiplies(body, r.axes):
        return PRODUCTS
    last = r.axes[-1]
    reads = [at for at in _reads((body,)) if axes_of(*at) & set(r.axes)]
    if reads and all(last in axes_of(at[-1]) for at in reads):
        return SumOrder(ROW_BYTES // r.dtype.size, 64, 16)
    return COLUMNS


def _expanded(kernel: Kernel, expr: Node) -> Node:
    """An expression with pointwise values written out."""
    while True:
        inline = {n: kernel.values[n.arg] for n in walk(expr) if n.op == "ref" and isinstance(kernel.values[n.arg].expr, Node)}
        if not inline:
            return expr
        expr = substitute(expr, {n: substitute(v.body, dict(zip(v.axes, n.src, strict=True))) for n, v in inline.items()})


def _reads(roots: Iterable[Node]) -> Iterable[tuple[Node, ...]]:
    """The indices of everything that is read."""
    for n in walk(*roots):
        if n.op == "load":
            yield load_parts(n)[1]
        elif n.op in ("ref", MASKED) and n.src:
            yield n.src[:-1] if n.op == MASKED else n.src


def _multiplies(body: Node, over: tuple[Node, ...]) -> bool:
    """Whether a sum's element is a product of different things that vary along the sum."""
    while body.op in ("cast", "where"):
        body = body.src[0] if body.op == "cast" else body.src[1]
    todo, factors = [body], set[Node]()
    while todo:
        n = todo.pop()
        if n.op == "mul":
            todo += n.src
        elif n.op == "cast":
            todo.append(n.src[0])
        else:
            factors.add(n)
    return sum(1 for f in factors if any(axes_of(*at) & set(over) for at in _reads((f,)))) > 1
