"""Dimensions that a kernel's loops go through in two parts.

Group normalisation reads a group's statistics at channel // 8: its loops run over groups and over the channels of a group,
so that the statistics are a row's results like any other, and no index is divided."""

from __future__ import annotations

from collections.abc import Callable

from ...ir import index as ix
from ...ir.node import Node, axes_of, const
from ..graph.maps import Indices, Shape
from ..graph.node import TensorNode
from ..graph.symbols import axis
from .heads import is_contraction

Splits = tuple[int, ...]
"""For each dimension the extent of its inner part; 0: it stays whole."""


def splits_of(base: TensorNode, memory: Callable[[TensorNode], bool]) -> Splits:
    """The splits of a node's dimensions by which the reductions behind it are read at axes; () for none. `memory`: what has
    memory of its own."""
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
        elif n.op == "reduce" and not is_contraction(n):
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
