"""Extremes of windows that are written out, row by row: the largest of 3 × 3 neighbours as the largest of three rows' largest.

What such a row of a window holds is a part of the windows beside it as well, which a schedule with several rows of results makes
once (decision 77 does the same for windows over axes). Extremes may be taken in any order, so no bit changes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import reduce
from itertools import islice

from ..dtypes import index
from ..kernel import Kernel
from ..node import Node, make, walk
from ..rewrite import Rewriter

LEAST = 4
"""Elements of the smallest window that has rows."""


def rows_first(kernel: Kernel) -> Kernel:
    """An equal kernel whose chains of maxima, or minima, over elements of one array go through it row by row; `kernel` itself where
    there are none."""
    if not any(_links(n) for root in kernel.expressions() for n in walk(root)):
        return kernel
    found = _RowsFirst(kernel)
    out = found.run()
    return out if found.changed else kernel


def _links(n: Node) -> bool:
    """Whether a node may be in a chain of several."""
    return n.op in ("max", "min") and n.dtype is not index and any(s.op == n.op for s in n.src)


class _RowsFirst(Rewriter):
    """Chains are written anew where they begin; what is inside one has no other reader."""

    def __init__(self, kernel: Kernel) -> None:
        super().__init__(kernel)
        self.changed = False
        self.inside: set[Node] = set()
        roots = list(kernel.expressions())
        self.readers = Counter([*roots, *(s for n in walk(*roots) for s in n.src)])

    def node(self, n: Node) -> Node | None:
        if n in self.inside or not _links(n):
            return None
        elements = self._elements(n)
        places = [_place(x) for x in elements]
        if len(elements) < LEAST or None in places or len({p[0] for p in places if p}) > 1:
            return None
        at = [p[1] for p in places if p]
        if _by_rows(n.op, list(zip(elements, at, strict=True))) is n:
            return None
        self.changed = True
        return _by_rows(n.op, [(self.go(x), i) for x, i in zip(elements, at, strict=True)])

    def _elements(self, n: Node) -> list[Node]:
        """What a chain takes the extreme of, in order. (Without recursion: chains may be long.)"""
        out, stack = list[Node](), [*reversed(n.src)]
        while stack:
            x = stack.pop()
            if x.op == n.op and self.readers[x] == 1:
                self.inside.add(x)
                stack.extend(reversed(x.src))
            else:
                out.append(x)
        return out


def _place(n: Node) -> tuple[object, tuple[Node, ...]] | None:
    """(array, indices) of the only element that an expression reads, of two dimensions or more."""
    read = list(islice((x for x in walk(n) if x.op in ("load", "ref")), 2))
    if len(read) != 1:
        return None
    indices = read[0].src[:-1] if read[0].op == "load" and read[0].arg[1] else read[0].src
    return (read[0].arg, indices) if len(indices) > 1 else None


def _by_rows(op: str, elements: Sequence[tuple[Node, tuple[Node, ...]]]) -> Node:
    """The extreme of some elements, those together first that have the same index in the first dimension, and so on."""
    if len(elements) == 1 or not elements[0][1]:
        return reduce(lambda x, y: make(op, x.dtype, (x, y)), [x for x, _ in elements])
    rows: dict[Node, list[tuple[Node, tuple[Node, ...]]]] = {}
    for x, at in elements:
        rows.setdefault(at[0], []).append((x, at[1:]))
    return reduce(lambda x, y: make(op, x.dtype, (x, y)), [_by_rows(op, row) for row in rows.values()])
