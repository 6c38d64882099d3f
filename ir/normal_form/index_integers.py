"""Whole numbers of 64 bits that are computed of data are indices to Tilewright, sums of terms with coefficients: here they are
integers of another type, as sums and products of two."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from .. import index as ix
from ..dtypes import DType
from ..integer_ranges import inside
from ..intervals import Interval
from ..node import Node, const, make, pending
from ..of_data import of_data
from ..operators import cast
from ..rests import rests
from ..rounding import rounded

_DEAR = {"mul", "floordiv", "remainder", "max", "min", "abs", "shr", "prod", "div", "mod", "where"}
"""What vectors of 64-bit integers have no instruction for on many processors, or have it at half the rate."""


def dear_data(n: Node) -> bool:
    """Whether an integer of 64 bits is computed of data by operators that cost much in so many bits (memoised)."""
    for m in pending(n, lambda m: "dear" in m._memo):
        inner = m.op not in ("load", "ref") and any(s._memo["dear"] for s in m.src)
        m._memo["dear"] = inner or (m.op in _DEAR and m.dtype.is_int and m.dtype.size == 8 and of_data(m))
    return bool(n._memo["dear"])


Of = Callable[[Node], Interval]


def integer(n: Node, to: DType, types: Iterable[DType], done: Mapping[Node, Node], of: Of) -> Node | None:
    """A sum, product, quotient or rest of indices in another type, modulo the numbers that it has; None of any other index, or where an
    operand is not `done`, or a dividend fits none of `types`."""
    if not all(s in done for s in n.src):
        return None
    if n.op == "sum":
        return _sum(n, to, tuple(types), done, of)
    if n.op == "prod":
        out = cast(done[n.src[0]], to)
        for s in n.src[1:]:
            out = make("mul", to, (out, cast(done[s], to)))
        return out
    found = _divided(n.op, n.src[0], n.arg, types, done, of) if n.op in ("div", "mod") else None
    return None if found is None else cast(found, to)


def _divided(op: str, x: Node, by: int, types: Iterable[DType], done: Mapping[Node, Node], of: Of) -> Node | None:
    kind = next((k for k in types if inside(of(x), k) and inside((by, by), k)), None)
    return None if kind is None else make("floordiv" if op == "div" else "remainder", kind, (cast(done[x], kind), const(by, kind)))


def _sum(n: Node, to: DType, types: tuple[DType, ...], done: Mapping[Node, Node], of: Of) -> Node:
    found, terms, c = rests(n)
    made: list[tuple[Node, int]] = []
    for quotient, times in found:
        rest = _divided("mod", quotient.src[0], quotient.arg, types, done, of) if quotient.src[0] in done else None
        if rest is None:  # as it is written
            found, (terms, c) = [], ix.parts(n)
            made = []
            break
        made.append((cast(rest, to), times))
    made += [(cast(done[t], to), k) for t, k in terms.items() if k]
    made.sort(key=lambda e: e[1] < 0)  # (begins with what is added)
    if not made:
        return const(rounded(c, to), to)
    signed = [(k > 0, x if abs(k) == 1 else make("mul", to, (x, const(rounded(abs(k), to), to)))) for x, k in made]
    out = signed[0][1] if signed[0][0] else make("neg", to, signed[0][1:])
    for positive, term in signed[1:]:
        out = make("add" if positive else "sub", to, (out, term))
    if not c:
        return out
    return make("add" if c > 0 else "sub", to, (out, const(rounded(abs(c), to), to)))
