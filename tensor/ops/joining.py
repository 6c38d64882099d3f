"""Arrays put together, padded and repeated: index maps with masks, and choices between them. Nothing is copied."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...ir import index as ix
from ...ir.dtypes import bool_, int64
from ...ir.errors import UsageError
from ...ir.node import Node
from ...ir.node import const as node_const
from ..graph import index_maps as maps
from ..graph.captured_numbers import captured
from ..graph.nodes import Gathered, Loaded, TensorNode
from ..graph.primitives import cast, const, elementwise, expand, gather, iota, reshape, view
from ..graph.promotion import Scalar, promote
from ..graph.symbolic_sizes import SymbolicSize, int_size, size, symbolic
from ..leaves import from_data, from_numpy, values
from .creation import all_of, along, bound_tests, shape_of
from .elementwise import choose, common_type, to_floats
from .indexing import take
from .movement import diagonal, dims, expand_dims, part


def pad(
    x: TensorNode, widths: Sequence[tuple[int, int]] | int, value: Scalar = 0, mode: str = "constant", constant_values: Scalar | None = None
) -> TensorNode:
    """`widths[d]` = (before, after) elements around each dimension: `value`s (NumPy's name of which is constant_values), or with the mode
    "edge" the nearest element, with "reflect" the array mirrored at its edge, with "wrap" the array over and over."""
    value = value if constant_values is None else constant_values
    pairs: list[Any] = [(widths, widths)] * len(x.shape) if isinstance(widths, int) else list(widths)
    if not all(isinstance(p, (tuple, list)) and len(p) == 2 for p in pairs):
        raise UsageError(f"pad of {list(x.shape)}: {pairs} must be pairs (before, after), one for each dimension")
    pairs = [(size(a), size(b)) for a, b in pairs]
    if len(pairs) != len(x.shape) or any(a < 0 or b < 0 for a, b in pairs):
        raise UsageError(f"pad of {list(x.shape)}: {pairs} must name (before, after), at least 0, for each dimension")
    if mode != "constant":
        return _continued(x, pairs, mode)
    out = view(x, maps.padded(x.shape, [b for b, _ in pairs], [a for _, a in pairs]))
    if value == 0 or out is x:
        return out
    sizes = enumerate(zip(x.shape, pairs))
    inside = all_of([t for d, (n, (b, _)) in sizes for t in bound_tests(along(out.shape[d], out.shape, d), b, b + n, out.shape[d])])
    return out if inside is None else choose(inside, out, value)


def diag(x: TensorNode, /, k: int = 0) -> TensorNode:
    """A matrix of zeros with a vector on its diagonal `k`; of a matrix, that diagonal. Raises UsageError for other ranks."""
    if len(x.shape) not in (1, 2):
        raise UsageError(f"diag of {list(x.shape)}: it needs one dimension or two")
    if len(x.shape) == 2:
        return diagonal(x, k)
    by_row = pad(x, [(max(-k, 0), max(k, 0))])
    shape = by_row.count, by_row.count
    on = along(by_row.count, shape, 1).eq(along(by_row.count, shape, 0) + k)
    return choose(on, expand(reshape(by_row, (by_row.count, 1)), shape), False if x.dtype is bool_ else 0)


def _continued(x: TensorNode, pairs: Sequence[tuple[int, int]], mode: str) -> TensorNode:
    shape = tuple(b + n + a for n, (b, a) in zip(x.shape, pairs))
    axes = maps.placeholder_axes(shape)
    at = []
    for i, n, (b, a) in zip(axes, x.shape, pairs):
        place = ix.add(i, node_const(-b))
        if n == 0 and a + b:
            raise UsageError(f"pad of {list(x.shape)} with the mode {mode!r}: an empty dimension has no elements to repeat")
        if mode == "edge":
            at.append(ix.minmax("max", ix.minmax("min", place, node_const(max(n - 1, 0))), node_const(0)))
        elif mode == "wrap":
            at.append(ix.mod(ix.add(place, node_const(n * (-(-b // max(n, 1))))), n) if n else node_const(0))
        elif mode == "reflect":
            at.append(_mirrored(place, n, b))
        else:
            raise UsageError(f"pad: the mode is 'constant', 'edge', 'reflect' or 'wrap', not {mode!r}")
    return view(x, maps.IndexMap(shape, x.shape, axes, tuple(at)))


def _mirrored(place: Node, n: int, before: int) -> Node:
    """0 1 2 3 2 1 0 1 …: n − 1 − |(place mod 2(n − 1)) − (n − 1)|."""
    if n <= 1:
        return node_const(0)
    period = 2 * (n - 1)
    turn = ix.mod(ix.add(place, node_const(period * (-(-before // period)))), period)
    return ix.minmax("min", turn, ix.add(ix.mul(turn, node_const(-1)), node_const(period)))


# joining ----------------------------------------------------------------------------------------------------------
def concat(arrays: Sequence[TensorNode], /, *, axis: int | None = 0) -> TensorNode:
    """One after the other along a dimension (None: all flattened)."""
    if not arrays:
        raise UsageError("concat of no arrays")
    kind = arrays[0].dtype
    for a in arrays[1:]:
        kind = promote(kind, a.dtype)
    parts = [cast(a if axis is not None else reshape(a, (a.count,)), kind) for a in arrays]
    (d,) = dims(parts[0], axis if axis is not None else 0, "concat")
    first = parts[0].shape
    for p in parts[1:]:
        if len(p.shape) != len(first) or any(n != m for i, (n, m) in enumerate(zip(p.shape, first)) if i != d):
            raise UsageError(f"concat of {' and '.join(str(list(p.shape)) for p in parts)}: all dimensions but {d} must be equal")
    return joined([p for p in parts if p.shape[d] != 0] or parts[:1], d)


def joined(parts: Sequence[TensorNode], d: int) -> TensorNode:
    """`concat` of checked parts: a choice between padded ones, as a tree of few levels. Its left half has a power of two of them, so that
    joins which begin with the same parts, as those of a network that joins each layer's result to all before, share most of it."""
    if len(parts) == 1:
        return parts[0]
    half = 1 << (len(parts) - 1).bit_length() - 1
    a, b = joined(parts[:half], d), joined(parts[half:], d)
    before, after = a.shape[d], b.shape[d]
    rank = range(len(a.shape))
    left = view(a, maps.padded(a.shape, [0 for _ in rank], [after if i == d else 0 for i in rank]))
    right = view(b, maps.padded(b.shape, [before if i == d else 0 for i in rank], [0 for _ in rank]))
    at = along(before + after, left.shape, d)
    return elementwise("where", at < before, left, right)


def stack(arrays: Sequence[TensorNode], /, *, axis: int = 0) -> TensorNode:
    """Along a new dimension."""
    if not arrays:
        raise UsageError("stack of no arrays")
    if any(a.shape != arrays[0].shape for a in arrays):
        raise UsageError(f"stack of {' and '.join(str(list(a.shape)) for a in arrays)}: shapes must be equal")
    return concat([expand_dims(a, axis=axis) for a in arrays], axis=axis)


def nested(data: Any, leaf: Callable[[Any], Any]) -> TensorNode:
    """Nested lists as one array; `leaf` of what is no list is a node, an array or a number. Numbers take the type of the nodes."""
    found: list[TensorNode | Scalar] = []

    def seen(x: Any) -> Any:
        if isinstance(x, (list, tuple)):
            return [seen(y) for y in x]
        x = leaf(x)
        found.append(x if isinstance(x, TensorNode) or type(x) in (bool, int, float) or captured(x) else from_data(x))
        return found[-1]

    tree = seen(data)
    kind = common_type("stack", found)

    def joined(x: Any) -> TensorNode:
        return stack([joined(y) for y in x]) if isinstance(x, list) else cast(x, kind) if isinstance(x, TensorNode) else const(x, kind)

    return joined(tree)


def diff(
    x: TensorNode, /, n: int = 1, axis: int = -1, prepend: TensorNode | Scalar | None = None, append: TensorNode | Scalar | None = None
) -> TensorNode:
    """Differences of neighbours along a dimension, `n` times. A number or an array without dimensions stands for one element in front of
    each row, or behind it."""
    (d,) = dims(x, axis, "diff")
    one = (*x.shape[:d], 1, *x.shape[d + 1 :])
    ends = [p if p is None or p is x or isinstance(p, TensorNode) else const(p, x.dtype) for p in (prepend, x, append)]
    pieces = [p if p.shape or p is x else expand(p, one) for p in ends if p is not None]
    x = concat(pieces, axis=axis) if len(pieces) > 1 else x
    for _ in range(n):
        size = x.shape[d]
        if size == 0:
            return x
        less = int_size("diff", size - 1)
        left, right = part(x, d, 0, less), part(x, d, 1, less)
        x = right.ne(left) if x.dtype is bool_ else right - left
    return x


def gradient(
    x: TensorNode, /, *spacing: TensorNode | float, axis: int | Sequence[int] | None = None, edge_order: int = 1
) -> TensorNode | tuple[TensorNode, ...]:
    """Slopes along dimensions, a tensor for each (of one, itself), by differences of second order; at both ends of order `edge_order`, 1 or 2.
    `spacing`: one for all dimensions or one for each, a distance or places. Raises UsageError for sizes that do not fit."""
    over = dims(x, axis, "gradient")
    steps = spacing or (1.0,)
    steps = steps * len(over) if len(steps) == 1 else steps
    if len(steps) != len(over) or edge_order not in (1, 2):
        raise UsageError(f"gradient along {len(over)} dimensions with {len(spacing)} spacings and edge_order {edge_order}")
    found = tuple(_slopes(to_floats(x), d, h, edge_order) for d, h in zip(over, steps))
    return found[0] if len(found) == 1 else found


def _slopes(x: TensorNode, d: int, step: TensorNode | float, order: int) -> TensorNode:
    n = int_size("gradient", x.shape[d])
    if n <= order:
        raise UsageError(f"gradient along a dimension of {n}: edge_order {order} needs {order + 1} elements")
    inner, places = n - 2, isinstance(step, TensorNode) and len(step.shape) == 1

    def at(i: int, count: int = 1) -> TensorNode:
        return part(x, d, i % n, count)

    if not places:
        edge = (at(1) - at(0), at(-1) - at(-2))
        if order == 2:
            edge = (at(0) * -1.5 + at(1) * 2 - at(2) * 0.5, at(-1) * 1.5 - at(-2) * 2 + at(-3) * 0.5)
        pieces = [edge[0], *([(at(2, inner) - at(0, inner)) * 0.5] if inner else []), edge[1]]
        return concat(pieces, axis=d) / (cast(step, x.dtype) if isinstance(step, TensorNode) else step)
    if step.shape != (n,):  # type: ignore[union-attr]
        raise UsageError(f"gradient along a dimension of {n} with {list(step.shape)} places")  # type: ignore[union-attr]
    gap = reshape(diff(cast(step, x.dtype)), tuple(n - 1 if i == d else 1 for i in range(len(x.shape))))  # type: ignore[arg-type]
    gap = expand(gap, tuple(n - 1 if i == d else size for i, size in enumerate(x.shape)))

    def three(a: TensorNode, b: TensorNode, values: Sequence[TensorNode], where: int) -> TensorNode:
        """The slope at one of three places, of the parabola through them; `a` and `b` are the gaps."""
        y, z, w = values
        first, second = (z - y) / a, (w - z) / b
        return {-1: (first * (2 * a + b) - second * a), 0: (first * b + second * a), 1: (second * (2 * b + a) - first * b)}[where] / (a + b)

    def gaps(i: int, count: int = 1) -> TensorNode:
        return part(gap, d, i % (n - 1), count)

    if order == 1:
        ends = (at(1) - at(0)) / gaps(0), (at(-1) - at(-2)) / gaps(-1)
    else:
        ends = three(gaps(0), gaps(1), (at(0), at(1), at(2)), -1), three(gaps(-2), gaps(-1), (at(-3), at(-2), at(-1)), 1)
    middle = [three(gaps(0, inner), gaps(1, inner), (at(0, inner), at(1, inner), at(2, inner)), 0)] if inner else []
    return concat([ends[0], *middle, ends[1]], axis=d)


# repeating --------------------------------------------------------------------------------------------------------
def roll(x: TensorNode, /, shift: int | Sequence[int], *, axis: int | Sequence[int] | None = None) -> TensorNode:
    """Moved along dimensions; what leaves comes in again. None: as if flat."""
    by = list(shift) if isinstance(shift, Sequence) else [shift]
    if axis is None:
        return _rolled_flat(x, sum(by))
    over = [axis] if isinstance(axis, int) else list(axis)
    if not isinstance(shift, Sequence):
        by *= len(over)
    elif len(over) == 1:
        over *= len(by)
    if len(by) != len(over):
        raise UsageError(f"roll: {len(by)} shifts for {len(over)} dimensions")
    if symbolic((*by, *x.shape)):
        for s, a in zip(by, over):
            (d,) = dims(x, a, "roll")
            x = _at(x, _moved_on(iota(x.shape[d]), s, x.shape[d]), d)
        return x
    axes = maps.placeholder_axes(x.shape)
    at = list(axes)
    for s, a in zip(by, over):
        (d,) = dims(x, a, "roll")
        n = x.shape[d]
        at[d] = ix.mod(ix.add(at[d], node_const(-s % n)), n) if n > 1 else at[d]
    return view(x, maps.IndexMap(x.shape, x.shape, axes, tuple(at)))


def _rolled_flat(x: TensorNode, shift: int) -> TensorNode:
    """`roll` as if `x` were flat."""
    if not symbolic((shift, *x.shape)):
        return reshape(roll(reshape(x, (x.count,)), shift, axis=0), x.shape) if x.count else x
    place = const(0, int64, x.shape)
    for d, n in enumerate(x.shape):
        place = place * n + along(n, x.shape, d)
    place, places = _moved_on(place, shift, x.count), {}
    for d, n in reversed(list(enumerate(x.shape))):
        size = const(n, int64, x.shape)
        places[d], place = (place % size, place // size)
    axes = maps.placeholder_axes(x.shape)
    return gather(x, Gathered(axes, tuple(map(Loaded, range(len(axes))))), tuple(places[d] for d in range(len(axes))), x.shape)


def _moved_on(place: TensorNode, shift: int, n: int) -> TensorNode:
    """(place − shift) mod n, with one division for all places."""
    by, size = (expand(v, place.shape) for v in (const(shift, int64) % const(n, int64), const(n, int64)))
    back = place - by
    return choose(back < 0, back + size, back)


def _at(x: TensorNode, places: TensorNode, d: int) -> TensorNode:
    """The elements of `x` at computed places of dimension `d`."""
    shape = (*x.shape[:d], places.shape[0], *x.shape[d + 1 :])
    index = expand(reshape(places, tuple(n if i == d else 1 for i, n in enumerate(shape))), shape)
    return gather(x, Gathered.along(shape, d), (index,), shape)


def tile(x: TensorNode, repetitions: int | Sequence[int], /) -> TensorNode:
    """The whole array `repetitions[d]` times along dimension d; one number is that of the last dimension."""
    times = shape_of(repetitions, "tile")
    times = (1,) * (len(x.shape) - len(times)) + times
    x = reshape(x, (1,) * (len(times) - len(x.shape)) + x.shape)
    before = x.shape
    for d, (n, t) in enumerate(zip(before, times)):
        if isinstance(n, SymbolicSize) and t != 1:  # a reshape would divide by it
            at = iota(int_size("tile", n * t))
            x = _at(x, at % n, d)
    times = tuple(1 if isinstance(n, SymbolicSize) else t for n, t in zip(before, times))
    pairs = tuple(m for n, t in zip(x.shape, times) for m in (1, n))
    wide = tuple(m for n, t in zip(x.shape, times) for m in (t, n))
    return reshape(expand(reshape(x, pairs), wide), tuple(n * t for n, t in zip(x.shape, times)))


def repeat(x: TensorNode, repeats: int | Sequence[int] | TensorNode, /, axis: int | None = None) -> TensorNode:
    """Each element `repeats` times along a dimension (None: flat), or as often as its count there says. Counts in a tensor are read at once."""
    if axis is None:
        x, axis = reshape(x, (x.count,)), 0
    (d,) = dims(x, axis, "repeat")
    if isinstance(repeats, Sequence):
        repeats = from_data(list(repeats), int64)
    if not isinstance(repeats, TensorNode):
        (repeats,) = shape_of((repeats,), "repeat")
        if isinstance(repeats, SymbolicSize):
            at = iota(int_size("repeat", x.shape[d] * repeats))
            return _at(x, at // repeats, d)
        split = (*x.shape[: d + 1], 1, *x.shape[d + 1 :])
        wide = (*x.shape[: d + 1], repeats, *x.shape[d + 1 :])
        return reshape(expand(reshape(x, split), wide), (*x.shape[:d], x.shape[d] * repeats, *x.shape[d + 1 :]))
    return _counted(x, repeats, d)


def _counted(x: TensorNode, repeats: TensorNode, d: int) -> TensorNode:
    import numpy as np

    counts = values(repeats)
    if counts.ndim > 1 or counts.dtype.kind not in "biu" or (counts.size and int(counts.min()) < 0):
        raise UsageError("repeat: a count is a whole number of at least 0, or there is a vector of them")
    counts = np.broadcast_to(counts, (x.shape[d],))
    return take(x, from_numpy(np.repeat(np.arange(x.shape[d]), counts), range=(0, max(0, x.shape[d] - 1))), axis=d)
