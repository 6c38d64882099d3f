"""Views: `x[1:3]`, `x.T` and `x.reshape(-1)` are `x` in other places, as in NumPy. What is written to one is written to `x`, and the
other way round.

A view is a handle with a node of its own, like every other one; `Links` say what it is a view of, and how, and what is a view of it. Nothing
looks at them but who writes: a write to a view becomes a write to what it is a view of, and then all others get new nodes. Results that
were computed of the old values, or will be, keep them. A captured function has views of its own, so it does what it does uncaptured;
views from outside see its updates when it has run.

A write is done in the tensor's own memory where nothing else reads that: no lazy result, no array of NumPy's, no user's array. Who holds
what is known by CPython's counts of references, so each write costs as much as NumPy's. Else the values are copied before (once, since
the copy is the tensor's alone). Values that nobody asked for yet are computed then. A write of which a gradient may be asked for, or in
a captured function, becomes a part of the graph."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from functools import cache, partial, wraps
from numbers import Integral
from types import EllipsisType, NoneType
from typing import Any
from weakref import ref

from ..ir.errors import OutOfRangeError, UsageError
from ..plan.array_arguments import address, masked
from .given_arrays import Flattened, Reshaped, ViewPlace, enliven, is_flattened, lineage, views_of, written_by_others
from .graph.nodes import TensorNode
from .graph.source_lines import with_line
from .graph.symbolic_sizes import SymbolicSize, most
from .leaves import array_class, leaf
from .ops.complex_numbers import as_complex
from .ops.creation import empty, full, ones, zeros
from .ops.indexing import getitem, setitem
from .ops.movement import permute
from .running import buffers
from .running.assignment import assign, followed, lock_of
from .running.buffers import TensorBuffer
from .running.current_capture import current, thread
from .running.numpy_evaluation import ENVIRONMENT, SMALL, kernels_only
from .running.observers import WATCH
from .running.pools import COUNTED, POOLED_FROM, is_room

BASIC = frozenset({int, slice, NoneType, EllipsisType})
_NUMBERS = frozenset({*BASIC, float, bool})
MOST_WRITES = 32
"""Writes that become a part of a graph before it is computed: graphs do not grow without end."""


class Sliced:
    """`base[key]`, of a key of numbers and slices."""

    __slots__ = ("key",)

    def __init__(self, key: Any) -> None:
        self.key = key

    def of(self, base: TensorNode) -> TensorNode:
        return getitem(base, self.key)

    def put(self, base: TensorNode, view: TensorNode) -> TensorNode:
        return setitem(base, self.key, view)

    def array(self, base: Any) -> Any:
        return base[self.key if basic(self.key) else _plain(self.key)]


class Permuted:
    """`base` with its dimensions in another order, which `moved` gives an array."""

    __slots__ = ("moved", "order")

    def __init__(self, moved: Callable[[Any], Any]) -> None:
        self.moved = moved
        self.order: tuple[int, ...] | None = None

    def _order(self, rank: int) -> tuple[int, ...]:
        """Which dimension of `base` each one is."""
        if self.order is None:
            import numpy as np

            self.order = tuple(n - 1 for n in self.moved(np.broadcast_to(np.int8(0), range(1, rank + 1))).shape)
        return self.order

    def of(self, base: TensorNode) -> TensorNode:
        return permute(base, self._order(len(base.shape)))

    def put(self, base: TensorNode, view: TensorNode) -> TensorNode:
        order = self._order(len(base.shape))
        return permute(view, sorted(range(len(order)), key=order.__getitem__))

    def array(self, base: Any) -> Any:
        return self.moved(base)


class PermutedPairs(Permuted):
    """The same of a complex tensor, whose nodes have a last dimension of 2 that stays where it is."""

    __slots__ = ()

    def _order(self, rank: int) -> tuple[int, ...]:
        return (*super()._order(rank - 1), rank - 1)

    def array(self, base: Any) -> Any:
        return base.transpose(self._order(base.ndim))


class Links:
    """Of a tensor: what it is a view of (`base`, at `place`), its views, how many writes its graph holds, in which `capture` it became a
    view (None: in none), and whether it is `live`: it has no node of its own, but gets a new one whenever it is read."""

    parts: dict[int, ref[Any]] = {}  # noqa: RUF012 (nobody's, and empty)
    room, writes, live = 16, 0, False  # (most views are gone before these change)

    def __init__(self, base: Any = None, place: Any = None) -> None:
        self.base, self.place = base, place
        self.capture = thread.capture if WATCH.busy else None

    def alive(self) -> list[Any]:
        """The views that somebody still has. (Each step is one operation of a dictionary: another thread may add a view meanwhile.)"""
        found = []
        for key, seen in list(self.parts.items()):
            view = seen()
            if view is None:
                self.parts.pop(key, None)
            else:
                found.append(view)
        self.room = 2 * len(found) + 16
        return found


def pythons(key: Any) -> Any:
    """A key with Python's own numbers in place of NumPy's, which name parts likewise; itself, where there is none."""
    if basic(key):
        return key
    if type(key) is not tuple:
        return int(key) if isinstance(key, Integral) and not isinstance(key, int) else key
    parts = tuple(map(pythons, key))
    return parts if any(a is not b for a, b in zip(parts, key, strict=True)) else key


def is_part(key: Any, rank: int) -> bool:
    """Whether a key names a part of an array of `rank` dimensions, as slices do: an element is a number of its own."""
    items = key if type(key) is tuple else (key,)
    whole = 0
    for i in items:
        if type(i) not in BASIC and not (hasattr(i, "__index__") and not hasattr(i, "shape")):
            return False
        whole += i is not None and type(i) is not EllipsisType and type(i) is not slice
    return whole < rank or whole < len(items)


def link(part: Any, base: Any, place: ViewPlace) -> None:
    """`part` is a view of `base` from now on, unless that is `Flattened`."""
    if is_flattened(base):
        return
    part.links = Links(base, place)
    links = base.links
    if links is None or links.parts is Links.parts:
        links = _with_parts(base)
    parts = links.parts
    if len(parts) > links.room:
        links.alive()
    seen = ref(part)
    parts[id(seen)] = seen
    if type(place) is Flattened and thread.capture is None:
        enliven(part)
        return
    if base.deferred is not None or (WATCH.busy and thread.capture is not None):
        return
    if base.complex_class and base.known is not None:
        if part.known is None or not (part.known.base is base.known or part.known.base is base.known.base):
            part.show(place.array(base.known))
    elif (base.complex_class or part.known is None) and written_by_others(part) and (part.known is not None or part.node.data is not None):
        alone = base.complex_class or part.dtype.narrow or base.device != "cpu" or base.known is not None or base.node.op != "buffer"
        if alone:
            enliven(part)
        else:
            part.show(place.array(base.node.data.array))


def flattened(x: Any) -> Any:
    """All elements of a tensor in one dimension, as a view of it."""
    if is_flattened(x):
        return x
    if len(x.shape) == 1:
        out = type(x).of(x.node, x.device)
        link(out, x, Reshaped(x.node.shape))
        return out
    out = x.ravel()
    if out.links is None:
        link(out, x, Flattened((*out.shape, 2) if x.complex_class else out.shape))
    return out


def _with_parts(base: Any) -> Links:
    """The links of what gets its first view."""
    with lock_of(base):
        links: Links | None = base.links
        if links is None:
            links = base.links = Links()
        if links.parts is Links.parts:
            links.parts = {}
        return links


def reshaping(call: Callable[..., Any], array: Callable[..., Any] | None = None, rows: bool = False) -> Callable[..., Any]:
    """A function to another shape, whose results are views where NumPy's are: where elements follow each other evenly (`rows`: row by row,
    without gaps). `array`: the same of arrays, where it needs no more than they do."""

    @wraps(call)
    def method(x: Any, /, *args: Any, **kwargs: Any) -> Any:
        if (
            x.known is None
            and array is not None
            and not kwargs
            and args
            and type(args[0]) is tuple
            and thread.capture is None
            and not x.complex_class
        ):
            shape = x.shape
            if args[0] == shape or (len(shape) == 1 and args[0] == (-1,)):  # (libraries flatten what is flat before they read one element)
                same = type(x).of(x.node, x.device) if x.deferred is None else type(x).of_deferred(x.deferred)
                link(same, x, Reshaped(shape))
                return same
        known = None if array is None else _moved_array(x, array, args, kwargs)
        out = call(x, *args, **kwargs) if known is None else type(x).of_array(known)
        if type(out) is not type(x) or (kwargs and kwargs.get("copy") is True):
            return out
        known = out.known
        shape = known.shape if known is not None else (*out.shape, 2) if x.complex_class else out.shape
        links = x.links
        if links is None or links.base is None or (_shared(x, known, rows) if known is not None else _evenly(x, shape, rows)):
            if out is x or (known is None and out.deferred is None and out.node is x.node):
                out = type(x).of(x.node, x.device)
            link(out, x, Reshaped(shape))
        return out

    return method


def permuting(call: Callable[..., Any], moved: Callable[..., Any]) -> Callable[..., Any]:
    """A function that changes the order of dimensions, as `moved` does it to an array; its results are views."""

    @wraps(call)
    def method(x: Any, /, *args: Any, **kwargs: Any) -> Any:
        known = _moved_array(x, moved, args, kwargs)
        out = call(x, *args, **kwargs) if known is None else type(x).of_array(known)
        if type(out) is type(x):
            same = known is None and (out is x or (out.known is None and out.node is x.node))
            if same:
                out = type(x).of(x.node, x.device)
            if same or len(out.shape) < 2:  # (the order of dimensions stays what it was)
                place: ViewPlace = Reshaped((*out.shape, 2) if x.complex_class else out.shape)
            else:
                place = (PermutedPairs if x.complex_class else Permuted)(partial(_moved, moved, args, kwargs) if args or kwargs else moved)
            link(out, x, place)
        return out

    return method


def parting(call: Callable[..., Any], key: Callable[..., Any]) -> Callable[..., Any]:
    """A function whose result is a part of its first argument, at `key` of the arguments: a key of its node's; None where it is a value."""

    @wraps(call)
    def method(x: Any, /, *args: Any, **kwargs: Any) -> Any:
        out = call(x, *args, **kwargs)
        at = key(x, *args, **kwargs) if hasattr(x, "complex_class") else None
        if at is not None and out is not x:
            link(out, x, Sliced(at))
        return out

    return method


