"""Do accesses stay inside? Every index of every load, store and use of a value, against the size of its dimension, as
the kernel is written.

An index is proved inside by its bounds: axes and symbols are put at the ends where it is largest or smallest, and
what a mask says is added to the inequality until it follows. `witness` then looks for a point where the mask holds
and the index is outside, which makes the kernel an error. What is neither proved nor refuted (an index that is read
from memory and whose range nobody stated) is left as it was written: `normalise` merges no such dimension, so that
evaluation, which checks each index that occurs, still sees it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any

from .. import index as ix
from ..body import KernelBody, values_of
from ..buffer import Extent, load_parts
from ..dtypes import bool_, index
from ..errors import KernelError
from ..index import BIG, Interval
from ..node import MASKED, Node, as_node, axes_of, axis, const, walk
from ..operators import substitute

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]


EVERY = 1 << 16
"""Most points that are all tried."""
_SOME = 1 << 12
"""Most points that are tried where there are more."""


class OpenIndexError(Exception):
    """What an expression reads from memory is not known."""


@dataclass(frozen=True, slots=True)
class Access:
    """One index: `who` (a value, or a store) uses `what` (a buffer or value) at `position` of `dimension`, which has
    `size` elements, for every point of `axes` where `mask` holds."""

    who: str
    what: str
    dimension: int
    position: Node
    size: Extent
    axes: tuple[Node, ...]
    mask: Node | None
    stored: bool = False


@dataclass(frozen=True)
class Counterexample:
    """What a search for a point outside said. `at`: what the index is there, and the point, None if there is none.
    `whole`: every point was tried."""

    at: tuple[int, dict[Node, int]] | None
    whole: bool


def search(a: Access) -> Counterexample:
    """A point of the access where the index is outside."""
    mask = () if a.mask is None else (a.mask,)
    try:
        variables = _variables(a, (a.position, *mask))
        points, whole = _points(variables)
        if not whole:
            points = _edges(a, points)
        outside = _outside(a, points)
    except OpenIndexError:
        return Counterexample(None, False)
    if not outside.any():
        return Counterexample(None, whole)
    n = int(outside.argmax())
    return Counterexample((int(value_at(a.position, points)[n]), {v: int(x[n]) for v, x in points.items()}), whole)


def _variables(a: Access, roots: tuple[Node, ...]) -> dict[Node, tuple[int, int]]:
    """What an index varies with, and the least and largest value of each: axes, symbols, and what is read from memory
    within a stated range."""
    out: dict[Node, tuple[int, int]] = {}
    stack, seen = [*roots, as_node(a.size), *(as_node(x.arg.extent) for x in a.axes)], set()
    while stack:
        n = stack.pop()
        if n in seen:
            continue
        seen.add(n)
        if n.op == "load":
            buffer, _, mask = load_parts(n)
            if buffer.whole_range is None or mask is not None or any(v.op == "load" and load_parts(v)[0] is buffer for v in out):
                raise OpenIndexError  # two elements of one buffer may be the same one
            out[n] = buffer.whole_range
        elif n.op == "axis":
            out[n] = (0, ix.bounds(n)[1])
        elif n.op == "sym":
            out[n] = (n.arg.lo, n.arg.hi)
        else:
            stack.extend(n.src)
    return out


def _points(variables: dict[Node, tuple[int, int]]) -> tuple[dict[Node, Array], bool]:
    """Values of every variable at each point, and whether these are all points."""
    import numpy as np

    whole = prod(hi - lo + 1 for lo, hi in variables.values()) <= EVERY
    if whole:
        values: list[Array] = [np.arange(lo, hi + 1, dtype=np.int64) for lo, hi in variables.values()]
    else:
        each = max(2, int(_SOME ** (1 / len(variables)) + 1e-9))
        values = [_sampled(lo, hi, each) for lo, hi in variables.values()]
        if prod(len(v) for v in values) > 1 << 18:
            raise OpenIndexError
    grid = np.meshgrid(*values, indexing="ij")
    return {v: g.ravel() for v, g in zip(variables, grid, strict=True)}, whole


def _sampled(lo: int, hi: int, count: int) -> Array:
    import numpy as np

    picked: Sequence[int] = (lo, hi, lo + 1, hi - 1, (lo + hi) // 2, *np.linspace(lo, hi, max(0, count - 5), dtype=np.int64).tolist())
    return np.array(sorted({x for x in picked[:count] if lo <= x <= hi}), np.int64)


def _edges(a: Access, points: dict[Node, Array]) -> dict[Node, Array]:
    """The points, and those moved along one variable to where the index is −1 or the size: masks mostly fail further out."""
    import numpy as np

    at, size = value_at(a.position, points), value_at(as_node(a.size), points)
    found = [points]
    for v, k in ix.parts(a.position)[0].items():
        if v not in points:
            continue
        lo, hi = int(points[v].min()), int(points[v].max())
        for target in (np.full_like(at, -1), size):
            step, rest = np.divmod(target - at, k)
            moved = points[v] + step
            fits = (rest == 0) & (moved >= lo) & (moved <= hi)
            if fits.any():
                found.append({u: (moved if u is v else x)[fits] for u, x in points.items()})
    return {v: np.concatenate([p[v] for p in found]) for v in points}


def _outside(a: Access, points: dict[Node, Array]) -> Array:
    """At which points the index is outside: those that the axes reach, and where the mask holds."""
    import numpy as np

    at = value_at(a.position, points)
    out = np.asarray((at < 0) | (at >= value_at(as_node(a.size), points)))
    for x in a.axes:
        extent = value_at(as_node(x.arg.extent), points)
        out = out & (points[x] < extent if x in points else extent > 0)
    if out.any() and a.mask is not None:
        out = out & value_at(a.mask, points)
    return np.asarray(out)


def _integer_values(n: Node, v: Sequence[Array]) -> Array:
    """An operation of whole numbers at every point, which wraps as its type does."""
    import numpy as np

    from ..evaluation.array_math import COUNTS, INTEGER

    if not all(s.dtype.is_int or s.dtype is bool_ for s in n.src):
        raise OpenIndexError
    known: dict[str, Callable[..., Any]] = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "min": np.minimum, "max": np.maximum}
    known |= {**COUNTS, **INTEGER, "neg": np.negative, "abs": np.abs, "not": np.invert, "cast": np.asarray}
    if n.op not in known:
        raise OpenIndexError
    with np.errstate(over="ignore"):
        return np.asarray(known[n.op](*(x.astype(n.dtype.np) for x in v))).astype(np.int64)


def value_at(n: Node, points: dict[Node, Array]) -> Array:
    """An index or mask at every point; raises OpenIndexError where it depends on anything else."""
    import numpy as np

    if n in points:
        return points[n]
    op = n.op
    count = len(next(iter(points.values()))) if points else 1
    if op == "const":
        return np.full(count, n.arg, bool if n.dtype is bool_ else np.int64)
    if op == "load" or not n.src:
        raise OpenIndexError
    v = [value_at(s, points) for s in n.src]
    if op == "sum":
        return np.asarray(sum((x * k for x, k in zip(v, n.arg[0], strict=True)), np.full(count, n.arg[1], np.int64)))
    if op == "prod":
        return np.asarray(np.prod(v, axis=0))
    if op == "cast" and n.dtype is index and n.src[0].dtype.is_int:
        return v[0]
    if n.dtype.is_int and n.dtype is not index and op != "where":
        return _integer_values(n, v)
    if n.dtype is index and op in ("div", "mod") and n.arg is not None:
        return np.asarray(v[0] // n.arg if op == "div" else v[0] % n.arg)
    if op == "where":
        return np.where(*v)
    if op == "not":
        return ~v[0]
    known = {
        "min": np.minimum,
        "max": np.maximum,
        "lt": np.less,
        "le": np.less_equal,
        "eq": np.equal,
        "ne": np.not_equal,
        "and": np.bitwise_and,
        "or": np.bitwise_or,
    }
    if op not in known or not all(s.dtype.is_int or s.dtype is bool_ for s in n.src):
        raise OpenIndexError
    return np.asarray(known[op](v[0], v[1]))


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
            known[key] = proved(a) or _tried(kernel.name, {b.name for b in kernel.buffers}, a)
        if not known[key]:
            out.add((a.what, a.dimension))
    return frozenset(out)


def check_between(
    kernel: str, who: str, roots: tuple[Node, ...], ends: dict[Node, tuple[Node, Node]], shapes: dict[str, tuple[Extent, ...]]
) -> None:
    """Raise KernelError where what is read along axes that start and end somewhere (`ends`) is outside for some start and end in their
    ranges. `shapes`: of the values that may be read."""
    moved = {
        a: ix.add(axis(a.arg.name, a.arg.extent - lo), const(lo)) for a, (start, _) in ends.items() if (lo := max(0, ix.bounds(start)[0]))
    }
    for a in _read(who, tuple(substitute(r, moved) for r in roots), (), shapes):
        if not proved(a):
            _tried(kernel, {load_parts(n)[0].name for n in walk(*roots) if n.op == "load"}, a)


def _tried(kernel: str, buffers: Collection[str], a: Access) -> bool:
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
        if a.what in buffers
        else f"or read it by {a.what}.masked(condition, ...), or keep the index inside, as in {a.what}[maximum(i - 1, 0)]"
    )
    raise KernelError(
        f"kernel {kernel}: {a.who} {'leaves' if a.stored else 'reads outside of'} {a.what}: in dimension {a.dimension}, which has {a.size!r} elements, "
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
        return [[ix.add(a, b, -1), ix.add(b, a, -1)]] if same else [[_is_less(a, b)], [_is_less(b, a)]]
    strict = (mask.op == "lt") is holds
    a, b = (a, b) if holds else (b, a)
    return [[_is_less(a, b) if strict else ix.add(a, b, -1)]]


def _is_less(a: Node, b: Node) -> Node:
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
        return _common_sign(s if s is None or k > 0 else -s for s, k in zip((slope(t, v) for t in n.src), n.arg[0], strict=True))
    if n.op == "prod":
        return _product(n, v)
    if n.op in ("min", "max") or (n.op == "div" and n.arg is not None):
        return _common_sign(slope(s, v) for s in n.src)
    return None


def _common_sign(ways: Iterator[int | None]) -> int | None:
    found = set(ways) - {0}
    return next(iter(found), 0) if len(found) < 2 else None


def _product(n: Node, v: Node) -> int | None:
    """Factors that are never negative, all growing or all falling."""
    if any(ix.bounds(s)[0] < 0 for s in n.src):
        return None
    return _common_sign(slope(s, v) for s in n.src)
