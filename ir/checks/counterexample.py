"""A point where an access is outside: what makes a kernel an error, and what its message says.

Every point is tried where there are few; else some of each axis, and the points where the index is just outside."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any

from .. import index as ix
from ..buffer import Extent, load_parts
from ..dtypes import bool_, index
from ..node import Node, as_node

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
        values = [_some(lo, hi, each) for lo, hi in variables.values()]
        if prod(len(v) for v in values) > 1 << 18:
            raise OpenIndexError
    grid = np.meshgrid(*values, indexing="ij")
    return {v: g.ravel() for v, g in zip(variables, grid, strict=True)}, whole


def _some(lo: int, hi: int, count: int) -> Array:
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


def _whole(n: Node, v: Sequence[Array]) -> Array:
    """An operation of whole numbers at every point, which wraps as its type does."""
    import numpy as np

    from ..evaluation.integers import COUNTS, INTEGER

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
        return _whole(n, v)
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
