"""Parts of a kernel whose values are read at shifted places: what each value must be computed over, for a part of the outputs.

A blur of a blur is known in a row where the first blur is known in a few rows more. Stores run over the given spans of some families of axes;
from the last value to the first, each runs over the smallest span that holds all places at which it is read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

from ..body import Fold, Scan, Value
from ..kernel import Kernel
from ..node import Node, axes_of, walk
from .dense import DenseContext, Env, Span

INDICES = 1 << 16
"""Elements of an index, over the axes that it varies with, from which all places are taken to be read."""
Ranges = dict[str, Span]
"""Spans of families; all of an axis is run over where there is none."""


def families(kernel: Kernel, env: Env) -> list[tuple[str, int]]:
    """(family, extent) of the leading axes that all stores share, where parts of values give whole elements of outputs: in kernels without
    folds that write each element at its own place."""
    if any(isinstance(item, Fold) for item in kernel.body) or any(s.combine is not None for s in kernel.stores):
        return []
    out: list[tuple[str, int]] = []
    bound = [s.axes for s in kernel.stores]
    for p in range(min(map(len, bound))):
        family = bound[0][p].arg.family
        if any(a[p].arg.family != family or sum(x.arg.family == family for x in a) > 1 for a in bound):
            break
        out.append((family, env.extent(bound[0][p])))
    return out


def needed(kernel: Kernel, env: Env, ranges: Ranges) -> dict[str, Ranges]:
    """What each value (by name) must be computed over where stores run over `ranges`. Not for kernels with folds."""
    wanted: dict[str, list[Span]] = {}
    known: dict[tuple[Node, tuple[Span, ...]], Span] = {}

    def reads(roots: Sequence[Node], axes: Sequence[Node], mine: Ranges) -> None:
        spans = {a: mine.get(a.arg.family) or (0, env.extent(a)) for a in axes}
        for n in walk(*roots):
            if n.op == "ref":
                found = [_reach(env, i, a, spans, known) for i, a in zip(n.src, kernel.values[n.arg].axes, strict=True)]
                before = wanted.get(n.arg, found)
                wanted[n.arg] = [(min(a, c), max(b, d)) for (a, b), (c, d) in zip(before, found, strict=True)]

    for s in kernel.stores:
        reads([s.expr, *s.indices, *([] if s.mask is None else [s.mask])], s.axes, ranges)
    out: dict[str, Ranges] = {}
    for v in reversed(list(kernel.values.values())):
        mine = out[v.name] = _own(v, env, wanted.get(v.name, ()))
        reads([v.body], (*v.axes, *v.reduce_axes), mine)
    return out


def _own(v: Value, env: Env, wanted: Sequence[Span]) -> Ranges:
    """The spans of a value's families: what is read of it, but all of an axis that is reduced or scanned over."""
    whole = {a.arg.family for a in v.reduce_axes} | ({v.expr.axis.arg.family} if isinstance(v.expr, Scan) else set())
    out: Ranges = {}
    for a, span in zip(v.axes, wanted):
        before = out.get(a.arg.family, span)
        out[a.arg.family] = (min(before[0], span[0]), max(before[1], span[1]))
    some = {a.arg.family for a in v.axes if out.get(a.arg.family, (0, env.extent(a))) != (0, env.extent(a))}
    return {f: span for f, span in out.items() if f in some - whole}


def _reach(env: Env, i: Node, axis: Node, spans: Mapping[Node, Span], known: dict[tuple[Node, tuple[Span, ...]], Span]) -> Span:
    """The places along a value's `axis` at which an index is, with axes that run over `spans`."""
    dims = sorted(axes_of(i), key=lambda a: a.arg.name)
    key = i, tuple(spans[a] for a in dims)
    if key not in known:
        everywhere = 0, env.extent(axis)
        count = prod(hi - lo for lo, hi in key[1])
        if count > INDICES or any(n.op in ("load", "ref") for n in walk(i)):
            known[key] = everywhere
        elif count <= 0:
            known[key] = 0, 0
        else:
            at = DenseContext(env, dims, key[1]).array(i)
            known[key] = max(0, int(at.min())), min(everywhere[1], int(at.max()) + 1)
    return known[key]
