"""What candidates of a source are measured on and compared with, and the process in which the reference is computed, twice: by a Python function
of the user's, or by the untuned configuration.

`python -m tilewright.sources.source_reference READ_FD WRITE_FD PARENT_PID`. Whatever the user's code does ends this process, and not the search."""

from __future__ import annotations

import importlib.util
import inspect
import math
import sys
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from .. import devices
from ..ir.dtypes import DType
from ..ir.errors import BuildError, DeviceError, MeasureError, OptError, TilewrightError, UsageError
from ..measure.bench import Bench
from ..measure.checking.compare import Checker
from ..measure.checking.verify import TINY, Expect
from ..measure.operands import DeviceOperands, Operands, view
from ..measure.processes import process
from ..measure.processes.process import Slots
from ..measure.processes.protocol import Channel
from ..measure.roofline import MOST_SETS
from .building import CheckedSource, build, schedule
from .source_device import SourceDevice
from .source_spec import CheckSpec, SourceArgument, SourceSpec, make, scalar, split_reference

if TYPE_CHECKING:
    from ..devices import Device, Executable
    from ..measure.bench import Data, RunnerSetup
    from .source_spec import Array


TOLERANCES = {"float64": 1e-9, "float32": 1e-4, "float16": 1e-2, "bfloat16": 3e-2}
"""The share of the reference by which an element may be off where nothing else is said: what sums of thousands of terms in another
order make of it."""
AGAIN = "again"
"""Inputs of the second check: the same kinds with another seed."""


def operands(spec: SourceSpec, seed: int, copies: int = 1) -> Operands:
    """The arrays of a call, with the values that this seed gives to those that are read only."""
    arrays = spec.arrays
    inputs = {a.name: beginning(spec, a, seed) for a in arrays if a.role == "in"}
    return Operands([a.name for a in arrays], [a.dtype for a in arrays], [a.extents(spec.sizes) for a in arrays], inputs, copies)


def beginnings(spec: SourceSpec, seed: int) -> dict[str, Array]:
    """What arrays hold, before every call, that are read and written."""
    return {a.name: beginning(spec, a, seed) for a in spec.arrays if a.role == "inout"}


def beginning(spec: SourceSpec, a: SourceArgument, seed: int) -> Array:
    """What an array holds before a call."""
    import numpy as np

    if a.role == "out":
        return np.full(a.extents(spec.sizes), 0xFF, np.uint8).repeat(a.dtype.size).view(a.dtype.np)
    return make(a, spec.arguments.index(a), spec.sizes, seed)


def prepare(setup: RunnerSetup, device: Device, data: Data, timed: bool) -> Bench:
    """As `measure.bench.prepare`, for a `CheckedSource` in the place of a kernel."""
    task = cast(CheckedSource, setup.kernel)
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
    try:
        cpu = devices.get("cpu")
        cpu.check()
    except DeviceError:
        return None
    return cpu


def expected_file(folder: Path, seed: int, name: str) -> Path:
    """Where an output's reference is kept; beside it, with another ending, which elements are not written."""
    return folder / f"{seed}.{name}.npy"


def expectations(task: CheckedSource, seed: int) -> dict[str, Expect]:
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


MODULE = "tilewright.sources.source_reference"
_FILLS = (0xFF, 0x5A)
"""What an array begins as that is only written, in the first run and in the second: where both stay, nobody wrote."""


@dataclass(frozen=True)
class ReferenceRequest:
    """What to compute: for each seed the outputs of `task.spec`, as files in `task.references`."""

    task: CheckedSource
    device: SourceDevice
    threads: int
    seeds: tuple[int, ...]


def serve(channel: Channel, request: ReferenceRequest) -> None:
    """Compute, then say ("done", None) or ("error", text)."""
    try:
        compute_here(request)
        channel.send(("done", None))
    except TilewrightError as e:
        channel.send(("error", str(e)))
    except MemoryError:
        channel.send(("error", "not enough memory for the reference; give smaller sizes"))


def compute_here(r: ReferenceRequest) -> None:
    """Write the references, in this process. Raises UsageError for one that fails or disagrees with itself, BuildError for a source that
    does not build."""
    spec = r.task.spec
    if not spec.check.reference:
        try:
            compiled = build(r.task, schedule(spec, spec.untuned), r.device)
        except (BuildError, OptError) as e:
            raise UsageError(f"the untuned configuration, which is the reference, does not build: {e}") from None
        exe = r.device.load(compiled.obj, compiled.signature, r.threads)
        for seed in r.seeds:
            _write(r.task, seed, *_own(spec, r.device, exe, seed))
        return
    function = _function(spec)
    for seed in r.seeds:
        first, second = (_by_function(spec, function, seed) for _ in range(2))
        for name, value in first.items():
            _same(spec, name, value, second[name], None)
        _write(r.task, seed, first, {})


