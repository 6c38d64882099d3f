"""Sums that fit a smaller type are summed up in it: counts of few elements, and means of a few pixels, in 16 bits; what is counted
in 64 bits, in 32."""

from __future__ import annotations

from collections.abc import Iterator

from ..body import Reduce, Value
from ..buffer import load_parts
from ..dtypes import DType, index
from ..integer_ranges import KernelRanges, inside
from ..kernel import Kernel
from ..node import Node, make, walk
from ..of_data import of_data
from ..operators import cast
from ..rewrite import Rewriter
from .narrowing import SHORT, WORD, Narrow, Pair
from .sum_ranges import interval, ranges_of

_COMBINES = ("add", "max", "min")


def narrow_sums(kernel: Kernel) -> Kernel:
    """An equal kernel whose sums and extremes of integers have the smallest type of 16 or 32 bits that their values fit, where nothing
    that they are computed of is wider; `kernel` itself where none is narrower."""
    known = KernelRanges(ranges_of(kernel))
    found = {v.name: to for v in kernel.body if isinstance(v, Value) and (to := _fits(kernel, v, known)) is not None}
    return _Narrower(kernel, found).run() if found else kernel


def _fits(kernel: Kernel, v: Value, known: KernelRanges) -> DType | None:
    """The smaller type of a reduction; None where there is none."""
    e = v.expr
    if not isinstance(e, Reduce) or e.combine not in _COMBINES or v.dtype is not e.dtype:
        return None
    if not e.dtype.is_int or e.dtype.size <= 2 or (e.dtype is index and not _only_cast(kernel, v.name)):
        return None
    values = interval(v, known)
    for pair in (WORD,) if _multiplies(e.expr) else (SHORT, WORD):
        to = next((t for t in pair if values is not None and inside(values, t)), None)
        if to is not None and to.size < e.dtype.size and max(_sizes(e.expr), default=8) <= to.size and _smaller(kernel, e.expr, pair):
            return to
    return None


def _only_cast(kernel: Kernel, name: str) -> bool:
    """Whether who reads a value only turns it into another type, or stores it: as an index it has to be what it is."""
    for n in {m for e in kernel.expressions() for m in walk(e)}:
        if any(s.op == "ref" and s.arg == name for s in n.src) and (n.op != "cast" or n.dtype is index):
            return False
    return not any(i.op == "ref" and i.arg == name for s in kernel.stores for i in s.indices)


def _multiplies(body: Node) -> bool:
    """Whether data is multiplied by data: what processors have for sums of such products adds up in 32 bits."""
    return any(m.op in ("mul", "prod") and all(any(_sizes(s)) for s in m.src) for m in walk(body))


def _smaller(kernel: Kernel, body: Node, pair: Pair) -> bool:
    """Whether an expression can be computed in a smaller type."""
    return Narrow(kernel).smaller(body, pair) is not None


def _sizes(n: Node) -> Iterator[int]:
    """The bytes of what an expression reads, but for places: of lanes of mixed sizes some would have to be turned into the others."""
    stack, seen = [n], set[Node]()
    while stack:
        m = stack.pop()
        if m in seen:
            continue
        seen.add(m)
        if m.op in ("load", "ref"):
            yield m.dtype.size
            mask = load_parts(m)[2] if m.op == "load" else None
            stack += [] if mask is None else [mask]
        elif m.dtype is index and not of_data(m):  # (truths of places are packed: fewer steps than widening what is read)
            yield SHORT[0].size
        elif m.op != "const":
            stack += m.src


class _Narrower(Rewriter):
    """Gives sums their smaller types, and whoever reads them what they were."""

    def __init__(self, kernel: Kernel, found: dict[str, DType]) -> None:
        super().__init__(kernel)
        self.found = found

    def node(self, n: Node) -> Node | None:
        if n.op != "ref" or n.arg not in self.found:
            return None
        return cast(make("ref", self.found[n.arg], tuple(self.go(s) for s in n.src), n.arg), n.dtype)

    def value(self, v: Value) -> Value:
        found, to = super().value(v), self.found.get(v.name)
        if to is None or not isinstance(found.expr, Reduce):
            return found
        e = found.expr
        return Value(v.name, found.axes, Reduce(e.combine, e.axes, cast(e.expr, to), to), to)
