"""The normal form of narrow integers: what ends in 8 or 16 bits and can be computed in 16 is computed in 16.

Sums and products of pixels are mostly written in 32 bits, so that nothing wraps. A vector has twice as many lanes of 16.
First everything is tried in one type, in which intervals of all intermediate results show that nothing wraps. Else each result
is known by its lowest 16 bits: those of sums, products and bits follow from those of the operands, wrapped or not. Where an
operator asks for more (an order, a shift to the right), intervals show that its operands are whole in a 16-bit type."""

from __future__ import annotations

from collections.abc import Iterator

from ..dtypes import DType, bool_, index, int16, uint16
from ..integer_ranges import inside, magnitude_of, value_range
from ..kernel import Kernel
from ..node import COMPARE, Node, const, make, walk
from ..op_names import COUNTS
from ..operators import cast
from ..rewrite import Rewriter, rounded

_MODULAR = {"add", "sub", "mul", "neg", "and", "or", "xor", "not"}
"""What is right in the lowest bits where its operands are."""
_ORDERED = {"max", "min", "shr", "floordiv", "remainder"}
"""What needs the whole of its operands."""
_ENDS = _MODULAR | _ORDERED | {"abs", "shl", "where", "popcount", "clz"}
"""What is computed in another type as it is in its own, as long as nothing wraps."""


def narrow(kernel: Kernel) -> Kernel:
    """An equal kernel whose casts to integers of 8 and 16 bits are of expressions in 16 bits, where that changes no value;
    `kernel` itself where there are none."""
    if not any(_wide(n) for root in _roots(kernel) for n in walk(root)):
        return kernel
    found = _Narrow(kernel)
    out = found.run()
    return out if found.changed else kernel


def _roots(kernel: Kernel) -> Iterator[Node]:
    for v in kernel.values.values():
        yield v.body
    for s in kernel.stores:
        yield s.expr


def _wide(n: Node) -> bool:
    """Whether a node casts a computed integer of 32 bits to 16 or 8."""
    return (
        n.op == "cast"
        and n.dtype.is_int
        and n.dtype.size <= 2
        and n.src[0].dtype.is_int
        and n.src[0].op in _ENDS
        and n.src[0].dtype.size == 4
    )


def _is_negative(n: Node) -> Node | None:
    """x of x < 0."""
    return n.src[0] if n.op == "lt" and n.src[1].op == "const" and n.src[1].arg == 0 else None


def _sign_bit(n: Node) -> Node:
    """1 of a negative number of 16 bits: one shift, where a comparison is made a number by several steps."""
    return cast(n, uint16) >> 15


