"""Operands in the memory of a device: what a worker measures on, where kernels cannot use the host's memory.

Every set of the host's operands (`memory.Operands`) is there again as the device's buffers. On a device no page can
be made inaccessible, so around each output lies a pattern that is checked after a run, and around each input NaN.
Outputs come back to the host's own for checking."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..ir.errors import MeasureError
from .operands import OperandPlace, Operands, view

if TYPE_CHECKING:
    import numpy as np

    from ..devices import Memory
    from ..ir.dtypes import DType


GUARD = 256
"""Bytes of pattern behind every output, and before it as far as the device gives them."""
_PATTERN = 0xC5
_NAN = 0xFF


class DeviceOperands:
    """Has the methods of Operands that running and checking need; addresses are handles."""

    def __init__(self, host: Operands, memory: Memory) -> None:
        self._host, self.memory = host, memory
        self.names, self.outputs = host.names, host.outputs
        self._stale: dict[str, int] = {}
        self._sets: dict[int, int] = {}
        """Handle → host address."""
        made: dict[tuple[str, int], int] = {}

        def mirrored(addresses: Sequence[int]) -> list[int]:
            out = []
            for name, address in zip(host.names, addresses, strict=True):
                if (name, address) not in made:
                    place = host.places[name]
                    handle = memory.alloc(place.nbytes + GUARD)
                    if not place.output:
                        memory.write(handle, address, place.nbytes)
                        for offset, size in self._margins(place.nbytes):
                            memory.fill(handle, _NAN, size, offset)
                    made[name, address] = handle
                    self._sets[handle] = address
                out.append(made[name, address])
            return out

        self.checked = mirrored(host.checked)
        self.timed = [mirrored(a) for a in host.timed]

    @property
    def nbytes(self) -> int:
        """Bytes of the host's operands."""
        return self._host.nbytes

    def _stale_there(self, name: str, values: np.ndarray[Any, Any]) -> int:
        """A buffer of the device with an output's stale values; 0 where it has no room for one or copies nothing."""
        if name not in self._stale:
            try:
                self._stale[name] = upload(self.memory, values) if self.memory.compares else 0
            except MeasureError:
                if not self.memory.sound():
                    raise
                self._stale[name] = 0
        return self._stale[name]

    def place(self, name: str) -> OperandPlace:
        """Type and shape of a parameter."""
        return self._host.places[name]

    def written(self, handles: Sequence[int]) -> list[tuple[str, int, int]]:
        """(name, handle, bytes) of every output of one set that has any."""
        return [(n, h, size) for n, h in self._outputs(handles) if (size := self._host.places[n].nbytes)]

    def _outputs(self, handles: Sequence[int]) -> list[tuple[str, int]]:
        return [(n, h) for n, h in zip(self.names, handles, strict=True) if self._host.places[n].output]

    def poison(self, handles: Sequence[int], stale: Mapping[str, np.ndarray[Any, Any]]) -> None:
        """As `Operands.poison`, on the device."""
        for name, handle in self._outputs(handles):
            size = self._host.places[name].nbytes
            if name in stale and (there := self._stale_there(name, stale[name])):
                self.memory.copy(handle, there, size)
            elif name in stale:
                self.memory.write(handle, stale[name].ctypes.data, size)
            else:
                self.memory.fill(handle, _NAN, size)

    def fetch(self, handles: Sequence[int]) -> list[int]:
        """Copy the outputs of one set to the host; the host's addresses of that set."""
        for name, handle in self._outputs(handles):
            self.memory.read(handle, self._sets[handle], self._host.places[name].nbytes)
        return [self._sets[h] for h in handles]

    def snapshot(self, handles: Sequence[int]) -> list[bytes]:
        """The bytes of every output of one set."""
        return self._host.snapshot(self.fetch(handles))

    def touch(self) -> None:
        """Prepare every output. Once in each worker."""
        self._host.touch()
        for handles in (self.checked, *self.timed):
            self.poison(handles, {})
        self.set_canaries()

    def set_canaries(self) -> None:
        """Write the patterns."""
        for handles in (self.checked, *self.timed):
            for name, handle in self._outputs(handles):
                for offset, size in self._margins(self._host.places[name].nbytes):
                    self.memory.fill(handle, _PATTERN, size, offset)

    def broken(self) -> str:
        """Which output was overrun into its pattern, or ''."""
        for handles in (self.checked, self.timed[0]):
            for name, handle in self._outputs(handles):
                for offset, size in self._margins(self._host.places[name].nbytes):
                    found = (ctypes.c_uint8 * size)()
                    self.memory.read(handle, ctypes.addressof(found), size, offset)
                    if bytes(found) != bytes([_PATTERN]) * size:
                        return f"wrote outside {name}, {'before its start' if offset < 0 else 'past its end'}"
        return ""

    def _margins(self, nbytes: int) -> list[tuple[int, int]]:
        """(offset, size) of the bytes around a buffer of so many."""
        return [(nbytes, GUARD), *([(-self.memory.margin, self.memory.margin)] if self.memory.margin else [])]


def read_element(memory: Memory, handle: int, of: DType, at: int) -> Any:
    """One element of a buffer, as NumPy's scalar."""
    room = ctypes.create_string_buffer(of.size)
    memory.read(handle, ctypes.addressof(room), of.size, at * of.size)
    return view(ctypes.addressof(room), of, (1,))[0]


def download(memory: Memory, handle: int, of: DType, shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    """The elements of a buffer."""
    import numpy as np

    out = np.empty(shape, of.np)
    memory.read(handle, out.ctypes.data, out.nbytes)
    return out


def upload(memory: Memory, a: np.ndarray[Any, Any]) -> int:
    """A buffer that holds an array. Raises MeasureError where there is no room."""
    handle = memory.alloc(a.nbytes)
    memory.write(handle, a.ctypes.data, a.nbytes)
    return handle
