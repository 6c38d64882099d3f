"""Reading and writing by index, as NumPy does: `x[key]`, `x[key] = value`, `take`, `scatter_add`.

Slices are index maps, index tensors are gathers and scatters. An index outside of its dimension is an OutOfRangeError, where its
value is known already or when it is computed (`graph.index_checks`). Nothing is read outside of an array meanwhile: kernels keep
indices inside of their dimension."""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

from ...ir import index as ix
from ...ir.dtypes import bool_, int64
from ...ir.errors import UsageError
from ...ir.node import Node
from ...ir.node import const as node_const
from ..graph import index_maps as maps
from ..graph.captured_numbers import plain
from ..graph.index_checks import IndexMark, ValueMark, checked, interval, switched_off
from ..graph.index_maps import Shape
from ..graph.nodes import Gathered, Loaded, Scattered, TensorNode
from ..graph.primitives import cast, const, elementwise, expand, gather, iota, reduce, reshape, rounded, scatter, view
from ..graph.promotion import Scalar, promote
from ..graph.symbolic_sizes import SymbolicSize, below, int_size, number, symbolic
from ..leaves import from_data, from_numpy, values
from ..running.current_capture import check_captured, current
from .creation import all_of, along, bound_tests
from .elementwise import broadcast_shape, choose, clip, remainder
from .movement import dims
from .reduction import cumulative_sum

Pick = tuple[int, int, int]
"""(start, step, length) along a dimension."""


@dataclass(frozen=True)
class IndexKey:
    """A key of a source of shape `source`. `picks`: of every dimension, an integer being a pick of one. `layout`: the result's
    dimensions of the picked array, in order: a source's dimension, None for a new axis. `loaded`: source dimensions that are
    read at places in a tensor, with these. `front`: where in the layout the dimensions of the index tensors go. `flag`: the value of
    a mask without dimensions, which is such a tensor of one element or of none, and of no dimension; None without one."""

    source: Shape
    picks: tuple[Pick, ...]
    layout: tuple[int | None, ...]
    loaded: tuple[tuple[int, TensorNode], ...] = ()
    front: int = 0
    flag: bool | None = None


def parsed(shape: Shape, key: Any, name: str = "getitem") -> IndexKey:
    """The key of an array of a shape, given to the function `name`. Masks are read at once, since the result's shape depends on
    them."""
    key = plain(key)
    items = list(key) if isinstance(key, tuple) else [key]
    given, items = items, [_item(i) for i in items]
    written = {id(n) for i, n in zip(given, items, strict=True) if isinstance(i, list)}
    used = 0
    for i in items:
        used += 0 if i is None or i is Ellipsis else len(i.shape) if _is_mask(i) else 1
    if used > len(shape):
        raise IndexError(f"{used} indices for an array of shape {list(shape)}")
    if not any(i is Ellipsis for i in items):
        items.append(Ellipsis)
    if sum(i is Ellipsis for i in items) > 1:
        raise IndexError("an index can hold only one Ellipsis")
    return _Parser(name, shape, len(shape) - used, written).parse(items)


