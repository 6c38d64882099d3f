"""Is every element of an output written at most once? Of a store without `combine`, and of several such stores to one output.

Points are told apart where each axis moves some index by more than all axes of shorter steps can together (a mixed
radix). What that does not show is decided by trying every point, where these are few and no data decides; a collision
among some of the points is one, too. What stays open (an index that is read from memory) is `unknown`: such a store keeps
the order of its axes, and the last write counts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import count
from math import gcd, prod
from typing import TYPE_CHECKING, Any

from .. import index as ix
from ..body import KernelBody, Store
from ..buffer import Buffer
from ..errors import KernelError
from ..node import Node, as_node, axes_of, axis, const, walk
from ..node import axis as make_axis
from ..operators import substitute
from .access_bounds import EVERY, OpenIndexError, largest, value_at

if TYPE_CHECKING:
    import numpy as np

    Points = dict[Node, np.ndarray[Any, Any]]


@dataclass(frozen=True)
class Writes:
    """`once`: no two points write one element. `at`: two that do. Neither: not known."""

    once: bool
    at: tuple[dict[Node, int], dict[Node, int]] | None = None


@lru_cache(maxsize=1024)
def writes(store: Store) -> Writes:
    """Whether the points of a store have elements of their own (whatever its `combine` is)."""
    if disjoint_by_steps(store):
        return Writes(True)
    try:
        points, whole = _some_points(store)
        return _collision(store, points, whole)
    except OpenIndexError:
        return Writes(False)


def check_written_once(kernel: KernelBody) -> None:
    """Raise KernelError where an element is written twice and nothing says how that combines: with two points."""
    seen: dict[str, list[Store]] = {}
    for s in kernel.stores:
        earlier = seen.setdefault(s.buffer.name, [])
        for other in earlier:
            _check_pair(kernel, other, s)
        earlier.append(s)
        found = writes(s).at if s.combine is None else None
        if found is not None:
            raise KernelError(f"kernel {kernel.name}: the store to {s.buffer.name} {_collision_text(s, *found)}")


def _collision_text(s: Store, a: dict[Node, int], b: dict[Node, int]) -> str:
    differ = [x for x in s.axes if a[x] != b[x]]
    idle = [x for x in differ if x not in axes_of(*s.indices)]
    names = ", ".join(f"{x!r}" for x in idle or differ)
    why = f"no index has axis {names}" if idle else f"the index of points that differ in {names} is the same"
    return (
        f"writes one element twice, at {_point(a)} and at {_point(b)}: {why}. Give combine='add' (or 'max', ...) if the writes add up, "
        f"reduce over {names} before (kb.sum), or let the indices tell the points apart"
    )


def _point(p: dict[Node, int]) -> str:
    return ", ".join(f"{v!r} = {x}" for v, x in p.items()) or "the only point"


def disjoint_by_steps(store: Store) -> bool:
    """Whether different points certainly have different elements, by the steps of the axes in each index."""
    left = {a for a in store.axes if a.arg.extent != 1}
    if any(a.arg.extent == 0 for a in store.axes):
        return True
    todo = list(store.indices)
    while left and todo:
        rest = []
        for i in todo:
            told = _determined(i, left)
            if told is None:
                rest.append(i)
            else:
                left -= told
        if len(rest) == len(todo):
            return False
        todo = rest
    return not left


def _determined(i: Node, left: set[Node]) -> set[Node] | None:
    """The axes among `left` whose indices follow from this one, if these are all that it still depends on."""
    terms = {t: k for t, k in ix.parts(i)[0].items() if t in left or (t.op != "axis" and axes_of(t) & left)}
    if any(t.op != "axis" or not isinstance(t.arg.extent, int) for t in terms) and len(terms) > 1:
        return None
    reach = 0
    for t, k in sorted(terms.items(), key=lambda x: abs(x[1])):
        if t.op != "axis" or abs(k) <= reach:
            return None
        reach += abs(k) * (ix.upper(t.arg.extent) - 1)
    return set(terms)


# points ------------------------------------------------------------------------------------------------------------
def _some_points(store: Store) -> tuple[Points, bool]:
    """Points of a store's axes, all where they are few; and whether these are all."""
    import numpy as np

    extents = [a.arg.extent for a in store.axes]
    if any(not isinstance(e, int) for e in extents):  # the least of the symbol is still a real kernel
        raise OpenIndexError
    whole = prod(extents) <= EVERY
    most = max(2, int(EVERY ** (1 / max(1, len(extents)))))
    room, sizes = EVERY, []
    for e in extents:
        sizes.append(e if whole else max(1, min(e, most, room)))
        room //= sizes[-1]
    grid = np.meshgrid(*(np.arange(n, dtype=np.int64) for n in sizes), indexing="ij") if sizes else []
    return {a: g.ravel() for a, g in zip(store.axes, grid, strict=True)}, whole


