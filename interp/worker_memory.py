"""The memory of single workers in the interpreter (`group_memory` has that of thread groups): every access is checked against
bounds, alignment, initialisation and races.

Scratch belongs to one grid item: it may be read only where this item wrote it. Each element of an output or of the
workspace carries the stamp of the item that last wrote it: it may be read by that item and by later phases, and no two
items of one phase may write it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NoReturn

import numpy as np

from ..ir.dtypes import DType, index
from ..ir.errors import VerifyError
from ..program.listing import locate
from ..program.ops import CONSECUTIVE
from ..program.program import Instr, Mem, Program
from .ops import Array, zero

Check = Callable[[int, int], None]
"""Raises where elements [i, i+n) may not be accessed."""


@dataclass(slots=True)
class Clock:
    """Stamps: `now` is the running item's, `before` the last of the phases that are complete. `where` says which item."""

    now: int = 0
    before: int = 0
    where: str = ""


@dataclass(slots=True)
class WorkerBuffer:
    """One parameter or one piece of scratch or workspace. Of `stamps` (what items share) and `written` (scratch: a byte an
    element) at most one is there; an input has neither. `base` is its address: a parameter's real one, else in the arena."""

    name: str
    data: Array
    base: int = 0
    stamps: Array | None = None
    written: bytearray | None = None


