"""The arguments of a launch, packed once for as many launches as there will be."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

MAP_BYTES = 128
"""Bytes of a tensor map (`CUtensorMap` of cuda.h), which must begin at a multiple of 64."""
_ALIGN = 64


Sizes = int | tuple[int, int, int]
"""Groups of a grid, or threads of a group: along one dimension, or along three."""


def three(sizes: Sizes) -> tuple[int, int, int]:
    """The same along three dimensions."""
    return (sizes, 1, 1) if isinstance(sizes, int) else sizes


class PackedArguments:
    """Kernel arguments in memory of their own: words of 8 bytes (addresses and signed integers), tensor maps of 128, and scalars of
    other sizes as bytes, each at a multiple of its size. The driver reads them during the launch, either through an array of
    their addresses (`places`) or as they lie (`raw`)."""

    __slots__ = ("_memory", "_places", "base", "places", "size")

    def __init__(self, words: Sequence[int | bytes]) -> None:
        """`words`: ints, bytes of a map each, and bytes of a scalar."""
        sizes = [len(w) if isinstance(w, bytes) else 8 for w in words]
        self._memory = ctypes.create_string_buffer(sum(s + min(s, _ALIGN) for s in sizes) + _ALIGN)
        self.base = at = -(-ctypes.addressof(self._memory) // _ALIGN) * _ALIGN
        self._places = (ctypes.c_void_p * max(1, len(words)))()
        for i, (word, size) in enumerate(zip(words, sizes, strict=True)):
            at = -(-at // min(size, _ALIGN)) * min(size, _ALIGN)
            self._places[i] = at
            if isinstance(word, bytes):
                ctypes.memmove(at, word, size)
            else:
                ctypes.c_int64.from_address(at).value = word
            at += size
        self.size = at - self.base
        self.places = ctypes.addressof(self._places)
        """The address of the array of addresses."""

    @property
    def raw(self) -> bytes:
        """All of them in a row."""
        return ctypes.string_at(self.base, self.size)
