"""Outputs compared on this processor: with the reference at memory speed (`devices.comparing`), and with those of a candidate's first run.

The compare kernel is tried on a planted error before it is trusted; where the device cannot build it, NumPy compares (`verify.check`)."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ...devices.comparing import by_chunks, rows, stored
from ...ir.dtypes import float64
from ...ir.errors import TilewrightError
from ..operands import Operands, Region, view
from .verify import RACE, Expect, Verdict, check

if TYPE_CHECKING:
    import numpy as np

    from ...devices import Device, Executable
    from ..operands import Operands


class Comparer:
    """Verifies one output. Make it before forking; `check` works in the child."""

    def __init__(self, expect: Expect, device: Device | None, late: bool = False) -> None:
        """With `device` None, or where the device cannot run the compare kernel right (`why` says so), NumPy compares. `late`: it is
        made when it is first needed."""
        self.expect = expect
        self.why = ""
        self._run: Executable | None = None
        self._late: Device | None = None
        if device is None or not expect.plain or expect.value.size < 1024:
            self.why = "NumPy is as good here"
        elif late:
            self._late = device
        else:
            self._try(device)

    def _try(self, device: Device) -> None:
        try:
            self._prepare(device, self.expect.value.size)
        except (TilewrightError, MemoryError) as e:  # (a candidate's process may have little room left)
            self._run, self.why = None, str(e) or type(e).__name__

    def _prepare(self, device: Device, n: int) -> None:
        from ...renderers import render

        of = stored(self.expect.dtype)
        lanes = max(1, device.target.vector_bytes // 8)
        made = by_chunks(of, n, lanes)
        self._run = device.load(device.build(render(made, device.target)), made.signature, 1)
        # as candidates' outputs do, it ends at an inaccessible page: a device whose code writes elsewhere must not spoil this process
        shape = (rows(n, lanes), lanes)
        self._room = Region(8 * math.prod(shape))
        self._worst = view(self._room.base + self._room.size - 8 * math.prod(shape), float64, shape)
        self._pointers = [0, self.expect.value.ctypes.data]
        if self.expect.weight is not None:
            self._pointers.append(self.expect.weight.ctypes.data)
        self._pointers.append(self._worst.ctypes.data)
        self._self_test(n)

    def _self_test(self, n: int) -> None:
        """The right answer must pass and one wrong element must not, wherever it is."""
        import numpy as np

        trial = self.expect.value.astype(self.expect.dtype.np)
        for at in (None, 0, n // 2, n - 1):
            if at is not None:
                right = trial[at]
                trial[at] = np.nan if self.expect.dtype.is_float else ~right
            error = self._error(trial.ctypes.data)
            if at is not None:
                trial[at] = right
            if (error <= 1.0) != (at is None):
                self._run, self.why = None, "the compare kernel missed a planted error on this device"
                return

    def _error(self, address: int) -> float:
        import numpy as np

        assert self._run is not None
        self._worst.fill(np.nan)
        self._pointers[0] = address
        self._run.run(self._pointers)
        return float(self._worst.max())

    def check(self, address: int) -> Verdict:
        """Compare the output at an address, on its whole. A failure is judged (and described) again by NumPy."""
        if self._late is not None:
            device, self._late = self._late, None
            self._try(device)
        if self._run is not None:
            error = self._error(address)
            if error <= 1.0:
                return Verdict(error)
        return check(self.expect, address)


class Checker:
    """Verifies all outputs of a kernel against one reference."""

    def __init__(self, expects: dict[str, Expect], device: Device | None, late: bool = False) -> None:
        """`late`: compare kernels are made when they are first needed, which in a second check is seldom: NumPy compares there."""
        self.comparers = {name: Comparer(e, device, late) for name, e in expects.items()}
        self.partial = any(e.free is not None for e in expects.values())
        """Some elements may be left unwritten."""
        self.stale: dict[str, Any] = {name: s for name, e in expects.items() if (s := e.stale()) is not None}

    @property
    def strict(self) -> float:
        """The smallest share, over the outputs, of elements that must be a certain finite number."""
        return min((c.expect.strict for c in self.comparers.values()), default=1.0)

    @property
    def note(self) -> str:
        """What to tell whoever tunes of the references, or ''."""
        return "; ".join(c.expect.note for c in self.comparers.values() if c.expect.note)

    @property
    def nbytes(self) -> int:
        """Bytes of the references."""
        expects = [c.expect for c in self.comparers.values()]
        return sum(e.value.nbytes + (e.weight.nbytes if e.weight is not None else 0) for e in expects)

    def check(self, operands: Operands, addresses: Sequence[int], full: bool = False) -> Verdict:
        """The worst verdict over the outputs of one set of operands. `full`: by NumPy, whatever the compare kernel would say."""
        worst = Verdict(0.0)
        by_name = dict(zip(operands.names, addresses, strict=True))
        for name, comparer in self.comparers.items():
            got = check(comparer.expect, by_name[name]) if full else comparer.check(by_name[name])
            if got.error > worst.error:
                worst = got
        return worst


STRIDE = 4160
"""Every so many bytes one is inverted by `spoil`: a page and a line, so that no part of a page is always left out."""


_WHOLE = 1 << 16
"""Outputs up to this size are inverted in whole."""


class FirstOutputs:
    """The outputs of a candidate's first verified run, to compare later runs with, bit for bit and at memory speed.

    Made once in a child, filled for each candidate. They stay where they are and are copied only when something is about to be written
    there: a search times candidates at other addresses than it verifies them at, and copies nothing."""

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
        return changed(name, place.shape, *(view(a, place.dtype, place.shape).reshape(-1) for a in (self._at[name], address)))


def changed(name: str, shape: tuple[int, ...], before: np.ndarray[Any, Any], after: np.ndarray[Any, Any]) -> str:
    """Which element of an output has other bits after another run, in words. The arrays are flat, and differ."""
    import numpy as np

    bits = np.dtype(f"u{before.itemsize}")
    other = before.view(bits) != after.view(bits)
    at = int(other.argmax())
    where = ", ".join(str(int(i)) for i in np.unravel_index(at, shape)) if shape else ""
    return f"{name}[{where}] was {before[at]} and is {after[at]}; {int(other.sum())} of {math.prod(shape)} elements changed ({RACE})"


def _bytes(address: int, nbytes: int) -> np.ndarray[Any, Any]:
    import numpy as np

    return np.ctypeslib.as_array((ctypes.c_uint8 * nbytes).from_address(address))


def _libc() -> Any:
    libc = ctypes.CDLL(None)
    libc.memcmp.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t]
    return libc
