"""Operand memory with guard pages: an access outside a parameter ends the process, or breaks a canary.

Each parameter is there twice. In the *checked* copy its last byte touches an inaccessible page, so one element past
the end faults; the bytes before it, up to the page's start, hold a canary (outputs), and before them is another
inaccessible page. In the *timed* copies the first byte touches the inaccessible page and begins a cache line, as
arrays of `tilewright.empty` and PyTorch do (NumPy's own large ones begin 16 bytes into one); there may be several
(rotated past the last-level cache). An input of whole pages needs one copy for both. An output has two, so that what was
verified is still there to compare later runs with. While calls are timed, the pages beside the timed copies can be read.

Mappings are private and of huge pages where that is possible. Inputs are written and made read-only before a child is forked,
so the child maps them without a fault; outputs are first touched in the child.
"""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from ..ir.errors import MeasureError

if TYPE_CHECKING:
    import numpy as np

    from ..devices import Memory
    from ..ir.dtypes import DType


PAGE = mmap.PAGESIZE
HUGE = 2 << 20
LINE = 64
NONE, READ, WRITE = 0, 1, 2
_PRIVATE_ANONYMOUS_NORESERVE = 0x02 | 0x20 | 0x4000
_MADV_HUGEPAGE = 14
_CANARY = 0xC5


def _libc() -> Any:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
    libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    libc.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    return libc