def _elements(store: Store, points: Points) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """The indices that the store writes at points, a column each, and which of the points its mask lets write."""
    import numpy as np

    count = len(next(iter(points.values()))) if points else 1
    at = (
        np.stack([np.broadcast_to(value_at(i, points), (count,)) for i in store.indices], 1)
        if store.indices
        else np.zeros((count, 1), np.int64)
    )
    keep = np.ones(count, bool) if store.mask is None else np.broadcast_to(value_at(store.mask, points), (count,))
    return at[keep], np.flatnonzero(keep)


def _collision(store: Store, points: Points, whole: bool) -> Writes:
    import numpy as np

    at, which = _elements(store, points)
    _, first, inverse = np.unique(at, axis=0, return_index=True, return_inverse=True)
    again = np.flatnonzero(first[inverse.reshape(-1)] != np.arange(len(at)))
    if not len(again):
        return Writes(whole)
    n = int(again[0])
    pair = (int(which[first[inverse.reshape(-1)[n]]]), int(which[n]))
    one, two = ({v: int(x[p]) for v, x in points.items()} for p in pair)
    return Writes(False, (one, two))


# two stores ----------------------------------------------------------------------------------------------------------
def _check_pair(kernel: KernelBody, a: Store, b: Store) -> None:
    """Raise KernelError unless two stores to one output combine alike, or certainly write different elements."""
    what = f"kernel {kernel.name}: two stores to {a.buffer.name}"
    if a.combine is not None and a.combine == b.combine:
        return
    if a.combine is not None or b.combine is not None:
        raise KernelError(
            f"{what}: one {_manner(a)} and the other {_manner(b)}; stores to one output that combine all have one combine, so give both "
            f"combine={(a.combine or b.combine)!r}, or write two outputs"
        )
    if _disjoint(a, b):
        return
    advice = "let them write parts that have nothing in common (indices that never meet), or choose between them by where() in one store"
    try:
        (p, all_p), (q, all_q) = _some_points(a), _some_points(b)
        (x, of_x), (y, of_y) = _elements(a, p), _elements(b, q)
    except OpenIndexError:
        raise KernelError(f"{what} may write one element twice; {advice}") from None
    known = {tuple(row): n for n, row in enumerate(x.tolist())}
    met = next((n for n, row in enumerate(y.tolist()) if tuple(row) in known), None)
    if met is not None:
        one = {v: int(c[of_x[known[tuple(y[met].tolist())]]]) for v, c in p.items()}
        two = {v: int(c[of_y[met]]) for v, c in q.items()}
        raise KernelError(
            f"{what} both write {a.buffer.name}{y[met].tolist()}, the first at {_point(one)} and the second at {_point(two)}; {advice}"
        )
    if not (all_p and all_q):
        raise KernelError(f"{what} are not known to be apart; {advice}")


def _manner(s: Store) -> str:
    """What a store does to an element, in words."""
    return "combines nothing" if s.combine is None else f"combines by {s.combine!r}"


def _disjoint(a: Store, b: Store) -> bool:
    """Whether some index is always below the other's, or on another step of a common grid."""
    fresh = {x: make_axis(f"{x.arg.name}'", x.arg.extent) for x in b.axes}
    for i, j in zip(a.indices, b.indices, strict=True):
        gap = ix.add(i, substitute(j, fresh), -1)
        if largest(gap) < 0 or largest(ix.mul(gap, const(-1))) < 0:
            return True
        terms, c = ix.parts(gap)
        step = gcd(*terms.values()) if terms else 0
        if step > 1 and c % step:
            return True
    return False


CUTS = 64
"""Most times that an axis is cut, or points are numbered anew."""
CHUNK = 1 << 20
"""Points that are tried at once."""


@lru_cache(maxsize=4096)
def writes_whole(store: Store) -> bool:
    """Whether every element of the output gets a value, whatever data is. (What combines starts from its identity.)"""
    return store.combine is not None or all(_covers_output(s) for s in _sized(store))


def written_whole(kernel: KernelBody, buffer: Buffer) -> bool:
    """Whether every element of an output gets a value: of one store, or of several that write as many elements as there are, each once."""
    stores = [s for s in kernel.stores if s.buffer is buffer]
    if any(writes_whole(s) for s in stores):
        return True
    sizes = [*buffer.shape, *(a.arg.extent for s in stores for a in s.axes)]
    if any(isinstance(n, Node) for n in sizes) or any(s.mask is not None or not writes(s).once for s in stores):
        return False
    return sum(prod(int(a.arg.extent) for a in s.axes) for s in stores) == prod(int(as_node(n).arg) for n in buffer.shape)