def _write(task: CheckedSource, seed: int, values: Mapping[str, Array], free: Mapping[str, Array]) -> None:
    import numpy as np

    for name, value in values.items():
        file = expected_file(task.references, seed, name)
        np.save(file, np.asarray(value))
        if name in free:
            np.save(file.with_suffix(".free.npy"), free[name])


# the untuned configuration -------------------------------------------------------------------------------------------
def _own(spec: SourceSpec, device: SourceDevice, exe: Executable, seed: int) -> tuple[dict[str, Array], dict[str, Array]]:
    """(what the configuration writes, which elements it leaves) in two runs that begin with other contents."""
    import numpy as np

    host = operands(spec, seed)
    memory = device.memory()
    place: Operands | DeviceOperands = host if memory is None else DeviceOperands(host, memory)
    place.touch()
    begin = beginnings(spec, seed)
    runs: list[dict[str, Array]] = []
    for fill in _FILLS:
        blank = {n: np.full(host.places[n].nbytes, fill, np.uint8) for n in host.outputs if n not in begin}
        place.poison(place.checked, {**blank, **begin})
        exe.run(place.checked)
        if broken := place.broken():
            raise UsageError(f"the untuned configuration, which is the reference, {broken}: mend the source or its arguments")
        found = dict(zip(host.names, place.fetch(place.checked), strict=True))
        runs.append({n: view(found[n], host.places[n].dtype, host.places[n].shape).copy() for n in host.outputs})
    free: dict[str, Array] = {}
    for n in host.outputs if runs else ():
        if not next(a for a in spec.arrays if a.name == n).check:
            continue
        left = _left(runs[0][n], runs[1][n]) if n not in begin else None
        if left is not None and left.all():
            raise UsageError(
                f"the untuned configuration writes nothing to {n}: check the function's arguments and its launch, or give {n} another role"
            )
        _same(spec, n, runs[0][n], runs[1][n], left)
        if left is not None and left.any():
            free[n] = left
    return runs[0], free


def _left(a: Array, b: Array) -> Array:
    """Elements that hold what each run began with."""
    import numpy as np

    size = a.dtype.itemsize
    bytes_ = [np.ascontiguousarray(x.reshape(-1)).view(np.uint8).reshape(-1, size) for x in (a, b)]
    out: Array = (bytes_[0] == _FILLS[0]).all(axis=1) & (bytes_[1] == _FILLS[1]).all(axis=1)
    return out


# a function of the user's --------------------------------------------------------------------------------------------
def _function(spec: SourceSpec) -> Callable[..., Any]:
    """The user's function, from its file. Raises UsageError."""
    path, name = split_reference(spec.check.reference)
    sys.path.insert(0, str(path.resolve().parent))
    made = importlib.util.spec_from_file_location(f"tilewright_reference_{path.stem}", path)
    if made is None or made.loader is None:
        raise UsageError(f"--check {spec.check.reference}: {path} is no Python file")
    module = importlib.util.module_from_spec(made)
    try:
        made.loader.exec_module(module)
    except Exception as e:
        raise UsageError(f"--check {spec.check.reference}: running {path} failed: {type(e).__name__}: {e}{_line(e, path)}") from None
    function: Callable[..., Any] | None = getattr(module, name, None)
    if not callable(function):
        raise UsageError(f"--check {spec.check.reference}: {path} has no function {name!r}")
    return function


