"""Arrays between inaccessible pages, for native code that tests run in this process.

What touches an element past an array's end faults there and then, in the test that does it (pytest prints where), and
not later in whatever the allocator handed out next. A pattern lies before the array, up to the page's start, and is
looked at afterwards."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from tilewright.measure.operands import Region

CANARY = 0xC5


def array(values: Any, align: int = 1, off: int = 0) -> Any:
    """A copy of `values` whose last byte touches an inaccessible page, or comes as near to it as a start `off` bytes
    after a multiple of `align` allows."""
    values = np.asarray(values)
    region = Region(values.nbytes + off)
    ctypes.memset(region.base, CANARY, region.size)
    start = region.base + region.size - values.nbytes
    raw = (ctypes.c_uint8 * values.nbytes).from_address(start - (start - off) % align)
    raw.region = region  # type: ignore[attr-defined]  # which lives as long as the array does
    out: Any = np.ndarray(values.shape, values.dtype, buffer=raw)
    out[...] = values
    return out


def broken(made: Any) -> str:
    """Where the pattern around an array of `array` was written to, or ''."""
    region, start = made.base.region, ctypes.addressof(made.base)
    end = start + len(made.base)
    for what, at, n in (("before its start", region.base, start - region.base), ("past its end", end, region.base + region.size - end)):
        if ctypes.string_at(at, n) != bytes([CANARY]) * n:
            return what
    return ""


@contextmanager
def copies(arrays: Sequence[Any], align: int = 1) -> Iterator[list[Any]]:
    """The same values in guarded memory; what is there afterwards is copied back. One array that is given twice stays one."""
    made = {id(a): array(a, align) for a in arrays}
    assert all(a.flags.c_contiguous for a in arrays), "native code takes addresses, not strides"
    yield [made[id(a)] for a in arrays]
    for i, a in enumerate(arrays):
        assert not broken(made[id(a)]), f"array {i} of {len(arrays)} ({a.dtype}, {a.shape}) was written to {broken(made[id(a)])}"
        if a.flags.writeable:
            a[...] = made[id(a)]
        else:
            assert a.tobytes() == made[id(a)].tobytes(), f"array {i} is an input and was written to"
