"""Outputs compared on this processor: with the reference at memory speed (`devices.comparing`), and with those of a candidate's first run.

The compare kernel is tried on a planted error before it is trusted; where the device cannot build it, NumPy compares (`verify.check`)."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Mapping, Sequence
from math import prod
from typing import TYPE_CHECKING, Any

from ...devices.base import FREE, SPECIAL, Comparison
from ...devices.comparing import by_chunks, rows, stored
from ...ir.dtypes import DType, dtype, float32, float64, uint8
from ...ir.errors import DeviceError, MeasureError, TilewrightError
from ..operands import Operands, Region, download, upload, view
from .verify import RACE, Expect, Verdict, check

if TYPE_CHECKING:
    import numpy as np

    from ...devices import Device, Executable, Memory
    from ..operands import DeviceOperands

    Array = np.ndarray[Any, Any]


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


# device compare ---------------------------------------------------------------------------------------------
# Results judged in the device's own memory: what `compare.Checker` and `compare.FirstOutputs` do on the host, where the device can
# compare (`Memory.compares`). References go there once; a right result stays there.
#
# The verdict is the host's to the bit: what the device finds wrong comes to the host, where NumPy judges and describes it. The device is
# tried on small arrays before it is trusted (`trusted`), and against NumPy on the first candidate of every kind of inputs
# (`Bench.check`).


class DeviceExpect:
    """One output's reference in the device's memory: handles of its values, weights (0: none) and flags (0: none), as in `Comparison`,
    which are this object's own."""

    def __init__(self, name: str, of: DType, shape: tuple[int, ...], memory: Memory, handles: tuple[int, int, int]) -> None:
        self.name, self.dtype, self.shape, self._memory = name, of, shape, memory
        self._value, self._weight, self._flags = handles

    @classmethod
    def of(cls, e: Expect, memory: Memory) -> DeviceExpect:
        """The host's, copied. Raises MeasureError where there is no room."""
        made: list[int] = []
        try:
            for a in (e.value, e.weight, _flags(e)):
                made.append(0 if a is None else upload(memory, a))
        except BaseException:
            _free(memory, made)
            raise
        return cls(e.name, e.dtype, e.shape, memory, (made[0], made[1], made[2]))

    def free(self) -> None:
        """Give the memory back."""
        _free(self._memory, [self._value, self._weight, self._flags])

    def check(self, handle: int) -> Verdict:
        """The verdict of `verify.check` on the output at a handle: an error above 1 is judged and described by NumPy. Raises DeviceError for
        types that are not compared there."""
        error = self.error(handle)
        if error <= 1.0:
            return Verdict(error)
        got = download(self._memory, handle, self.dtype, self.shape)
        return check(self._fetched(), got.ctypes.data)

    def error(self, handle: int) -> float:
        """The largest error of the output at a handle over its bound, as the device has it."""
        return self._memory.compare(Comparison(self.dtype, prod(self.shape), handle, self._value, self._weight, self._flags))

    def _fetched(self) -> Expect:
        """The reference, back on the host."""
        n = (prod(self.shape),)
        value = download(self._memory, self._value, float64 if self.dtype.is_float else self.dtype, n)
        weight = download(self._memory, self._weight, float32, n) if self._weight else None
        flags = download(self._memory, self._flags, uint8, n) if self._flags else None
        special, free = (None if flags is None else flags & bit != 0 for bit in (SPECIAL, FREE))
        return Expect(self.name, self.dtype, self.shape, value, weight, special if self.dtype.is_float else None, free)


def _free(memory: Memory, handles: Sequence[int]) -> None:
    if memory.sound():
        for handle in filter(None, handles):
            memory.free(handle)


def _flags(expect: Expect) -> Array | None:
    """A byte an element, as `Comparison.flags`; None where no element needs one."""
    import numpy as np

    masks = [(SPECIAL, expect.special), (FREE, expect.free)]
    known = [np.multiply(m, bit, dtype=np.uint8) for bit, m in masks if m is not None]
    return np.bitwise_or.reduce(known) if known else None