class _Parser:
    def __init__(self, name: str, shape: Shape, hidden: int, written: Collection[int]) -> None:
        """`hidden`: dimensions that the Ellipsis stands for; `written`: ids of index tensors that stand in the key as lists."""
        self.name, self.shape, self.hidden, self.written = name, shape, hidden, written
        self.picks: list[Pick] = []
        self.layout: list[int | None] = []
        self.loaded: list[tuple[int, TensorNode]] = []
        self.flag: bool | None = None
        self.fronts: list[tuple[int, int]] = []
        """Of each item that counts as an index tensor: its place among the items, and in the layout."""

    def parse(self, items: Sequence[Any]) -> IndexKey:
        advanced = any(isinstance(i, TensorNode) for i in items)
        for at, item in enumerate(items):
            d = len(self.picks)
            if item is None:
                self.layout.append(None)
            elif item is Ellipsis:
                for _ in range(self.hidden):
                    self._slice(slice(None))
            elif isinstance(item, slice):
                self._slice(item)
            elif isinstance(item, TensorNode):
                self.fronts.append((at, len(self.layout)))
                if item.dtype is bool_ and not item.shape:
                    self.flag = bool(values(item)) and self.flag is not False
                    continue
                for index in _mask_indices(item, self.shape[d : d + len(item.shape)]) if item.dtype is bool_ else (item,):
                    self._load(index, index is not item or id(item) in self.written)
            else:
                self._integer(item)
                if advanced:
                    self.fronts.append((at, len(self.layout)))
        first, last = (self.fronts[0], self.fronts[-1]) if self.fronts else ((0, 0), (0, 0))
        together = last[0] - first[0] == len(self.fronts) - 1
        front = first[1] if together else 0
        if self.flag is not None and not self.loaded:
            self.layout.insert(front, None)
        return IndexKey(self.shape, tuple(self.picks), tuple(self.layout), tuple(self.loaded), front, self.flag)

    def _slice(self, s: slice) -> None:
        d = len(self.picks)
        self.layout.append(d)
        if symbolic((self.shape[d], s.start, s.stop)):
            self.picks.append(_symbolic_pick(s, self.shape[d]))
            return
        start, stop, step = s.indices(self.shape[d])
        self.picks.append((start, step, len(range(start, stop, step))))

    def _integer(self, i: int) -> None:
        d = len(self.picks)
        n = self.shape[d]
        if symbolic((n, i)):
            self.picks.append((_inside(i, n, n - 1), 1, 1))
            return
        if not -n <= i < n:
            raise IndexError(f"index {i} is out of bounds for dimension {d} of shape {list(self.shape)}")
        self.picks.append((i % n, 1, 1))

    def _load(self, index: TensorNode, own: bool) -> None:
        """`own`: nobody else has the memory of the index tensor, so that it is checked here, once."""
        d = len(self.picks)
        n = self.shape[d]
        self.loaded.append((d, checked(index, IndexMark("index", self.name, d, n, True), own or current() is None)))
        self.picks.append((0, 1, n))


def _inside(v: int, n: int, last: int) -> int:
    """A place in a dimension of `n` elements, counted from its end where it is below 0, that is 0 to `last` whatever the symbols
    are. Raises UsageError."""
    place = v + n if not isinstance(v, SymbolicSize) and v < 0 else v
    if below(place, 0) or below(last, place):
        raise IndexError(f"index {v!r} is out of bounds for a dimension of {n!r}")
    if not below(-1, place) or not below(place, last + 1):
        raise UsageError(f"index {v!r} lies in a dimension of {n!r} for some values of the symbols only: make their ranges narrower")
    return place


def _symbolic_pick(s: slice, n: int) -> Pick:
    """A slice of a symbolic dimension, or with symbolic bounds: the bounds must lie inside of it for every value."""
    step = 1 if s.step is None else s.step
    if isinstance(step, SymbolicSize) or step == 0 or (step < 0 and (s.start, s.stop) != (None, None)):
        raise UsageError(f"slice {s.start!r}:{s.stop!r}:{s.step!r} of {n!r}: the step is a number, and -1 only without bounds")
    if step < 0:
        if step != -1:
            raise UsageError(f"slice ::{step} of {n!r}: of symbolic sizes the step is at least -1")
        return n - 1, -1, n
    start = 0 if s.start is None else _inside(s.start, n, n)
    stop = n if s.stop is None else _inside(s.stop, n, n)
    length = int_size(f"slice {s.start!r}:{s.stop!r} of {n!r}", stop - start)
    return start, step, length if step == 1 else (length + step - 1) // step


