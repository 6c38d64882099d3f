"""Loop-invariant computation: parts of an expression that take long to compute and do not vary along all axes of its nest.

The builder's placement moves them out of the loops that lie inside those they vary with, and computes them there one at a time. In a
matrix product's register tile there are no such loops: the logarithm of an operand is computed once for each tile that reads it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import prod

from ...ir.buffer import load_parts
from ...ir.dtypes import float32, float64
from ...ir.kernel import Kernel
from ...ir.node import DEAR, Node, axes_of, walk
from ..nests import Nest, plain
from .structure import extent, strides_of


@dataclass(frozen=True, eq=False)
class Invariant:
    """An expression over `axes` (in the order in which what it reads lies in memory), of which each element is used `reuse` times."""

    expr: Node
    axes: tuple[Node, ...]
    reuse: int


def named(kernel: Kernel, name: str) -> list[Nest]:
    """The nests of a sum, scan or other reduction, or those of all stores to an output."""
    found = [n for n in plain(kernel) if isinstance(n, Nest)]
    return [n for n in found if n.kind in ("reduce", "scan") and n.name == name] or [
        n for n in found if n.kind == "store" and n.store is not None and n.store.buffer.name == name
    ]


@lru_cache(maxsize=256)
def invariants(nest: Nest) -> tuple[Invariant, ...]:
    """The largest such parts of what a nest computes, which read nothing but inputs. Each varies along the axes of something dear in
    it, and no others: of `sin(a[n]) * x[n, j]` that is the sine."""
    dear: dict[Node, bool] = {}
    tight: dict[Node, bool] = {}
    alone: dict[Node, bool] = {}
    for n in walk(nest.expr):
        mine = n.op in DEAR and n.dtype.is_float
        dear[n] = mine or any(dear[s] for s in n.src)
        tight[n] = mine or any(tight[s] and axes_of(s) == axes_of(n) for s in n.src)
        alone[n] = n.op != "ref" and all(alone[s] for s in n.src)
    out: dict[Node, Invariant] = {}
    seen, stack = set[Node](), [nest.expr]
    while stack:
        n = stack.pop()
        if n in seen or not dear[n] or n.op == "load":
            continue
        seen.add(n)
        reuse = _reuse(nest, n)
        if reuse > 1 and alone[n] and tight[n] and n.dtype in (float32, float64):
            out[n] = Invariant(n, _laid_out(nest, n), reuse)
        else:
            stack += reversed(n.src)
    return tuple(out.values())


def _reuse(nest: Nest, n: Node) -> int:
    """How many points of a nest use each element of `n`; 0 where it has but one, or varies with what is no axis of the nest."""
    own = axes_of(n)
    known = {a for a in nest.all_axes if extent(a) > 1}
    if not own & known or own - set(nest.all_axes):
        return 0
    return prod(extent(a) for a in known - own)


def _laid_out(nest: Nest, n: Node) -> tuple[Node, ...]:
    """The axes of `n`, the one along which most of what it reads is consecutive last."""
    read = [strides_of(b, i) for x in walk(n) if x.op == "load" for b, i, _ in (load_parts(x),)]
    own = [a for a in nest.all_axes if a in axes_of(n)]
    return tuple(sorted(own, key=lambda a: -max((s[a] or 0 for s in read if a in s), default=0)))
