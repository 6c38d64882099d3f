"""New values for a tensor that stays the same tensor: `assign`, in-place operators, `x[key] = value`.

An update reads a tensor, computes, and gives it new values. Other threads may do so with the same tensor meanwhile, so an
update holds the tensor's lock from its read to its write."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from ...devices.once import process_lock
from ...ir.errors import UsageError
from ..graph.index_maps import broadcast
from ..graph.nodes import TensorNode, leaf
from ..graph.primitives import rounded, view
from ..graph.source_lines import at, user_line
from . import buffers
from .buffers import MOVES, TensorBuffer
from .current_capture import current, thread
from .realise import realise

_LOCKS = tuple(process_lock() for _ in range(64))
"""Each tensor has one of these. (A lock for each would make every tensor larger.)"""


def _number(tensor: Any) -> int:
    """Which lock is a tensor's: that of what it is a part of."""
    links = tensor.links
    while links is not None and links.base is not None:
        tensor = links.base
        links = tensor.links
    return id(tensor) // 64 % len(_LOCKS)


def lock_of(tensor: Any) -> threading.RLock:
    """What whoever updates a tensor holds."""
    links = tensor.links
    return _LOCKS[id(tensor) // 64 % 64 if links is None or links.base is None else _number(tensor)]


@contextmanager
def updating(tensors: Iterable[Any]) -> Iterator[None]:
    """Hold the locks of several tensors, which everybody takes in one order."""
    held = []
    try:
        for at in sorted(set(map(_number, tensors))):
            _LOCKS[at].acquire()
            held.append(_LOCKS[at])
        yield
    finally:
        for lock in reversed(held):
            lock.release()


def assign(tensor: Any, node: TensorNode) -> None:
    """`tensor` has the values of `node` from now on. While a function is captured that is noted, and happens at every call.
    Otherwise the tensor stands for the new node; where a captured function reads the tensor, or it has requires_grad,
    the values are computed now. What was made from the tensor before keeps the old values."""
    if thread.written is not None:
        thread.written.setdefault(id(tensor), (weakref.ref(tensor), tensor.node))
    capture = current()
    if capture is not None:
        capture.assign(tensor, node)
        return
    with lock_of(tensor):
        _assign(tensor, node)


def _assign(tensor: Any, node: TensorNode) -> None:
    old = tensor.node.data
    if (not isinstance(old, TensorBuffer) or old.cell is None) and not tensor.requires_grad:
        tensor.node, tensor.known = node, None
        return
    tensor.become(followed(old, node))


def followed(old: TensorBuffer, node: TensorNode) -> TensorNode:
    """The values of `node`, computed now, in memory of their own, where captured functions that read `old` find them."""
    shared = node.data is not None
    realise([node], old.device)
    new: TensorBuffer = node.data
    if shared or new.device != old.device:
        new = buffers.new(node.shape, node.dtype, old.device, user_line(), new.range)
        buffers.fill(new, node.data.array)
    if (cell := old.cell) is not None:
        new.cell, old.cell, cell.buffer = cell, None, new
        MOVES.moved()
    return leaf(new)


def fitting(value: TensorNode, tensor: Any) -> TensorNode:
    """Values of the tensor's shape and type. Raises UsageError where the shape does not broadcast to it."""
    shape = tensor.node.shape
    missing = len(shape) - len(value.shape)
    if missing < 0 or any(n not in (1, shape[missing + d]) for d, n in enumerate(value.shape)):
        raise UsageError(
            f"assign {value.dtype}{list(value.shape)} to {tensor.node.dtype}{list(shape)}: the shape does not fit{at(user_line())}"
        )
    value = rounded(value, tensor.node.dtype)
    return value if value.shape == shape else view(value, broadcast(value.shape, shape))