def _by_function(spec: SourceSpec, function: Callable[..., Any], seed: int) -> dict[str, Array]:
    """What the function says each output must hold. It takes arguments and sizes by name, and returns the outputs (one, or several in
    their order, or by name), or changes them in place and returns nothing. Raises UsageError."""
    import numpy as np

    given: dict[str, Any] = dict(spec.sizes)
    values = spec.values(spec.untuned)
    for i, a in enumerate(spec.arguments):
        if a.scalar:
            parts = np.frombuffer(scalar(a, values), a.dtype.np)[: 1 + len(a.more)]
            given[a.name] = parts if a.more else parts[0]
        elif a.local:
            continue
        elif a.role == "out":
            given[a.name] = np.zeros(a.extents(spec.sizes), a.dtype.np)
        else:
            given[a.name] = make(a, i, spec.sizes, seed)
    path, name = split_reference(spec.check.reference)
    try:
        returned = function(**_taken(function, name, given))
    except UsageError:
        raise
    except Exception as e:
        raise UsageError(f"the reference {spec.check.reference} failed: {type(e).__name__}: {e}{_line(e, path)}") from None
    outputs = [a for a in spec.arrays if a.written and a.check]
    if returned is None:
        found = {a.name: given[a.name] for a in outputs}
    elif isinstance(returned, Mapping):
        found = dict(returned)
    else:
        several = list(returned) if isinstance(returned, (tuple, list)) and len(outputs) != 1 else [returned]
        if len(several) != len(outputs):
            raise UsageError(
                f"the reference {spec.check.reference} returns {len(several)} arrays, and the function writes {len(outputs)} "
                f"({', '.join(a.name for a in outputs)})"
            )
        found = dict(zip((a.name for a in outputs), several, strict=True))
    return {a.name: _fitting(spec, a.name, found, a.extents(spec.sizes), a.dtype.np if not a.dtype.is_float else None) for a in outputs}


def _taken(function: Callable[..., Any], name: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """What the function wants of the arguments and sizes."""
    try:
        wanted = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return dict(given)
    if any(p.kind is p.VAR_KEYWORD for p in wanted):
        return dict(given)
    missing = [p.name for p in wanted if p.name not in given and p.default is p.empty and p.kind is not p.VAR_POSITIONAL]
    if missing:
        raise UsageError(f"the reference {name} wants {missing[0]!r}; it can take {', '.join(given)} by name")
    return {p.name: given[p.name] for p in wanted if p.name in given}


def _fitting(spec: SourceSpec, name: str, found: Mapping[str, Any], dims: tuple[int, ...], kind: Any) -> Array:
    import numpy as np

    if name not in found:
        raise UsageError(
            f"the reference {spec.check.reference} says nothing of {name}; it returns {', '.join(map(str, found)) or 'nothing'}"
        )
    try:
        value: Any = np.asarray(found[name])
        if value.size != int(np.prod(dims)):
            raise ValueError(f"its shape is {value.shape}, and the argument's {dims}")
        if value.dtype.kind not in "fiub" and value.dtype.name not in ("bfloat16",):
            raise ValueError(f"it holds {value.dtype}")
        if kind is not None and value.dtype.kind == "f" and not np.array_equal(value, np.round(value)):
            raise ValueError("it holds fractions, and the argument whole numbers")
        return np.ascontiguousarray(value.reshape(dims)).astype(kind if kind is not None else np.float64)
    except (TypeError, ValueError) as e:
        raise UsageError(f"the reference {spec.check.reference} gives no {name} that fits: {e}") from None


def _same(spec: SourceSpec, name: str, a: Array, b: Array, left: Array | None) -> None:
    """Two references of the same inputs must agree: in every bit, or within the tolerance where runs may differ. Raises UsageError."""
    import numpy as np

    of = next(x.dtype for x in spec.arrays if x.name == name)
    x, y = (np.asarray(v).reshape(-1) for v in (a, b))
    with np.errstate(all="ignore"):
        equal = (x == y) | ((x != x) & (y != y))
        if not spec.check.deterministic and of.is_float:
            e = expect(name, of, np.asarray(a), left, spec.check)
            assert e.weight is not None
            equal |= np.abs(x.astype(np.float64) - y.astype(np.float64)) * e.weight <= 1.0
    if left is not None:
        equal |= left
    if not equal.all():
        at = int(np.argmin(equal))
        where = ", ".join(str(int(i)) for i in np.unravel_index(at, np.asarray(a).shape))
        what = f"the reference {spec.check.reference}" if spec.check.reference else "the untuned configuration, which is the reference,"
        raise UsageError(
            f"{what} disagrees with itself: two runs on the same inputs gave {x[at]} and {y[at]} for {name}[{where}] "
            f"({int((~equal).sum())} of {equal.size} elements differ); mend it, or allow differences within the tolerance (--nondeterministic)"
        )


def _line(e: BaseException, path: Path) -> str:
    """Where in the user's file it happened."""
    lines = [f.lineno for f in traceback.extract_tb(e.__traceback__) if Path(f.filename).name == path.name]
    return f" ({path.name}, line {lines[-1]})" if lines else ""


if __name__ == "__main__":
    from . import source_reference

    process.main(sys.argv, source_reference.serve)