@dataclass(slots=True)
class WorkerMemory:
    """Makes the access functions of a Program's instructions over given arrays."""

    program: Program
    as_twin: bool
    clock: Clock
    params: list[WorkerBuffer] = field(default_factory=list)
    regions: dict[tuple[str, int, int, DType], WorkerBuffer] = field(default_factory=dict)
    bases: dict[tuple[str, int], list[int]] = field(default_factory=dict)
    phase: int = 0

    def storage(self, dtype: DType) -> np.dtype[Any]:
        """The array type of elements of `dtype`."""
        return np.dtype(np.uint32) if self.as_twin and dtype.is_float else dtype.np

    def note(self, phases: list[list[Mem]]) -> None:
        """Tell where pieces of a phase's scratch and of the workspace begin: a piece ends where the next begins."""
        for phase, mems in enumerate(phases):
            self.bases["scratch", phase] = sorted({m.base for m in mems if m.space == "scratch"})
        self.bases["work", 0] = sorted({m.base for mems in phases for m in mems if m.space == "work"})

    def region(self, mem: Mem) -> WorkerBuffer:
        """The region an access is in."""
        if mem.space == "param":
            return self.params[mem.base]
        own = mem.space == "scratch"
        phase = self.phase if own else 0
        key = (mem.space, phase, mem.base, mem.dtype)
        found = self.regions.get(key)
        if found is None:
            end = min((b for b in self.bases[mem.space, phase] if b > mem.base), default=self.program.scratch if own else self.program.work)
            count = max(0, (end - mem.base) // mem.dtype.size)
            found = WorkerBuffer(f"{mem.space}@{mem.base}", np.zeros(count, self.storage(mem.dtype)), mem.base)
            if own:
                found.written = bytearray(count)
            else:
                found.stamps = np.zeros(count, np.int64)
            self.regions[key] = found
        return found

    def next_item(self, where: str) -> None:
        """Another grid item begins: scratch holds nothing."""
        self.clock.now += 1
        self.clock.where = where
        for r in self.regions.values():
            if r.written is not None:
                r.written[:] = bytes(len(r.written))

    def fail(self, s: Instr, region: WorkerBuffer, message: str) -> NoReturn:
        """Raise VerifyError naming the buffer, the statement and the grid item."""
        where = f" ({self.clock.where})" if self.clock.where else ""
        raise VerifyError(f"{region.name}{message}, in `{locate(self.program, s)}`{where}")

    # access functions -----------------------------------------------------------------------------------------------
    def load(self, s: Instr) -> Callable[..., Any]:
        """A function (index[, mask]) → value."""
        assert s.out is not None
        mem, lanes, region = s.mem, s.out.lanes, self.region(s.mem)
        data, offset, as_int = region.data, mem.offset, mem.dtype is index
        check, each = self._reader(s, region, mem), self._reader(s, region, mem, False)
        straight = self._straight(s, region, mem)
        nothing = zero(mem.dtype, lanes, self.as_twin)
        consecutive = s.op in CONSECUTIVE
        steps = np.arange(lanes) + offset if consecutive else offset
        fixed = region.stamps is None and region.written is None

        def scalar(i: int, mask: Any = True) -> Any:
            if not mask:
                return nothing
            i += offset
            check(i, 1)
            return int(data[i]) if as_int else data[i]

        def vector(i: int) -> Any:
            i += offset
            check(i, lanes)
            return data[i : i + lanes] if fixed else data[i : i + lanes].copy()

        def picked(at: Any, mask: Any = None) -> Any:
            if consecutive and b"\0" not in mask.tobytes():
                return vector(at)
            straight(at, mask)
            at = at + steps
            if mask is None:
                for i in at.tolist():
                    each(i, 1)
                return data[at]
            at = at[mask]
            for i in at.tolist():
                each(i, 1)
            out = nothing.copy()
            out[mask] = data[at]
            return out

        if lanes == 1:
            return scalar
        return vector if consecutive and len(s.args) == 1 else picked

    def store(self, s: Instr) -> Callable[..., None]:
        """A function (index, value[, mask]) that writes."""
        mem, lanes, region = s.mem, max(a.lanes for a in s.args[:2]), self.region(s.mem)
        data, offset, clock = region.data, mem.offset, self.clock
        check, each = self._writer(s, region, mem), self._writer(s, region, mem, False)
        straight = self._straight(s, region, mem)
        consecutive = s.op in CONSECUTIVE
        steps = np.arange(lanes) + offset if consecutive else offset
        ones = b"\1" * lanes
        stamps, written = region.stamps, region.written
        if stamps is None and written is None:
            self.fail(s, region, " is an input and cannot be written")

        def mark(i: int, n: int) -> None:
            if written is not None:
                written[i : i + n] = ones[:n]
            elif stamps is not None:
                stamps[i : i + n] = clock.now

        def scalar(i: int, value: Any, mask: Any = True) -> None:
            if mask:
                i += offset
                check(i, 1)
                data[i] = value
                mark(i, 1)

        def vector(i: int, value: Any) -> None:
            i += offset
            check(i, lanes)
            data[i : i + lanes] = value
            mark(i, lanes)

        def picked(at: Any, value: Any, mask: Any = None) -> None:
            if consecutive and b"\0" not in mask.tobytes():
                return vector(at, value)
            straight(at, mask)
            at = at + steps
            if mask is not None:
                at, value = at[mask], value[mask]
            for i in at.tolist():
                each(i, 1)
                mark(i, 1)
            data[at] = value

        if lanes == 1:
            return scalar
        return vector if consecutive and len(s.args) == 2 else picked

    # checks ---------------------------------------------------------------------------------------------------------
    def _straight(self, s: Instr, region: WorkerBuffer, mem: Mem) -> Callable[[Any, Any], None]:
        """Checks the alignment of a masked access to consecutive elements: that of its first lane, active or not."""
        unit, align, base, offset = mem.dtype.size, mem.align, region.base, mem.offset
        claimed = align > unit and s.op in CONSECUTIVE

        def check(i: Any, mask: Any) -> None:
            if claimed and (base + (i + offset) * unit) % align and mask.any():
                self.fail(s, region, f"[{i + offset}] is not aligned to {align} bytes")

        return check

    def _bounds(self, s: Instr, region: WorkerBuffer, mem: Mem, straight: bool) -> Check:
        size, unit, align, base = len(region.data), mem.dtype.size, mem.align, region.base
        aligned = straight and align > unit

        def check(i: int, n: int) -> None:
            if i < 0 or i + n > size:
                self.fail(s, region, f"[{i if i < 0 else max(i, size)}] is outside its {size} elements")
            if aligned and (base + i * unit) % align:
                self.fail(s, region, f"[{i}] is not aligned to {align} bytes")

        return check

    def _reader(self, s: Instr, region: WorkerBuffer, mem: Mem, straight: bool = True) -> Check:
        inside, stamps, written, clock = self._bounds(s, region, mem, straight), region.stamps, region.written, self.clock

        def own(i: int, n: int) -> None:
            inside(i, n)
            assert written is not None
            k = written.find(0, i, i + n)
            if k >= 0:
                self.fail(s, region, f"[{k}] is read before it is written")

        def shared(i: int, n: int) -> None:
            inside(i, n)
            assert stamps is not None
            for k, stamp in enumerate(stamps[i : i + n].tolist(), i):
                if stamp != clock.now and not 0 < stamp <= clock.before:
                    self.fail(
                        s,
                        region,
                        f"[{k}] is read before it is written" if stamp == 0 else f"[{k}] was written by another item of this phase",
                    )

        return own if written is not None else shared if stamps is not None else inside

    def _writer(self, s: Instr, region: WorkerBuffer, mem: Mem, straight: bool = True) -> Check:
        inside, stamps, clock = self._bounds(s, region, mem, straight), region.stamps, self.clock

        def shared(i: int, n: int) -> None:
            inside(i, n)
            assert stamps is not None
            for k, stamp in enumerate(stamps[i : i + n].tolist(), i):
                if clock.before < stamp != clock.now:
                    self.fail(s, region, f"[{k}] is written by two items of one phase")

        return inside if stamps is None else shared
