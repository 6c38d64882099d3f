"""Results judged in the device's own memory: what `compare.Checker` and `first_outputs.FirstOutputs` do on the host, where the device
can compare (`Memory.compares`). References go there once; of a result only what is wrong with it comes back.

The verdict is the host's to the bit, and its text too. It is tried on small arrays before it is trusted (`trusted`), and against NumPy on
the first candidate of every kind of inputs (`Bench.check`)."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..devices.memory import FREE, SIGNED, SPECIAL, Comparison, Found
from ..ir.dtypes import DType, dtype
from ..ir.errors import DeviceError, MeasureError
from ..ir.evaluation.certainty import OVERFLOW
from .memory import view
from .verify import WORST, Expect, Verdict, check, described

if TYPE_CHECKING:
    import numpy as np

    from ..devices import Memory
    from .compare import Checker
    from .device_memory import DeviceOperands

    Array = np.ndarray[Any, Any]


def element(memory: Memory, handle: int, of: DType, at: int) -> Any:
    """One element of a buffer, as NumPy's scalar."""
    room = ctypes.create_string_buffer(of.size)
    memory.read(handle, ctypes.addressof(room), of.size, at * of.size)
    return view(ctypes.addressof(room), of, (1,))[0]


def upload(memory: Memory, a: Array) -> int:
    """A buffer that holds an array. Raises MeasureError where there is no room."""
    handle = memory.alloc(a.nbytes)
    memory.write(handle, a.ctypes.data, a.nbytes)
    return handle


class DeviceExpect:
    """One output's reference on the device."""

    def __init__(self, expect: Expect, memory: Memory) -> None:
        """Raises MeasureError where there is no room."""
        self.expect, self._memory = expect, memory
        self._own: list[int] = []
        try:
            self.value = self._upload(expect.value)
            self.weight = 0 if expect.weight is None else self._upload(expect.weight)
            self.flags = 0 if (flags := _flags(expect)) is None else self._upload(flags)
        except BaseException:
            self.free()
            raise

    def _upload(self, a: Array) -> int:
        self._own.append(upload(self._memory, a))
        return self._own[-1]

    def free(self) -> None:
        """Give the memory back."""
        while self._own:
            self._memory.free(self._own.pop())

    def check(self, handle: int) -> Verdict:
        """The verdict of `verify.check` on the output at a handle. Raises DeviceError for types that are not compared there."""
        e = self.expect
        c = Comparison(
            e.dtype, e.value.size, handle, self.value, self.weight, self.flags, OVERFLOW[e.dtype.name] if e.dtype.is_float else 0.0, WORST
        )
        found = self._memory.compare(c)
        if found.worst <= 1.0:
            return Verdict(found.worst)
        got = element(self._memory, handle, e.dtype, found.at)
        return Verdict(found.worst, described(e, found.worst, found.at, got, found.bad, found.untouched))


def _flags(expect: Expect) -> Array | None:
    """A byte an element, as `Comparison.flags`; None where no element needs one."""
    import numpy as np

    masks = [(SPECIAL, expect.special), (FREE, expect.free), (SIGNED, expect.signed)]
    known = [np.multiply(m, bit, dtype=np.uint8) for bit, m in masks if m is not None]
    return np.bitwise_or.reduce(known) if known else None


class DeviceChecker:
    """Verifies all outputs of a kernel, on the device."""

    def __init__(self, checker: Checker, memory: Memory) -> None:
        """Raises MeasureError where the references have no room, DeviceError where the device cannot compare such elements."""
        self._expects: dict[str, DeviceExpect] = {}
        try:
            for name, comparer in checker.comparers.items():
                trusted(comparer.expect, memory)
                _warm(comparer.expect.dtype, memory)
                self._expects[name] = DeviceExpect(comparer.expect, memory)
        except BaseException:
            self.free()
            raise

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


def trusted(like: Expect, memory: Memory) -> None:
    """See that the device judges as NumPy does, on a small array of the kind of `like`: right, a little off, at the bound, NaN and
    infinite. Raises DeviceError where it does not."""
    import numpy as np

    if like.dtype.is_float and (like.weight is None or like.weight.itemsize != 4):
        raise DeviceError(f"{like.dtype.name} with bounds in float64 is compared on the host")
    n = 3001
    rng = np.random.default_rng(5)
    value = (rng.standard_normal(n) if like.dtype.is_float else rng.integers(0, 100, n)).astype(
        np.float64 if like.dtype.is_float else like.dtype.np
    )
    weight = None if like.weight is None else rng.uniform(1e2, 1e6, n).astype(np.float32)
    small = Expect(like.name, like.dtype, (n,), value, weight)
    judge = DeviceExpect(small, memory)
    result = memory.alloc(n * like.dtype.size)
    try:
        for planted in ((), (0,), (1500,), (n - 1,), (7, 2900)):
            got = np.ascontiguousarray(value.astype(like.dtype.np))
            for at in planted:
                got[at] = np.nan if like.dtype.is_float else ~got[at]
            memory.write(result, got.ctypes.data, got.nbytes)
            here, there = check(small, got.ctypes.data), judge.check(result)
            if here != there:
                raise DeviceError(f"the device's comparison says {there}, NumPy {here}")
    finally:
        memory.free(result)
        judge.free()


def _warm(of: DType, memory: Memory) -> None:
    """Have the device build what compares bits, before a candidate's time runs."""
    one = memory.alloc(of.size)
    try:
        memory.fill(one, 0, of.size)
        memory.compare(Comparison(_bits(of), 1, one, one))
    finally:
        memory.free(one)


def _bits(of: DType) -> DType:
    return dtype(f"uint{8 * of.size}")


class DeviceFirstOutputs:
    """`first_outputs.FirstOutputs` on the device: a copy of every output, to compare later runs with bit for bit."""

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
            found = self._memory.compare(Comparison(_bits(place.dtype), nbytes // place.dtype.size, handle, self._copies[name]))
            if found.bad:
                return self._describe(name, handle, found)
        return ""

    def _describe(self, name: str, handle: int, found: Found) -> str:
        from .first_outputs import changed

        place = self._operands.place(name)
        was, now = (element(self._memory, h, place.dtype, found.at) for h in (self._copies[name], handle))
        return changed(name, place.shape, found.at, was, now, found.bad)