class _Narrow(Rewriter):
    """Rewrites the casts that `_wide` finds; `changed` where one could be."""

    def __init__(self, kernel: Kernel) -> None:
        super().__init__(kernel)
        self.changed = False

    def node(self, n: Node) -> Node | None:
        if not _wide(n):
            return None
        root = n.src[0]
        found = self._in(root, uint16)
        found = self._in(root, int16) if found is None else found
        found = self._by_low_bits(root) if found is None else found
        if found is None:
            return None
        self.changed = True
        return cast(found, n.dtype)

    def _in(self, root: Node, to: DType) -> Node | None:
        """`root` computed in another type; None where something might wrap, or is of a kind that it cannot be done for."""
        done: dict[Node, Node] = {}
        for n in walk(root):
            if n.op in COMPARE and all(s in done for s in n.src):
                done[n] = make(n.op, bool_, tuple(done[s] for s in n.src))
            if not (n.dtype.is_int and n.dtype is not index and inside(value_range(n), to)):
                continue
            if n.op == "const":
                done[n] = const(n.arg, to)
            elif n.op == "cast" and n.src[0].dtype is not index and inside(value_range(n.src[0]), n.dtype):
                x = n.src[0]
                done[n] = cast(self._either(x, done), to)
            elif n.op in ("load", "ref") and n.dtype.size <= 2:
                done[n] = cast(self.go(n), to)
            elif n.op in _ENDS - COUNTS:
                operands = n.src[1:] if n.op == "where" else n.src
                if n.op == "abs" and n.src[0] in done and to.kind == "u":
                    done[n] = done[n.src[0]]
                elif all(s in done for s in operands):
                    conditions = (done[n.src[0]] if n.src[0] in done else self.go(n.src[0]),) if n.op == "where" else ()
                    done[n] = make(n.op, to, (*conditions, *(done[s] for s in operands)))
        return done.get(root)

    def _by_low_bits(self, root: Node) -> Node | None:
        """An expression of 16 bits that are the lowest of `root`; None where it cannot be done."""
        done: dict[Node, Node] = {}
        for n in walk(root):
            found = (
                self._comparison(n, done) if n.op in COMPARE else self._low(n, done) if n.dtype.is_int and n.dtype is not index else None
            )
            if found is not None:
                done[n] = found
        return done.get(root)

    def _low(self, n: Node, done: dict[Node, Node]) -> Node | None:
        """The lowest 16 bits of an integer, of which those of its operands are `done` where that can be."""
        op, to = n.op, int16 if inside(value_range(n), int16) else uint16
        if op == "const":
            return const(rounded(n.arg, to), to)
        if n.dtype.size == 1:  # (what wraps there has other bits)
            return cast(self.go(n), to)
        if op == "cast":
            x = n.src[0]
            if x.dtype is bool_:
                sign = _is_negative(x)
                known = sign is not None and sign in done and inside(value_range(sign), int16)
                return cast(_sign_bit(done[sign]) if sign is not None and known else self._either(x, done), to)
            return done.get(x)
        if op in _ENDS and all(s in done for s in n.src[op == "where" :]):
            return self._operator(n, to, done)
        return cast(self.go(n), to) if n.dtype.size == 2 else None

    def _operator(self, n: Node, to: DType, done: dict[Node, Node]) -> Node | None:
        """The same for an operator of operands that are done."""
        op, src = n.op, n.src
        if op in _MODULAR:
            return make(op, to, tuple(cast(done[s], to) for s in src))
        if op == "where":
            return make(op, to, (self._either(src[0], done), *(cast(done[s], to) for s in src[1:])))
        if op in COUNTS:
            return self._counted(n, to, done)
        if op == "shl":
            return make(op, to, (cast(done[src[0]], to), cast(done[src[1]], to))) if inside(value_range(src[1]), to) else None
        sized = src[0] if op == "abs" else magnitude_of(n)
        if sized is not None and inside(value_range(sized), int16):  # (that of the least number is right without a sign)
            return cast(make("abs", int16, (cast(done[sized], int16),)), to)
        if op == "abs":
            return cast(done[src[0]], to) if value_range(src[0])[0] >= 0 else None
        return self._whole(n, to if op == "shr" else None, done)

    def _counted(self, n: Node, to: DType, done: dict[Node, Node]) -> Node | None:
        """Bits of a number that fits 16, where fewer lie above the highest one that is set."""
        if not inside(value_range(n.src[0]), uint16):
            return None
        found = make(n.op, uint16, (cast(done[n.src[0]], uint16),))
        return cast(found + (8 * n.dtype.size - 16) if n.op == "clz" and n.dtype.size > 2 else found, to)

    def _either(self, n: Node, done: dict[Node, Node]) -> Node:
        """A node as it was done, or as it was."""
        return done[n] if n in done else self.go(n)

    def _comparison(self, n: Node, done: dict[Node, Node]) -> Node | None:
        return self._whole(n, bool_, done) if all(s in done for s in n.src) else None

    def _whole(self, n: Node, dtype: DType | None, done: dict[Node, Node]) -> Node | None:
        """An operator in a type that has all values of its operands, with a result of `dtype` (of that type, where None)."""
        for to in (int16, uint16):  # (x86 compares with a sign)
            if all(inside(value_range(s), to) for s in n.src):
                made = make(n.op, bool_ if dtype is bool_ else to, tuple(cast(done[s], to) for s in n.src))
                return made if dtype is None or dtype is bool_ else cast(made, dtype)
        return None
