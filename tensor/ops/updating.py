"""Writing by index, as functions: the result is a new array, and what was read before stays as it was."""

from __future__ import annotations

from typing import Any

from ...ir import index as ix
from ...ir.dtypes import bool_, int64
from ...ir.errors import UsageError
from ...ir.node import Node
from ...ir.node import const as node_const
from ..graph import maps
from ..graph.checked import IndexMark, checked
from ..graph.maps import Shape
from ..graph.node import Gathered, Loaded, Scattered, TensorNode
from ..graph.primitives import cast, const, elementwise, expand, gather, iota, reshape, rounded, scatter, view
from ..graph.promotion import Scalar, promote
from ..graph.symbols import number
from .creation import along
from .elementwise import broadcast_shape, choose
from .indexing import _spread, _wrapped, inner_shape, picked, within
from .keys import IndexKey, parsed
from .movement import dims
from .reduction import cumulative_sum

COMBINES = {"add": 0, "mul": 1, "max": None, "min": None}


def setitem(x: TensorNode, key: Any, value: TensorNode | Scalar) -> TensorNode:
    """`x` after `x[key] = value`: the value broadcast and converted to the type of `x`. Of places named twice the last wins."""
    if isinstance(key, TensorNode) and key.dtype is bool_:
        return _masked(x, key, value)
    at = parsed(x.shape, key, "setitem")
    if at.flag is False:
        _value(value, picked(x, at).shape, x)
        return x
    return _loaded(x, at, value) if at.loaded else _sliced(x, at, value)


def _value(value: TensorNode | Scalar, shape: Shape, x: TensorNode) -> TensorNode:
    node = value if isinstance(value, TensorNode) else const(value, x.dtype)
    if x.dtype.is_int and node.dtype.is_float:
        raise UsageError(f"setitem: {node.dtype} values in a {x.dtype} array; cast them first")
    while len(node.shape) > len(shape) and node.shape[0] == 1:
        node = reshape(node, node.shape[1:])
    if broadcast_shape("setitem", node.shape, shape) != shape:
        raise UsageError(f"setitem: a value of shape {list(node.shape)} does not fit the {list(shape)} that the key names")
    return expand(rounded(node, x.dtype), shape)


def _sliced(x: TensorNode, key: IndexKey, value: TensorNode | Scalar) -> TensorNode:
    """Element i of a dimension comes from (i − start) / step where that is a whole number inside."""
    lengths = tuple(n for _, _, n in key.picks)
    if 0 in lengths:
        _value(value, tuple(1 if d is None else lengths[d] for d in key.layout), x)
        return x
    node = reshape(_value(value, tuple(1 if d is None else lengths[d] for d in key.layout), x), lengths)
    axes, at, mask = maps.holes(x.shape), [], node_const(True)
    inside: TensorNode | None = None
    for d, (i, (start, step, length)) in enumerate(zip(axes, key.picks)):
        if step < 0:
            start, step, length, away = start + step * (length - 1), -step, length, True
        else:
            away = False
        if (start, step, length) == (0, 1, x.shape[d]):
            at.append(ix.add(number(length - 1), i, -1) if away else i)
            continue
        from_start = ix.add(i, number(-start))
        place = ix.floordiv(from_start, step)
        at.append(ix.add(number(length - 1), place, -1) if away else place)
        mask = mask & (i >= number(start)) & (i < number(start + step * length))
        test = _between(along(x.shape[d], x.shape, d), start, start + step * length, x.shape[d])
        if step > 1:
            mask = mask & ix.mod(from_start, step).eq(0)
            shifted = elementwise("sub", along(x.shape[d], x.shape, d), const(start, int64, x.shape))
            rest = elementwise("remainder", shifted, const(step, int64, x.shape))
            hit = elementwise("eq", rest, const(0, int64, x.shape))
            test = hit if test is None else elementwise("and", test, hit)
        if test is not None:
            inside = test if inside is None else elementwise("and", inside, test)
    if inside is None:
        return view(node, maps.IndexMap(x.shape, lengths, axes, tuple(at)))
    spread = view(node, maps.IndexMap(x.shape, lengths, axes, tuple(at), None if mask.op == "const" else mask))
    return elementwise("where", inside, spread, x)


def _between(at: TensorNode, lo: int, hi: int, n: int) -> TensorNode | None:
    tests = []
    if lo != 0:
        tests.append(elementwise("le", const(lo, int64, at.shape), at))
    if hi != n:
        tests.append(elementwise("lt", at, const(hi, int64, at.shape)))
    return None if not tests else tests[0] if len(tests) == 1 else elementwise("and", *tests)


