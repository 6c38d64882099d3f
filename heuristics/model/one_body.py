"""Nests that are one body in the code that is made: stores one after the other in the same innermost loop, reductions in one, or scans.
What they share is read and computed once, and all that they touch is in the caches together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from ...opts.loop_tree import Chain, Shared, Single, Tree
from ...opts.nests import Nest
from ...opts.schedule import Scheduled


def one_body(s: Scheduled, nest: Nest) -> tuple[Nest, ...]:
    """The nests of the body of which `nest` is one, in order: reductions or scans, and stores in their loop; the nest alone where there are
    no others."""
    joined = s.together(nest)
    if len(joined) > 1:
        return tuple(joined)
    chain = next((c for c in _chains(s.tree.items) if any(n is nest for n in c)), None)
    if chain is not None:
        return chain
    if not _plain(nest):
        return (nest,)
    opened = frozenset(p.name for p in s.grid)
    return next((group for group in _groups(s, s.tree.items, opened) if any(n is nest for n in group)), (nest,))


def _plain(nest: Nest) -> bool:
    return nest.kind == "store" and nest.store is not None and nest.store.combine is None


def _chains(items: Sequence[Tree]) -> Iterator[tuple[Nest, ...]]:
    """Scans and what runs in their loops."""
    for item in items:
        if isinstance(item, Chain):
            yield item.nests
        elif isinstance(item, Shared):
            yield from _chains(item.body)


def _groups(s: Scheduled, items: Sequence[Tree], opened: frozenset[str]) -> Iterator[tuple[Nest, ...]]:
    """The groups of stores whose loops are all open."""
    singles: list[Nest | None] = []
    for item in items:
        inside = isinstance(item, Single) and _plain(item.nest) and all(p.name in opened for p in s.loops(item.nest))
        singles.append(item.nest if inside and isinstance(item, Single) else None)
        if isinstance(item, Shared):
            yield from _groups(s, item.body, opened | {item.part.name})
    for _, group in groupby(singles, lambda n: n and [p.name for p in s.registers(n)]):
        found = tuple(n for n in group if n is not None)
        if len(found) > 1:
            yield found