def _round(n: int, to: int) -> int:
    return -(-n // to) * to


class Region:
    """`size` bytes (whole pages) at `base`, an inaccessible page on either side. Freed with the object."""

    def __init__(self, nbytes: int) -> None:
        self.size = _round(max(nbytes, 1), PAGE)
        align = HUGE if self.size >= HUGE else PAGE
        self._length = self.size + align + 2 * PAGE
        self._libc = _libc()
        got = self._libc.mmap(None, self._length, NONE, _PRIVATE_ANONYMOUS_NORESERVE, -1, 0)
        if got is None or got == ctypes.c_void_p(-1).value:
            raise MeasureError(f"no memory for {nbytes} bytes of operands: {_reason()}; measure a smaller shape")
        self._start = int(got)
        self.base = _round(self._start + PAGE, align)
        self.protect(READ | WRITE)
        if align == HUGE:
            # advice: without huge pages everything still works, so the result is not checked
            self._libc.madvise(self.base, self.size, _MADV_HUGEPAGE)

    def protect(self, access: int) -> None:
        """Set the access of the inner pages (0 none, 1 read, 3 read and write)."""
        if self._libc.mprotect(self.base, self.size, access):
            raise MeasureError(f"cannot protect {self.size} bytes of operands: {_reason()}")

    def margins(self, access: int) -> None:
        """Set the access of the page on either side."""
        for page in (self.base - PAGE, self.base + self.size):
            if self._libc.mprotect(page, PAGE, access):
                raise MeasureError(f"cannot protect the pages beside operands: {_reason()}")
            if access:
                ctypes.string_at(page, 1)  # it is there before anything is timed

    def free(self) -> None:
        """Unmap now."""
        if self._start:
            self._libc.munmap(self._start, self._length)
            self._start = 0

    def __del__(self) -> None:
        self.free()


def _reason() -> str:
    import os

    return os.strerror(ctypes.get_errno())


def view(address: int, dtype: DType, shape: Sequence[int]) -> np.ndarray[Any, Any]:
    """The elements at an address as an array (valid as long as the memory is)."""
    import math

    import numpy as np

    n = math.prod(shape)
    if not n:
        return np.empty(shape, dtype.np)
    raw = (ctypes.c_uint8 * (n * dtype.size)).from_address(address)
    return np.ctypeslib.as_array(raw).view(dtype.np).reshape(shape)


class OperandPlace:
    """Where one parameter lies: the checked address, the timed addresses, and the canaries around them."""

    def __init__(self, dtype: DType, shape: tuple[int, ...], copies: int, output: bool) -> None:
        import math

        self.dtype, self.shape, self.output = dtype, shape, output
        self.nbytes = math.prod(shape) * dtype.size
        self._checked = Region(self.nbytes)
        self.checked = self._checked.base + self._checked.size - self.nbytes
        self._canaries: list[tuple[int, int]] = []
        if copies == 1 and self.checked == self._checked.base and not output:
            self._timed, self.timed = self._checked, [self.checked]
        else:
            stride = _round(max(self.nbytes, 1), LINE)
            self._timed = Region(stride * (copies - 1) + self.nbytes)
            self.timed = [self._timed.base + i * stride for i in range(copies)]
        if output:
            end = self._timed.base + self._timed.size
            last = self.timed[-1] + self.nbytes
            self._canaries = [(a, n) for a, n in ((self._checked.base, self.checked - self._checked.base), (last, end - last)) if n]

    def fill(self, values: np.ndarray[Any, Any]) -> None:
        """Copy input values into every copy and make them read-only."""
        for address in (self.checked, *(a for a in self.timed if a != self.checked)):
            view(address, self.dtype, self.shape)[...] = values.reshape(self.shape)
        self._checked.protect(READ)
        if self._timed is not self._checked:
            self._timed.protect(READ)

    @property
    def timed_region(self) -> Region:
        """The mapping of the timed copies."""
        return self._timed

    def regions(self) -> list[Region]:
        """The mappings behind it."""
        return [self._checked] if self._timed is self._checked else [self._checked, self._timed]

    def set_canaries(self) -> None:
        """Write the pattern into the bytes of the first and last page that do not belong to the parameter."""
        for address, n in self._canaries:
            ctypes.memset(address, _CANARY, n)

    def broken(self) -> str:
        """What was overwritten outside the parameter, or ''."""
        for address, n in self._canaries:
            if ctypes.string_at(address, n) != bytes([_CANARY]) * n:
                return "before its start" if address == self._checked.base else "past its end"
        return ""


class Operands:
    """Memory of all parameters of a kernel, in call order."""

    def __init__(
        self,
        names: Sequence[str],
        dtypes: Sequence[DType],
        shapes: Sequence[tuple[int, ...]],
        inputs: Mapping[str, np.ndarray[Any, Any]],
        copies: int = 1,
    ) -> None:
        """`inputs` holds values by name; every other parameter is an output. `copies`: how many timed sets."""
        self.names = tuple(names)
        self.places = {n: OperandPlace(d, s, copies, n not in inputs) for n, d, s in zip(names, dtypes, shapes, strict=True)}
        for n, values in inputs.items():
            self.places[n].fill(values)
        self.outputs = tuple(n for n in names if n not in inputs)
        self.checked = [self.places[n].checked for n in self.names]
        self.timed = [[self.places[n].timed[i] for n in self.names] for i in range(copies)]

    @contextmanager
    def beside_others(self) -> Iterator[None]:
        """Inside, the pages beside the timed copies can be read, as memory of other arrays mostly can. A load of which no lane beside the
        array is wanted touches nothing, but takes hundreds of cycles where there is nothing to touch."""
        regions = list({id(r): r for p in self.places.values() for r in (p.timed_region,)}.values())
        for r in regions:
            r.margins(READ)
        try:
            yield
        finally:
            for r in regions:
                r.margins(NONE)

    def poison(self, addresses: Sequence[int], stale: Mapping[str, np.ndarray[Any, Any]]) -> None:
        """Fill the outputs of one set so that an element nobody writes is wrong: NaN (0xFF bytes) for floats, the bytes of
        `stale[name]` (values that differ from the right ones everywhere) where given."""
        for name, address in zip(self.names, addresses, strict=True):
            place = self.places[name]
            if not place.output or not place.nbytes:
                continue
            if name in stale:
                ctypes.memmove(address, stale[name].ctypes.data, place.nbytes)
            else:
                ctypes.memset(address, 0xFF, place.nbytes)

    def fetch(self, addresses: Sequence[int]) -> Sequence[int]:
        """Where the host finds what a run on these addresses wrote: here, at the same place."""
        return addresses

    def snapshot(self, addresses: Sequence[int]) -> list[bytes]:
        """The bytes of every output of one set."""
        placed = [(self.places[n], a) for n, a in zip(self.names, addresses, strict=True)]
        return [ctypes.string_at(a, p.nbytes) for p, a in placed if p.output]

    @property
    def nbytes(self) -> int:
        """Bytes of all mappings."""
        return sum(r.size for p in self.places.values() for r in p.regions())

    def touch(self) -> None:
        """Fault in every output, so that no timed call pays for it, and prepare the bytes around them. Once in each child."""
        for addresses in (self.checked, *self.timed):
            self.poison(addresses, {})
        self.set_canaries()

    def set_canaries(self) -> None:
        """Prepare the bytes around every output."""
        for name in self.outputs:
            self.places[name].set_canaries()

    def broken(self) -> str:
        """Which output was overrun into its canary, or ''."""
        for name in self.outputs:
            how = self.places[name].broken()
            if how:
                return f"wrote outside {name}, {how}"
        return ""


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
    """Operands at other addresses, moved from pattern to pattern.

    A kernel is promised addresses that are multiples of the element size, and nothing more. `Operands` begins or ends every parameter
    at a page, which for most sizes is a whole number of vectors too: code that loads with an aligned move would always be right there.
    Here a parameter lies some elements after the inaccessible page before it, or before the one behind it."""

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


# device operands --------------------------------------------------------------------------------------------
# Operands in the memory of a device: what a worker measures on, where kernels cannot use the host's memory.
#
# Every set of the host's operands (`memory.Operands`) is there again as the device's buffers. On a device no page can
# be made inaccessible, so around each output lies a pattern that is checked after a run, and around each input NaN.
# Outputs come back to the host's own for checking.


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
