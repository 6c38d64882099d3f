"""Sorting, searching and sets, by NumPy's own code. Results whose shape follows from the arguments are computed when they are
asked for, like anything else; `nonzero` and `unique_*` compute their argument at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from ...ir.dtypes import int64
from ...ir.errors import UsageError
from ..graph.nodes import Gathered, HostCall, TensorNode
from ..graph.primitives import as_typed, cast, gather, host
from ..graph.promotion import promote
from ..leaves import from_numpy, values
from .elementwise import Operand, floats, together
from .indexing import take
from .movement import dims

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]


def sort(x: TensorNode, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> TensorNode:
    """Sorted along a dimension; always stable. NaN is larger than all."""
    d = dims(x, axis, "sort")[0] - len(x.shape)
    return host(HostCall("sort", lambda a: _sorted(a, d, descending), (d, descending), batches=True), (x,), x.shape, x.dtype)


def argsort(x: TensorNode, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> TensorNode:
    """The places that sort along a dimension; equal elements keep their order."""
    d = dims(x, axis, "argsort")[0]
    return _places(x, d, descending, x.shape[d])


def _places(x: TensorNode, axis: int, descending: bool, first: int) -> TensorNode:
    """The first places of those that sort."""
    d, shape = axis - len(x.shape), (*x.shape[:axis], first, *x.shape[axis + 1 :])
    part_of = None if first is x.shape[axis] or first == x.shape[axis] else first
    call = lambda a: _order(a, d, descending) if part_of is None else _best(a, d, descending, part_of)  # noqa: E731
    return host(HostCall("argsort", call, (d, descending, part_of), batches=True), (x,), shape, int64)


def topk(x: TensorNode, k: int, /, *, axis: int = -1, largest: bool = True) -> tuple[TensorNode, TensorNode]:
    """The k largest along a dimension, largest first, or the k smallest, smallest first, and their places."""
    (d,) = dims(x, axis, "topk")
    if not 0 <= k <= x.shape[d]:
        raise UsageError(f"topk of {list(x.shape)}: {k} of {x.shape[d]} elements")
    places = _places(x, d, largest, k)
    return gather(x, Gathered.along(places.shape, d), (places,), places.shape), places


def searchsorted(
    x1: TensorNode, x2: Operand, /, *, side: Literal["left", "right"] = "left", sorter: TensorNode | None = None
) -> TensorNode:
    """Where the elements of x2 go in the sorted vector x1, before (left) or behind equal ones (right)."""
    from .indexing import take

    if side not in ("left", "right"):
        raise UsageError(f"searchsorted: side is 'left' or 'right', not {side!r}")
    if len(x1.shape) != 1:
        raise UsageError(f"searchsorted in {list(x1.shape)}: it needs a vector")
    row = x1 if sorter is None else take(x1, sorter)
    at = x2 if isinstance(x2, TensorNode) else together("searchsorted", x2, dtype=x1.dtype)[0]
    call = HostCall("searchsorted", lambda a, b: _searched(a, b, side), (side == "right",))
    return host(call, (row, at), at.shape, int64)


def nextafter(x1: Operand, x2: Operand, /) -> TensorNode:
    """The next number of the type after x1, towards x2."""
    x, y = floats("nextafter", x1, x2)
    return host(HostCall("nextafter", _nextafter), (x, y), x.shape, x.dtype)


# results whose shape depends on values ------------------------------------------------------------------------------
class UniqueAll(NamedTuple):
    """Sorted distinct elements, where each is first, which one each element is, and how often each is there."""

    values: TensorNode
    indices: TensorNode
    inverse_indices: TensorNode
    counts: TensorNode


class UniqueCounts(NamedTuple):
    """Sorted distinct elements, and how often each is there."""

    values: TensorNode
    counts: TensorNode


class UniqueInverse(NamedTuple):
    """Sorted distinct elements, and which one each element is."""

    values: TensorNode
    inverse_indices: TensorNode


def unique_all(x: TensorNode, /) -> UniqueAll:
    """The distinct elements, sorted; every NaN is one of its own. Computed at once."""
    import numpy as np

    array = _ordered(values(x))
    found, first, inverse, counts = np.unique(array, return_index=True, return_inverse=True, return_counts=True, equal_nan=False)
    places, *others = (from_numpy(p.astype(np.int64)) for p in (first, inverse.reshape(array.shape), counts))
    # (a gradient goes through what is read, not through what NumPy found)
    return UniqueAll(take(x, places) if x.tracked else from_numpy(found, x.dtype), places, *others)


def unique_counts(x: TensorNode, /) -> UniqueCounts:
    """The distinct elements, sorted, and how often each is there. Computed at once."""
    found = unique_all(x)
    return UniqueCounts(found.values, found.counts)


def unique_inverse(x: TensorNode, /) -> UniqueInverse:
    """The distinct elements, sorted, and which one each element is. Computed at once."""
    found = unique_all(x)
    return UniqueInverse(found.values, found.inverse_indices)


def unique_values(x: TensorNode, /) -> TensorNode:
    """The distinct elements, sorted. Computed at once."""
    import numpy as np

    return unique_all(x).values if x.tracked else from_numpy(np.unique(_ordered(values(x)), equal_nan=False), x.dtype)


def nonzero(x: TensorNode, /) -> tuple[TensorNode, ...]:
    """The places of elements that are not 0, one index tensor a dimension. Computed at once."""
    import numpy as np

    if not x.shape:
        raise UsageError("nonzero of a tensor without dimensions: reshape it to (1,) first")
    return tuple(from_numpy(np.ascontiguousarray(p, np.int64)) for p in np.nonzero(values(x)))


def isin(x: TensorNode, test: TensorNode, /) -> TensorNode:
    """Whether elements are among those of `test`."""
    import numpy as np

    from ...ir.dtypes import bool_

    kind = promote(x.dtype, test.dtype)
    a, b = (n if n.dtype is kind else cast(as_typed(n), kind) for n in (x, test))
    return host(HostCall("isin", lambda p, q: np.isin(_ordered(p), _ordered(q))), (a, b), a.shape, bool_)


# NumPy's code: functions of arrays, which change none of their arguments --------------------------------------------
def _nextafter(x: Array, y: Array) -> Array:
    """The next number that x's type has, towards y."""
    import numpy as np

    out: Array = np.nextafter(x, y)
    return out


