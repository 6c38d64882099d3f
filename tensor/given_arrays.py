"""Arrays that somebody was given of tensors: one memory with all views of the tensor, so that what is written to it shows in each of them, and in
captured functions.

NumPy writes without a word. So what a view has computed for itself may be old from then on, and is not kept: a view is NumPy's view of the
array, or `live`, which is to be read anew each time. Who has an array is known by CPython's counts of references. A captured function reads
memory: what is made of numbers becomes some when it is read, and a view from outside is a view of its base's memory."""

from __future__ import annotations

import sys
import weakref
from typing import Any, Protocol

from .graph.index_maps import Shape
from .graph.nodes import Mark, TensorNode, is_constant
from .graph.primitives import marked, reshape
from .ops.complex_numbers import as_complex
from .running.assignment import lock_of
from .running.buffers import TensorBuffer
from .running.current_capture import outside, thread
from .running.numpy_evaluation import SMALL_ARRAY
from .running.pools import COUNTED
from .running.realise import copied, realise


class ViewPlace(Protocol):
    """How a view lies in what it is a view of."""

    def of(self, base: TensorNode) -> TensorNode:
        """The view of these values."""

    def put(self, base: TensorNode, view: TensorNode) -> TensorNode:
        """`base` with the values of the view."""

    def array(self, base: Any) -> Any:
        """NumPy's view of an array."""


class Reshaped:
    """All elements of `base`, row by row, in another shape."""

    __slots__ = ("shape",)

    def __init__(self, shape: Shape) -> None:
        self.shape = shape

    def of(self, base: TensorNode) -> TensorNode:
        return reshape(base, self.shape)

    def put(self, base: TensorNode, view: TensorNode) -> TensorNode:
        return reshape(view, base.shape)

    def array(self, base: Any) -> Any:
        return base.reshape(self.shape)


class Flattened(Reshaped):
    """All elements of `base`, row by row, in one dimension, where they do not follow each other in memory: NumPy has no view of them, and
    `array` is a copy. Outside captured functions it has no values of its own. Its parts are values, as those of NumPy's `flat` are."""

    __slots__ = ()


def is_flattened(tensor: Any) -> bool:
    """Whether a tensor is `Flattened`."""
    return tensor.links is not None and type(tensor.links.place) is Flattened


def lineage(tensor: Any) -> tuple[list[ViewPlace], Any]:
    """(the place of a tensor in what it is a view of, of that in what that is a view of, and so on; the tensor that is no view)."""
    places, root = [], tensor
    while root.links is not None and root.links.base is not None:
        places.append(root.links.place)
        root = root.links.base
    return places, root


def views_of(tensor: Any) -> list[Any]:
    """All views of a tensor, and theirs."""
    links = tensor.links
    if links is None or not links.parts:
        return []
    found: list[Any] = links.alive()
    for part in tuple(found):
        if part.links.parts:
            found += views_of(part)
    return found


def through(tensor: Any) -> None:
    """See to it that a captured function finds later what is written to a tensor from outside: what is made of numbers becomes memory, and a
    view is a view of what its base has there."""
    capture = thread.capture
    if capture is None:
        return
    if tensor.known is not None or tensor.links is not None or tensor.node.data is not None:
        capture.read[id(tensor)] = tensor
    _inside(tensor, capture)


def _inside(tensor: Any, capture: Any) -> None:
    if tensor.known is not None:
        tensor.constant = None
    elif is_constant(tensor.node) and not capture.has(tensor.node):
        with outside():
            tensor.computed()
    links = tensor.links
    if links is None or links.base is None or links.capture is not None or id(tensor) in {**capture.shown, **capture.assigned}:
        return
    base = links.base
    _inside(base, capture)
    if _lazy(base) and (base.deferred is not None or not capture.has(base.node)):
        if base.size > SMALL_ARRAY or (base.deferred is None and base.node.op == "slot"):
            return  # (a part of what is long is computed alone)
        with outside():
            base.computed()
    capture.show(tensor, links.place.of(base.node))


