"""Results judged in the device's own memory: what `compare.Checker` and `compare.FirstOutputs` do on the host, where the device can
compare (`Memory.compares`). References go there once; a right result stays there.

The verdict is the host's to the bit: what the device finds wrong comes to the host, where NumPy judges and describes it. The device is
tried on small arrays before it is trusted (`trusted`), and against NumPy on the first candidate of every kind of inputs
(`Bench.check`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import TYPE_CHECKING, Any

from ...devices.base import FREE, SPECIAL, Comparison
from ...ir.dtypes import DType, dtype, float32, float64, uint8
from ...ir.errors import DeviceError, MeasureError
from ..device_operands import download, upload
from .compare import changed
from .verify import Expect, Verdict, check

if TYPE_CHECKING:
    import numpy as np

    from ...devices import Memory
    from ..device_operands import DeviceOperands
    from .compare import Checker

    Array = np.ndarray[Any, Any]


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
