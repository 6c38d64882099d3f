"""Components of pairs, pixels, points or small matrices that a kernel stores one by one become one store over axes of their own.

Whoever writes `y[i, 0] = a; y[i, 1] = b` means what `y[i, c] = where(c == 0, a, b)` says. As one store its components can be
woven into whole vectors, and both ways of writing are one kernel."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod

from . import index as ix
from .body import Store
from .buffer import Buffer
from .kernel import Kernel
from .node import Node, axis, const
from .operators import cast, where

MOST = 4
"""Components of a group whose stores are joined: as many as shuffles weave."""
MOST_WORDS = 16
"""The same of elements of four bytes or more: as many as are turned into rows."""


def joined_stores(kernel: Kernel) -> Kernel:
    """`kernel`, or one whose stores to the components 0, 1, … of groups of at most `MOST` or `MOST_WORDS` neighbours are joined: plain stores
    over the same axes, whose last indices differ by the component only, and which fill every group."""
    by_output: dict[Buffer, list[Store]] = {}
    for s in kernel.stores:
        by_output.setdefault(s.buffer, []).append(s)
    taken = {a.arg.name for a in kernel.axes}
    out = []
    for buffer, stores in by_output.items():
        many = len(stores)
        found = _in_order(stores) if 2 <= many <= (MOST if buffer.dtype.size < 4 else MOST_WORDS) else None
        if found is None:
            out += stores
            continue
        sizes = _block(buffer, stores) or (many,)
        names = [n for n in (f"part{k or ''}" for k in range(len(taken) + len(sizes))) if n not in taken]
        parts = [axis(name, size) for name, size in zip(names, sizes, strict=False)]
        taken |= {p.arg.name for p in parts}
        out.append(_joined(buffer, found, parts))
    return kernel if len(out) == len(kernel.stores) else replace(kernel, stores=tuple(out))


def _in_order(stores: Sequence[Store]) -> list[Store] | None:
    """The stores of one output by component, where they are the components of groups; else None."""
    first, many = stores[0], len(stores)
    if any(s.combine is not None or s.mask is not None or s.own is not None or s.axes != first.axes for s in stores):
        return None
    block = _block(first.buffer, stores)
    if block is not None:
        return sorted(stores, key=lambda s: _place(s, block))
    if any(s.indices[:-1] != first.indices[:-1] for s in stores):
        return None
    groups = [ix.parts(s.indices[-1]) for s in stores]
    terms, start = groups[0][0], min(c for _, c in groups)
    size = first.buffer.shape[-1]
    if sorted(c - start for _, c in groups) != list(range(many)) or any(t != terms for t, _ in groups):
        return None
    if start % many or any(k % many for k in terms.values()) or not isinstance(size, int) or size % many:
        return None
    if terms and min(map(abs, terms.values())) != many:
        return None
    return [s for _, s in sorted(zip((c for _, c in groups), stores, strict=True), key=lambda cs: cs[0])]


def _block(buffer: Buffer, stores: Sequence[Store]) -> tuple[int, ...] | None:
    """The last dimensions of an output, two or more, where each store writes one place of them, and all are written; else None."""
    for rank in range(2, len(buffer.shape) + 1):
        sizes = buffer.shape[-rank:]
        known = tuple(d for d in sizes if isinstance(d, int))
        if len(known) < rank or prod(known) > len(stores):
            return None
        if min(known) > 1 and prod(known) == len(stores):
            same = all(s.indices[:-rank] == stores[0].indices[:-rank] for s in stores)
            fixed = all(i.op == "const" for s in stores for i in s.indices[-rank:])
            return known if same and fixed and sorted(_place(s, known) for s in stores) == list(range(len(stores))) else None
    return None


def _place(store: Store, sizes: Sequence[int]) -> int:
    """Which component of its group a store writes."""
    place = 0
    for i, size in zip(store.indices[-len(sizes) :], sizes, strict=True):
        place = place * size + int(i.arg)
    return place


def _joined(buffer: Buffer, stores: Sequence[Store], parts: Sequence[Node]) -> Store:
    first = stores[0]
    chosen = _chosen([_widened(s.expr) for s in stores], parts)
    starts = [first.indices[-1]] if len(parts) == 1 else [const(0)] * len(parts)
    indices = (*first.indices[: -len(parts)], *(ix.add(at, part) for at, part in zip(starts, parts, strict=True)))
    return replace(first, expr=cast(chosen, buffer.dtype), indices=indices, axes=(*first.axes, *parts))


def _chosen(values: Sequence[Node], parts: Sequence[Node]) -> Node:
    """One of several values in order: the one at the place that some axes tell."""
    part, rest = parts[0], parts[1:]
    each = len(values) // part.arg.extent
    found = [_chosen(values[at : at + each], rest) if rest else values[at] for at in range(0, len(values), each)]
    chosen = found[-1]
    for k in range(len(found) - 2, -1, -1):
        chosen = where(part.eq(k), found[k], chosen)
    return chosen


def _widened(e: Node) -> Node:
    """What is rounded to the output's type only after one of the components was chosen."""
    return e.src[0] if e.op == "cast" and e.dtype.narrow and e.src[0].dtype is e.dtype.compute else e