def _masked(x: TensorNode, mask: TensorNode, value: TensorNode | Scalar) -> TensorNode:
    """x[mask] = value without knowing how many are true: true element i takes value number (true ones before it)."""
    if mask.shape != x.shape[: len(mask.shape)]:
        raise IndexError(f"a mask of shape {list(mask.shape)} for an array of shape {list(x.shape)}")
    inner = x.shape[len(mask.shape) :]
    wide = expand(reshape(mask, (*mask.shape, *(1 for _ in inner))), x.shape)
    node = value if isinstance(value, TensorNode) else const(value, x.dtype)
    if len(node.shape) <= len(inner) or node.shape[: len(node.shape) - len(inner)] == (1,):
        return elementwise("where", wide, _value(node, x.shape, x), x)
    node = _value(node, (node.shape[0], *inner), x)
    number = cumulative_sum(cast(reshape(mask, (mask.count,)), int64), axis=0)
    number = elementwise("sub", number, const(1, int64, number.shape))
    number = choose(reshape(mask, number.shape), number, 0)
    number = checked(number, IndexMark("value", "setitem", 0, node.shape[0], False), False)
    index = expand(reshape(reshape(number, mask.shape), (*mask.shape, *(1 for _ in inner))), x.shape)
    axes = maps.holes(x.shape)
    by = Gathered(axes, (Loaded(0), *axes[len(mask.shape) :]))
    return elementwise("where", wide, gather(node, by, (index,), x.shape), x)


def _loaded(x: TensorNode, key: IndexKey, value: TensorNode | Scalar) -> TensorNode:
    """Each place remembers the last value that was written to it: a scatter of their numbers with max, then a gather."""
    shape, index, to = _written(x, key)
    node = _value(value, shape, x)
    size = node.count
    if size == 0:
        return x
    number = elementwise("add", reshape(iota(size), shape), const(1, int64, shape))
    last = scatter(number, Scattered("max", to[0], to[1]), index, x.shape)
    wrote = elementwise("lt", const(0, int64, x.shape), last)
    axes = maps.holes(x.shape)
    by = Gathered(axes, (Loaded(0),))
    place = elementwise("sub", last, const(1, int64, x.shape))
    found = gather(reshape(node, (size,)), by, (place,), x.shape)
    return elementwise("where", wrote, found, x)


def _written(x: TensorNode, key: IndexKey) -> tuple[Shape, tuple[TensorNode, ...], tuple[maps.Indices, tuple[Node | Loaded, ...]]]:
    """(the shape of what is written, index tensors of that shape, (axes, where each dimension goes))."""
    places = [_wrapped(i, x.shape[d]) for d, i in key.loaded]
    inner = inner_shape(key, places)
    layout = [*key.layout[: key.front], *(-1 for _ in inner), *key.layout[key.front :]]
    sizes = iter(inner)
    shape = tuple(next(sizes) if d == -1 else 1 if d is None else key.picks[d][2] for d in layout)
    index = tuple(_spread(p, inner, shape, key.front) for p in places)
    axes = maps.holes(shape)
    at: list[Node | Loaded] = [number(start) for start, _, _ in key.picks]
    for place, d in enumerate(layout):
        if d is not None and d != -1:
            start, step, _ = key.picks[d]
            at[d] = ix.add(ix.mul(axes[place], node_const(step)), number(start))
    for n, (d, _) in enumerate(key.loaded):
        at[d] = Loaded(n)
    return shape, index, (axes, tuple(at))


# scatters ---------------------------------------------------------------------------------------------------------
def index_put(x: TensorNode, key: Any, value: TensorNode | Scalar, combine: str = "add") -> TensorNode:
    """`x` with values combined (add, mul, max, min) into the places of a key, in order; places named twice get both. Raises
    OutOfRangeError for places outside."""
    if combine not in COMBINES:
        raise UsageError(f"index_put: combine by one of {', '.join(COMBINES)}, not {combine!r}")
    return _put("index_put", x, key, value, combine)


def _put(name: str, x: TensorNode, key: Any, value: TensorNode | Scalar, combine: str) -> TensorNode:
    at = parsed(x.shape, key, name)
    if at.flag is False:
        _value(value, picked(x, at).shape, x)
        return x
    shape, index, (axes, to) = _written(x, at)
    made = scatter(_value(value, shape, x), Scattered(combine, axes, to), index, x.shape)
    return elementwise(combine, x, made)


def scatter_add(x: TensorNode, indices: TensorNode, values: TensorNode | Scalar, /, *, axis: int = 0) -> TensorNode:
    """`x` plus, at place `indices` along a dimension, the values; `indices` and values have as many dimensions as `x`, or
    `indices` has one, and values are slices. Raises OutOfRangeError for places outside."""
    (d,) = dims(x, axis, "scatter_add")
    if not indices.dtype.is_int:
        raise UsageError(f"scatter_add: indices are integers, not {indices.dtype}")
    if len(indices.shape) == 1:
        return _put("scatter_add", x, (*(slice(None) for _ in range(d)), indices), values, "add")
    if len(indices.shape) != len(x.shape):
        raise UsageError(f"scatter_add into {list(x.shape)} at {list(indices.shape)}: one dimension, or as many as the array's")
    node = values if isinstance(values, TensorNode) else const(values, x.dtype)
    if broadcast_shape("scatter_add", node.shape, indices.shape) != indices.shape:
        raise UsageError(f"scatter_add: values of {list(node.shape)} at indices of {list(indices.shape)}")
    if promote(node.dtype, x.dtype) is not x.dtype:
        raise UsageError(f"scatter_add of {node.dtype} values into a {x.dtype} array: cast them first")
    node = expand(rounded(node, x.dtype), indices.shape)
    axes, at = maps.holes(indices.shape), within("index", "scatter_add", indices, d, x.shape[d])
    to = Scattered("add", axes, tuple(Loaded(0) if i == d else a for i, a in enumerate(axes)))
    return elementwise("add", x, scatter(node, to, (_wrapped(at, x.shape[d]),), x.shape))
