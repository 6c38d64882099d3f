"""The reference of a kernel that takes NumPy long, computed by code of our own in float64.

The kernel is rewritten (`ir.evaluation.bounded`) so that it computes value and error bound, and the LLVM backend makes code of that, by the
plainest schedule that uses lanes and cores. What it gives is believed where `POINTS` random points of each output, and the first and
the last, are what NumPy makes of them. It runs in a child, so that a fault of it costs only itself; whatever goes wrong,
NumPy evaluates as for any kernel. Like every code that we make, it is kept in the cache of artefacts: a second run compiles nothing."""

from __future__ import annotations

import mmap
import os
import select
import signal
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from math import prod
from typing import TYPE_CHECKING, Any

from ...devices.memory import SPECIAL
from ...ir.dtypes import DType
from ...ir.errors import TilewrightError
from ...ir.evaluation.work import evaluation_work, reduced_points
from ...ir.kernel import Kernel
from ...log import logger
from ...targets import usable_cores
from ..on_device.reference import CLOSE, FLAGS, WEIGHT, judged, sampled_points
from .overflow import noted
from .verify import Expect, expected

if TYPE_CHECKING:
    import numpy as np

    from ...plan import Built

    Array = np.ndarray[Any, Any]

log = logger("measure")

HEAVY = 1 << 24
"""Elements of arrays (`evaluation_work`) from which compiling is quicker than NumPy: about a quarter of a second of one core."""
PLAIN = 8
"""So many times as many points of reductions compiled code may visit as NumPy makes elements: it multiplies three factors at every point,
and whole matrices without blocking, which BLAS does not."""
MENDED = 256
"""Rows of an outer axis, at most, that NumPy evaluates because a value overflows its type on the way there."""
DEADLINE_S, STILL_S = 60.0, 300.0
"""Processor seconds that the compiled reference may take for each of its threads, and seconds that it may stand still: beside a search it
does so while candidates are timed."""


def compiled_expectations(
    kernel: Kernel, inputs: Mapping[str, Array], exact: bool, drift: float = 1.0, once: Callable[[float], None] = lambda _: None
) -> dict[str, Expect] | None:
    """What `verify.expectations` gives, made by compiled code; None where NumPy is as quick, there is no formula (`bounded`), or the code was
    not right at every sampled point. `exact`: no rounding can happen on these inputs, so results must be equal. `drift`: how much wider bounds of
    roundings are (`exact.drift`). `once` is told the processor seconds of compiling that nobody will need again."""
    if kernel.symbols or evaluation_work(kernel) < HEAVY or reduced_points(kernel) > PLAIN * evaluation_work(kernel):
        return None
    made = judged(kernel, exact, drift)
    if made is None:
        return None
    try:
        points = sampled_points(kernel, inputs, exact, drift)
        arrays = _computed(made, inputs, once)
    except TilewrightError as e:
        log.info("NumPy makes the reference of %s: %s", kernel.name, e)
        return None
    for name, sampled in points.items():
        wrong = _differs(arrays, name, sampled)
        if wrong:
            log.info("NumPy makes the reference of %s, since compiled code is wrong: %s", kernel.name, wrong)
            return None
    found = {b.name: _expect(b.name, b.dtype, arrays) for b in kernel.outputs}
    lost = {name: _lost(e) for name, e in found.items()}
    if not any(mask.any() for mask in lost.values()):
        return found
    mended = _mended(kernel, inputs, found, lost)
    if mended is None:
        log.info("NumPy makes the reference of %s, since values overflow their type on the way", kernel.name)
    return mended


