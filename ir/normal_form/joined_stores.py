"""Components of pairs, pixels or points that a kernel stores one by one become one store over an axis of their own.

Whoever writes `y[i, 0] = a; y[i, 1] = b` means what `y[i, c] = where(c == 0, a, b)` says. As one store its components can be
woven into whole vectors, and both ways of writing are one kernel."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from .. import index as ix
from ..body import Store
from ..buffer import Buffer
from ..kernel import Kernel
from ..node import Node, axis
from ..operators import cast, where

MOST = 4
"""Components of a group whose stores are joined: as many as shuffles weave."""


def joined_stores(kernel: Kernel) -> Kernel:
    """`kernel`, or one whose stores to the components 0, 1, … of groups of at most `MOST` neighbours are joined: plain stores
    over the same axes, whose last indices differ by the component only, and which fill every group."""
    by_output: dict[Buffer, list[Store]] = {}
    for s in kernel.stores:
        by_output.setdefault(s.buffer, []).append(s)
    taken = {a.arg.name for a in kernel.axes}
    out = []
    for buffer, stores in by_output.items():
        found = _in_order(stores) if 2 <= len(stores) <= MOST else None
        if found is None:
            out += stores
            continue
        name = next(n for n in (f"part{k or ''}" for k in range(len(taken) + 1)) if n not in taken)
        taken.add(name)
        out.append(_joined(buffer, found, axis(name, len(found))))
    return kernel if len(out) == len(kernel.stores) else replace(kernel, stores=tuple(out))


def _in_order(stores: Sequence[Store]) -> list[Store] | None:
    """The stores of one output by component, where they are the components of groups; else None."""
    first, many = stores[0], len(stores)
    if any(s.combine is not None or s.mask is not None or s.own is not None or s.axes != first.axes for s in stores):
        return None
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


def _joined(buffer: Buffer, stores: Sequence[Store], part: Node) -> Store:
    first = stores[0]
    chosen = _widened(stores[-1].expr)
    for k in range(len(stores) - 2, -1, -1):
        chosen = where(part.eq(k), _widened(stores[k].expr), chosen)
    indices = (*first.indices[:-1], ix.add(first.indices[-1], part))
    return replace(first, expr=cast(chosen, buffer.dtype), indices=indices, axes=(*first.axes, part))


def _widened(e: Node) -> Node:
    """What is rounded to the output's type only after one of the components was chosen."""
    return e.src[0] if e.op == "cast" and e.dtype.narrow and e.src[0].dtype is e.dtype.compute else e
