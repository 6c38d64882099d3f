"""Operands, references and what compares, for one kind of inputs: made in the runner, before it forks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..ir.errors import DeviceError
from . import inputs
from . import special_inputs as special
from .bench import Bench
from .runner_setup import Data, RunnerSetup
from .slots import Slots

if TYPE_CHECKING:
    from ..devices import Device
    from .compare import Checker


def prepare(setup: RunnerSetup, device: Device, data: Data, timed: bool) -> Bench:
    """What candidates are measured on. `timed`: they will be, so operands are there as often as it takes to pass the caches."""
    from .compare import Checker
    from .exact import is_exact
    from .memory import Operands
    from .on_device import reference as device_reference
    from .roofline import rotations
    from .verify import expectations, special_expectations

    kernel, vars, judged = setup.kernel, setup.vars, setup.judged
    whole = data.kind == "whole"
    reference = None
    if data.special:
        values = special.generate(kernel, vars, data.seed, wild=data.kind == "special", subnormal=data.subnormal)
    else:
        values = inputs.generate(kernel, vars, data.seed, whole)
        reference = device_reference.plan(judged, device, values, whole and is_exact(judged, vars))

    def on_host() -> Checker:
        expects = special_expectations(judged, values, vars) if data.special else expectations(judged, values, vars, whole)
        return Checker(expects, _checking(device))

    shapes = [inputs.shape(b, kernel, vars) for b in kernel.buffers]
    copies = rotations(kernel, vars, device.target) if timed else 1
    operands = Operands([b.name for b in kernel.buffers], [b.dtype for b in kernel.buffers], shapes, values, copies)
    order = [vars[s.arg.name] for s in kernel.symbols]
    checker = on_host() if reference is None else Checker({}, None)
    bench = Bench(device, setup.threads, operands, checker, order, Slots(None), data.kind)
    bench.reference, bench.otherwise = reference, on_host
    return bench


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
