"""Views: `x[1:3]` of a tensor is a part of it, as in NumPy. What is written to the part is written to `x`, and the other way round.

A view is a handle with a node of its own, like every other one; `Links` say what it is a part of, and what is a part of it. Nothing looks
at them but who writes: a write to a view becomes a write to what it is a part of, and then all other parts get new nodes. Results that
were computed of the old values, or will be, keep them. A captured function has views of its own, so it does what it does uncaptured;
parts from outside see its updates when it has run.

A write is done in the tensor's own memory where nothing else reads that: no lazy result, no array of NumPy's, no user's array. Who holds
what is known by CPython's counts of references, so each write costs as much as NumPy's. Else the values are copied before (once, since
the copy is the tensor's alone). Values that nobody asked for yet are computed then. A write of which a gradient may be asked for, or in
a captured function, becomes a part of the graph."""

from __future__ import annotations

import os
import sys
import weakref
from types import EllipsisType, NoneType
from typing import Any

from ..ir.errors import UsageError
from .graph.nodes import TensorNode
from .leaves import leaf
from .ops.indexing import getitem, setitem
from .running import buffers
from .running.assignment import assign, lock_of
from .running.buffers import TensorBuffer
from .running.current_capture import current

BASIC = (int, slice, NoneType, EllipsisType)
MOST_WRITES = 32
"""Writes that become a part of a graph before it is computed: graphs do not grow without end."""
_COUNTED = sys.implementation.name == "cpython" and getattr(sys, "_is_gil_enabled", lambda: True)()


class Links:
    """Of a tensor: what it is a part of (`base`, by `key`), its parts, how many writes its graph holds, and in which `capture` it became a
    part (None: in none)."""

    __slots__ = ("base", "capture", "key", "parts", "room", "writes")

    def __init__(self, base: Any = None, key: Any = None) -> None:
        self.base, self.key, self.capture = base, key, current()
        self.parts: list[weakref.ref[Any]] = []
        self.room, self.writes = 16, 0

    def alive(self) -> list[Any]:
        """The parts that somebody still has."""
        found = [(r, v) for r in self.parts if (v := r()) is not None]
        self.parts = [r for r, _ in found]
        self.room = 2 * len(found) + 16
        return [v for _, v in found]


def is_part(key: Any, rank: int) -> bool:
    """Whether a key names a part of an array of `rank` dimensions, as slices do: an element is a number of its own."""
    items = key if type(key) is tuple else (key,)
    whole = 0
    for i in items:
        if type(i) not in BASIC and not (hasattr(i, "__index__") and not hasattr(i, "shape")):
            return False
        whole += i is not None and type(i) is not EllipsisType and type(i) is not slice
    return whole < rank or whole < len(items)


def link(part: Any, base: Any, key: Any) -> None:
    """`part` is `base[key]` from now on."""
    links = base.links
    if links is None:
        links = base.links = Links()
    elif len(links.parts) > links.room:
        links.alive()
    links.parts.append(weakref.ref(part))
    part.links = Links(base, key)


def write(tensor: Any, node: TensorNode) -> None:
    """`tensor` has the values of `node` from now on, and so have the places of what it is a part of."""
    with lock_of(tensor):
        assign(tensor, node)
        if tensor.links is not None:
            spread(tensor)


def spread(tensor: Any) -> None:
    """Tell a tensor's values to what it is a part of, or to its parts."""
    links = tensor.links
    if links.base is not None:
        base = links.base
        if links.capture is not current():
            return
        assign(base, setitem(base.node, links.key, tensor.node))
        spread(base)
        return
    _refresh(tensor)
    links.writes += current() is None
    if links.writes >= MOST_WRITES:
        links.writes = 0
        tensor.realise()
        _refresh(tensor)


def _refresh(tensor: Any) -> None:
    for part in tensor.links.alive():
        if part.links.capture is current():
            part.node = getitem(tensor.node, part.links.key)
            if part.links.parts:
                _refresh(part)


# writes at once ---------------------------------------------------------------------------------------------------
def written(tensor: Any, key: Any, value: Any) -> bool:
    """`tensor[key] = value` in memory, if that is possible at once; whoever calls this has the tensor's lock. What NumPy refuses is not
    done here, so that the error is ours."""
    import numpy as np

    chain, root = [key], tensor
    while root.links is not None and root.links.base is not None:
        chain.append(root.links.key)
        root = root.links.base
    if not _ready(root):
        return False
    try:
        places, given = [_plain(k) for k in chain], _plain(value)
        root.realise()
    except UsageError:  # of arguments without values, as in `vmap`
        return False
    kind = tensor.dtype.np
    fits = np.can_cast(given.dtype, kind, "same_kind") if isinstance(given, (np.ndarray, np.generic)) else (
        type(given) is bool or (type(given) is int and kind.kind != "b") or (type(given) is float and kind.kind == "f")
    )  # fmt: skip
    if not fits or tensor.dtype.foreign:
        return False
    array = _own(root)
    try:
        part = array
        for k in reversed(places[1:]):
            part = part[k]
        part[places[0]] = given
    except (IndexError, ValueError, TypeError, OverflowError):
        return False
    if root.links is not None and root.links.parts:
        _refresh(root)
    return True


def at_once(tensor: Any) -> bool:
    """Whether NumPy may read and write elements of a tensor."""
    return (
        current() is None and tensor.device == "cpu" and not tensor.requires_grad and os.environ.get("TILEWRIGHT_SMALL", "1") != "0"
    )  # fmt: skip


def element(tensor: Any, key: Any) -> TensorNode | None:
    """The element that a key of numbers names, where it is known; else None."""
    data = tensor.node.data
    if data is None or tensor.node.tracked:
        return None
    try:
        value = data.array[key]
    except IndexError:
        return None
    if getattr(value, "shape", None) != ():
        return None
    buffer = buffers.new((), tensor.dtype, "cpu", data.line)
    buffer.array[...] = value
    return leaf(buffer)


def _plain(x: Any) -> Any:
    """Tensors in a key or a value as arrays. Raises UsageError where a gradient may be asked for through one."""
    node = getattr(x, "node", None)
    if isinstance(node, TensorNode):
        if node.tracked:
            raise UsageError("a gradient may be asked for through it")
        return x.numpy()
    return tuple(map(_plain, x)) if type(x) is tuple else x


def _ready(root: Any) -> bool:
    """Whether a tensor's memory may be written to: no captured function reads it, and its numbers have no declared range."""
    data = root.node.data
    return not (root.node.tracked or root.requires_grad) and (data is None or (data.cell is None and data.range is None))


def _own(root: Any) -> Any:
    """The array of a tensor's memory, of which nothing else reads."""
    node, data = root.node, root.node.data
    if node.op != "buffer" or data.foreign or not _COUNTED or not _alone(root, node, data):
        new = buffers.new(node.shape, node.dtype, root.device, node.line)
        buffers.fill(new, data.array)
        root.node, data = leaf(new), new
    return data.array


def _alone(root: Any, node: TensorNode, data: TensorBuffer) -> bool:
    """Whether only `root` has this node and its memory. (Counted are: the tensor's, those of this function and its caller, and the call's own.)"""
    return sys.getrefcount(node) <= 4 and sys.getrefcount(data) <= 4 and sys.getrefcount(data._array) <= 2