def shared(tensor: Any) -> tuple[Any, bool]:
    """(the array of a view or of what has views, in one memory with all of them, so that what is written to it shows in each; None where
    that cannot be, and whether its values are memory that such a write may go to)."""
    places, root = lineage(tensor)
    if is_flattened(tensor):
        return None, False
    if thread.capture is not None or thread.batches or root.device != "cpu":
        return None, True
    with lock_of(root):
        if root.requires_grad:
            return None, not places
        if _reads_views(root):
            return None, False
        if places and root.size > SMALL_ARRAY and _lazy(root):
            return None, False  # (a part of what is long is computed alone)
        array = root._memory()
        if root.known is None:
            if root.node.tracked or root.node.data.range is not None:
                return None, not places
            give(root.node.data)
        memory = array if array.base is None else array.base
        _shown(root, array, memory)
        for p in reversed(places):
            array = p.array(array)
        return as_complex(array) if tensor.complex_class else array, True


def _reads_views(root: Any) -> bool:
    """Whether a captured function reads memory that is a view's own."""
    own = None if root.known is not None or root.deferred is not None else root.node.data
    cells = (v.node.data for v in views_of(root) if v.known is None and v.deferred is None and v.node.data is not own)
    return any(data is not None and data.cell is not None for data in cells)


def _lazy(tensor: Any) -> bool:
    """Whether a tensor has no values yet, and is more than numbers."""
    return tensor.known is None and (tensor.deferred is not None or (tensor.node.data is None and not is_constant(tensor.node)))


def enliven(view: Any) -> None:
    """Let a view have no values of its own: they are read anew from what it is a view of."""
    view.show(None)
    view.links.live = True


def read_anew(view: Any) -> TensorNode:
    """A new node, which nobody else has, of a view on the memory of what it is a view of."""
    node = view.links.place.of(view.links.base.node)
    return node if node.op == "buffer" else copied(node)


def written_by_others(view: Any) -> bool:
    """Whether somebody has an array of what a view is a view of, and may write to it."""
    root = lineage(view)[1]
    if root.known is not None:
        return held(root)
    data = None if root.deferred is not None else root.node.data
    return data is not None and data.given and data.seen


def held(root: Any) -> bool:
    """Whether somebody but a tensor without a node and its views has its array. (Counted are the tensor's reference, the name here, and the
    count's own; of a view's array, that of the loop as well.)"""
    known, base, mine = root.known, root.known.base, 0
    for v in views_of(root):
        if v.known is not None and (v.known.base is known or (base is not None and v.known.base is base)):
            if sys.getrefcount(v.known) > 2:
                return True
            mine += 1
    if base is None:
        return not COUNTED or sys.getrefcount(known) > 3 + mine
    return not COUNTED or sys.getrefcount(known) > 3 or sys.getrefcount(base) > 3 + mine


_copies: list[weakref.ref[TensorNode]] = []
"""The nodes of copies of what is lazy, some of them gone or computed."""


def copy_later(source: TensorNode) -> TensorNode:
    """A copy of what is lazy. It is computed before somebody gets an array of its source."""
    node = marked(source, Mark("copy"))
    if len(_copies) >= 64:
        _copies[:] = [r for r in _copies if (n := r()) is not None and n.data is None]
    _copies.append(weakref.ref(node))
    return node


def give(data: TensorBuffer) -> None:
    """Note that somebody gets a buffer's array."""
    data.given = True
    if _copies:
        realise([n for r in _copies if (n := r()) is not None and n.data is None and n.src[0].data is data], data.device)


def _shown(tensor: Any, array: Any, memory: Any) -> None:
    """Let all views of a tensor lie in its array."""
    for part in tensor.links.alive():
        known = part.known
        if known is None or known.base is not memory:
            known = part.links.place.array(array)
            if part.dtype.narrow or is_flattened(part):  # (which NumPy does not know)
                enliven(part)
            else:
                part.show(known)
        if part.links.parts:
            _shown(part, known, memory)
