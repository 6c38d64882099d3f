"""The reference of a kernel that takes long on the host, computed where its results are: on the device, in float64.

The kernel is rewritten (`ir.evaluation.bounded`) so that it computes value and error, and then the bound of `verify`; our own compiler
makes code of that, by the plainest schedule there is. 64 points are compared with `ir.evaluation.reference.evaluate_error` before
anything is compared with the rest. All but running it happens in the runner, which never opens the device."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import prod
from typing import TYPE_CHECKING, Any

from ...devices.memory import SPECIAL
from ...ir.body import Store
from ...ir.dtypes import OVERFLOW, DType, float32, float64, uint8
from ...ir.errors import DeviceError, TilewrightError
from ...ir.evaluation import SLACK
from ...ir.evaluation.bounded import ERROR, bounded
from ...ir.functions import absolute, maximum
from ...ir.kernel import Kernel
from ...ir.node import Node, const
from ...ir.operators import where
from ...log import logger
from ..checking.verify import HALF_SUBNORMAL, TINY, expected
from .compare import DeviceExpect, trusted
from .memory import element

if TYPE_CHECKING:
    import numpy as np

    from ...devices import Device, Memory
    from ...plan import Built
    from .memory import DeviceOperands

    Array = np.ndarray[Any, Any]

log = logger("measure")

HEAVY = 2e10
"""Operations from which the host would take longer than the device needs to be told: half a second of a few cores."""
POINTS = 64
CLOSE = 1e-6
"""How much of an element's error two evaluations in float64 may differ by: they round a billion times finer than float32."""
WEIGHT, FLAGS = "_weight", "_flags"


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
            there = float(element(memory, made[name], float64, int(at)))
            bound = float(element(memory, made[name + WEIGHT], float32, int(at)))
            if not (abs(there - value) * weight <= CLOSE and abs(bound - weight) <= CLOSE * weight):
                raise DeviceError(f"the device's reference of {name} is {there} (weight {bound}) at {at}, the host's {value} ({weight})")


def plan(kernel: Kernel, device: Device, inputs: Mapping[str, Array], exact: bool, drift: float = 1.0) -> DeviceReference | None:
    """How the device makes the references, or None where the host shall: for kernels that are soon done, or have no bounded form.
    `exact`: no rounding can happen on these inputs, so results must be equal. `drift`: how much wider bounds of roundings are."""
    from ...ir.cost import cost
    from ...opts.defaults import plain_threads
    from ...plan import compile as build

    if not device.compares or kernel.symbols or cost(kernel).flops < HEAVY:
        return None
    made = judged(kernel, exact, drift)
    if made is None:
        return None
    try:
        built = build(made, plain_threads(made, device.target), device)
        return DeviceReference(
            built, {b.name: (b.dtype, _shape(b.shape)) for b in kernel.outputs}, sampled_points(kernel, inputs, exact, drift)
        )
    except TilewrightError as e:
        log.info("the reference is computed on the host: %s", e)
        return None


def judged(kernel: Kernel, exact: bool, drift: float = 1.0) -> Kernel | None:
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
    from ...ir.evaluation import evaluate_points

    out = {}
    results = evaluate_points(kernel, inputs, POINTS, seed=1)
    for b in kernel.outputs:
        at, value, scale = results[b.name]
        e = expected(b.name, b.dtype, (len(at),), value, drift * scale, None, exact)
        assert e.weight is not None
        out[b.name] = at, e.value, e.weight
    return out


def _shape(shape: tuple[Any, ...]) -> tuple[int, ...]:
    return tuple(int(d) for d in shape)