class DeviceChecker:
    """Verifies all outputs of a kernel, on the device."""

    def __init__(self, expects: Mapping[str, DeviceExpect]) -> None:
        self._expects = expects

    @classmethod
    def of(cls, checker: Checker, memory: Memory) -> DeviceChecker:
        """The host's, copied. Raises MeasureError where the references have no room, DeviceError where the device cannot compare such
        elements."""
        made: dict[str, DeviceExpect] = {}
        try:
            for name, comparer in checker.comparers.items():
                trusted(comparer.expect.dtype, comparer.expect.weight, memory)
                made[name] = DeviceExpect.of(comparer.expect, memory)
        except BaseException:
            cls(made).free()
            raise
        return cls(made)

    def free(self) -> None:
        """Give the memory of the references back."""
        for e in self._expects.values():
            e.free()

    def check(self, operands: DeviceOperands, handles: Sequence[int]) -> Verdict:
        """The worst verdict over the outputs of one set of operands."""
        worst = Verdict(0.0)
        by_name = dict(zip(operands.names, handles, strict=True))
        for name, expect in self._expects.items():
            got = expect.check(by_name[name])
            if got.error > worst.error:
                worst = got
        return worst


def trusted(of: DType, weight: Array | None, memory: Memory) -> None:
    """See that the device judges results of a type as NumPy does, on a small array: right, wrong at either end, in the middle, twice. Also
    has it build what compares bits, before a candidate's time runs. Raises DeviceError where it does not."""
    import numpy as np

    if of.is_float and (weight is None or weight.itemsize != 4):
        raise DeviceError(f"{of.name} with bounds in float64 is compared on the host")
    n = 3001
    rng = np.random.default_rng(5)
    value = rng.standard_normal(n) if of.is_float else rng.integers(0, 100, n).astype(of.np)
    small = Expect("y", of, (n,), value, None if weight is None else rng.uniform(1e2, 1e6, n).astype(np.float32))
    judge = DeviceExpect.of(small, memory)
    result = 0
    try:
        result = memory.alloc(n * of.size)
        for planted in ((), (0,), (1500,), (n - 1,), (7, 2900)):
            got = np.ascontiguousarray(value.astype(of.np))
            for at in planted:
                got[at] = np.nan if of.is_float else ~got[at]
            memory.write(result, got.ctypes.data, got.nbytes)
            here, there = check(small, got.ctypes.data), judge.error(result)
            if (there <= 1.0) != here.ok or (here.ok and there != here.error):
                raise DeviceError(f"the device's comparison says {there}, NumPy {here.error}")
        memory.compare(Comparison(_bits(of), n, result, result))
    finally:
        judge.free()
        _free(memory, [result])


def _bits(of: DType) -> DType:
    return dtype(f"uint{8 * of.size}")


class DeviceFirstOutputs:
    """`compare.FirstOutputs` on the device: a copy of every output, to compare later runs with bit for bit."""

    def __init__(self, operands: DeviceOperands, memory: Memory) -> None:
        """Raises MeasureError where there is no room."""
        self._operands, self._memory = operands, memory
        self._copies: dict[str, int] = {}
        try:
            for name, _, nbytes in operands.written(operands.checked):
                self._copies[name] = memory.alloc(nbytes)
        except MeasureError:
            for handle in self._copies.values():
                memory.free(handle)
            raise

    def keep(self, handles: Sequence[int]) -> None:
        """Remember what the outputs of this set hold now."""
        for name, handle, nbytes in self._operands.written(handles):
            self._memory.copy(self._copies[name], handle, nbytes)

    def difference(self, handles: Sequence[int]) -> str:
        """Which element of this set's outputs has other bits than what was kept, or ''."""
        for name, handle, nbytes in self._operands.written(handles):
            place = self._operands.place(name)
            bits, count = _bits(place.dtype), nbytes // place.dtype.size
            if self._memory.compare(Comparison(bits, count, handle, self._copies[name])) > 1.0:
                before, after = (download(self._memory, h, place.dtype, (count,)) for h in (self._copies[name], handle))
                return changed(name, place.shape, before, after)
        return ""
