"""References of kernels that take NumPy long, computed in float64 by compiled code: on this processor, or on the device where results are.

The kernel is rewritten (`ir.evaluation.bounded`) so that it computes value and error bound, and our own compiler makes code of that by a plain
schedule. It is believed where `POINTS` random points of each output, and the first and the last, are what NumPy makes of them. On this
processor it runs in a child, so that a fault of it costs only itself; whatever goes wrong, NumPy evaluates as for any kernel. On a device
everything but running it happens in the runner, which never opens the device. The code is kept in the cache of artefacts: a second run
compiles nothing."""

from __future__ import annotations

import mmap
import os
import select
import signal
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from math import prod
from typing import TYPE_CHECKING, Any

from ... import devices
from ...devices.base import SPECIAL
from ...ir.body import Store
from ...ir.dtypes import HALF_SUBNORMAL, OVERFLOW, DType, float32, float64, uint8
from ...ir.errors import DeviceError, TilewrightError
from ...ir.evaluation import SLACK, cut_axes, evaluate_kinds, evaluate_points
from ...ir.evaluation.algebra import Algebra
from ...ir.evaluation.bounded import ERROR, bounded
from ...ir.evaluation.dense import Env
from ...ir.evaluation.reference import bind, checked_inputs
from ...ir.evaluation.sampling import evaluation_work, reduced_points
from ...ir.functions import absolute, maximum
from ...ir.kernel import Kernel
from ...ir.node import Node, const
from ...ir.normal_form import normalise
from ...ir.operators import where
from ...log import logger
from ...opts.defaults import legal_prefix, plain_threads
from ...targets import usable_cores
from ..operands import read_element
from .compare import DeviceExpect, trusted
from .verify import TINY, Expect, expected, noted

if TYPE_CHECKING:
    import numpy as np

    from ...devices import Device, Memory
    from ...plan import Built
    from ..operands import DeviceOperands

    Array = np.ndarray[Any, Any]

log = logger("measure")
HOST_ELEMENTS = 1 << 24
"""Elements of arrays (`evaluation_work`) from which compiling is quicker than NumPy: about a quarter of a second of one core."""
PLAIN = 8
"""So many times as many points of reductions compiled code may visit as NumPy makes elements: it multiplies three factors at every point,
and whole matrices without blocking, which BLAS does not."""
DEVICE_FLOPS = 2e10
"""Operations from which the host would take longer than the device needs to be told: half a second of a few cores."""
POINTS = 64
CLOSE = 1e-6
"""How much of an element's error two evaluations in float64 may differ by: they round a billion times finer than float32."""
MENDED = 256
"""Rows of an outer axis, at most, that NumPy evaluates because a value overflows its type on the way there."""
DEADLINE_S, STILL_S = 60.0, 300.0
"""Processor seconds that the compiled reference may take for each of its threads, and seconds that it may stand still: beside a search it
does so while candidates are timed."""
WEIGHT, FLAGS = "_weight", "_flags"


def expectation_kernel(kernel: Kernel, exact: bool, drift: float = 1.0) -> Kernel | None:
    """A kernel whose outputs, for each output NAME of `kernel`, are NAME (the float64 reference), NAME_weight (float32, one over the bound) and
    NAME_flags (uint8, as `Comparison.flags`). None where there is no bounded form."""
    found = bounded(kernel)
    if found is None:
        return None
    stores = {s.buffer.name: s for s in found.stores}
    out: list[Store] = []
    for b in kernel.outputs:
        value, error = stores[b.name], stores[b.name + ERROR]
        weight = 1.0 / maximum(_bound(b.dtype, value.expr, drift * error.expr), const(TINY, float64))
        kept = value.expr
        if exact:
            weight = const(1.0 / TINY, float64)
            kept = kept.cast(float32).cast(b.dtype).cast(float64) if b.dtype.size <= 4 else kept
        finite = absolute(value.expr) < const(OVERFLOW[b.dtype.name], float64)
        special = where(finite, const(0.0, float32), const(float(SPECIAL), float32)).cast(uint8)
        for suffix, of, expr in (("", float64, kept), (WEIGHT, float32, weight.cast(float32)), (FLAGS, uint8, special)):
            out.append(replace(value, buffer=replace(value.buffer, name=b.name + suffix, dtype=of), expr=expr))
    return Kernel(f"{kernel.name}_reference", found.body, tuple(out), (*found.inputs, *(s.buffer for s in out)))


def _bound(of: DType, value: Node, error: Node) -> Node:
    """The bound of `verify`."""
    size = absolute(value)
    known = where(size < const(float("inf"), float64), where(error.eq(error), error, const(0.0, float64)), const(0.0, float64))
    return known * SLACK + maximum(size * (of.eps / 2), const(HALF_SUBNORMAL[of.name], float64))


