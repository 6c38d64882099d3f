"""The axes of a kernel's loops, and indices followed back from them to what the kernel reads.

A dimension may be looped over in two parts. Group normalisation reads a group's statistics at channel // 8: its loops run over groups
and over the channels of a group, so that the statistics are a row's results like any other, and no index is divided. An index that is
None is not known, as of a padded read."""

from __future__ import annotations

from collections.abc import Callable

from ...ir import index as ix
from ...ir.node import Node, axes_of, const
from ...ir.operators import substitute
from ..graph.index_maps import Indices, Shape
from ..graph.nodes import Gathered, Loaded, TensorNode
from ..graph.symbolic_sizes import axis, extent, most
from .heads import is_contraction

Splits = tuple[int, ...]
"""For each dimension the extent of its inner part; 0: it stays whole."""


def splits_of(base: TensorNode, memory: Callable[[TensorNode], bool], fold: TensorNode | None = None) -> Splits:
    """The splits of a node's dimensions by which the reductions behind it are read at axes; () for none. `memory`: what has
    memory of its own. `fold`: the contraction that the kernel computes in tiles; others are read at any places."""
    own = split_axes("o", base.shape, ())
    found: dict[Node, set[int]] = {}
    stack, seen = [(base, own)], set[tuple[int, Indices]]()
    while stack:
        n, at = stack.pop()
        if (id(n), at) in seen or (n is not base and memory(n)):
            continue
        seen.add((id(n), at))
        if n.op in ("elementwise", "cast"):
            stack += [(s, at) for s in n.src]
        elif n.op == "view" and n.arg.mask is None:
            stack.append((n.src[0], n.arg(at)[0]))
        elif n.op == "reduce" and (n is fold or not is_contraction(n)):
            for a, inner in filter(None, map(_divided, at)):
                found.setdefault(a, set()).add(inner)
    once = {a: c for a, (c, *more) in found.items() if not more and isinstance(a.arg.extent, int) and a.arg.extent % c == 0}
    return tuple(once.get(a, 0) for a in own) if once else ()


def _divided(i: Node) -> tuple[Node, int] | None:
    """(a, c) where an index is ⌊a / c⌋, though other axes may be added below: ⌊(4096·a + b) / 32768⌋ with b < 4096 is ⌊a / 8⌋."""
    if i.op != "div":
        return None
    terms, c = ix.parts(i.src[0])
    for a, k in terms.items():
        lo, hi = ix.bounds(ix.linear({t: f for t, f in terms.items() if t is not a}, c))
        if a.op == "axis" and k > 0 and i.arg % k == 0 and lo >= 0 and hi < k:
            return a, i.arg // k
    return None


def split_axes(name: str, shape: Shape, splits: Splits) -> Indices:
    """Axes of a kernel for each dimension, or of its two parts; 0 where it has one element."""
    out = []
    for d, n in enumerate(shape):
        inner = splits[d] if splits else 0
        if inner:
            out.append(ix.add(ix.mul(axis(f"{name}{d}", n // inner), const(inner)), axis(f"{name}{d}_", inner)))
        else:
            out.append(axis(f"{name}{d}", n) if n != 1 else const(0))
    return tuple(out)


def loops_of(axes: Indices) -> list[Node]:
    """The axes in order, outer parts first."""
    return [a for i in axes for a in (sorted(axes_of(i), key=lambda a: -ix.parts(i)[0][a]) if i.op == "sum" else [i]) if a.op == "axis"]


ZERO = const(0)


def through(n: TensorNode, at: Indices | None) -> Indices | None:
    """The index of a view's source; None where the view pads, or reads memory in another shape."""
    if at is None or n.arg.lies:
        return None
    to, mask = n.arg(at)
    return to if mask is None else None


def spread(n: TensorNode, at: Indices | None) -> Indices | None:
    """The index of a reduction's source: the reduced dimensions get axes named by the node."""
    if at is None:
        return None
    rest = iter(at)
    return tuple((axis(f"k{id(n)}_{d}", e) if e != 1 else ZERO) if d in n.arg[1] else next(rest) for d, e in enumerate(n.src[0].shape))


def gathered(n: TensorNode, at: Indices | None) -> Indices | None:
    """The index of a gather's source: loaded places are no axes. A row's result is read at the row all the same."""
    if at is None:
        return None
    by: Gathered = n.arg
    table = {a: i for a, i in zip(by.axes, at) if a.op == "axis"}
    loaded = (ix.add(axis(f"g{id(n)}_{d}", max(2, most(e))), const(1)) for d, e in enumerate(n.src[0].shape))
    return tuple(place if isinstance(i, Loaded) else substitute(i, table) for i, place in zip(by.indices, loaded))


def units(at: Indices | None) -> Indices | None:
    """An index without unit dimensions."""
    return None if at is None else tuple(i for i in at if i is not ZERO)


def plain(at: Indices | None) -> bool:
    """Whether an index is axes and zeros only."""
    return at is not None and all(i.op == "axis" or i is ZERO for i in at)


def whole(at: Indices | None, shape: Shape) -> bool:
    """Whether an index runs over every element of `shape`: axes as long as its dimensions, and zeros."""
    return plain(at) and all(i.arg.extent == extent(n) if i.op == "axis" else n == 1 for i, n in zip(at or (), shape, strict=True))


def axes_in(at: Indices | None) -> frozenset[Node]:
    """The axes that are indices themselves."""
    return frozenset(i for i in at or () if i.op == "axis")