def _moved_array(x: Any, moved: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """What a function that only moves elements makes of what NumPy computed; None where a graph has to be built, and for what it refuses."""
    known = x.known
    if known is None or x.constant is not None or x.complex_class or WATCH.busy or SMALL in ENVIRONMENT:
        return None
    try:
        return moved(known, *args, **kwargs)
    except (ValueError, TypeError, IndexError):
        return None


def _moved(moved: Callable[..., Any], args: Any, kwargs: Any, array: Any) -> Any:
    return moved(array, *args, **kwargs)


def _laid(places: Sequence[ViewPlace], root: Any, memory: Any) -> Any:
    """An array that lies in `memory` as a view does in its root. Its elements are not to be read."""
    from numpy import asarray

    sizes = (*map(most, root.shape), *((2,) if root.complex_class else ()))  # (a complex tensor's memory has its pairs at its end)
    array = asarray(_Laid(sizes, memory))
    for p in reversed(places):
        array = _at_most(p).array(array)
    return array


class _Laid:
    """Rows of bytes that begin where `memory` does, which is shorter. (`as_strided` takes five times as long.)"""

    __slots__ = ("__array_interface__", "memory")

    def __init__(self, sizes: tuple[int, ...], memory: Any) -> None:
        self.memory = memory
        self.__array_interface__ = {"shape": sizes, "typestr": "|i1", "data": (address(memory), False), "version": 3}


def _shared(tensor: Any, known: Any, rows: bool) -> bool:
    """`_evenly`, of a tensor in a shape in which NumPy gave `known`."""
    array, root = tensor.known, lineage(tensor)[1].known
    if array is None or root is None or array.base is not root or not root.flags.c_contiguous:
        return _evenly(tensor, known.shape, rows)
    return bool(array.flags.c_contiguous) or (known.base is root and not rows)


def _evenly(tensor: Any, shape: tuple[int, ...], rows: bool) -> bool:
    """Whether a tensor in another shape is a view of the memory that it is a view of."""
    places, root = lineage(tensor)
    if all(type(p) is Reshaped for p in places) or is_flattened(tensor):
        return True
    from numpy import empty, int8

    array = _laid(places, root, empty(1, int8))
    return bool(array.flags.c_contiguous) or (not (rows or array.size == 0) and _splits(array, map(most, shape)))


def overlap(a: Any, b: Any) -> bool:
    """Whether two arrays have an element in common (also where nobody can tell within some microseconds)."""
    from numpy import shares_memory
    from numpy.exceptions import TooHardError

    try:
        return bool(shares_memory(a, b, max_work=1000))  # type: ignore[arg-type]  # (NumPy stubs know two of its values)
    except TooHardError:
        return True


def met(tensor: Any, others: Iterable[Any]) -> Any | None:
    """The first of other tensors that has an element in common with a tensor, as a view of it or of what it is a view of."""
    from numpy import empty, int8

    places, root = lineage(tensor)
    memory = empty(1, int8)
    for other in others:
        if other is tensor:
            return other
        if other.links is None or (found := lineage(other))[1] is not root:
            continue
        if is_flattened(tensor) or is_flattened(other) or overlap(_laid(places, root, memory), _laid(*found, memory)):
            return other
    return None


def _splits(array: Any, shape: Iterable[int]) -> bool:
    """Whether the runs of elements that follow each other evenly can be split into a shape's dimensions."""
    runs: list[int] = []
    before = None
    for n, stride in zip(array.shape, array.strides, strict=True):
        if n != 1:
            if before == stride * n:
                runs[-1] *= n
            else:
                runs.append(n)
            before = stride
    left = 1
    for n in shape:
        if n != 1:
            left = left if left > 1 or not runs else runs.pop(0)
            if left % n:
                return False
            left //= n
    return True


def _at_most(place: ViewPlace) -> ViewPlace:
    """A place in which symbolic sizes are the largest that they may be."""
    if type(place) is Reshaped:
        return Reshaped(tuple(map(most, place.shape)))
    if type(place) is not Sliced:
        return place

    def number(i: Any) -> Any:
        return most(i) if isinstance(i, SymbolicSize) else i

    items = place.key if type(place.key) is tuple else (place.key,)
    return Sliced(tuple(slice(*map(number, (i.start, i.stop, i.step))) if type(i) is slice else number(i) for i in items))


def write(tensor: Any, node: TensorNode) -> None:
    """`tensor` has the values of `node` from now on, and so have the places of what it is a part of."""
    with lock_of(tensor):
        viewing = tensor.links is not None and tensor.links.base is not None
        if viewing and node.data is not None and not node.tracked and at_once(tensor):
            array = node.data.array
            if written(tensor, ..., as_complex(array) if tensor.complex_class else array):
                return
        assign(tensor, node)
        if tensor.links is not None:
            spread(tensor)
            # an array of a value may be written to later
            if is_flattened(tensor) and at_once(tensor) and not (node.tracked or thread.batches):
                lineage(tensor)[1].realise()


def spread(tensor: Any) -> None:
    """Tell a tensor's values to what it is a part of, or to its parts. In a captured function, tensors from outside only show them."""
    links, capture = tensor.links, current()
    if links.base is not None:
        base = links.base
        if links.capture is capture:
            assign(base, links.place.put(base.node, tensor.node))
        elif capture is not None:
            capture.show(base, links.place.put(base.node, tensor.node))
        else:
            return
        spread(base)
        return
    _refresh(tensor)
    links.writes += capture is None
    if links.writes >= MOST_WRITES:
        links.writes = 0
        tensor.realise()
        _refresh(tensor)


def _refresh(tensor: Any) -> None:
    """Give all views of a tensor its values."""
    capture = current()
    for part in tensor.links.alive():
        if part.links.capture is capture:
            known = tensor.known
            if capture is None and is_flattened(part):
                enliven(part)
                continue
            if part.known is None and part.node.data is not None and part.node.data.cell is not None:
                part.node = followed(part.node.data, part.links.place.of(tensor.node))
            elif known is None:
                array = None if capture is not None else _seen(tensor, part)
                if array is None:
                    part.node, part.known, part.links.live = part.links.place.of(tensor.node), None, False
                else:
                    part.show(array)
            else:
                part.show(part.links.place.array(known))
        elif capture is not None:
            capture.show(part, part.links.place.of(tensor.node))
        else:
            continue
        if part.links.parts:
            _refresh(part)


def _seen(tensor: Any, part: Any) -> Any:
    """NumPy's view, as which a short view of a tensor is read, where the tensor has memory; else None."""
    node = tensor.node
    data = node.data
    if node.op != "buffer" or tensor.complex_class or tensor.dtype.narrow or node.tracked or not at_once(part):
        return None
    array = part.links.place.array(data.array)
    return array if array.nbytes < POOLED_FROM and array.base is not None else None


def relatives(tensor: Any) -> list[Any]:
    """A tensor, what it is a view of, and all views of that."""
    root = lineage(tensor)[1]
    return [root, *views_of(root)]


# writes at once ---------------------------------------------------------------------------------------------------
def written(tensor: Any, key: Any, value: Any) -> bool:
    """`tensor[key] = value` in memory, if that is possible at once; whoever calls this has the tensor's lock. What NumPy refuses is not
    done here, so that the error is ours."""
    links = tensor.links
    places, root = ((), tensor) if links is None or links.base is None else lineage(tensor)
    mixed = is_flattened(tensor)  # (`flat` of NumPy's array takes too few numbers, and repeats them)
    if not _ready(root) or (mixed and not (type(key) in BASIC and key is not None and type(value) in _NUMBERS)):
        return False
    try:
        at = key if basic(key) else _plain(key)
        given = value if type(value) in _NUMBERS else _plain(value)
        constant = None
        if root.known is not None:
            constant, root.constant = root.constant, None
        elif root.node.op != "buffer":
            root.realise()
    except UsageError:  # of arguments without values, as in `vmap`
        return False
    kind = tensor.dtype.np if tensor.known is None or tensor.complex_class else tensor.known.dtype  # (who has the array is counted)
    if type(given) is float:
        fits = kind.kind in "fc"
    elif type(given) is array_class() and given.dtype is kind:
        fits = True
    elif hasattr(given, "__array_interface__"):
        import numpy as np

        fits = np.can_cast(given.dtype, kind, "same_kind") and not masked(given)
    else:
        fits = type(given) is bool or (type(given) is int and kind.kind != "b") or (type(given) is complex and kind.kind == "c")
    if not fits or (tensor.known is None and tensor.dtype.foreign):
        return False
    stale = False
    try:
        part, stale = _own(root, constant)
        for p in reversed(places[1:] if mixed else places):
            part = p.array(part)
        if tensor.complex_class:
            part = part.view(kind)[..., 0]
        part = part.flat if mixed else part
        if type(at) is array_class() and at.dtype.kind == "b":
            _masked()(part, at, given)
        else:
            part[at] = given
    except ValueError as e:
        if any(type(k) is array_class() and k.dtype.kind == "b" for k in (at if type(at) is tuple else (at,))):
            raise with_line(OutOfRangeError(str(e))) from None  # (how many elements a mask has, no graph knows)
        return False
    except (IndexError, TypeError, OverflowError):
        return False
    finally:
        if stale:
            _refresh(root)
    return True


@cache
def _masked() -> Callable[..., None]:
    """What stores at a mask. (It imports NumPy; an import in a function takes longer than the store.)"""
    from .frontends.quick_arrays import store

    return store


def at_once(tensor: Any) -> bool:
    """Whether NumPy may read and write elements of a tensor."""
    return thread.capture is None and tensor.device == "cpu" and not tensor.requires_grad and not kernels_only()


def basic(key: Any) -> bool:
    """Whether a key is one of Python's own numbers and slices."""
    return type(key) in BASIC or (type(key) is tuple and BASIC.issuperset(map(type, key)))


def _plain(x: Any) -> Any:
    """Tensors in a key or a value as arrays. Raises UsageError where a gradient may be asked for through one."""
    if type(x) in _NUMBERS:
        return x
    known = getattr(x, "known", None)
    if known is not None:
        return as_complex(known) if x.complex_class else known
    node = getattr(x, "node", None)
    if isinstance(node, TensorNode):
        if node.tracked:
            raise UsageError("a gradient may be asked for through it")
        return x.numpy()
    return tuple(map(_plain, x)) if type(x) is tuple else x


def _ready(root: Any) -> bool:
    """Whether a tensor's memory may be written to: no captured function reads it, and its numbers have no declared range."""
    if root.known is not None:
        return not root.requires_grad
    node = root.node
    data = node.data
    return not (node.tracked or root.requires_grad) and (data is None or (data.cell is None and data.spec.range is None))


def _own(root: Any, constant: Any) -> tuple[Any, bool]:
    """(the array of a tensor's memory, of which nothing reads but the tensor and its views; whether views have other memory, so that they
    must be told of a write). `constant`: how the tensor was made, if it was one."""
    viewed = root.links is not None and bool(root.links.parts)
    known = root.known
    if known is not None:
        seen = several = 0
        if viewed:
            for v in views_of(root):
                several += 1
                seen += v.known is not None and v.known.base is known and sys.getrefcount(v.known) <= 2
        # (of what is not row-major, `reshape` would be a copy)
        sole = known.base is None and known.flags.c_contiguous and COUNTED and sys.getrefcount(known) <= 3 + seen
        if sole and known.nbytes < POOLED_FROM:  # (long ones go to memory that was used before)
            return known, seen < several
        if known.nbytes >= POOLED_FROM:
            base = known.base
            if COUNTED and is_room(known) and sys.getrefcount(known) <= 3 and sys.getrefcount(base) <= 3:
                root.node, root.known = leaf(buffers.computed(known)), None
                return known, viewed
            new = buffers.new(known.shape, buffers.TYPES[known.dtype.num], "cpu", ("", 0))
            buffers.fill(new, known.flat[0] if constant is not None and constant.function in (zeros, empty, ones, full) else known)
            root.node, root.known = leaf(new), None
            return new._array, viewed
        known = known.copy()
        root.show(known)
        return known, viewed
    node, data = root.node, root.node.data
    data.in_order()  # (what views have of another order is other memory)
    lazy, known, stale = _seen_byviews_of(root) if viewed else (0, 0, False)
    if node.op != "buffer" or data.foreign or not COUNTED or not _alone(root, node, data, lazy, known):
        new = buffers.new(node.shape, node.dtype, root.device, node.line)
        buffers.fill(new, data.array)
        root.node, data, stale = leaf(new), new, viewed
    return data._array, stale


def _alone(root: Any, node: TensorNode, data: TensorBuffer, lazy: int, known: int) -> bool:
    """Whether only `root` and its views have this node and its memory: `lazy` nodes of theirs read the node, `known` ones the array. (Counted
    are: the tensor's, those of this function and its caller, and the call's own.)"""
    array: Any = data._array
    base = array.base
    if sys.getrefcount(node) > 4 + lazy or sys.getrefcount(data) > 4:
        return False
    if base is None:
        return sys.getrefcount(array) <= 3 + known
    return sys.getrefcount(array) <= 3 and sys.getrefcount(base) <= 3 + known


def _seen_byviews_of(root: Any) -> tuple[int, int, bool]:
    """Of a tensor's views: how many have a node that reads the tensor's, and that nobody else has; how many one on its array; whether any has
    values of its own."""
    lazy, known, stale = 0, 0, False
    for view in views_of(root):
        if view.known is not None:
            same = _same_memory(view.known.base, root.node.data._array) and sys.getrefcount(view.known) <= 2
            known, stale = known + same, stale or not same
            continue
        if view.links.live:
            continue
        node = view.node
        if sys.getrefcount(node) > 3:  # (the view's, this one, the call's own)
            stale = True
        elif (
            node.op == "view" and node.data is None and node.src[0] is root.node and sys.getrefcount(node.src) <= 2
        ):  # (copies share `src`)
            lazy += 1
        elif node.op == "buffer" and _same_memory(node.data._array.base, root.node.data._array) and _unshared(node.data):
            known += 1
        else:
            stale = True
    return lazy, known, stale


def _same_memory(base: Any, array: Any) -> bool:
    """Whether what a view is based on is an array, or the block of memory that the array lies in."""
    return base is array if array.base is None else base is array.base


def _unshared(data: TensorBuffer) -> bool:
    return sys.getrefcount(data) <= 3 and sys.getrefcount(data._array) <= 2
