"""The phases of a schedule: what runs one after the other, and where an extent may be empty, instead of each other.

A loop of a Program runs at least once. So a symbolic extent that may be 0 gets phases of its own, in which its axes have the constant
extent 0; the grid of either is empty where the other applies."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache

from ..ir import index as ix
from ..ir.kernel import Kernel
from ..ir.node import Node, axis, const
from ..ir.operators import substitute
from ..ir.rewriter import Rewriter
from ..targets import Target
from .apply_options import apply
from .schedule import Scheduled


def phases(scheduled: Scheduled, positive: frozenset[Node] = frozenset(), gate: Node = const(1)) -> Iterator[tuple[Scheduled, Node]]:  # noqa: B008
    """The schedules whose phases make up the Program, each with a factor of its grid: 1 or 0."""
    sometimes = [e for e in doubtful(scheduled.kernel) if e not in positive]
    full = gate
    for e in sometimes:
        full = ix.mul(full, some(e))
    for sub in scheduled.phases or (scheduled,):
        yield sub, full
    for e in sometimes:
        bare = _bare(scheduled.kernel, e, scheduled.target)
        yield from phases(bare, positive, ix.mul(gate, none(e)))
        positive, gate = positive | {e}, ix.mul(gate, some(e))


def plain(scheduled: Scheduled) -> Scheduled:
    """The same kernel on the same target without options."""
    return apply(scheduled.kernel, (), scheduled.target)


@lru_cache(maxsize=32)
def _bare(kernel: Kernel, extent: Node, target: Target) -> Scheduled:
    """The schedule without options of a kernel whose `extent` is 0: it does not depend on the options of the others."""
    return apply(emptied(kernel, extent), (), target)


def doubtful(kernel: Kernel) -> list[Node]:
    """The symbolic extents of loops that may be 0, in the order they appear."""
    found = [a.arg.extent for a in kernel.axes]
    found += [d for s in kernel.stores if s.combine for d in s.buffer.shape]  # a scatter's output is cleared over its own axes
    return [e for e in dict.fromkeys(found) if isinstance(e, Node) and ix.bounds(e)[0] <= 0]


def some(extent: Node) -> Node:
    """1 where `extent` is positive, else 0: a factor for grids."""
    return ix.minmax("min", extent, const(1))


def none(extent: Node) -> Node:
    """1 where `extent` is 0, else 0."""
    return ix.add(const(1), some(extent), -1)


def emptied(kernel: Kernel, extent: Node) -> Kernel:
    """`kernel` with every axis of that extent empty, and buffers shaped accordingly."""
    return _Emptied(kernel, extent).run()


def _size(n: Node) -> int | Node:
    return int(n.arg) if n.op == "const" else n


class _Emptied(Rewriter):
    def __init__(self, kernel: Kernel, extent: Node) -> None:
        super().__init__(kernel)
        self.extent = extent
        table = {extent: const(0)}
        self.buffers = {
            b: replace(b, shape=tuple(_size(substitute(d, table)) if isinstance(d, Node) else d for d in b.shape)) for b in kernel.buffers
        }

    def node(self, n: Node) -> Node | None:
        if n.op == "axis" and n.arg.extent is self.extent:
            return axis(n.arg.name, 0, n.arg.family)
        return None

    def axes(self, axes: tuple[Node, ...]) -> tuple[Node, ...]:
        return tuple(self.go(a) for a in axes)

    def along(self, axis: Node) -> Node:
        return self.go(axis)