def _covers_output(store: Store) -> bool:
    """The same for a store whose sizes are numbers."""
    shape = [int(ix.evaluate(as_node(n), {})) for n in store.buffer.shape]
    extents = [a.arg.extent for a in store.axes]
    if not prod(shape):
        return True
    if prod(extents) < prod(shape):
        return False
    if store.mask is None and prod(extents) == prod(shape):
        told = _by_digits(store)
        if told is not None and disjoint_by_steps(told):
            return True
    try:
        return _tried(store, shape)
    except OpenIndexError:
        return False


def _sized(store: Store) -> Iterator[Store]:
    """The store with numbers for its symbols: the least of each, the next ones, and the most."""
    sizes = (*store.buffer.shape, *(a.arg.extent for a in store.axes))
    symbols = sorted({s for n in (*sizes, *store.indices) for s in walk(as_node(n)) if s.op == "sym"}, key=ix.order_key)
    if not symbols:
        yield store
        return
    for values in ([s.arg.lo for s in symbols], [min(s.arg.lo + 1, s.arg.hi) for s in symbols], [s.arg.hi for s in symbols]):
        table: dict[Node, Node] = {s: const(v) for s, v in zip(symbols, values, strict=True)}
        table |= {a: axis(a.arg.name, substitute(as_node(a.arg.extent), table).arg) for a in store.axes}
        shape = tuple(substitute(as_node(n), table).arg for n in store.buffer.shape)
        yield replace(
            store,
            buffer=replace(store.buffer, shape=shape),
            indices=tuple(substitute(i, table) for i in store.indices),
            axes=tuple(table[a] for a in store.axes),
            mask=None if store.mask is None else substitute(store.mask, table),
        )


# digits --------------------------------------------------------------------------------------------------------------
def _by_digits(store: Store) -> Store | None:
    """The store over axes by which no index is divided; None where there are none."""
    indices, axes, fresh = store.indices, set(store.axes), count()
    for _ in range(CUTS):
        whole = next((n.src[0] for i in indices for n in walk(i) if _divides(n) and not any(map(_divides, walk(n.src[0])))), None)
        if whole is None:
            return replace(store, indices=indices, axes=tuple(a for a in store.axes if a in axes) + tuple(axes - {*store.axes}))
        name = f"digit{next(fresh)}"
        if whole.op == "axis":
            size = whole.arg.extent
            cut = min(n.arg for i in indices for n in walk(i) if _divides(n) and n.src[0] is whole)
            if size % cut:
                return None
            new = [axis(name, size // cut), axis(f"{name}_", cut)]
            table, gone = {whole: ix.add(ix.mul(new[0], const(cut)), new[1])}, {whole}
        else:
            gone = set(axes_of(whole))
            if not _numbers(whole, gone):
                return None
            new = [axis(name, prod(a.arg.extent for a in gone))]
            table = {whole: new[0]}
        indices = tuple(substitute(i, table) for i in indices)
        axes = (axes - gone) | {*new}
        if axes_of(*indices) & gone:
            return None
    return None


def _divides(n: Node) -> bool:
    return n.op in ("div", "mod")


def _numbers(place: Node, axes: set[Node]) -> bool:
    """Whether a place numbers the points of axes from 0 on, each once."""
    terms, start = ix.parts(place)
    step = 1
    for a, k in sorted(terms.items(), key=lambda t: t[1]):
        if a not in axes or k != step:
            return False
        step *= a.arg.extent
    return start == 0


# every point -----------------------------------------------------------------------------------------------------------
def _tried(store: Store, shape: Sequence[int]) -> bool:
    """Whether the points of a store reach every element: all of them are tried."""
    import numpy as np

    extents = [a.arg.extent for a in store.axes]
    seen = np.zeros(prod(shape), bool)
    for start in range(0, prod(extents), CHUNK):
        flat = np.arange(start, min(start + CHUNK, prod(extents)), dtype=np.int64)
        at = np.unravel_index(flat, extents) if extents else ()
        points = dict(zip(store.axes, at, strict=True))
        place = np.zeros(len(flat), np.int64)
        for i, n in zip(store.indices, shape, strict=True):
            place = place * n + value_at(i, points)
        seen[place if store.mask is None else place[value_at(store.mask, points)]] = True
    return bool(seen.all())
