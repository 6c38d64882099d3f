"""The text of a kernel without names: what `ir.normal_form.canonical` hashes."""

from __future__ import annotations

from collections.abc import Generator, Iterable

from ..body import Fold, Reduce, Scan, Store, Value, values_of
from ..buffer import Buffer, Extent, load_parts
from ..dtypes import index
from ..kernel import Kernel
from ..node import Node, as_node
from .structural_hash import Colours, commutes, elements

Writing = Generator[Node, str, str]
"""Writes one node: asks for its operands one by one."""


class KernelWriter:
    """Writes a kernel from its stores, numbering what it meets; `text` is the result.

    One line a statement: `s…` symbols are declared where they are met, `v3[a0,a1] = add[a2] float32 n4`, the nodes of
    an expression one a line above it."""

    def __init__(self, kernel: Kernel, erase: bool = False) -> None:
        self.kernel = kernel
        self.colours = Colours(kernel, erase)
        self.erase = erase
        self.lines: list[str] = []
        self.axes: dict[Node, str] = {}
        self.families: dict[str, str] = {}
        self.values: dict[str, str] = {}
        self.buffers: dict[Buffer, str] = {}
        self.symbols: dict[str, str] = {}
        self.arguments: dict[str, str] = {}
        self._folds = {v.name: item for item in kernel.body if isinstance(item, Fold) for v in item.block}
        self._written: set[str] = set()
        for s in kernel.stores:
            self._store(s)
        # what no store depends on still belongs to the kernel: it is a parameter, or names an option could mention
        for item in kernel.body:
            for v in values_of(item):
                self._value(v.name)
        for b in kernel.buffers:
            self._buffer(b)
        self.text = "\n".join(self.lines) + "\n"

    # names --------------------------------------------------------------------------------------------------------
    def _axis(self, a: Node) -> str:
        found = self.axes.get(a)
        if found is None:
            found = self.axes[a] = f"a{len(self.axes)}"
            family = self.families.setdefault(a.arg.family, f"f{len(self.families)}")
            self.lines.append(f"axis {found} {family} {self._extent(a.arg.extent)}")
        return found

    def _extent(self, extent: Extent) -> str:
        if self.erase:
            return "?"
        node = as_node(extent)
        return str(node.arg) if node.op == "const" else self._expr(node, {}, {})

    def _buffer(self, b: Buffer) -> str:
        found = self.buffers.get(b)
        if found is None:
            found = self.buffers[b] = f"b{len(self.buffers)}"
            size = f"rank {len(b.shape)}" if self.erase else f"{self._extent(elements(b.shape))} {b.range}"
            self.lines.append(f"buffer {found} {b.role} {b.dtype.name} {size}{' constant' if b.constant else ''}")
        return found

    # statements ---------------------------------------------------------------------------------------------------
    def _store(self, s: Store) -> None:
        axes = ",".join(self._axis(a) for a in s.axes)
        nest, memo = self.colours.nest(s), dict[Node, str]()
        expr = self._expr(s.expr, nest, memo)
        at = ",".join(self._expr(i, nest, memo) for i in self.colours.access(s.buffer, s.indices))
        mask = "" if s.mask is None else f" if {self._expr(s.mask, nest, memo)}"
        self.lines.append(f"store {s.combine or 'set'} {self._buffer(s.buffer)}[{at}] over [{axes}] = {expr}{mask}")

    def _value(self, name: str) -> str:
        found = self.values.get(name)
        if found is None:
            fold = self._folds.get(name)
            if fold is not None and name not in self._written:
                return self._fold(fold, name)
            found = self.values[name] = f"v{len(self.values)}"
            self._define(self.kernel.values[name])
        return found

    def _fold(self, fold: Fold, wanted: str) -> str:
        self._written |= {v.name for v in fold.block}
        for c in fold.components:
            self._value(c)
        for v in fold.block:
            self._value(v.name)
        for i, c in enumerate(fold.components):
            self.arguments |= {f"{side}.{c}": f"{name}{i}" for side, name in (("a", "left"), ("b", "right"))}
        memo: dict[Node, str] = {}
        identity = ",".join(self._expr(e, {}, memo) for e in fold.monoid.identity)
        merge = ",".join(self._expr(e, {}, memo) for e in fold.monoid.merge)
        components = ",".join(self.values[c] for c in fold.components)
        flags = f"{'associative' if fold.monoid.associative else ''} {'commutative' if fold.monoid.commutative else ''}"
        self.lines.append(f"fold {self._axis(fold.axis)} ({components}) identity ({identity}) merge ({merge}) {flags}")
        return self.values[wanted]

    def _define(self, v: Value) -> None:
        axes = ",".join(self._axis(a) for a in v.axes)
        over = ",".join(self._axis(a) for a in v.reduce_axes)
        expr = self._expr(v.body, self.colours.nest(v), {})
        how = ""
        if isinstance(v.expr, Reduce):
            how = f"{v.expr.combine}[{over}] {v.expr.dtype.name} "
        elif isinstance(v.expr, Scan):
            how = f"scan {v.expr.combine}[{self._axis(v.expr.axis)}] {v.expr.dtype.name} "
        self.lines.append(f"value {self.values[v.name]}[{axes}] {v.dtype.name} = {how}{expr}")

    # expressions --------------------------------------------------------------------------------------------------
    def _expr(self, n: Node, nest: dict[Node, str], memo: dict[Node, str]) -> str:
        """The number of a node, or a leaf's text. Nodes begun wait for their operands on a list: expressions may be deep."""
        begun: list[tuple[Node, Writing]] = []
        asked = n
        while True:
            reply: str | None = memo.get(asked) or self._leaf(asked)
            if reply is None:
                memo[asked] = f"n{len(memo)}"  # reserves the number; operands get later ones
                begun.append((asked, self._node(asked, nest)))
            else:
                memo[asked] = reply
            while begun:
                node, writing = begun[-1]
                try:
                    asked = next(writing) if reply is None else writing.send(reply)
                    break
                except StopIteration as done:
                    reply = memo[node]
                    self.lines.append(f"  {reply} = {done.value}")
                    begun.pop()
            else:
                return memo[n]

    def _leaf(self, n: Node) -> str | None:
        if n.op == "const":
            return f"{n.dtype.name}:{self.colours.constant(n)}"
        if n.op == "axis":
            return self._axis(n)
        if n.op == "arg":
            return self.arguments.get(n.arg, str(n.arg))
        if n.op == "sym":
            name = self.symbols.get(n.arg.name)
            if name is None:
                name = self.symbols[n.arg.name] = f"s{len(self.symbols)}"
                self.lines.append(f"symbol {name} {n.arg.lo} {n.arg.hi}")
            return name
        return None

    def _node(self, n: Node, nest: dict[Node, str]) -> Writing:
        """Yields the operands in the order they are numbered in, is sent their texts, and returns the node's line."""
        if n.op == "load":
            buffer, indices, mask = load_parts(n)
            at = yield from _each(self.colours.access(buffer, indices))
            text = f"load {self._buffer(buffer)}[{','.join(at)}]"
            return text if mask is None else f"{text} if {(yield mask)}"
        if n.op == "ref":
            name = self._value(n.arg)
            at = yield from _each(n.src)
            return f"ref {name}[{','.join(at)}]"
        if n.op == "sum":
            coeffs, c = n.arg
            factor = {s: self.colours.factor(k) for s, k in zip(n.src, coeffs, strict=True)}
            terms = sorted(self.colours.order(n.src, nest), key=lambda s: (factor[s], self.colours.of(s, nest)))
            texts = yield from _each(terms)
            return f"sum {'+'.join(f'{factor[s]}*{text}' for s, text in zip(terms, texts))}+{'?' if self.erase and c else c}"
        src = self.colours.order(n.src, nest) if commutes(n) else n.src
        arg = f" {self.colours.divisor(n)}" if n.op in ("div", "mod") and n.dtype is index else ""
        texts = yield from _each(src)
        return f"{n.op} {n.dtype.name}{arg} {' '.join(texts)}"


def _each(nodes: Iterable[Node]) -> Generator[Node, str, list[str]]:
    texts = []
    for n in nodes:
        texts.append((yield n))
    return texts
