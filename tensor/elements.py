"""Parts and elements of tensors by key, where they are known at once: what `x[key]` and `x[key] = value` try first."""

from __future__ import annotations

import sys
from typing import Any

from .leaves import array_class, leaf
from .running import buffers
from .running.assignment import _LOCKS, lock_of
from .running.current_capture import thread
from .running.numpy_evaluation import ENVIRONMENT, SMALL, kernels_only
from .running.observers import WATCH
from .running.pools import COUNTED, POOLED_FROM
from .views import BASIC, Sliced, basic, link


def known_item(tensor: Any, key: Any) -> Any:
    """What a key of numbers and slices names of what NumPy computed: a view, or an element. None where a graph has to be built, or is read."""
    known = tensor.known
    if known is None or ((WATCH.busy or SMALL in ENVIRONMENT) and (thread.capture is not None or kernels_only())):
        return None
    if type(key) not in BASIC and not basic(key):
        return None
    try:
        found = known[key]
    except (IndexError, TypeError, ValueError):
        return None
    kind = type(tensor)
    if type(found) is not array_class():
        return kind.of_array(found.__array__())
    if tensor.constant is not None:
        return None
    part = kind.of_array(found)
    link(part, tensor, Sliced(key))
    return part


def chosen(tensor: Any, key: Any) -> Any:
    """`tensor[key]` of short tensors that NumPy computed, by places or masks; None where more has to be looked at."""
    known = tensor.known
    if known is None or known.nbytes >= POOLED_FROM or tensor.constant is not None or tensor.complex_class:
        return None
    if WATCH.busy or SMALL in ENVIRONMENT:
        return None
    try:
        found = known[tuple([_place_of(k) for k in key]) if type(key) is tuple else _place_of(key)]
    except (IndexError, TypeError):
        return None
    return type(tensor).of_array(found.__array__()) if found.nbytes < POOLED_FROM else None


def _place_of(key: Any) -> Any:
    """A part of a key as NumPy has it. Raises TypeError for others than numbers, slices, and short tensors of integers or truth values."""
    if type(key) in BASIC:
        return key
    known = getattr(key, "known", None)
    if known is None or known.dtype.kind not in "bi" or key.constant is not None or known.nbytes >= POOLED_FROM:
        raise TypeError
    return known


def stored(tensor: Any, key: Any, value: Any) -> bool:
    """`tensor[key] = value` in the tensor's memory, where that is its own and of it nothing else reads. False where more has to be looked at."""
    if WATCH.busy or SMALL in ENVIRONMENT or tensor.requires_grad or tensor.device != "cpu":
        return False
    own, of = type(tensor), type(value)
    if type(key) is own:
        key = key.known
        if key is None:
            return False
    elif type(key) not in BASIC and not basic(key) and type(key) is not array_class():
        return False
    if of is own:
        value = value.known
    if value is None or own.complex_class:
        return False
    with _LOCKS[id(tensor) // 64 % 64] if tensor.links is None else lock_of(tensor):
        array = own_array(tensor)
        if array is None or (value.dtype is not array.dtype if of is own else array.dtype.kind not in _HOLD.get(of, "")):
            return False
        try:
            array[key] = value
        except (IndexError, ValueError, TypeError, OverflowError):
            return False
    return True


_HOLD = {float: "f", int: "iuf", bool: "biuf"}
"""Kinds of types that hold Python's numbers."""


def own_array(tensor: Any) -> Any:
    """The array in which a tensor's values are, where only this tensor reads it, and only it or what it is a part of has the memory. Else
    None. (Counted are the one reference, the name here, and the count's own.)"""
    known, links = tensor.known, tensor.links
    if not COUNTED:
        return None
    if links is None and known is not None:  # (as below, of what has no views: the order of its elements is nobody's concern)
        sole = known.base is None and tensor.constant is None and sys.getrefcount(known) <= 3
        return known if sole and known.nbytes < POOLED_FROM else None
    if links is not None and (links.base is not None or links.parts):
        root, base = links.base, None if known is None else known.base
        if base is None or root is None or links.parts or root.known is not base or root.constant is not None or root.requires_grad:
            return None
        if base.base is not None or (len(root.links.parts) > 1 and len(root.links.alive()) > 1) or not base.flags.c_contiguous:
            return None
        return known if sys.getrefcount(base) <= 4 and sys.getrefcount(known) <= 3 else None
    if known is not None:
        sole = known.base is None and tensor.constant is None and sys.getrefcount(known) <= 3
        return known if sole and known.nbytes < POOLED_FROM and known.flags.c_contiguous else None
    if tensor.deferred is not None:
        return None
    node = tensor.node
    data = node.data
    if node.op != "buffer" or data is None or data.foreign or data.cell is not None or data.spec.range is not None or node.tracked:
        return None
    array = data._array
    base = None if array is None else array.base
    if array is None or sys.getrefcount(node) > 3 or sys.getrefcount(data) > 3 or sys.getrefcount(array) > 3:
        return None
    return array if (base is None or sys.getrefcount(base) <= 3) and array.flags.carray else None


def element(tensor: Any, key: Any) -> Any:
    """The element that a key of numbers names, of a tensor with a node or a deferred one, where it is known; else None."""
    deferred = tensor.deferred
    data = None if deferred is not None else tensor.node.data
    if deferred is None and (data is None or tensor.node.tracked):
        return None
    try:
        value: Any = deferred.element(_place(key, deferred.shape)) if data is None else data.array[key]
    except IndexError:
        return None
    if getattr(value, "shape", None) != ():
        return None
    if value.dtype.num < len(buffers.TYPES):
        return type(tensor).of_array(value.__array__())
    buffer = buffers.new((), tensor.dtype, "cpu", ("", 0))
    buffer.array[...] = value
    return type(tensor).of(leaf(buffer))


def _place(key: Any, shape: tuple[int, ...]) -> tuple[int, ...]:
    """A key of numbers as a place of an array, counted from its beginning. Raises IndexError for other keys, and outside of the array."""
    at = key if type(key) is tuple else (key,)
    if len(at) != len(shape) or not all(type(i) is int and -n <= i < n for i, n in zip(at, shape, strict=True)):
        raise IndexError
    return tuple(i % n for i, n in zip(at, shape, strict=True))
