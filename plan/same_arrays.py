"""Arrays that a program is called with again and again: their checks are made once."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import Any

ROOM = 64
"""Sets of arrays that are remembered."""
_CALLS = 3
"""Calls in a row with the same arrays before they are remembered. (Remembering costs as much as the checks of two
calls, and new arrays often have the place of those that died.)"""


class SameArrays:
    """Calls by the identity of their arrays. What is found is right: a set is forgotten when one of its arrays dies,
    and a weak reference keeps NumPy from moving an array's memory. Only how an array is seen, and whether it may be
    written, can change meanwhile."""

    __slots__ = ("_known", "_last", "_times")

    def __init__(self) -> None:
        self._known: dict[tuple[int, ...], _Known] = {}
        self._last: tuple[int, ...] = ()
        self._times = 0

    def find(self, key: tuple[int, ...], arrays: tuple[Any, ...], inputs: int) -> _Known | None:
        """What is known of these inputs and outputs, whose ids are `key`, if they still look as they did and outputs
        are writeable."""
        known = self._known.get(key)
        if known is None:
            return None
        for a, shape, strides, dtype in known.looks(arrays):
            if a.shape != shape or a.strides != strides or a.dtype is not dtype:
                return None
        for a in arrays[inputs:]:
            if not a.flags.writeable:
                return None
        return known

    def met(self, key: tuple[int, ...], arrays: tuple[Any, ...], call: Callable[..., None], addresses: Sequence[int]) -> None:
        """These arrays passed every check; remember them if they did so a few times in a row and there is room."""
        if key != self._last:
            self._last, self._times = key, 1
            return
        self._times += 1
        if self._times < _CALLS or len(self._known) >= ROOM:
            return
        known = self._known

        def forget(_: Any) -> None:
            known.pop(key, None)

        known[key] = _Known(arrays, call, tuple(addresses), [weakref.ref(a, forget) for a in arrays])

    def clear(self) -> None:
        """Forget all."""
        self._known.clear()
        self._last = ()


class _Known:
    __slots__ = ("_dtypes", "_references", "_shapes", "_strides", "addresses", "call")

    def __init__(
        self, arrays: tuple[Any, ...], call: Callable[..., None], addresses: tuple[int, ...], references: list[weakref.ref[Any]]
    ) -> None:
        self.call, self.addresses, self._references = call, addresses, references
        self._shapes, self._strides = [a.shape for a in arrays], [a.strides for a in arrays]
        self._dtypes = [a.dtype for a in arrays]

    def looks(self, arrays: tuple[Any, ...]) -> zip[tuple[Any, ...]]:
        return zip(arrays, self._shapes, self._strides, self._dtypes)
