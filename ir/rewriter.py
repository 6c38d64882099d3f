"""Rebuilding a whole kernel through one rule for nodes, with constants folded on the way; and kernels that differ in a fact: other sizes,
constant inputs, outputs in place."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from .body import Fold, Monoid, Reduce, Scan, Store, Value
from .buffer import Buffer, Extent
from .errors import KernelError
from .kernel import Kernel
from .node import Node, as_node, axis, sym, walk
from .operators import fold_constants, rebuild


class Rewriter:
    """Rebuilds every expression of a kernel bottom-up. Subclasses override `node` (sees a node whose operands are still old, may
    return None to take the default), `axes`, `stored`, `mask` and `buffer`."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self._memo: dict[Node, Node] = {}
        self.buffers: Mapping[Buffer, Buffer] = {}

    # to override --------------------------------------------------------------------------------------------------
    def node(self, n: Node) -> Node | None:
        """The new form of `n`, or None for the same operator over rewritten operands."""
        return None

    def axes(self, axes: tuple[Node, ...]) -> tuple[Node, ...]:
        """The axes a nest binds."""
        return axes

    def along(self, axis: Node) -> Node:
        """The axis of a scan or fold."""
        return axis

    def indices(self, buffer: Buffer, indices: tuple[Node, ...]) -> tuple[Node, ...]:
        """Old indices of a buffer, as many as the new buffer has dimensions."""
        return indices

    def stored(self, n: Node) -> Node:
        """What is stored."""
        return self.go(n)

    def mask(self, store: Store) -> Node | None:
        """Where something is stored; None for everywhere."""
        return None if store.mask is None else self.go(store.mask)

    # machinery ----------------------------------------------------------------------------------------------------
    def go(self, n: Node) -> Node:
        """`n` rewritten."""
        memo = self._memo
        stack = [] if n in memo else [(n, False)]
        while stack:  # without recursion: expressions may be deep
            m, ready = stack.pop()
            if m in memo:
                continue
            if ready:
                found: Node | None = rebuild(m, tuple(memo[s] for s in m.src))
            else:
                found = self.node(m)
                if found is None and m.op == "load":
                    found = self.load(m)
                elif found is None and m.src:
                    stack.append((m, True))
                    stack.extend((s, False) for s in reversed(m.src))
                    continue
            memo[m] = fold_constants(m if found is None else found)
        return memo[n]

    def load(self, n: Node) -> Node:
        """A load from the new buffer."""
        from .buffer import load, load_parts

        buffer, indices, mask = load_parts(n)
        new = tuple(self.go(i) for i in self.indices(buffer, indices))
        return load(self.buffers.get(buffer, buffer), new, None if mask is None else self.go(mask))

    def value(self, v: Value) -> Value:
        """A value with rewritten axes and body; a reduction over nothing is its element."""
        e: Node | Reduce | Scan
        if isinstance(v.expr, Reduce):
            over = self.axes(v.expr.axes)
            body = self.go(v.expr.expr)
            e = replace(v.expr, axes=over, expr=body) if over else body
        elif isinstance(v.expr, Scan):
            e = Scan(v.expr.combine, self.along(v.expr.axis), self.go(v.expr.expr), v.expr.dtype)
        else:
            e = self.go(v.expr)
        return Value(v.name, self.axes(v.axes), e, v.dtype)

    def run(self) -> Kernel:
        """The new kernel."""
        body: list[Value | Fold] = []
        for item in self.kernel.body:
            if isinstance(item, Fold):
                m = item.monoid
                monoid = Monoid(tuple(self.go(e) for e in m.identity), tuple(self.go(e) for e in m.merge), m.associative, m.commutative)
                body.append(Fold(item.name, self.along(item.axis), tuple(self.value(v) for v in item.block), item.components, monoid))
            else:
                body.append(self.value(item))
        stores = tuple(
            Store(
                self.buffers.get(s.buffer, s.buffer),
                tuple(self.go(i) for i in self.indices(s.buffer, s.indices)),
                self.stored(s.expr),
                self.axes(s.axes),
                s.combine,
                self.mask(s),
            )
            for s in self.kernel.stores
        )
        made = Kernel(self.kernel.name, tuple(body), stores, tuple(self.buffers.get(b, b) for b in self.kernel.buffers))
        blocks = self.kernel.blocks
        if blocks is None and not self.kernel.fixed:
            return made
        return replace(made, blocks=None if blocks is None else blocks.only(made.families), fixed=self.kernel.fixed)


