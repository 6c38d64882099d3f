"""Arrays, buffers and shared virtual memory of pyopencl as a kernel's arguments, where they lie: in the user's context, on the user's queue."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...ir.errors import MeasureError, UsageError
from ..base import DeviceArrays, Executable


class UserArrays(DeviceArrays):
    """`pyopencl.array.Array`, `pyopencl.Buffer`, and `pyopencl.SVM` of a NumPy array. A call waits for the events of its arrays, and adds its
    own to those of its outputs, as pyopencl's operations do; it returns before it is done. `session` is a ClSession."""

    def __init__(self, session: Any, given: Sequence[Any]) -> None:
        self._s, self._given = session, list(given)
        self._memory = [self._part(a) for a in given]
        self.looks = [_look(a) for a in given]

    @classmethod
    def of(cls, session: Any, given: Sequence[Any]) -> UserArrays | None:
        """None where none of them is pyopencl's. Raises UsageError."""
        pyopencls = [type(a).__module__.partition(".")[0] == "pyopencl" for a in given]
        if not any(pyopencls):
            return None
        if not all(pyopencls):
            raise UsageError(
                "some arguments are pyopencl's and some are not: copy the others to the device, pyopencl.array.to_device(queue, x)"
            )
        return cls(session, given)

    def _part(self, a: Any) -> Any:
        """What a kernel's argument is set to."""
        cl = self._s.cl
        base, offset = getattr(a, "base_data", a), getattr(a, "offset", 0) if hasattr(a, "base_data") else 0
        if base is None:
            raise UsageError("an array of pyopencl has no elements, so it has no memory that a kernel could be given")
        if not isinstance(base, (cl.Buffer, cl.SVM, cl.SVMAllocation)) and not hasattr(base, "svm_ptr"):
            raise UsageError(f"{type(a).__name__} is no array: pass pyopencl.array.Array, pyopencl.Buffer or pyopencl.SVM")
        if isinstance(base, cl.Buffer) and base.context != self._s.context:
            raise UsageError(
                "an array lies in another OpenCL context: ask for the kernel with device=tilewright.devices.opencl.on(queue), a queue of its context"
            )
        if hasattr(a, "base_data") and not a.flags.c_contiguous:
            raise UsageError("an array of pyopencl is not contiguous in row-major order: pass a copy, x.copy()")
        if not offset:
            return base
        try:
            return base.get_sub_region(offset, a.nbytes)
        except (cl.Error, AttributeError) as e:
            raise UsageError(f"an array of pyopencl begins where kernels cannot: pass a copy, x.copy() ({e})") from None

    def add(self, shape: Sequence[int], dtype: Any) -> Any:
        import pyopencl.array

        made = pyopencl.array.empty(self._s.queue, tuple(shape), dtype)
        self._given.append(made)
        self._memory.append(made.base_data)
        self.looks = [*self.looks, _look(made)]
        return made

    def overlap(self, i: int, j: int, same: bool) -> bool:
        a, b = self._span(i), self._span(j)
        return a[0] == b[0] and a[1] < b[2] and b[1] < a[2] and not (same and a == b)

    def _span(self, i: int) -> tuple[int, int, int]:
        a = self._given[i]
        base = getattr(a, "base_data", a)
        pointer = int(getattr(base, "int_ptr", 0) or getattr(base, "svm_ptr", 0))
        begin = getattr(a, "offset", 0) if base is not a else 0
        return pointer, begin, begin + self.looks[i][2]

    def launch(self, executable: Executable, vars: Sequence[int], outputs: int) -> None:
        inner: Any = executable  # a ClExecutable: this memory's
        events = [e for a in self._given for e in getattr(a, "events", ())]
        try:
            with self._s.lent(self._memory) as handles:
                done = inner.launch(handles, vars, events)
        except self._s.cl.Error as e:
            raise MeasureError(f"{self._s.about['name']} failed over it: {e}") from None
        for a in self._given[-outputs:] if done is not None else ():
            if hasattr(a, "add_event"):
                a.add_event(done)


def _look(a: Any) -> tuple[tuple[int, ...] | None, Any, int]:
    if hasattr(a, "base_data"):
        return tuple(a.shape), a.dtype, int(a.nbytes)
    memory = getattr(a, "mem", None)  # SVM of an array
    if memory is not None and hasattr(memory, "dtype"):
        return tuple(memory.shape), memory.dtype, int(memory.nbytes)
    return None, None, int(a.size)
