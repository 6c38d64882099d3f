"""The normal form of bits that are counted by shifts and masks: `popcount`.

Written out it is a dozen operations: sums of neighbouring bits, then of pairs, of groups of four, and of bytes (H. S. Warren,
"Hacker's Delight", 2nd edition, 2012, figure 5-2). Many processors have an instruction, and others do it in fewer."""

from __future__ import annotations

from ..kernel import Kernel
from ..node import Node, walk
from ..operators import unary
from ..rewrite import Rewriter
from ..rounding import rounded


def count_bits(kernel: Kernel) -> Kernel:
    """An equal kernel in which such counts of 32 or 64 bits are `popcount`; `kernel` itself where there are none."""
    found = _Counts(kernel)
    roots = (*(v.body for v in kernel.values.values()), *(s.expr for s in kernel.stores))
    return found.run() if any(_counted(n) is not None for n in walk(*roots)) else kernel


class _Counts(Rewriter):
    def node(self, n: Node) -> Node | None:
        x = _counted(n)
        return None if x is None else unary("popcount", self.go(x))


def _counted(n: Node) -> Node | None:
    """The integer whose bits an expression counts: the sum of its bytes' counts, which is in the highest byte of a product, or
    in the lowest one of sums of halves."""
    if n.op not in ("shr", "and") or not n.dtype.is_int or n.dtype.size < 4:
        return None
    bits = 8 * n.dtype.size
    if n.op == "shr":
        product = _by(n, "shr", bits - 8)
        each = None if product is None else _by(product, "mul", _repeated(1, 8, bits))
        return None if each is None else _in_bytes(each)
    total, left = _by(n, "and", 2 * bits - 1), {d for d in (8, 16, 32) if d < bits}
    while total is not None and left:
        found = next(((a, d) for a, b in _sums(total) for d in left if _by(b, "shr", d) is a), None)
        total = None if found is None else found[0]
        left -= set() if found is None else {found[1]}
    return None if total is None else _in_bytes(total)


def _in_bytes(n: Node) -> Node | None:
    """What is counted where a number holds the counts of its bytes."""
    mask = _repeated(15, 8, 8 * n.dtype.size)
    both = _by(n, "and", mask)  # (the sum of two groups of four fits four bits)
    found = next((a for a, b in _sums(both) if _by(b, "shr", 4) is a), None) if both is not None else _halves(n, 4, mask)
    pairs = None if found is None else _halves(found, 2, _repeated(3, 4, 8 * n.dtype.size))
    return None if pairs is None else _in_pairs(pairs)


def _in_pairs(n: Node) -> Node | None:
    """The same where it holds the counts of pairs of bits, as v − (high bits) or as a sum."""
    mask = _repeated(1, 2, 8 * n.dtype.size)
    if n.op == "sub":
        high = _by(n.src[1], "and", mask)
        return n.src[0] if high is not None and _by(high, "shr", 1) is n.src[0] else None
    return _halves(n, 1, mask)


def _halves(n: Node, distance: int, mask: int) -> Node | None:
    """x of (x & mask) + ((x >> distance) & mask)."""
    for a, b in _sums(n):
        x, high = _by(a, "and", mask), _by(b, "and", mask)
        if x is not None and high is not None and _by(high, "shr", distance) is x:
            return x
    return None


def _by(n: Node, op: str, value: int) -> Node | None:
    """The other operand of an operator with a number, which stands second where the order counts."""
    if n.op != op:
        return None
    for x, number in (n.src, n.src[::-1])[: 1 if op == "shr" else 2]:
        if number.op == "const" and rounded(number.arg, n.dtype) == rounded(value, n.dtype):
            return x
    return None


def _sums(n: Node) -> tuple[tuple[Node, ...], ...]:
    return (n.src, n.src[::-1]) if n.op == "add" else ()


def _repeated(value: int, every: int, bits: int) -> int:
    """A number in all fields of so many bits."""
    return sum(value << at for at in range(0, bits, every))
