"""Movement: every function is an index map, and none copies."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from ...ir import index as ix
from ...ir.errors import OutOfRangeError, UsageError
from ...ir.node import const as node_const
from ..graph import index_maps as maps
from ..graph.index_maps import Shape
from ..graph.nodes import TensorNode
from ..graph.primitives import expand, view
from ..graph.primitives import reshape as _reshape
from ..graph.symbolic_sizes import SymbolicSize


def dims(x: TensorNode, axis: int | Sequence[int] | None, name: str) -> tuple[int, ...]:
    """Dimensions counted from the front; None means all. Raises UsageError."""
    rank = len(x.shape)
    given = range(rank) if axis is None else (axis,) if isinstance(axis, int) else tuple(axis)
    for a in given:
        if not -rank <= a < rank:
            raise OutOfRangeError(f"{name}: axis {a} is out of range for an array with {rank} dimensions {list(x.shape)}")
    found = tuple(a % rank for a in given)
    if len(set(found)) < len(found):
        raise UsageError(f"{name}: axis {axis} names a dimension twice")
    return found


def reshape(x: TensorNode, shape: Sequence[int]) -> TensorNode:
    """Row-major reshape; one dimension may be −1."""
    new = tuple(shape)
    if new.count(-1) > 1:
        raise UsageError(f"reshape of {list(x.shape)} to {list(new)}: only one dimension may be -1")
    if -1 in new:
        count, rest = _cancelled(x.shape, [n for n in new if n != -1])
        if rest == 0 or count % rest != 0:
            raise UsageError(f"reshape of {list(x.shape)} to {list(new)}: {count} elements are no multiple of {rest}")
        new = tuple(count // rest if n == -1 else n for n in new)
    if prod(new) != x.count or any(n < 0 for n in new):
        raise UsageError(f"reshape of {list(x.shape)} ({x.count} elements) to {list(new)} ({prod(new)})")
    return _reshape(x, new)


def _cancelled(shape: Shape, known: list[int]) -> tuple[int, int]:
    """(elements of a shape, those of the known part of another), without the symbolic sizes that both have."""
    left = list(shape)
    for n in list(known):
        if isinstance(n, SymbolicSize) and n in left:
            left.remove(n)
            known.remove(n)
    return prod(left), prod(known)


def reshape_to(x: TensorNode, /, shape: int | Sequence[int], *, copy: bool | None = None) -> TensorNode:
    """Row-major reshape; one dimension may be −1. It is never a copy, so `copy` changes nothing."""
    return reshape(x, (shape,) if isinstance(shape, int) else shape)


def permute(x: TensorNode, order: Sequence[int]) -> TensorNode:
    """Dimension d of the result is dimension `order[d]`."""
    found = dims(x, order, "permute_dims")
    if len(found) != len(x.shape):
        raise UsageError(f"permute_dims of {list(x.shape)}: {list(order)} must name every dimension once")
    return view(x, maps.permute(x.shape, found))


def transposed(x: TensorNode) -> TensorNode:
    """The last two dimensions change places."""
    if len(x.shape) < 2:
        raise UsageError(f"the transpose of {list(x.shape)} needs two dimensions")
    r = range(len(x.shape))
    return permute(x, (*r[:-2], r[-1], r[-2]))


def matrix_transpose(x: TensorNode, /) -> TensorNode:
    """The last two dimensions change places."""
    return transposed(x)


def swapaxes(x: TensorNode, a: int, b: int, /) -> TensorNode:
    """Dimensions `a` and `b` change places."""
    order = list(range(len(x.shape)))
    i, j = (dims(x, d, "swapaxes")[0] for d in (a, b))
    order[i], order[j] = j, i
    return view(x, maps.permute(x.shape, order))


def moveaxis(x: TensorNode, source: int | Sequence[int], destination: int | Sequence[int], /) -> TensorNode:
    """Dimensions `source` become dimensions `destination`; the others keep their order."""
    at, to = dims(x, source, "moveaxis"), dims(x, destination, "moveaxis")
    if len(at) != len(to):
        raise UsageError(f"moveaxis: {len(at)} dimensions cannot go to {len(to)} places")
    order = [d for d in range(len(x.shape)) if d not in at]
    for d, s in sorted(zip(to, at)):
        order.insert(d, s)
    return view(x, maps.permute(x.shape, order))


def squeeze(x: TensorNode, /, axis: int | Sequence[int] | None = None) -> TensorNode:
    """Without dimensions of size 1 (`axis`: without these). Raises UsageError where one is larger."""
    over = tuple(d for d, n in enumerate(x.shape) if n == 1) if axis is None else dims(x, axis, "squeeze")
    if any(x.shape[d] != 1 for d in over):
        raise UsageError(f"squeeze of {list(x.shape)}: dimension {next(d for d in over if x.shape[d] != 1)} is not 1")
    return _reshape(x, tuple(n for d, n in enumerate(x.shape) if d not in over))


def flatten(x: TensorNode, start: int = 0, stop: int = -1) -> TensorNode:
    """Dimensions `start` to `stop`, which is one of them, as one."""
    if not x.shape:
        return _reshape(x, (1,))
    (a,), (b,) = dims(x, start, "flatten"), dims(x, stop, "flatten")
    return _reshape(x, (*x.shape[:a], prod(x.shape[a : b + 1]), *x.shape[b + 1 :]))


def broadcast_to(x: TensorNode, /, shape: Sequence[int]) -> TensorNode:
    """`x` repeated along new dimensions and those of size 1."""
    to = tuple(shape)
    fits = len(to) >= len(x.shape) and all(n in (1, m) for n, m in zip(x.shape, to[len(to) - len(x.shape) :]))
    if not fits or any(n < 0 for n in to):
        raise UsageError(f"broadcast_to of {list(x.shape)} to {list(to)}: only dimensions of size 1 can be repeated")
    return expand(x, to)


def flip(x: TensorNode, /, *, axis: int | Sequence[int] | None = None) -> TensorNode:
    """The other way round along dimensions (None: all)."""
    over = dims(x, axis, "flip")
    return view(x, maps.strided(x.shape, [(n - 1, -1, n) if d in over else (0, 1, n) for d, n in enumerate(x.shape)]))


def unstack(x: TensorNode, /, *, axis: int = 0) -> tuple[TensorNode, ...]:
    """The parts along a dimension."""
    (d,) = dims(x, axis, "unstack")
    return tuple(_pick(x, d, i) for i in range(x.shape[d]))


def _pick(x: TensorNode, dim: int, i: int) -> TensorNode:
    part = view(x, maps.strided(x.shape, [(i, 1, 1) if d == dim else (0, 1, n) for d, n in enumerate(x.shape)]))
    return _reshape(part, tuple(n for d, n in enumerate(x.shape) if d != dim))


def part(x: TensorNode, dim: int, start: int, length: int) -> TensorNode:
    """`length` elements along a dimension, from `start`."""
    return view(x, maps.strided(x.shape, [(start, 1, length) if d == dim else (0, 1, n) for d, n in enumerate(x.shape)]))


def split(x: TensorNode, parts: int | Sequence[int], axis: int = 0) -> list[TensorNode]:
    """Equal parts along a dimension, or parts of the sizes given."""
    (d,) = dims(x, axis, "split")
    n = x.shape[d]
    if isinstance(parts, int):
        if parts < 1 or n % parts:
            raise UsageError(f"split of {list(x.shape)} into {parts} parts: {n} elements do not divide")
        parts = [n // parts] * parts
    if sum(parts) != n:
        raise UsageError(f"split of {list(x.shape)}: parts of {list(parts)} are not {n} elements")
    out, at = [], 0
    for m in parts:
        out.append(part(x, d, at, m))
        at += m
    return out


def diagonal(x: TensorNode, /, offset: int = 0) -> TensorNode:
    """The diagonals of the last two dimensions."""
    if len(x.shape) < 2:
        raise UsageError(f"the diagonal of {list(x.shape)}: it needs two dimensions")
    rows, columns = x.shape[-2:]
    down, right = max(-offset, 0), max(offset, 0)
    shape = (*x.shape[:-2], max(0, min(rows - down, columns - right)))
    axes = maps.placeholder_axes(shape)
    last = axes[-1]
    at = (*axes[:-1], ix.add(last, node_const(down)), ix.add(last, node_const(right)))
    return view(x, maps.IndexMap(shape, x.shape, axes, at))


def permute_dims(x: TensorNode, /, axes: Sequence[int]) -> TensorNode:
    """Dimension d of the result is dimension `axes[d]`."""
    return permute(x, axes)


def expand_dims(x: TensorNode, /, axis: int | Sequence[int]) -> TensorNode:
    """A dimension of size 1 before dimension `axis` of the result."""
    if not isinstance(axis, int):
        rank = len(x.shape) + len(axis)
        for a in sorted(a % rank for a in axis):
            x = expand_dims(x, axis=a)
        return x
    rank = len(x.shape) + 1
    if not -rank <= axis < rank:
        raise UsageError(f"expand_dims: axis {axis} of a result with {rank} dimensions")
    at = axis % rank
    return _reshape(x, (*x.shape[:at], 1, *x.shape[at:]))


def keep_dims(x: TensorNode, shape: Shape, over: Sequence[int]) -> TensorNode:
    """A reduction's result with its reduced dimensions back as 1; `shape` is the source's."""
    return _reshape(x, tuple(1 if d in over else n for d, n in enumerate(shape)))


def two_transposed(x: TensorNode) -> TensorNode:
    """A matrix with its dimensions changed. Raises UsageError for other ranks."""
    if len(x.shape) != 2:
        raise UsageError(f"T of {list(x.shape)}: it is of matrices only; use mT or permute")
    return transposed(x)
