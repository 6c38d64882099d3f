"""Operands at other addresses: a kernel is promised addresses that are multiples of the element size, and nothing more.

`memory.Operands` begins or ends every parameter at a page, which for most sizes is a whole number of vectors too:
code that loads with an aligned move would always be right there. Here a parameter lies some elements after the
inaccessible page before it, or before the one behind it, all in the same way or each in its own."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import TYPE_CHECKING

from ..memory import LINE, READ, WRITE, Region

if TYPE_CHECKING:
    from ..memory import OperandPlace, Operands

_CANARY = 0xC5
_SPACE = 2 * LINE
_START, _END = False, True

Where = Callable[[int, "OperandPlace"], tuple[bool, int]]
"""(position of a parameter, the parameter) → whether it is near the end of its pages, and by how many bytes it is off."""

PATTERNS: dict[str, Where] = {
    "one element after a page": lambda i, p: (_START, p.dtype.size),
    "inputs one element after a page, outputs at one": lambda i, p: (_START, 0 if p.output else p.dtype.size),
    "outputs one element after a page, inputs at one": lambda i, p: (_START, p.dtype.size if p.output else 0),
    "each at another place of its line": lambda i, p: (_START, (2 * i + 3) * p.dtype.size % LINE),
    "elements before a page's end": lambda i, p: (_END, (i % 7 + 1) * p.dtype.size),
}
"""What a winner is tried at. That an access touches the inaccessible page itself is seen where results are verified and timed."""


class Shifted:
    """Memory for one set of the operands, moved from pattern to pattern."""

    def __init__(self, host: Operands) -> None:
        """Raises MeasureError where there is no memory for it."""
        self._host = host
        self._regions = {n: Region(p.nbytes + _SPACE) for n, p in host.places.items()}
        self._at: dict[str, int] = {}

    def place(self, pattern: str) -> list[int]:
        """The addresses of all parameters for this pattern: inputs filled and made read-only, canaries around
        outputs, NaN around inputs."""
        for i, (name, place) in enumerate(self._host.places.items()):
            region = self._regions[name]
            last, off = PATTERNS[pattern](i, place)
            self._at[name] = region.base + (region.size - place.nbytes - off if last else off)
            region.protect(READ | WRITE)
            for address, n, _ in self._margins(name):
                ctypes.memset(address, _CANARY if place.output else 0xFF, n)
            if not place.output:
                ctypes.memmove(self._at[name], place.checked, place.nbytes)
                region.protect(READ)
        return [self._at[n] for n in self._host.names]

    def _margins(self, name: str) -> tuple[tuple[int, int, str], tuple[int, int, str]]:
        """(address, bytes, where) of what lies in a parameter's region beside it."""
        region, at = self._regions[name], self._at[name]
        behind = at + self._host.places[name].nbytes
        return (region.base, at - region.base, "before its start"), (behind, region.base + region.size - behind, "past its end")

    def broken(self) -> str:
        """Which output was overrun, or ''."""
        for name in self._host.outputs:
            for address, n, where in self._margins(name):
                if ctypes.string_at(address, n) != bytes([_CANARY]) * n:
                    return f"wrote outside {name}, {where}"
        return ""

    def free(self) -> None:
        """Give the memory back."""
        for region in self._regions.values():
            region.free()