def _item(i: Any) -> Any:
    if isinstance(i, range):
        i = list(i)
    if i is None or i is Ellipsis or isinstance(i, TensorNode):
        if isinstance(i, TensorNode) and not (i.dtype.is_int or i.dtype is bool_):
            raise IndexError(f"indices are integers or masks, not {i.dtype}")
        return i
    if isinstance(i, slice):
        return slice(*(None if v is None else _whole(v) for v in (i.start, i.stop, i.step)))
    if isinstance(i, bool) or (isinstance(i, list) and i != []):
        return from_data(i)
    if isinstance(i, list):
        return from_data(i, "int64")
    return _whole(i)


def _whole(v: Any) -> int:
    if isinstance(v, SymbolicSize):
        check_captured(v)
        return v
    if isinstance(v, TensorNode):
        return int(values(v).item())
    try:
        return operator.index(v)
    except TypeError:
        raise IndexError(f"{v!r} is no index: use integers, slices, None, Ellipsis, masks or integer tensors") from None


def _is_mask(i: Any) -> bool:
    return isinstance(i, TensorNode) and i.dtype is bool_


def _mask_indices(mask: TensorNode, shape: Shape) -> tuple[TensorNode, ...]:
    """The places where a mask is true, one index tensor a dimension."""
    import numpy as np

    if mask.shape != shape:
        raise IndexError(f"a mask of shape {list(mask.shape)} for dimensions of {list(shape)}")
    return tuple(from_numpy(np.ascontiguousarray(p, np.int64)) for p in np.nonzero(values(mask)))


def getitem(x: TensorNode, key: Any) -> TensorNode:
    """`x[key]` as in NumPy. Masks are computed at once."""
    return indexed(x, parsed(x.shape, key))


def indexed(x: TensorNode, key: IndexKey) -> TensorNode:
    """`getitem` of a parsed key."""
    part = view(x, maps.strided(x.shape, key.picks))
    if not key.loaded:
        whole = reshape(part, tuple(1 if d is None else part.shape[d] for d in key.layout))
        return whole if key.flag is not False else expand(whole, tuple(0 if d == key.front else n for d, n in enumerate(whole.shape)))
    shape, index, axes, at = _layout(x, key, [maps._ZERO] * len(part.shape))
    return gather(part, Gathered(axes, tuple(at)), index, shape)


def _layout(
    x: TensorNode, key: IndexKey, at: list[Node | Loaded], placed: Callable[[int, Node], Node] = lambda d, axis: axis
) -> tuple[Shape, tuple[TensorNode, ...], maps.Indices, list[Node | Loaded]]:
    """Of a key with index tensors: (the shape of what it names, index tensors of that shape, placeholders of its dimensions, the index of
    each dimension of the array: what `placed` makes of a dimension and its placeholder, a loaded index, or what `at` has)."""
    places = [_wrapped(i, x.shape[d]) for d, i in key.loaded]
    inner = broadcast_shape("index", *(p.shape for p in places), *(() if key.flag is None else ((int(key.flag),),)))
    layout = [*key.layout[: key.front], *(-1 for _ in inner), *key.layout[key.front :]]
    sizes = iter(inner)
    shape = tuple(next(sizes) if d == -1 else 1 if d is None else key.picks[d][2] for d in layout)
    wide = (*inner, *(1 for _ in shape[key.front + len(inner) :]))
    index = tuple(expand(reshape(expand(p, inner), wide), shape) for p in places)
    axes = maps.placeholder_axes(shape)
    for axis, d in zip(axes, layout):
        if d is not None and d != -1:
            at[d] = placed(d, axis)
    for n, (d, _) in enumerate(key.loaded):
        at[d] = Loaded(n)
    return shape, index, axes, at


def _wrapped(index: TensorNode, n: int) -> TensorNode:
    """Places counted from the end as places from the front."""
    if interval(index)[0] >= 0:
        return index
    index = cast(index, int64)
    return choose(index < 0, index + n, index)


