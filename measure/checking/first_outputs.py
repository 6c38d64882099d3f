"""The outputs of a candidate's first verified run, kept to compare every later run with, bit for bit and at memory speed.

They stay where they are, and are copied only when something is about to be written there: a search times candidates on
other addresses than it verifies them at, and copies nothing."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..memory import Region, view
from .cause import RACE

if TYPE_CHECKING:
    import numpy as np

    from ..memory import Operands

STRIDE = 4160
"""Every so many bytes one is inverted by `spoil`: a page and a line, so that no part of a page is always left out."""
_WHOLE = 1 << 16
"""Outputs up to this size are inverted in whole."""


def _libc() -> Any:
    libc = ctypes.CDLL(None)
    libc.memcmp.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t]
    return libc


class FirstOutputs:
    """Every output of one set of operands. Made once in a child, filled for each candidate."""

    def __init__(self, host: Operands, stay: bool = True) -> None:
        """`stay`: nobody writes to the addresses that `keep` is given without saying so (`leave`, `forget`)."""
        self._host, self._stay, self._libc = host, stay, _libc()
        self._copies: dict[str, Region] = {}
        self._at: dict[str, int] = {}
        """Where what was kept of each output lies now."""

    def keep(self, addresses: Sequence[int]) -> None:
        """Remember what the outputs of this set hold now."""
        for name, address, nbytes in self._outputs(addresses):
            self._at[name] = address if self._stay else self._copied(name, address, nbytes)

    def leave(self, addresses: Sequence[int]) -> None:
        """This set is about to be written: what is kept there moves to a copy."""
        for name, address, nbytes in self._outputs(addresses):
            if self._at.get(name) == address:
                self._at[name] = self._copied(name, address, nbytes)

    def forget(self) -> None:
        """Nothing more will be compared with what was kept."""
        self._at.clear()

    def _copied(self, name: str, address: int, nbytes: int) -> int:
        if name not in self._copies:
            self._copies[name] = Region(nbytes)
        ctypes.memmove(self._copies[name].base, address, nbytes)
        return self._copies[name].base

    def difference(self, addresses: Sequence[int]) -> str:
        """Which element of this set's outputs has other bits than what was kept, or ''."""
        for name, address, nbytes in self._outputs(addresses):
            if self._libc.memcmp(self._at[name], address, nbytes):
                return self._describe(name, address)
        return ""

    def spoil(self, addresses: Sequence[int]) -> None:
        """Invert some bytes of every output of this set, so that an output that held the right values does not any
        more: far cheaper than filling it."""
        for _, address, nbytes in self._outputs(addresses):
            some = _bytes(address, nbytes)[:: STRIDE if nbytes > _WHOLE else 1]
            some ^= 0xFF

    def _outputs(self, addresses: Sequence[int]) -> list[tuple[str, int, int]]:
        placed = [(n, a, self._host.places[n]) for n, a in zip(self._host.names, addresses, strict=True)]
        return [(n, a, p.nbytes) for n, a, p in placed if p.output and p.nbytes]

    def _describe(self, name: str, address: int) -> str:
        place = self._host.places[name]
        base = self._at[name]
        other = (_bytes(base, place.nbytes) != _bytes(address, place.nbytes)).reshape(-1, place.dtype.size).any(axis=1)
        at = int(other.argmax())
        was, now = (view(a, place.dtype, place.shape).reshape(-1)[at] for a in (base, address))
        return changed(name, place.shape, at, was, now, int(other.sum()))


def changed(name: str, shape: tuple[int, ...], at: int, was: Any, now: Any, count: int) -> str:
    """What an output has of another run, in words: element `at` is the first, `count` have changed."""
    from math import prod

    import numpy as np

    where = ", ".join(str(int(i)) for i in np.unravel_index(at, shape)) if shape else ""
    return f"{name}[{where}] was {was} and is {now}; {count} of {prod(shape)} elements changed ({RACE})"


def _bytes(address: int, nbytes: int) -> np.ndarray[Any, Any]:
    import numpy as np

    return np.ctypeslib.as_array((ctypes.c_uint8 * nbytes).from_address(address))
