"""Seeds with phases (`PHASE`) for values that are in the way of others.

A function of what a reduction found is computed again in each row: of a column's sum, whose root scales all the elements below it. And a
sum down the columns of a matrix keeps the sums along its rows, where both have one axis, from having lanes along the rows."""

from __future__ import annotations

from collections.abc import Iterator

from ...ir.body import Fold, Value
from ...ir.dtypes import bool_, index
from ...ir.kernel import Kernel
from ...ir.node import Node, walk
from ...ir.op_names import DEAR
from ...opts.analysis.structure import contiguous, extent, nests
from ...opts.opt import Opts, opt
from .legal import Trials

AGAIN = 4
"""Rows that compute a function again, from which on it is kept."""


def kept(trials: Trials) -> Iterator[Opts]:
    """Options that keep every such function, and what it reads where others read that as well; those and sums across others.
    None where there is nothing."""
    if trials.target.kind == "gpu" or trials.target.groups or any(isinstance(item, Fold) for item in trials.kernel.body):
        return
    functions, turned = again(trials.kernel), across(trials.kernel)
    functions |= _also(trials.kernel, functions)
    for names in dict.fromkeys(map(frozenset, (functions, functions | turned))):
        of_all = tuple(opt("PHASE", v.name, apart=1) for v in trials.kernel.body if v.name in names)
        if of_all and trials.is_legal(of_all):
            yield of_all


def across(kernel: Kernel) -> set[str]:
    """The reductions whose lanes are along an axis of their results that is no lane of another nest over it."""
    found = [n for n in nests(kernel) if n.kind in ("reduce", "store")]
    lanes = {n: next(iter(contiguous(kernel, n)), None) for n in found}
    out = set[str]()
    for n in found:
        lane = lanes[n]
        if n.kind == "reduce" and lane is not None and lane in n.axes and n.name in kernel.values:
            others = [lanes[m] for m in found if m is not n and lane in m.axes]
            if any(other is not None and other is not lane and extent(other) >= AGAIN for other in others):
                out.add(n.name)
    return out


def again(kernel: Kernel) -> set[str]:
    """The pointwise values that hold something dear, read reductions, and are computed again in each row of a nest."""
    points = {v.name: v for v in kernel.values.values() if isinstance(v.expr, Node) and v.dtype not in (index, bool_)}
    dear = {name for name, v in points.items() if _dear(v)}
    return {r for n in nests(kernel) if n.all_axes and extent(n.all_axes[0]) >= AGAIN for r in _apart(kernel, n.all_axes[0], n.name) & dear}


def _dear(v: Value) -> bool:
    found = list(walk(v.body))
    return any(n.op in DEAR and n.dtype.is_float for n in found) and any(n.op == "ref" for n in found)


def _apart(kernel: Kernel, rows: Node, name: str) -> set[str]:
    """The values that a nest reads, whatever its row is."""
    roots = [v.body for v in kernel.values.values() if v.name == name and not isinstance(v.body, tuple)]
    roots += [s.expr for s in kernel.stores if s.buffer.name == name]
    return {n.arg for n in walk(*roots) if n.op == "ref" and n.src and rows not in walk(*n.src)}


def _also(kernel: Kernel, names: set[str]) -> set[str]:
    """What the values `names` read that something else reads as well."""
    mine = {n.arg for name in names for n in walk(kernel.values[name].body) if n.op == "ref"}
    others = [v.body for v in kernel.values.values() if v.name not in names and not isinstance(v.body, tuple)]
    others += [r for s in kernel.stores for r in (s.expr, *s.indices, *(() if s.mask is None else (s.mask,)))]
    return mine & {n.arg for n in walk(*others) if n.op == "ref"}