def take(x: TensorNode, indices: TensorNode | int | Sequence[Any], /, axis: int | None = None, mode: str = "raise") -> TensorNode:
    """Elements at places along a dimension (None: of the flat array), counted from its end where they are below 0. `mode`, of places
    outside: 'raise' is an OutOfRangeError, 'wrap' counts on from the other end, 'clip' takes the first or the last element (the first
    for all below 0)."""
    if axis is None:
        x, axis = reshape(x, (x.count,)), 0
    if not isinstance(indices, TensorNode):
        indices = from_data(indices, None if isinstance(indices, int) or len(indices) else int64)
    _integer("take", indices)
    (d,) = dims(x, axis, "take")
    if mode not in ("raise", "wrap", "clip"):
        raise UsageError(f"take: mode {mode!r} is none of raise, wrap and clip")
    if mode != "raise":
        indices = cast(indices, int64)
        indices = remainder(indices, x.shape[d]) if mode == "wrap" else clip(indices, 0, x.shape[d] - 1)
    return indexed(x, parsed(x.shape, (*(slice(None) for _ in range(d)), indices), "take"))


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
    return gather(x, Gathered.along(shape, d), (index,), shape)


def embedding(weight: TensorNode, indices: TensorNode, /) -> TensorNode:
    """Rows of a table (n, width) at integer places of any shape. Raises OutOfRangeError for places outside, as `take` does."""
    _integer("embedding", indices)
    dims(weight, 0, "embedding")
    return indexed(weight, parsed(weight.shape, indices, "embedding"))


def _integer(name: str, indices: TensorNode) -> None:
    if not indices.dtype.is_int:
        raise UsageError(f"{name}: indices are integers, not {indices.dtype}")


COMBINES = {"add": 0, "mul": 1, "max": None, "min": None}


def setitem(x: TensorNode, key: Any, value: TensorNode | Scalar) -> TensorNode:
    """`x` after `x[key] = value`: the value broadcast and converted to the type of `x`. Of places named twice the last wins."""
    if isinstance(key, TensorNode) and key.dtype is bool_:
        return _masked(x, key, value)
    at = parsed(x.shape, key, "setitem")
    if at.flag is False:
        _value(value, indexed(x, at).shape, x)
        return x
    if any(i.shape for _, i in at.loaded) or at.flag is not None:
        return _loaded(x, at, value)
    return _sliced(x, at, value)


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
    """Element i of a dimension comes from (i − start) / step where that is a whole number inside, and from the one place that is written
    where that is a tensor without dimensions."""
    loaded = dict(key.loaded)
    lengths = tuple(1 if d in loaded else n for d, (_, _, n) in enumerate(key.picks))
    node = _value(value, tuple(1 if d is None else lengths[d] for d in key.layout), x)
    if 0 in lengths:
        return x
    axes, mask, tests = maps.placeholder_axes(x.shape), node_const(True), []
    at: list[Node] = []
    for d, (i, (start, step, length)) in enumerate(zip(axes, key.picks)):
        if d in loaded:
            row = cast(along(x.shape[d], x.shape, d), int64)
            tests.append(elementwise("eq", row, expand(_inside_of(loaded[d], x.shape[d]), x.shape)))
            at.append(maps._ZERO)
            continue
        backwards = step < 0
        if backwards:
            start, step = start + step * (length - 1), -step
        place = i
        if (start, step, length) != (0, 1, x.shape[d]):
            place = ix.floordiv(ix.add(i, number(-start)), step)
            end, row = start + step * length, along(x.shape[d], x.shape, d)
            mask = mask & (i >= number(start)) & (i < number(end))
            tests += bound_tests(row, start, end, x.shape[d])
            if step > 1:
                mask = mask & ix.mod(ix.add(i, number(-start)), step).eq(0)
                tests.append(((row - start) % step).eq(0))
        at.append(ix.add(number(length - 1), place, -1) if backwards else place)
    inside = all_of(tests)
    by = maps.IndexMap(x.shape, lengths, axes, tuple(at), None if mask.op == "const" else mask)
    spread = view(reshape(node, lengths), by)
    return spread if inside is None else elementwise("where", inside, spread, x)


