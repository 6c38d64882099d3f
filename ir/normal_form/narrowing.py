"""The normal form of narrow integers: what ends in 8 or 16 bits and never leaves 16 is computed in 16.

Sums and products of pixels are mostly written in 32 bits, so that nothing wraps. A vector has twice as many lanes of 16.
Intervals of all intermediate results show that nothing wraps there either, so every value is what it was."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ..buffer import load_parts
from ..dtypes import DType, bool_, index, int16, uint16
from ..intervals import BIG, Interval, integer_bounds
from ..kernel import Kernel
from ..node import COMPARE, Node, const, make, walk
from ..operators import cast
from ..rewrite import Rewriter, rounded

_ENDS = {"add", "sub", "mul", "max", "min", "neg", "abs", "and", "or", "xor", "shl", "shr", "floordiv", "where"}
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


class _Narrow(Rewriter):
    """Rewrites the casts that `_wide` finds; `changed` where one could be."""

    def __init__(self, kernel: Kernel) -> None:
        super().__init__(kernel)
        self.changed = False
        self._ranges: dict[Node, Interval] = {}

    def node(self, n: Node) -> Node | None:
        if not _wide(n):
            return None
        for to in (uint16, int16):
            found = self._in(n.src[0], to)
            if found is not None:
                self.changed = True
                return cast(found, n.dtype)
        return None

    def _in(self, root: Node, to: DType) -> Node | None:
        """`root` computed in another type; None where something might wrap, or is of a kind that it cannot be done for."""
        done: dict[Node, Node] = {}
        for n in walk(root):
            if n.op in COMPARE and all(s in done for s in n.src):
                done[n] = make(n.op, bool_, tuple(done[s] for s in n.src))
            if not (n.dtype.is_int and n.dtype is not index and _inside(self._range(n), to)):
                continue
            if n.op == "const":
                done[n] = const(n.arg, to)
            elif n.op == "cast" and _inside(self._range(n.src[0]), n.dtype):
                x = n.src[0]
                done[n] = done[x] if x in done else cast(self.go(x), to)
            elif n.op in ("load", "ref") and n.dtype.size <= 2:
                done[n] = cast(self.go(n), to)
            elif n.op in _ENDS:
                operands = n.src[1:] if n.op == "where" else n.src
                if n.op == "abs" and n.src[0] in done and to.kind == "u":
                    done[n] = done[n.src[0]]
                elif all(s in done for s in operands):
                    conditions = (done[n.src[0]] if n.src[0] in done else self.go(n.src[0]),) if n.op == "where" else ()
                    done[n] = make(n.op, to, (*conditions, *(done[s] for s in operands)))
        return done.get(root)

    def _range(self, n: Node) -> Interval:
        """The exact values that an integer (or a bool, as 0 and 1) can have."""
        if n not in self._ranges:
            for m in walk(n):
                if m not in self._ranges:
                    self._ranges[m] = self._of(m)
        return self._ranges[n]

    def _of(self, n: Node) -> Interval:
        if n.dtype is bool_:
            return 0, 1
        if not n.dtype.is_int or n.dtype is index:
            return -BIG, BIG
        every = _whole(n.dtype)
        found = every
        if n.op == "const":
            found = (int(rounded(n.arg, n.dtype)),) * 2
        elif n.op == "load":
            stated = load_parts(n)[0].range
            found = every if stated is None else (int(stated[0]), int(stated[1]))
            if load_parts(n)[2] is not None:  # 0 under a mask that does not hold
                found = min(0, found[0]), max(0, found[1])
        elif n.op == "cast":
            found = self._ranges[n.src[0]]
        elif n.op in _ENDS:
            found = _result(n, self._ranges)
        return found if every[0] <= found[0] and found[1] <= every[1] else every


def _whole(dtype: DType) -> Interval:
    bits = 8 * dtype.size
    return (0, (1 << bits) - 1) if dtype.kind == "u" else (-(1 << (bits - 1)), (1 << (bits - 1)) - 1)


def _inside(x: Interval, dtype: DType) -> bool:
    low, high = _whole(dtype)
    return low <= x[0] and x[1] <= high


def _result(n: Node, ranges: Mapping[Node, Interval]) -> Interval:
    """The interval of an operator that does not wrap; one that reaches past every type where it is not known."""
    op, (x, *rest) = n.op, [ranges[s] for s in n.src]
    y = rest[0] if rest else x
    if op in ("neg", "abs"):
        low, high = -x[1], -x[0]
        return (low, high) if op == "neg" else (max(0, x[0], low), max(x[1], high))
    if op == "where":
        return min(y[0], rest[1][0]), max(y[1], rest[1][1])
    if op == "add":
        found = x[0] + y[0], x[1] + y[1]
        mean = _mean(n, ranges)
        return found if mean is None else (max(found[0], mean[0]), min(found[1], mean[1]))
    if op == "sub":
        return x[0] - y[1], x[1] - y[0]
    if op in ("max", "min"):
        pick = max if op == "max" else min
        return pick(x[0], y[0]), pick(x[1], y[1])
    if op == "shr" and y[0] >= 0 and y[1] < 16:
        ends = [a >> k for a in x for k in y]
    elif op == "shl" and y[0] >= 0 and y[1] < 16:
        ends = [a << k for a in x for k in y]
    elif op == "mul":
        ends = [a * b for a in x for b in y]
    elif op == "floordiv" and y[0] > 0:
        ends = [a // b for a in x for b in y]
    elif op in ("and", "or", "xor"):
        return integer_bounds(op, x, y)
    else:
        return -BIG, BIG
    return min(ends), max(ends)


def _mean(n: Node, ranges: Mapping[Node, Interval]) -> Interval | None:
    """The interval of a·(c − t) + b·t with 0 <= t <= c, which lies between c·a and c·b; None for what is no such sum."""
    if any(s.op != "mul" for s in n.src):
        return None
    p, q = (s.src for s in n.src)
    for a, rest in (p, p[::-1]):
        for b, t in (q, q[::-1]):
            for less, more in ((rest, t), (t, rest)):
                if less.op == "sub" and less.src[1] is more and less.src[0].op == "const":
                    c = int(less.src[0].arg)
                    if ranges[more][0] >= 0 and ranges[more][1] <= c:
                        ends = [c * end for x in (a, b) for end in ranges[x]]
                        return min(ends), max(ends)
    return None
