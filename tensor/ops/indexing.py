"""Reading by index: slices are index maps, index tensors are gathers. An index outside of its dimension is an OutOfRangeError,
where its value is known already or when it is computed (`graph.checked`). Nothing is read outside of an array meanwhile:
kernels keep places inside of their dimension."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...ir.dtypes import int64
from ...ir.errors import UsageError
from ...ir.node import Node
from ..graph import maps
from ..graph.checked import IndexMark, checked
from ..graph.maps import Shape
from ..graph.node import Gathered, Loaded, TensorNode
from ..graph.primitives import cast, const, elementwise, expand, gather, reshape, view
from ..graph.ranges import interval
from ..running.capturing import current
from .elementwise import broadcast_shape, choose
from .keys import IndexKey, parsed
from .movement import dims


def getitem(x: TensorNode, key: Any) -> TensorNode:
    """`x[key]` as in NumPy. Masks are computed at once."""
    return picked(x, parsed(x.shape, key))


def picked(x: TensorNode, key: IndexKey) -> TensorNode:
    """`getitem` of a key that was taken apart."""
    part = view(x, maps.strided(x.shape, key.picks))
    if not key.loaded:
        whole = reshape(part, tuple(1 if d is None else part.shape[d] for d in key.layout))
        return whole if key.flag is not False else expand(whole, tuple(0 if d == key.front else n for d, n in enumerate(whole.shape)))
    places = [_wrapped(i, x.shape[d]) for d, i in key.loaded]
    inner = inner_shape(key, places)
    layout = [*key.layout[: key.front], *(-1 for _ in inner), *key.layout[key.front :]]
    sizes = iter(inner)
    shape = tuple(next(sizes) if d == -1 else 1 if d is None else part.shape[d] for d in layout)
    index = tuple(_spread(p, inner, shape, key.front) for p in places)
    axes = maps.holes(shape)
    at: list[Node | Loaded] = [maps._ZERO] * len(part.shape)
    for place, d in enumerate(layout):
        if d is not None and d != -1:
            at[d] = axes[place]
    for n, (d, _) in enumerate(key.loaded):
        at[d] = Loaded(n)
    return gather(part, Gathered(axes, tuple(at)), index, shape)


def inner_shape(key: IndexKey, places: Sequence[TensorNode]) -> Shape:
    """The common shape of a key's index tensors."""
    return broadcast_shape("index", *(p.shape for p in places), *(() if key.flag is None else ((int(key.flag),),)))


def _spread(index: TensorNode, inner: Shape, shape: Shape, front: int) -> TensorNode:
    """An index tensor over the result's dimensions, its own from `front` on."""
    full = expand(index, inner)
    return expand(reshape(full, (*inner, *(1 for _ in shape[front + len(inner) :]))), shape)


def _wrapped(index: TensorNode, n: int) -> TensorNode:
    """Places counted from the end as places from the front."""
    if interval(index)[0] >= 0:
        return index
    index = cast(index, int64)
    return choose(elementwise("lt", index, const(0, int64, index.shape)), elementwise("add", index, const(n, int64, index.shape)), index)


def take(x: TensorNode, indices: TensorNode, /, *, axis: int | None = None) -> TensorNode:
    """Elements at places along a dimension (None: of the flat array), counted from its end where they are below 0. Raises
    OutOfRangeError for places outside."""
    if axis is None:
        x, axis = reshape(x, (x.count,)), 0
    _integer("take", indices)
    (d,) = dims(x, axis, "take")
    return picked(x, parsed(x.shape, (*(slice(None) for _ in range(d)), indices), "take"))


def within(what: str, name: str, index: TensorNode, d: int, n: int) -> TensorNode:
    """Places in dimension `d` of `n` elements, checked: an index may be counted from the end, a label may not."""
    return checked(index, IndexMark(what, name, d, n, what == "index"), current() is None)


def take_along_axis(x: TensorNode, indices: TensorNode, /, *, axis: int = -1) -> TensorNode:
    """Of every line along a dimension the elements at the places that `indices` has in the same line, counted from its end where
    they are below 0. Raises OutOfRangeError for places outside."""
    _integer("take_along_axis", indices)
    (d,) = dims(x, axis, "take_along_axis")
    if len(indices.shape) != len(x.shape):
        raise UsageError(f"take_along_axis of {list(x.shape)} and {list(indices.shape)}: both need as many dimensions")
    outer = broadcast_shape("take_along_axis", *((*a.shape[:d], 1, *a.shape[d + 1 :]) for a in (x, indices)))
    x = expand(x, (*outer[:d], x.shape[d], *outer[d + 1 :]))
    shape = (*outer[:d], indices.shape[d], *outer[d + 1 :])
    index = expand(_wrapped(within("index", "take_along_axis", indices, d, x.shape[d]), x.shape[d]), shape)
    axes = maps.holes(shape)
    by = Gathered(axes, tuple(Loaded(0) if i == d else a for i, a in enumerate(axes)))
    return gather(x, by, (index,), shape)


def embedding(weight: TensorNode, indices: TensorNode, /) -> TensorNode:
    """Rows of a table (n, width) at integer places of any shape. Raises OutOfRangeError for places outside, as `take` does."""
    _integer("embedding", indices)
    dims(weight, 0, "embedding")
    return picked(weight, parsed(weight.shape, indices, "embedding"))


def _integer(name: str, indices: TensorNode) -> None:
    if not indices.dtype.is_int:
        raise UsageError(f"{name}: indices are integers, not {indices.dtype}")