def _ordered(x: Array) -> Array:
    """An array, or the same numbers in a type that NumPy orders: in bfloat16 and floats of 8 bits it puts NaN, and what is near, anywhere."""
    import numpy as np

    return x if x.dtype.isbuiltin == 1 else x.astype(np.float32)


def _sorted(x: Array, axis: int, descending: bool) -> Array:
    """Sorted along an axis; NaN is larger than all."""
    import numpy as np

    near = _near(x) if x.ndim and x.shape[axis] > SHORT and x.dtype.kind in "iu" else None
    if near is not None and near[1] < DIGIT:
        keys, _, low = near
        out = np.add(np.sort(keys.astype(np.uint16), axis=axis, kind="stable"), low, dtype=x.dtype, casting="unsafe")
    else:
        out = np.sort(_ordered(x), axis=axis).astype(x.dtype, copy=False)
    return np.flip(out, axis) if descending else out


def _order(x: Array, axis: int, descending: bool) -> Array:
    """The places that sort along an axis; equal elements keep their order, also when descending. NaN comes last in
    ascending order, and first in descending order."""
    import numpy as np

    if not descending:
        return _stable(x, axis)
    back = _stable(np.flip(x, axis), axis)
    out: Array = np.flip(x.shape[axis] - 1 - back, axis)
    return out


def _best(x: Array, axis: int, descending: bool, first: int) -> Array:
    """The first places of `_order`: in long lines, of what is no worse than the last that is wanted."""
    import numpy as np

    n = x.shape[axis]
    if n <= SHORT or not 0 < first <= n // 8 or x.dtype.kind == "c":
        return np.take(_order(x, axis, descending), range(first), axis)
    lines = np.moveaxis(_ordered(x), axis, -1)
    out = np.empty((*lines.shape[:-1], first), np.int64)
    at = n - first if descending else first - 1
    for i in np.ndindex(out.shape[:-1]):
        line = lines[i]
        last = np.partition(line, at)[at]
        near = np.flatnonzero(line >= last if descending else line <= last)
        # (nothing is at or beyond a NaN, and NaNs are before the largest: then all are sorted)
        some = near[_order(line[near], -1, descending)] if len(near) >= first else _order(line, -1, descending)
        out[i] = some[:first]
    return np.moveaxis(out, -1, axis)


