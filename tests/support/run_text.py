"""Runs Programs through the text of each C-like language: C linked into this process, OpenCL by the driver that is here, CUDA as C++."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import guarded
import numpy as np
import pytest
from tilewright import devices, targets
from tilewright.devices.cuda.host import run_on_host
from tilewright.ir import DeviceError
from tilewright.program.program import Program
from tilewright.renderers import render
from tilewright.targets import Target

CUDA = targets.named("sm_90a")


def _usable(name: str) -> Any:
    device = devices.get(name)
    try:
        device.check()
    except DeviceError as e:
        pytest.skip(f"{name} is not usable here: {e}")
    return device


def c(program: Program, arrays: Sequence[Any], vars: Sequence[int] = (), target: Target | None = None) -> None:
    """By this machine's C compiler, for the host or a lesser target."""
    device = _usable("cpu:c")
    source = render(program, replace(target or targets.host(), lang="c"))
    exe = device.load(device.build(source), source.signature, 1)
    with guarded.copies(arrays) as inside:
        exe.run([a.ctypes.data for a in inside], vars)


def opencl(program: Program, arrays: Sequence[Any], vars: Sequence[int] = (), target: Target | None = None) -> None:
    """By the OpenCL driver that is here, rendered for its own target, which has what `target` has."""
    device = _usable("opencl")
    if target is not None and not target.features <= device.target.features:
        pytest.skip(f"{device.name} assembles no instructions of this processor")
    source = render(program, device.target)
    exe, memory = device.load(device.build(source), source.signature, device.threads), device.memory()
    handles = [memory.alloc(max(1, a.nbytes)) for a in arrays]
    for h, a in zip(handles, arrays, strict=True):
        memory.write(h, a.ctypes.data, a.nbytes)
    exe.run(handles, vars)
    for h, a in zip(handles, arrays, strict=True):
        memory.read(h, a.ctypes.data, a.nbytes)
        memory.free(h)
    exe.close()


def cuda(program: Program, arrays: Sequence[Any], vars: Sequence[int] = ()) -> None:
    """As C++ on the processor."""
    source = render(program, CUDA)
    try:
        run_on_host(source, [np.ascontiguousarray(a) for a in arrays], vars)
    except DeviceError as e:
        pytest.skip(str(e))
