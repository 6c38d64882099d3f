"""The interpreter's memory: every access is checked against bounds, alignment, initialisation and races.

Each element carries the stamp of the grid item that last wrote it. Scratch may be read only where this item wrote it;
outputs and workspace where this item or an earlier phase did; and no two items of a phase may write one element."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np

from ..ir.dtypes import DType, index
from ..ir.errors import VerifyError
from .interp_ops import Array, zero
from .program import Instr, Mem, Program
from .text import locate


@dataclass(slots=True)
class Clock:
    """Stamps: `now` is the running item's, `before` the last of the phases that are complete."""

    now: int = 0
    before: int = 0
    where: str = ""


@dataclass(slots=True)
class Region:
    """One parameter or one piece of scratch or workspace. `stamps` is None for read-only memory."""

    name: str
    space: str
    data: Array
    stamps: Array | None
    base: int


class Memory:
    """Makes the access functions of a Program's instructions over given arrays."""

    def __init__(self, program: Program, as_twin: bool, clock: Clock) -> None:
        self.program, self.as_twin, self.clock = program, as_twin, clock
        self.regions: dict[tuple[str, int, DType], Region] = {}
        self.params: list[Region] = []
        self._ends: dict[str, list[int]] = {}

    def storage(self, dtype: DType) -> np.dtype[Any]:
        """The array type of elements of `dtype`."""
        return np.dtype(np.uint32) if self.as_twin and dtype.is_float else dtype.np

    def region(self, mem: Mem) -> Region:
        """The region an access is in."""
        if mem.space == "param":
            return self.params[mem.base]
        key = (mem.space, mem.base, mem.dtype)
        found = self.regions.get(key)
        if found is None:
            size = self.program.scratch if mem.space == "scratch" else self.program.work
            ends = [b for b in self._ends[mem.space] if b > mem.base]
            count = max(0, (min(ends, default=size) - mem.base) // mem.dtype.size)
            found = Region(f"{mem.space}@{mem.base}", mem.space, np.zeros(count, self.storage(mem.dtype)), np.zeros(count, np.int64), mem.base)
            self.regions[key] = found
        return found

    def note(self, mems: list[Mem]) -> None:
        """Tell where pieces of scratch and workspace begin: a piece ends where the next begins."""
        for space in ("scratch", "work"):
            self._ends[space] = sorted({m.base for m in mems if m.space == space})

    # failures -----------------------------------------------------------------------------------------------------
    def fail(self, s: Instr, region: Region, message: str) -> NoReturn:
        """Raise VerifyError naming the buffer, the statement and the grid item."""
        raise VerifyError(f"{region.name}{message}, in `{locate(self.program, s)}` ({self.clock.where})")

    # access functions -----------------------------------------------------------------------------------------------
    def load(self, s: Instr) -> Callable[..., Any]:
        """A function (index[, mask]) → value."""
        assert s.out is not None
        mem, lanes, region = s.attr, s.out.lanes, self.region(s.attr)
        data, offset, as_int = region.data, mem.offset, mem.dtype is index
        check = self._reader(s, region, mem)
        nothing = zero(mem.dtype, lanes, self.as_twin)
        steps = np.arange(lanes)

        def scalar(i: int, mask: Any = True) -> Any:
            if not mask:
                return nothing
            i += offset
            check(i, 1)
            return int(data[i]) if as_int else data[i]

        def vector(i: int) -> Any:
            i += offset
            check(i, lanes)
            return data[i : i + lanes].copy()

        def picked(at: Any, mask: Any = None) -> Any:
            at = at + steps + offset if consecutive else at + offset
            if mask is not None:
                at = at[mask]
            for i in at.tolist():
                check(i, 1)
            if mask is None:
                return data[at]
            out = nothing.copy()
            out[mask] = data[at]
            return out

        consecutive = s.op == "load"
        if lanes == 1:
            return scalar
        return vector if consecutive and len(s.args) == 1 else picked

    def store(self, s: Instr) -> Callable[..., None]:
        """A function (index, value[, mask]) that writes."""
        mem, lanes, region = s.attr, max(a.lanes for a in s.args[:2]), self.region(s.attr)
        data, stamps, offset, clock = region.data, region.stamps, mem.offset, self.clock
        check = self._writer(s, region, mem)
        consecutive = s.op == "store"
        steps = np.arange(lanes)
        if stamps is None:
            self.fail(s, region, " is an input and cannot be written")

        def scalar(i: int, value: Any, mask: Any = True) -> None:
            if mask:
                i += offset
                check(i, 1)
                data[i] = value
                stamps[i] = clock.now

        def vector(i: int, value: Any) -> None:
            i += offset
            check(i, lanes)
            data[i : i + lanes] = value
            stamps[i : i + lanes] = clock.now

        def picked(at: Any, value: Any, mask: Any = None) -> None:
            at = at + steps + offset if consecutive else at + offset
            if mask is not None:
                at, value = at[mask], value[mask]
            for i in at.tolist():
                check(i, 1)
            data[at] = value
            stamps[at] = clock.now

        if lanes == 1:
            return scalar
        return vector if consecutive and len(s.args) == 2 else picked

    # checks ---------------------------------------------------------------------------------------------------------
    def _bounds(self, s: Instr, region: Region, mem: Mem) -> Callable[[int, int], None]:
        size, unit, align = len(region.data), mem.dtype.size, mem.align
        if mem.space == "param" and align > unit:
            self.fail(s, region, f" is claimed to be aligned to {align} bytes, but a parameter promises only {unit}")
        base = region.base
        aligned = align > unit

        def check(i: int, n: int) -> None:
            if i < 0 or i + n > size:
                bad = i if i < 0 else max(i, size)
                self.fail(s, region, f"[{bad}] is outside its {size} elements")
            if aligned and (base + i * unit) % align:
                self.fail(s, region, f"[{i}] is not aligned to {align} bytes")

        return check

    def _reader(self, s: Instr, region: Region, mem: Mem) -> Callable[[int, int], None]:
        inside, stamps, clock = self._bounds(s, region, mem), region.stamps, self.clock
        if stamps is None:
            return inside
        shared = region.space != "scratch"

        def check(i: int, n: int) -> None:
            inside(i, n)
            for k in range(i, i + n):
                stamp = stamps[k]
                if stamp != clock.now and (not shared or stamp == 0 or stamp > clock.before):
                    why = " is read before it is written" if stamp == 0 or not shared else " was written by another item of this phase"
                    self.fail(s, region, f"[{k}]{why}")

        def fast(i: int, n: int) -> None:
            if i < 0 or not (stamps[i : i + n] == clock.now).all():
                check(i, n)
            else:
                inside(i, n)

        return check if s.out is not None and s.out.lanes == 1 else fast

    def _writer(self, s: Instr, region: Region, mem: Mem) -> Callable[[int, int], None]:
        inside, stamps, clock = self._bounds(s, region, mem), region.stamps, self.clock
        if stamps is None or region.space == "scratch":
            return inside

        def check(i: int, n: int) -> None:
            inside(i, n)
            for k in range(i, i + n):
                if clock.before < stamps[k] != clock.now:
                    self.fail(s, region, f"[{k}] is written by two items of one phase")

        def fast(i: int, n: int) -> None:
            if i < 0 or not (stamps[i : i + n] <= clock.before).all():
                check(i, n)
            else:
                inside(i, n)

        return fast
