"""What candidates of a source are measured on: arrays with guard pages or patterns around them, and what they must hold afterwards."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from ..ir.dtypes import DType
from ..ir.errors import DeviceError, MeasureError
from ..measure.bench import Bench
from ..measure.checking.compare import Checker
from ..measure.checking.verify import TINY, Expect
from ..measure.memory import Operands
from ..measure.processes.slots import Slots
from ..measure.roofline import MOST_SETS
from .arguments import make
from .building import SourceTask
from .spec import CheckSpec, SourceSpec

if TYPE_CHECKING:
    from ..devices import Device
    from ..measure.processes.runner_setup import Data, RunnerSetup
    from .arguments import Array

TOLERANCES = {"float64": 1e-9, "float32": 1e-4, "float16": 1e-2, "bfloat16": 3e-2}
"""The share of the reference by which an element may be off where nothing else is said: what sums of thousands of terms in another
order make of it."""
AGAIN = "again"
"""Inputs of the second check: the same kinds with another seed."""


def operands(spec: SourceSpec, seed: int, copies: int = 1) -> Operands:
    """The arrays of a call, with the values that this seed gives to those that are read only."""
    arrays = spec.arrays
    places = {a.name: i for i, a in enumerate(spec.arguments)}
    inputs = {a.name: make(a, places[a.name], spec.sizes, seed) for a in arrays if a.role == "in"}
    return Operands([a.name for a in arrays], [a.dtype for a in arrays], [a.extents(spec.sizes) for a in arrays], inputs, copies)


def beginnings(spec: SourceSpec, seed: int) -> dict[str, Array]:
    """What arrays hold, before every call, that are read and written."""
    places = {a.name: i for i, a in enumerate(spec.arguments)}
    return {a.name: make(a, places[a.name], spec.sizes, seed) for a in spec.arrays if a.role == "inout"}


def prepare(setup: RunnerSetup, device: Device, data: Data, timed: bool) -> Bench:
    """As `measure.preparing.prepare`, for a `SourceTask` in the place of a kernel."""
    task = cast(SourceTask, setup.kernel)
    spec = task.spec
    begin = beginnings(spec, data.seed)
    # what a call changes is copied back before each, so it is timed on one set
    copies = rotations(spec, device.target.l3) if timed and spec.cold and not begin else 1
    host = operands(spec, data.seed, copies)
    checker = Checker(expectations(task, data.seed), _comparing())
    checker.stale.update(begin)
    checker.partial = checker.partial or bool(begin)
    return Bench(device, setup.threads, host, checker, (), Slots(None), data.kind)


def rotations(spec: SourceSpec, cache: int) -> int:
    """So many sets of arrays that none is still in the last-level cache when its turn comes again."""
    return max(1, min(MOST_SETS, math.ceil(2 * cache / max(1, spec.bytes()))))


def _comparing() -> Device | None:
    """What compares results at memory speed; NumPy does where it cannot run here."""
    from .. import devices

    try:
        cpu = devices.get("cpu")
        cpu.check()
    except DeviceError:
        return None
    return cpu


def expected_file(folder: Path, seed: int, name: str) -> Path:
    """Where an output's reference is kept; beside it, with another ending, which elements are not written."""
    return folder / f"{seed}.{name}.npy"


def expectations(task: SourceTask, seed: int) -> dict[str, Expect]:
    """What every output must hold, from the files that `references` wrote. Raises MeasureError where they are gone."""
    import numpy as np

    out = {}
    for a in task.spec.arrays:
        if not a.written:
            continue
        file = expected_file(task.references, seed, a.name)
        try:
            value = np.load(file) if a.check else np.zeros(a.extents(task.spec.sizes), a.dtype.np)
            free = np.load(file.with_suffix(".free.npy")) if a.check and file.with_suffix(".free.npy").exists() else None
        except OSError as e:
            raise MeasureError(f"the reference of {a.name} is gone ({e}); run the command again") from None
        if not a.check:
            free = np.ones(value.size, bool)
        out[a.name] = expect(a.name, a.dtype, value, free, task.spec.check)
    return out


def expect(name: str, dtype: DType, value: Array, free: Array | None, check: CheckSpec) -> Expect:
    """A reference as what is compared with: see `CheckSpec` for how far off an element may be."""
    import numpy as np

    dims = value.shape
    flat: Any = np.ascontiguousarray(value.reshape(-1))
    if not dtype.is_float:
        return Expect(name, dtype, dims, flat.astype(dtype.np), None, None, free)
    flat = flat.astype(np.float64)
    rtol, atol = tolerance(dtype, flat, check, free)
    with np.errstate(all="ignore"):
        bound = atol + rtol * np.abs(flat)
        odd = ~np.isfinite(flat.astype(dtype.np).astype(np.float64))
        weight = (1.0 / np.maximum(np.where(odd, 1.0, bound), TINY)).astype(np.float32)
    return Expect(name, dtype, dims, flat, weight, odd if odd.any() else None, free)


def tolerance(dtype: DType, value: Array, check: CheckSpec, free: Array | None = None) -> tuple[float, float]:
    """(rtol, atol) for an output of floats."""
    import numpy as np

    rtol = check.rtol if check.rtol is not None else TOLERANCES.get(dtype.name, 1e-1)
    if check.atol is not None:
        return rtol, check.atol
    with np.errstate(all="ignore"):
        looked = np.isfinite(value) if free is None else np.isfinite(value) & ~free
        size = float(np.sqrt(np.mean(np.square(value[looked])))) if looked.any() else 1.0
    return rtol, rtol * (size if math.isfinite(size) and size > 0 else 1.0)
