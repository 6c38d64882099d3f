"""Do accesses stay inside? Every index of every load, store and use of a value, against the size of its dimension, as
the kernel is written.

An index is proved inside by its bounds: axes and symbols are put at the ends where it is largest or smallest, and
what a mask says is added to the inequality until it follows. `witness` then looks for a point where the mask holds
and the index is outside, which makes the kernel an error. What is neither proved nor refuted (an index that is read
from memory and whose range nobody stated) is left as it was written: `normalise` merges no such dimension, so that
evaluation, which checks each index that occurs, still sees it."""

from __future__ import annotations

from collections.abc import Iterator

from .. import index as ix
from ..body import KernelBody, values_of
from ..buffer import Extent, load_parts
from ..errors import KernelError
from ..index import BIG, Interval
from ..node import Node, as_node, axes_of, const, walk
from ..op_names import MASKED
from ..operators import substitute
from .counterexample import Access, search

Unproved = frozenset[tuple[str, int]]
"""Dimensions by (name of the buffer or value, position)."""
_CASES = 16
"""Most cases that a mask is split into; what has more proves nothing."""
_DEPTH = 3
"""Most parts of a mask that are added up for one inequality."""


def unproved(kernel: KernelBody) -> Unproved:
    """The dimensions that some index may leave, for all that is known. Raises KernelError where one certainly does,
    for some values of the symbols and of what is read from memory, within their ranges."""
    out: set[tuple[str, int]] = set()
    known: dict[tuple[Node, Extent, Node | None], bool] = {}
    for a in accesses(kernel):
        key = (a.position, a.size, a.mask)
        if key not in known:
            known[key] = proved(a) or _tried(kernel, a)
        if not known[key]:
            out.add((a.what, a.dimension))
    return frozenset(out)


def _tried(kernel: KernelBody, a: Access) -> bool:
    """Whether trying every point proves it. Raises KernelError where one is outside."""

    found = search(a)
    if found.at is None:
        return found.whole
    value, point = found.at
    lo, hi = _interval(a.position)
    known = lo > -BIG and hi < BIG and (lo, hi) != _of_type(a.position)
    runs = f"runs over {lo}..{hi}" if known else "leaves it"
    where = ", ".join(f"{v!r} = {x}" for v, x in point.items())
    mend = f"give {a.what} another shape, " + (
        "or store under a mask"
        if a.stored
        else f"or read it by {a.what}.masked(condition, ...): where() does not keep a load from memory"
        if any(b.name == a.what for b in kernel.buffers)
        else f"or read it by {a.what}.masked(condition, ...), or keep the index inside, as in {a.what}[maximum(i - 1, 0)]"
    )
    raise KernelError(
        f"kernel {kernel.name}: {a.who} {'leaves' if a.stored else 'reads outside of'} {a.what}: in dimension {a.dimension}, which has {a.size!r} elements, "
        f"the index {a.position!r} {runs}{' where its mask holds' if a.mask is not None else ''} and is {value} at {where or 'every point'}; {mend}"
    )


def accesses(kernel: KernelBody) -> Iterator[Access]:
    """Every index of a kernel; those of nests that have no point, an axis being empty, left out."""
    shapes = {v.name: tuple(a.arg.extent for a in v.axes) for v in kernel.values.values()}
    for item in kernel.body:
        for v in values_of(item):
            yield from _read(f"value {v.name}", (v.body,), (*v.axes, *v.reduce_axes), shapes)
    for s in kernel.stores:
        yield from _read(f"the store to {s.buffer.name}", (s.expr, *s.indices, *([] if s.mask is None else [s.mask])), s.axes, shapes)
        if not _empty(s.axes):
            for d, (i, size) in enumerate(zip(s.indices, s.buffer.shape, strict=True)):
                yield Access(f"the store to {s.buffer.name}", s.buffer.name, d, i, size, s.axes, s.mask, stored=True)


def _read(who: str, roots: tuple[Node, ...], axes: tuple[Node, ...], shapes: dict[str, tuple[Extent, ...]]) -> Iterator[Access]:
    if _empty(axes):
        return
    for n in walk(*roots):
        if n.op == "load":
            buffer, indices, mask = load_parts(n)
            for d, (i, size) in enumerate(zip(indices, buffer.shape, strict=True)):
                yield Access(who, buffer.name, d, i, size, axes, mask)
        elif n.op == "ref":
            for d, (i, size) in enumerate(zip(n.src, shapes[n.arg], strict=True)):
                yield Access(who, n.arg, d, i, size, axes, None)
        elif n.op == MASKED:
            for d, (i, size) in enumerate(zip(n.src[:-1], shapes[n.arg], strict=True)):
                yield Access(who, n.arg, d, i, size, axes, n.src[-1])


def _empty(axes: tuple[Node, ...]) -> bool:
    return any(a.arg.extent == 0 for a in axes)


