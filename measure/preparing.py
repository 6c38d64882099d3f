"""Operands, references and what compares, for one kind of inputs: made in the runner, before it forks."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from ..ir.errors import DeviceError
from . import inputs
from .bench import Bench
from .checking import special_inputs as special
from .processes.runner_setup import Data, RunnerSetup
from .processes.slots import Slots

if TYPE_CHECKING:
    from ..devices import Device
    from ..ir.kernel import Kernel
    from .checking.compare import Checker
    from .checking.verify import Expect


def prepare(setup: RunnerSetup, device: Device, data: Data, timed: bool) -> Bench:
    """What candidates are measured on. `timed`: they will be, so operands are there as often as it takes to pass the caches."""
    from .checking.compare import Checker
    from .memory import Operands
    from .on_device import reference as device_reference
    from .roofline import rotations

    began, once = time.process_time(), [0.0]
    kernel, vars, judged = setup.kernel, setup.vars, setup.judged
    whole = data.kind == "whole"
    reference = None
    if data.special:
        wild, huge = data.kind == "special" and not data.moderate, not data.moderate
        values = special.generate(kernel, vars, data.seed, wild, data.subnormal, huge)
    else:
        values = inputs.generate(kernel, vars, data.seed, whole)
        reference = device_reference.plan(judged, device, values, *_roundings(judged, vars, whole))

    def on_host() -> Checker:
        return Checker(_expects(judged, data, values, vars, once.append), _checking(device), late=data.kind != "random")

    shapes = [inputs.shape(b, kernel, vars) for b in kernel.buffers]
    copies = rotations(kernel, vars, device.target) if timed else 1
    copying = time.process_time()
    operands = Operands([b.name for b in kernel.buffers], [b.dtype for b in kernel.buffers], shapes, values, copies)
    copied = time.process_time() - copying
    order = [vars[s.arg.name] for s in kernel.symbols]
    checker = on_host() if reference is None else Checker({}, None)
    bench = Bench(device, setup.threads, operands, checker, order, Slots(None), data.kind)
    bench.reference, bench.otherwise = reference, on_host
    bench.cost_s = (time.process_time() - began - copied - sum(once), copied)
    return bench


def _roundings(judged: Kernel, vars: Mapping[str, int], whole: bool) -> tuple[bool, float]:
    """Whether none can happen, and how much further than at random they may add up."""
    from .checking.exact import drift, is_exact

    exact = whole and is_exact(judged, vars)
    return exact, drift(judged, vars) if whole and not exact else 1.0


def _expects(
    judged: Kernel, data: Data, values: Mapping[str, Any], vars: Mapping[str, int], once: Callable[[float], None]
) -> dict[str, Expect]:
    """The references on the host: by compiled code where that is quicker than NumPy, and right. `once` is told what compiling took, which the
    inputs that are prepared next need not wait for again."""
    from .checking.compiled_reference import compiled_expectations
    from .checking.special_references import special_expectations
    from .checking.verify import expectations

    if data.special:
        return special_expectations(judged, values, vars, data.seed)
    whole = data.kind == "whole"
    compiled = compiled_expectations(judged, values, *_roundings(judged, vars, whole), once)
    return expectations(judged, values, vars, whole) if compiled is None else compiled


def _checking(device: Device) -> Device | None:
    """The device that compares results, in the host's memory."""
    if device.isolation == "fork":
        return device
    from .. import devices

    try:
        cpu = devices.get("cpu")
        cpu.check()
    except DeviceError:
        return None  # NumPy compares
    return cpu