SHORT = 1 << 10
"""Elements of a line up to which NumPy's sorts take no longer than what is here."""
DIGIT = 1 << 16
"""Keys that NumPy sorts in two passes without comparing them, in a fifth of the time or less."""


def _near(x: Array) -> tuple[Array, int, Any] | None:
    """Integers as keys from 0, the largest key, and the number that is key 0; None where they lie too far apart for two digits."""
    import numpy as np

    low, high = x.min(), x.max()
    span = int(high) - int(low)
    if span >= DIGIT * DIGIT:
        return None
    return np.subtract(x, low, dtype=np.int64, casting="unsafe") if x.dtype.itemsize < 8 else x - low, span, low


def _stable(x: Array, axis: int) -> Array:
    """The places that sort along an axis, by digits of keys that are in the order of the elements. Those of float64 and of integers that lie
    far apart are NumPy's unstable ones; where elements are equal, the keys are which of the distinct elements each one is."""
    import numpy as np

    x = _ordered(x)
    if x.shape[axis] <= SHORT or x.dtype.itemsize < 4 or x.dtype.kind not in "iuf":
        return np.argsort(x, axis=axis, kind="stable").astype(np.int64, copy=False)
    lines = np.moveaxis(x, axis, -1)
    if (lines[..., 1:] >= lines[..., :-1]).all():
        order = np.broadcast_to(np.arange(lines.shape[-1]), lines.shape).copy()
        return np.moveaxis(order, -1, axis)
    near = None if x.dtype == np.float64 else _near(_bits(lines) if x.dtype.kind == "f" else lines)
    if near is None:
        order = np.argsort(lines, axis=-1)
        ranked = np.take_along_axis(lines, order, -1)
        before, behind = ranked[..., :-1], ranked[..., 1:]
        new = (before != behind) & ~np.isnan(before)
        if new.all():
            return np.moveaxis(order.astype(np.int64, copy=False), -1, axis)
        ranks, keys = np.zeros(lines.shape, np.int64), np.empty(lines.shape, np.int64)
        np.cumsum(new, axis=-1, out=ranks[..., 1:])
        np.put_along_axis(keys, order, ranks, -1)
        near = keys, lines.shape[-1], 0
    keys, span, _ = near
    order = np.argsort(keys.astype(np.uint16), axis=-1, kind="stable")
    if span >= DIGIT:
        high = np.take_along_axis((keys >> 16).astype(np.uint16), order, -1)
        order = np.take_along_axis(order, np.argsort(high, axis=-1, kind="stable"), -1)
    return np.moveaxis(order.astype(np.int64, copy=False), -1, axis)


def _bits(x: Array) -> Array:
    """Integers in the order of float32 numbers: both zeros are one, and NaN is the largest."""
    import numpy as np

    most = np.int32(0x7FFFFFFF)
    bits = (x + np.float32(0)).view(np.int32)
    out: Array = np.where(np.isnan(x), most, bits ^ ((bits >> 31) & most))
    return out


def _searched(x: Array, v: Array, side: Literal["left", "right"]) -> Array:
    """Where elements of v go in the sorted x. Many are looked for in their order, so that the next one's place is near."""
    import numpy as np

    x, v = _ordered(x), _ordered(v)
    if min(x.size, v.size) <= SHORT or (v.ravel()[1:] >= v.ravel()[:-1]).all():
        return np.asarray(np.searchsorted(x, v, side=side), np.int64)
    order = np.argsort(v, axis=None)
    out: Array = np.empty(v.size, np.int64)
    out[order] = np.searchsorted(x, v.ravel()[order], side=side)
    return out.reshape(v.shape)