def proved(a: Access) -> bool:
    """Whether the index certainly stays inside wherever the mask holds."""
    i = a.position
    if i.op == "axis" and i.arg.extent == a.size:
        return True
    if isinstance(a.size, int):
        lo, hi = _interval(i)
        if lo >= 0 and hi < a.size:
            return True
    above = ix.add(ix.add(i, as_node(a.size), -1), const(1))
    below = ix.mul(i, const(-1))
    return all(_follows(below, case) and _follows(above, case) for case in ([[]] if a.mask is None else cases(a.mask)))


def _interval(n: Node) -> Interval:
    """The bounds of an index; what narrow integers are computed or read from lies in the range of their type, if no other is stated."""
    lo, hi = ix.bounds(n)
    return (_of_type(n) or (lo, hi)) if lo <= -BIG or hi >= BIG else (lo, hi)


def _of_type(n: Node) -> Interval | None:
    """The range of the integer type that an index is computed in."""
    t = n.src[0].dtype if n.op == "cast" else n.dtype
    half = 1 << (8 * t.size - 1)
    return None if not t.is_int else (-half, half - 1) if t.kind == "i" else (0, 2 * half - 1)


# what a mask says ------------------------------------------------------------------------------------------------
def cases(mask: Node, holds: bool = True) -> list[list[Node]]:
    """The mask as alternatives, each a list of indices that are at most 0 there. What cannot be said so is left out."""
    if mask.op == "not":
        return cases(mask.src[0], not holds)
    if mask.op == "const":
        return [[]] if mask.arg is holds else []
    if mask.op in ("and", "or"):
        one, other = (cases(s, holds) for s in mask.src)
        found = [[*x, *y] for x in one for y in other] if (mask.op == "and") is holds else one + other
        return found if len(found) <= _CASES else [[]]
    if mask.op not in ("lt", "le", "eq", "ne") or not all(s.dtype.is_int for s in mask.src):
        return [[]]
    a, b = mask.src
    if mask.op in ("eq", "ne"):
        same = (mask.op == "eq") is holds
        return [[ix.add(a, b, -1), ix.add(b, a, -1)]] if same else [[_less(a, b)], [_less(b, a)]]
    strict = (mask.op == "lt") is holds
    a, b = (a, b) if holds else (b, a)
    return [[_less(a, b) if strict else ix.add(a, b, -1)]]


def _less(a: Node, b: Node) -> Node:
    """a < b as an index that is at most 0."""
    return ix.add(ix.add(a, b, -1), const(1))


def _follows(goal: Node, facts: list[Node], depth: int = _DEPTH) -> bool:
    """Whether goal <= 0 follows from facts <= 0."""
    if largest(goal) <= 0:
        return True
    if depth:
        terms = ix.parts(goal)[0]
        for n, fact in enumerate(facts):
            others = ix.parts(fact)[0]
            times = {terms[t] // k for t, k in others.items() if k and terms.get(t, 0) % k == 0 and terms.get(t, 0) // k > 0}
            if any(_follows(ix.add(goal, fact, -k), facts[n + 1 :], depth - 1) for k in sorted(times)):
                return True
    return False


# the ends of an index --------------------------------------------------------------------------------------------
def largest(n: Node) -> int:
    """An upper bound of an index, in which what extents and sizes have in common cancels (`ix.bounds` takes each by itself)."""
    for variables in (axes_of, _symbols):
        for v in sorted(variables(n), key=ix.order_key):
            way = slope(n, v)
            if way:
                n = substitute(n, {v: last(v) if way > 0 else first(v)})
    return ix.bounds(n)[1]


def last(v: Node) -> Node:
    """The largest value of an axis (its extent less 1) or symbol."""
    return const(v.arg.hi) if v.op == "sym" else ix.add(as_node(v.arg.extent), const(-1))


def first(v: Node) -> Node:
    """The least value of an axis or symbol."""
    return const(v.arg.lo if v.op == "sym" else 0)


def _symbols(n: Node) -> set[Node]:
    return {s for s in walk(n) if s.op == "sym"}


def slope(n: Node, v: Node) -> int | None:
    """1 where an index never falls as v grows, −1 where it never rises, 0 where it does not depend on v, None where nothing is known."""
    if n is v:
        return 1
    if v not in axes_of(n) if v.op == "axis" else all(s is not v for s in walk(n)):
        return 0
    if n.op == "sum":
        return _both(s if s is None or k > 0 else -s for s, k in zip((slope(t, v) for t in n.src), n.arg[0], strict=True))
    if n.op == "prod":
        return _product(n, v)
    if n.op in ("min", "max") or (n.op == "div" and n.arg is not None):
        return _both(slope(s, v) for s in n.src)
    return None


def _both(ways: Iterator[int | None]) -> int | None:
    found = set(ways) - {0}
    return next(iter(found), 0) if len(found) < 2 else None


def _product(n: Node, v: Node) -> int | None:
    """Factors that are never negative, all growing or all falling."""
    if any(ix.bounds(s)[0] < 0 for s in n.src):
        return None
    return _both(slope(s, v) for s in n.src)
