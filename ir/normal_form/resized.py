"""The same kernel for other sizes: a symbolic extent with a narrower range, or with one value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ..buffer import Extent
from ..errors import KernelError
from ..kernel import Kernel
from ..node import Node, as_node, axis, sym, walk
from ..rewrite import Rewriter


def resized(kernel: Kernel, ranges: Mapping[str, tuple[int, int]]) -> Kernel:
    """`kernel` with symbols that are only from lo to hi (both included), or a number where these are equal. Symbols keep their names.
    Raises KernelError for a name that is no symbol, and for a range that leaves the symbol's own."""
    known = {s.arg.name: s for s in kernel.symbols}
    table: dict[Node, Node] = {}
    for name, (lo, hi) in ranges.items():
        s = known.get(name)
        if s is None:
            raise KernelError(f"{kernel.name} has no symbol {name!r}; its symbols are {', '.join(known) or 'none'}")
        if not s.arg.lo <= lo <= hi <= s.arg.hi:
            raise KernelError(f"{name}={lo}..{hi} is no part of {name}={s.arg.lo}..{s.arg.hi}")
        table[s] = as_node(lo) if lo == hi else sym(name, lo, hi)
    return _Resize(kernel, table).run()


class _Resize(Rewriter):
    """Replaces symbols, in extents too."""

    def __init__(self, kernel: Kernel, table: Mapping[Node, Node]) -> None:
        super().__init__(kernel)
        self.table = table
        self.buffers = {b: replace(b, shape=tuple(self._extent(d) for d in b.shape)) for b in kernel.buffers}

    def _extent(self, e: Extent) -> Extent:
        if not isinstance(e, Node) or not any(n in self.table for n in walk(e)):
            return e
        found = self.go(e)
        return int(found.arg) if found.op == "const" else found

    def node(self, n: Node) -> Node | None:
        if n.op == "axis":
            return axis(n.arg.name, self._extent(n.arg.extent), n.arg.family)
        return self.table.get(n)

    def axes(self, axes: tuple[Node, ...]) -> tuple[Node, ...]:
        return tuple(self.go(a) for a in axes)

    def along(self, axis: Node) -> Node:
        return self.go(axis)
