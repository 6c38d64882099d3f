"""What a program keeps packed of its constant inputs, for as long as the arrays live."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..devices import Executable, Packed

Call = Callable[..., None]


class Constants:
    """Packed copies by the arrays they were made from. An array's death drops its copy; `clear` drops all, so that
    the next call packs anew."""

    def __init__(self, executable: Executable, places: Sequence[int]) -> None:
        """`places`: the positions of constant inputs."""
        self._executable, self._places = executable, tuple(places)
        self._kept: dict[tuple[int, ...], _Kept] = {}
        self._lock = threading.Lock()

    def call(self, inputs: Sequence[Any], addresses: Sequence[int], vars: tuple[int, ...]) -> Call:
        """A bound call for these constant inputs, packed now if they are not yet. `addresses` are those of all parameters."""
        key = tuple(addresses[i] for i in self._places)
        with self._lock:
            kept = self._kept.get(key)
            if kept is None:
                packed = self._executable.pack(addresses, vars)
                # a weak reference also keeps NumPy from resizing the array
                kept = self._kept[key] = _Kept(packed, [weakref.ref(inputs[i], self._forget(key)) for i in self._places])
            found = kept.calls.get(vars)
            if found is None:
                found = kept.calls[vars] = self._executable.bind(vars, kept.packed)
            return found

    def _forget(self, key: tuple[int, ...]) -> Callable[[Any], object]:
        kept = self._kept
        return lambda _: kept.pop(key, None)

    def clear(self) -> None:
        """Forget what is packed."""
        with self._lock:
            self._kept.clear()


class _Kept:
    """A packed copy, the calls bound to it, and the arrays it depends on."""

    __slots__ = ("calls", "packed", "references")

    def __init__(self, packed: Packed, references: list[weakref.ref[Any]]) -> None:
        self.packed, self.references = packed, references
        self.calls: dict[tuple[int, ...], Call] = {}
