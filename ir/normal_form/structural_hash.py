"""Name-free hashes of expressions, values and buffers: the order in which commutative operands are written down.

An axis is known by how its nest binds it (role, place, extent), a buffer by its type, size and the contexts it is
read in, a value by its definition. One pass down from the stores refines the buffers (Weisfeiler and Leman's colour
refinement); what is still equal then is interchangeable as far as this looks, and parameter order decides."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from math import prod

from .. import index as ix
from ..body import Fold, Reduce, Scan, Store, Value, values_of
from ..buffer import Buffer, Extent, load_parts
from ..dtypes import index
from ..kernel import Kernel
from ..node import Node, as_node, const, pending, walk
from ..op_names import COMMUTATIVE
from ..rounding import rounded


def digest(*parts: object) -> str:
    """A short stable hash of nested text."""
    return hashlib.blake2b(repr(parts).encode(), digest_size=12).hexdigest()


def number(n: Node) -> str:
    """A constant as text: integers in decimal, floats in hex after rounding to their type."""
    value = rounded(n.arg, n.dtype)
    if isinstance(value, float):
        return "nan" if value != value else value.hex()
    return str(value)


def flat(buffer: Buffer, indices: tuple[Node, ...]) -> Node:
    """The element offset of `indices` in row-major order."""
    out = const(0)
    for i, extent in zip(indices, buffer.shape, strict=True):
        out = ix.add(ix.mul(out, as_node(extent)), i)
    return out


def elements(shape: Iterable[Extent]) -> Node:
    """The number of elements of a shape, as an index."""
    sizes = [as_node(d) for d in shape]
    out = const(prod(int(s.arg) for s in sizes if s.op == "const"))
    for s in sizes:
        out = out if s.op == "const" else ix.mul(out, s)
    return out


def commutes(n: Node) -> bool:
    """Whether the operands of `n` may be written in any order."""
    return n.op in COMMUTATIVE or n.op == "prod"


class Colours:
    """Hashes for one kernel. With `erase`, extents, sizes and most constants do not count (see `canonical.loose`); with `order`
    too, for `Colours.order`, neither do the ranks of buffers."""

    def __init__(self, kernel: Kernel, erase: bool = False, order: bool = False) -> None:
        self.kernel, self.erase = kernel, erase
        self.flatten = not erase or order
        self.rough = None if erase else Colours(kernel, erase=True, order=True)
        self._rough_nests: dict[int, dict[Node, str]] = {}
        self.place = {b: i for i, b in enumerate(kernel.buffers)}
        self.buffers: dict[Buffer, str] = {b: self._plain(b) for b in kernel.buffers}
        self.nests: dict[Value | Store, dict[Node, str]] = {}
        self._bottom_up()
        self._refine()
        self._bottom_up()

    # what a hash sees ---------------------------------------------------------------------------------------------
    def constant(self, n: Node) -> str:
        """A constant; with `erase` only the special ones keep their value."""
        return "?" if self.erase and n.arg not in (0, 1, float("inf"), float("-inf")) else number(n)

    def divisor(self, n: Node) -> str:
        """The divisor of a div or mod."""
        return "?" if self.erase else str(n.arg)

    def factor(self, k: int) -> str:
        """A coefficient of an index; with `erase` only whether it is a unit step (others are strides, and so extents)."""
        return "?" if self.erase and abs(k) != 1 else str(k)

    def access(self, buffer: Buffer, indices: tuple[Node, ...]) -> tuple[Node, ...]:
        """What tells two accesses apart: the element offset, or with `erase` the indices (strides are extents)."""
        return (flat(buffer, indices),) if self.flatten else indices

    def of(self, n: Node, nest: dict[Node, str]) -> str:
        """The hash of an expression in a nest (`nest` starts with the hashes of its axes and is the memo)."""
        for m in pending(n, nest.__contains__):
            nest[m] = self._node(m, nest)
        # offsets are built while walking, so a node below them may be new
        return nest[n]

    def order(self, nodes: Iterable[Node], nest: dict[Node, str]) -> list[Node]:
        """Commutative operands in canonical order.

        Extents decide last: kernels that differ in them alone number their buffers alike, so an option means the same in both."""
        rough, known = self.rough, self._rough_nests.get(id(nest), {})
        nodes = list(nodes)
        keys = {n: ("" if rough is None else rough.of(n, known), self.of(n, nest)) for n in nodes}
        if len(set(keys.values())) == len(keys):
            return sorted(nodes, key=keys.__getitem__)
        return sorted(nodes, key=lambda n: (keys[n], self._places(n)))

    def _places(self, n: Node) -> list[int]:
        return sorted(self.place[load_parts(m)[0]] for m in walk(n) if m.op == "load")

    # bottom up ----------------------------------------------------------------------------------------------------
    def _plain(self, b: Buffer) -> str:
        size: tuple[object, ...] = () if self.flatten else (len(b.shape),)
        if not self.erase:
            size = (self.extent(elements(b.shape)), b.range)
        return digest("buffer", b.dtype.name, b.role, b.constant, *size)

    def extent(self, extent: Extent) -> str:
        """An extent without names."""
        node = as_node(extent)
        if self.erase:
            return "?"
        return str(node.arg) if node.op == "const" else self.of(node, {})

    def _bottom_up(self) -> None:
        self.values: dict[str, str] = {}
        self.arguments: dict[str, str] = {}
        self.nests.clear()
        self._rough_nests.clear()
        for item in self.kernel.body:
            if isinstance(item, Fold):
                self._fold(item)
            else:
                self.values[item.name] = self._value(item)

    def _fold(self, item: Fold) -> None:
        for v in item.block:
            self.values[v.name] = self._value(v)
        for i, c in enumerate(item.components):
            self.arguments |= {f"{side}.{c}": f"{side}{i}" for side in "ab"}
        state = [self.of(e, {}) for e in (*item.monoid.identity, *item.monoid.merge)]
        whole = digest("fold", [self.values[c] for c in item.components], state, item.monoid.associative, item.monoid.commutative)
        for i, c in enumerate(item.components):
            self.values[c] = digest("component", whole, i)

    def nest(self, of: Value | Store) -> dict[Node, str]:
        """The axes of a nest, known by role, place and extent; also the memo of its expressions."""
        found = self.nests.get(of)
        if found is None:
            reduced = of.reduce_axes if isinstance(of, Value) else ()
            found = {a: digest("axis", i, self.extent(a.arg.extent)) for i, a in enumerate(of.axes)}
            found |= {a: digest("reduced", i, self.extent(a.arg.extent)) for i, a in enumerate(reduced)}
            self.nests[of] = found
            if self.rough is not None:
                self._rough_nests[id(found)] = self.rough.nest(of)
        return found

    def _value(self, v: Value) -> str:
        nest = self.nest(v)
        kind: tuple[object, ...] = ("point",)
        if isinstance(v.expr, Reduce):
            kind = ("reduce", v.expr.combine, v.expr.dtype.name)
        elif isinstance(v.expr, Scan):
            kind = ("scan", v.expr.combine, v.expr.dtype.name, nest[v.expr.axis])
        return digest(kind, v.dtype.name, [nest[a] for a in (*v.axes, *v.reduce_axes)], self.of(v.body, nest))

    def _node(self, n: Node, nest: dict[Node, str]) -> str:
        op = n.op
        if op == "const":
            return digest("const", n.dtype.name, self.constant(n))
        if op == "sym":
            return digest("sym", n.arg.lo, n.arg.hi)
        if op == "axis":
            return digest("axis", self.extent(n.arg.extent))
        if op == "arg":
            return digest("arg", self.arguments.get(n.arg, n.arg))
        if op == "load":
            buffer, indices, mask = load_parts(n)
            at = [self.of(i, nest) for i in self.access(buffer, indices)]
            return digest("load", self.buffers[buffer], at, None if mask is None else nest[mask])
        if op == "ref":
            return digest("ref", self.values[n.arg], [nest[s] for s in n.src])
        if op == "sum":
            coeffs, c = n.arg
            return digest(
                "sum", sorted((self.factor(k), nest[s]) for s, k in zip(n.src, coeffs, strict=True)), "?" if self.erase and c else c
            )
        src = [nest[s] for s in n.src]
        arg = self.divisor(n) if op in ("div", "mod") and n.dtype is index else n.arg
        return digest(op, n.dtype.name, sorted(src) if commutes(n) else src, arg)

    # top down -----------------------------------------------------------------------------------------------------
    def _refine(self) -> None:
        contexts: dict[str, list[str]] = {}
        uses: dict[Buffer, list[str]] = {b: [] for b in self.kernel.buffers}
        for i, s in enumerate(self.kernel.stores):
            uses[s.buffer].append(digest("store", i))
            roots = {"expr": s.expr, "mask": s.mask} | {f"index{d}": e for d, e in enumerate(self.access(s.buffer, s.indices))}
            for role, root in roots.items():
                if root is not None:
                    self._down(root, self.nest(s), digest("store", i, role, s.combine), contexts, uses)
        for item in reversed(self.kernel.body):
            for v in reversed(values_of(item)):
                self._down(v.body, self.nest(v), digest("value", self.values[v.name], sorted(contexts.get(v.name, ()))), contexts, uses)
        self.buffers = {b: digest(self.buffers[b], sorted(uses[b])) for b in self.kernel.buffers}

    def _down(self, root: Node, nest: dict[Node, str], context: str, contexts: dict[str, list[str]], uses: dict[Buffer, list[str]]) -> None:
        self.of(root, nest)
        above: dict[Node, list[str]] = {root: [context]}
        for n in reversed(list(walk(root))):
            here = digest(sorted(above.get(n, ())))
            if n.op == "load":
                buffer = load_parts(n)[0]
                uses[buffer].append(digest(here, nest[n]))
            elif n.op == "ref":
                contexts.setdefault(n.arg, []).append(digest(here, [nest[s] for s in n.src]))
            siblings = sorted(nest[s] for s in n.src)
            for i, s in enumerate(n.src):
                place = "any" if commutes(n) or n.op == "sum" else i
                above.setdefault(s, []).append(digest(here, n.op, n.dtype.name, place, siblings))