class OtherAxes(Rewriter):
    """A kernel with other axes: `table` has those that change."""

    def __init__(self, kernel: Kernel, table: Mapping[Node, Node]) -> None:
        super().__init__(kernel)
        self.table = table

    def node(self, n: Node) -> Node | None:
        return self.table.get(n)

    def axes(self, axes: tuple[Node, ...]) -> tuple[Node, ...]:
        return tuple(self.table.get(a, a) for a in axes)

    def along(self, axis: Node) -> Node:
        return self.table.get(axis, axis)


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


def part_of(kernel: Kernel, extents: Mapping[str, int], shapes: Mapping[str, tuple[int, ...]]) -> Kernel:
    """`kernel` with fewer elements: axes of these families have these extents, and buffers (by name) these shapes. The caller knows that each
    such axis alone indexes the dimensions that get smaller."""
    return _SmallerExtents(kernel, extents, shapes).run()


class _SmallerExtents(Rewriter):
    def __init__(self, kernel: Kernel, extents: Mapping[str, int], shapes: Mapping[str, tuple[int, ...]]) -> None:
        super().__init__(kernel)
        self.extents = extents
        self.buffers = {b: replace(b, shape=shapes[b.name]) for b in kernel.buffers}

    def node(self, n: Node) -> Node | None:
        if n.op == "axis" and n.arg.family in self.extents:
            return axis(n.arg.name, self.extents[n.arg.family], n.arg.family)
        return None

    def axes(self, axes: tuple[Node, ...]) -> tuple[Node, ...]:
        return tuple(self.go(a) for a in axes)

    def along(self, axis: Node) -> Node:
        return self.go(axis)


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


def in_place(kernel: Kernel, aliases: Mapping[str, str]) -> Kernel:
    """`kernel` with outputs (by name) that may share the memory of the inputs that they are mapped to: the very same
    memory, or none of it. Its key stays what it is. Raises KernelError for a name that is not an output, and where an
    output cannot be written in place (`ir.checks.structure_checks`)."""
    outputs = {b.name: b for b in kernel.outputs}
    for name in aliases:
        if name not in outputs:
            raise KernelError(f"{kernel.name} has no output {name!r} that could be in place (outputs: {', '.join(outputs)})")
    return _with(kernel, {outputs[o]: replace(outputs[o], alias=i) for o, i in aliases.items()})


def without_aliases(kernel: Kernel) -> Kernel:
    """`kernel` with memory of its own for every output; what is tuned, and what the cache knows."""
    return _with(kernel, {b: replace(b, alias="") for b in kernel.outputs if b.alias})


def _with(kernel: Kernel, changed: Mapping[Buffer, Buffer]) -> Kernel:
    found = Rewriter(kernel)
    found.buffers = changed
    return found.run() if changed else kernel


def with_constants(kernel: Kernel, names: Iterable[str]) -> Kernel:
    """`kernel` with these inputs (by name) constant. Raises KernelError for a name that is not an input."""
    wanted = list(names)
    inputs = {b.name: b for b in kernel.inputs}
    for name in wanted:
        if name not in inputs:
            raise KernelError(f"{kernel.name} has no input {name!r} that could be constant (inputs: {', '.join(inputs) or 'none'})")
    found = Rewriter(kernel)
    found.buffers = {inputs[n]: replace(inputs[n], constant=True) for n in wanted}
    return found.run() if wanted else kernel