def sampled_points(kernel: Kernel, inputs: Mapping[str, Array], exact: bool, drift: float = 1.0) -> dict[str, tuple[Array, Array, Array]]:
    """What the host makes of some points of each output: (flat positions, values, weights). Raises DeviceError where it cannot be asked for
    points alone."""
    out = {}
    results = evaluate_points(kernel, inputs, POINTS, seed=1)
    for b in kernel.outputs:
        at, value, scale = results[b.name]
        e = expected(b.name, b.dtype, (len(at),), value, drift * scale, None, exact)
        assert e.weight is not None
        out[b.name] = at, e.value, e.weight
    return out


def compiled_expectations(
    kernel: Kernel, inputs: Mapping[str, Array], exact: bool, drift: float = 1.0, once: Callable[[float], None] = lambda _: None
) -> dict[str, Expect] | None:
    """What `verify.expectations` gives, made by compiled code; None where NumPy is as quick, there is no formula (`bounded`), or the code was
    not right at every sampled point. `exact`: no rounding can happen on these inputs, so results must be equal. `drift`: how much wider bounds of
    roundings are (`exact.drift`). `once` is told the processor seconds of compiling that nobody will need again."""
    if kernel.symbols or evaluation_work(kernel) < HOST_ELEMENTS or reduced_points(kernel) > PLAIN * evaluation_work(kernel):
        return None
    made = expectation_kernel(kernel, exact, drift)
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
    from ...opts.apply_options import apply

    return legal_prefix(wish, lambda opts: apply(kernel, opts, devices.get("cpu").target)) or ()


def _in_a_child(built: Built, pointers: list[int], threads: int) -> str:
    """Run once in a child; what went wrong, or ''."""
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


@dataclass(frozen=True)
class DeviceReference:
    """The code that makes the references, and what the host knows of them. `points`: of each output (flat positions, values, weights)."""

    built: Built
    outputs: dict[str, tuple[DType, tuple[int, ...]]]
    points: dict[str, tuple[Array, Array, Array]]

    def compute(self, device: Device, operands: DeviceOperands, memory: Memory) -> dict[str, DeviceExpect]:
        """The references, in the memory of the open device. Raises MeasureError where there is no room, DeviceError where a point is not
        what the host makes of it."""
        made: dict[str, int] = {}
        inputs = dict(zip(operands.names, operands.checked, strict=True))
        signature = self.built.signature
        for of, _ in self.outputs.values():
            trusted(of, next(iter(self.points.values()))[2], memory)
        executable = device.load(self.built.obj, signature, 1)
        try:
            for p in signature.params:
                if p.role == "out":
                    size = prod(d for d in p.shape if isinstance(d, int)) * p.dtype.size
                    made[p.name] = memory.alloc(size)
                    memory.fill(made[p.name], 0xFF, size)  # what no store reaches has the flag FREE
            executable.run([made.get(p.name) or inputs[p.name] for p in signature.params])
            for name in self.outputs:
                self._check(name, made, memory)
        except BaseException:
            if memory.sound():
                for handle in made.values():
                    memory.free(handle)
            raise
        finally:
            executable.close()
        return {
            name: DeviceExpect(name, dtype, shape, memory, (made[name], made[name + WEIGHT], made[name + FLAGS]))
            for name, (dtype, shape) in self.outputs.items()
        }

    def _check(self, name: str, made: Mapping[str, int], memory: Memory) -> None:
        for at, value, weight in zip(*self.points[name], strict=True):
            there = float(read_element(memory, made[name], float64, int(at)))
            bound = float(read_element(memory, made[name + WEIGHT], float32, int(at)))
            if not (abs(there - value) * weight <= CLOSE and abs(bound - weight) <= CLOSE * weight):
                raise DeviceError(f"the device's reference of {name} is {there} (weight {bound}) at {at}, the host's {value} ({weight})")


def plan(kernel: Kernel, device: Device, inputs: Mapping[str, Array], exact: bool, drift: float = 1.0) -> DeviceReference | None:
    """How the device makes the references, or None where the host shall: for kernels that are soon done, or have no bounded form.
    `exact`: no rounding can happen on these inputs, so results must be equal. `drift`: how much wider bounds of roundings are."""
    from ...ir.cost import cost
    from ...plan import compile as build

    if not device.compares or kernel.symbols or cost(kernel).flops < DEVICE_FLOPS:
        return None
    made = expectation_kernel(kernel, exact, drift)
    if made is None:
        return None
    try:
        built = build(made, plain_threads(made, device.target), device)
        return DeviceReference(
            built, {b.name: (b.dtype, tuple(int(d) for d in b.shape)) for b in kernel.outputs}, sampled_points(kernel, inputs, exact, drift)
        )
    except TilewrightError as e:
        log.info("the reference is computed on the host: %s", e)
        return None