def _computed(made: Kernel, inputs: Mapping[str, Array], once: Callable[[float], None]) -> dict[str, Array]:
    """The outputs of a kernel, by name, computed in a child. Raises DeviceError or BuildError where there is no such code, and
    DeviceError where it fails."""
    import numpy as np

    from ... import devices
    from ...ir.errors import DeviceError
    from ...ir.normal_form.normalise import normalise
    from ...opts.defaults import rows
    from ...plan import Artefacts
    from ...plan import compile as build

    cpu = devices.get("cpu")
    cpu.check()
    began = time.process_time()
    shapes = {b.name: tuple(d for d in b.shape if isinstance(d, int)) for b in made.outputs}  # (the normal form's are views)
    made, store = normalise(made), Artefacts.default()  # which knows no others
    threads = usable_cores()
    width = max(1, cpu.target.vector_bytes // 8)
    built = build(made, _legal(made, rows(made, cpu.target, threads, width, stage=False)), cpu, store)
    if store.object(built.sha, cpu.compiler_id()) is not None:
        once(time.process_time() - began)
    held: dict[str, mmap.mmap] = {}
    arrays: dict[str, Array] = {}
    pointers: list[int] = []
    for p in built.signature.params:
        if p.role == "out":
            size = prod(shapes[p.name])
            held[p.name] = mmap.mmap(-1, max(1, size * p.dtype.size))  # shared with the child
            arrays[p.name] = np.frombuffer(held[p.name], p.dtype.np, size).reshape(shapes[p.name])
            pointers.append(arrays[p.name].ctypes.data)
        else:
            pointers.append(inputs[p.name].ctypes.data)
    why = _in_a_child(built, pointers, threads)
    if why:
        raise DeviceError(f"compiled code for the reference {why}")
    return arrays


def _legal(kernel: Kernel, wish: Any) -> Any:
    from ... import devices
    from ...opts.apply_options import apply
    from ...opts.defaults import legal_prefix

    return legal_prefix(wish, lambda opts: apply(kernel, opts, devices.get("cpu").target)) or ()


def _in_a_child(built: Built, pointers: list[int], threads: int) -> str:
    """Run once in a child; what went wrong, or ''."""
    from ... import devices
    from ..processes import process

    parent = os.getpid()
    pid = os.fork()
    if not pid:
        code = 1
        try:
            process.die_with_parent(parent)
            executable = devices.get("cpu").load(built.obj, built.signature, threads)
            executable.run(pointers)
            code = 0
        except TilewrightError as e:
            log.info("%s", e)
        finally:
            # never back into the caller's own stack
            os._exit(code)
    handle = os.pidfd_open(pid)
    try:
        stillness = process.Stillness(pid, STILL_S)
        while not select.select([handle], [], [], 0.5)[0]:
            if process.used_s(pid) > DEADLINE_S * threads or stillness.over():
                os.kill(pid, signal.SIGKILL)
                break
    finally:
        os.close(handle)
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    return process.how_it_ended(status) if status else ""


def _differs(arrays: Mapping[str, Array], name: str, sampled: tuple[Array, Array, Array]) -> str:
    """Which sampled point of an output is not what NumPy makes of it, or ''."""
    import numpy as np

    at, value, weight = sampled
    there, bound = arrays[name].reshape(-1)[at], arrays[name + WEIGHT].reshape(-1)[at]
    with np.errstate(all="ignore"):
        same = (there == value) | (np.isnan(there) & np.isnan(value)) | (np.abs(there - value) * weight <= CLOSE)
        right = same & (np.abs(bound - weight) <= CLOSE * weight)
    if right.all():
        return ""
    i = int(np.argmin(right))
    return f"{name} is {there[i]} (weight {bound[i]}) at {at[i]}, NumPy's {value[i]} ({weight[i]})"


def _lost(e: Expect) -> Array:
    """The elements without a bound, which `bounded` gives the weight 0 (or NaN): a value overflowed its type on the way."""
    import numpy as np

    assert e.weight is not None
    lost = ~(e.weight > 0)
    return np.asarray(lost if e.special is None else lost & ~e.special)


def _mended(
    kernel: Kernel, inputs: Mapping[str, Array], found: Mapping[str, Expect], lost: Mapping[str, Array]
) -> dict[str, Expect] | None:
    """The expectations with lost elements as NumPy has them (`evaluate_kinds`), in the rows of an outer axis where they are; None where
    these are many, or nothing has such an axis."""
    import numpy as np

    from ...ir.evaluation import cut_axes, evaluate_kinds
    from ...ir.evaluation.algebra import Algebra
    from ...ir.evaluation.dense import Env
    from ...ir.evaluation.operands import bind, checked_inputs

    symbols = bind(kernel, inputs, {})
    family = next((f for f, _ in cut_axes(kernel, Env(Algebra(), checked_inputs(kernel, inputs, symbols), symbols))), "")
    rows: set[int] = set()
    for s in kernel.stores:
        at = next((d for d, i in enumerate(s.indices) if i.op == "axis" and i.arg.family == family), None)
        if at is None or s.combine is not None:
            return None
        rows.update(np.unravel_index(np.flatnonzero(lost[s.buffer.name]), found[s.buffer.name].shape)[at].tolist())
    if len(rows) > MENDED:
        return None
    with np.errstate(all="ignore"):
        kinds = evaluate_kinds(kernel, inputs, {}, usable_cores(), [{family: (r, r + 1)} for r in sorted(rows)])
    out = dict(found)
    for name, mask in lost.items():
        if not mask.any():
            continue
        e, (value, scale, loose, _) = found[name], kinds[name]
        assert e.weight is not None
        there = expected(name, e.dtype, e.shape, np.asarray(value), np.asarray(scale), None, False)
        assert there.weight is not None
        special = np.where(mask, False if there.special is None else there.special, False if e.special is None else e.special)
        free = None if loose is None else np.broadcast_to(loose, e.shape).reshape(-1) & mask
        out[name] = replace(
            e,
            value=np.where(mask, there.value, e.value),
            weight=np.where(mask, there.weight, e.weight),
            special=special if special.any() else None,
            free=free if free is not None and free.any() else None,
        )
    return out


def _expect(name: str, of: DType, arrays: Mapping[str, Array]) -> Expect:
    special = arrays[name + FLAGS].reshape(-1) == SPECIAL
    weight = arrays[name + WEIGHT].reshape(-1)
    value, odd = arrays[name].reshape(-1), special if special.any() else None
    return Expect(name, of, arrays[name].shape, value, weight, odd, note=noted(name, value, (odd, None), None))