def _inside_of(index: TensorNode, n: int) -> TensorNode:
    """A place, counted from the front, that lies in a dimension of `n` elements whatever it is."""
    place = cast(_wrapped(index, n), int64)
    last = const(n, int64, place.shape) - 1
    return elementwise("max", elementwise("min", place, last), const(0, int64, place.shape))


def _masked(x: TensorNode, mask: TensorNode, value: TensorNode | Scalar) -> TensorNode:
    """x[mask] = value without knowing how many are true: true element i takes value number (true ones before it)."""
    if mask.shape != x.shape[: len(mask.shape)]:
        raise IndexError(f"a mask of shape {list(mask.shape)} for an array of shape {list(x.shape)}")
    inner = x.shape[len(mask.shape) :]
    wide_shape = (*mask.shape, *(1 for _ in inner))
    wide = expand(reshape(mask, wide_shape), x.shape)
    node = value if isinstance(value, TensorNode) else const(value, x.dtype)
    if len(node.shape) <= len(inner) or node.shape[: len(node.shape) - len(inner)] == (1,):
        return elementwise("where", wide, _value(node, x.shape, x), x)
    node = _value(node, (node.shape[0], *inner), x)
    if node.shape[0] == 0:  # then nothing may be true
        some = checked(cast(mask, int64), IndexMark("value", "setitem", 0, 1, False), False)
        return elementwise("where", expand(reshape(some.eq(0), wide_shape), x.shape), x, const(0, x.dtype, x.shape))
    number = cumulative_sum(cast(reshape(mask, (mask.count,)), int64), axis=0) - 1
    number = choose(reshape(mask, number.shape), number, 0)
    if not switched_off():
        left = reduce("add", cast(mask, int64), range(len(mask.shape))) < const(node.shape[0], int64)
        number = choose(expand(reshape(left, (1,)), number.shape), -1, number)
    number = checked(number, ValueMark("value", "setitem", 0, node.shape[0], False), False)
    index = expand(reshape(number, wide_shape), x.shape)
    axes = maps.placeholder_axes(x.shape)
    by = Gathered(axes, (Loaded(0), *axes[len(mask.shape) :]))
    return elementwise("where", wide, gather(node, by, (index,), x.shape), x)


def _loaded(x: TensorNode, key: IndexKey, value: TensorNode | Scalar) -> TensorNode:
    """Each place remembers the last value that was written to it: a scatter of their numbers with max, then a gather."""
    shape, index, to = _written(x, key, "max")
    node = _value(value, shape, x)
    size = node.count
    if size == 0:
        return x
    last = scatter(reshape(iota(size), shape) + 1, to, index, x.shape)
    by = Gathered(maps.placeholder_axes(x.shape), (Loaded(0),))
    return elementwise("where", last > 0, gather(reshape(node, (size,)), by, (last - 1,), x.shape), x)


def _written(x: TensorNode, key: IndexKey, combine: str) -> tuple[Shape, tuple[TensorNode, ...], Scattered]:
    """(the shape of what is written, index tensors of that shape, where it goes)."""

    def placed(d: int, axis: Node) -> Node:
        start, step, _ = key.picks[d]
        return ix.add(ix.mul(axis, node_const(step)), number(start))

    shape, index, axes, at = _layout(x, key, [number(start) for start, _, _ in key.picks], placed)
    return shape, index, Scattered(combine, axes, tuple(at))


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
        _value(value, indexed(x, at).shape, x)
        return x
    shape, index, to = _written(x, at, combine)
    return elementwise(combine, x, scatter(_value(value, shape, x), to, index, x.shape))


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
    if promote(node.dtype, x.dtype) is not x.dtype and not (x.dtype.is_float and node.dtype.is_int):
        raise UsageError(f"scatter_add of {node.dtype} values into a {x.dtype} array: cast them first")
    node = expand(rounded(node, x.dtype), indices.shape)
    index = _wrapped(within("index", "scatter_add", indices, d, x.shape[d]), x.shape[d])
    return x + scatter(node, Scattered.along("add", indices.shape, d), (index,), x.shape)
