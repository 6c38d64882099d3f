"""The normal form of a choice by parity: an axis whose points are told apart by their number modulo two to four is split in groups
and places inside a group.

Who interleaves two arrays (an inverse wavelet transform, stereo sound, the halves of packed bytes) may write one output
over one axis, and ask of i % 2 what to store. Over groups and places, the choice is known for each place, and the
places of a group can be computed side by side."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

from .. import index as ix
from ..dtypes import index
from ..kernel import Kernel
from ..node import COMPARE, Node, axes_of, axis, const, walk
from ..rewrite import Rewriter

MOST = 4
"""Places of the largest group that is split: what vectors are picked from and woven into."""


def split_by_parity(kernel: Kernel) -> Kernel:
    """An equal kernel whose stores over such an axis are over two; `kernel` itself where there is none."""
    while (found := next(_chosen(kernel), None)) is not None:
        kernel = _Split(kernel, *found).run()
    return kernel


def _chosen(kernel: Kernel) -> Iterator[tuple[Node, int]]:
    """Axes of a single store, and no other nest, with the size of their groups."""
    bound = [a for v in kernel.values.values() for a in (*v.axes, *v.reduce_axes)] + [a for s in kernel.stores for a in s.axes]
    for s in kernel.stores:  # (a quotient of floats is a `div` too)
        compared = [n for n in walk(s.expr) if n.op in COMPARE and n.src[0].dtype is index]
        for a in s.axes:
            if not isinstance(a.arg.extent, int) or bound.count(a) != 1 or len(kernel.families[a.arg.family]) > 1 or s.combine is not None:
                continue
            sizes = {int(n.arg) for c in compared for n in walk(c) if n.op == "mod" and n.dtype is index and n.src[0] is a}
            others = {int(n.arg) for n in walk(s.expr, *s.indices) if n.op in ("div", "mod") and n.dtype is index and a in axes_of(n)}
            if len(sizes) == 1 and others == sizes and max(sizes) <= MOST and a.arg.extent % max(sizes) == 0 and a.arg.extent > max(sizes):
                yield a, max(sizes)


class _Split(Rewriter):
    """One axis becomes two."""

    def __init__(self, kernel: Kernel, whole: Node, size: int) -> None:
        super().__init__(kernel)
        taken = {a.arg.name for a in kernel.axes} | {a.arg.family for a in kernel.axes} | {b.name for b in kernel.buffers}
        place = next(name for i in count() if (name := f"{whole.arg.name.replace('@', '_')}_of{size}{'_' * i}") not in taken)
        self.whole = whole
        self.parts = axis(whole.arg.name, whole.arg.extent // size), axis(place, size)
        self.index = ix.add(ix.mul(self.parts[0], const(size)), self.parts[1])

    def node(self, n: Node) -> Node | None:
        return self.index if n is self.whole else None

    def axes(self, axes: tuple[Node, ...]) -> tuple[Node, ...]:
        return tuple(b for a in axes for b in (self.parts if a is self.whole else (a,)))
