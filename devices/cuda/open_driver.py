"""Opens NVIDIA's driver by whichever package is installed, or by none."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable

from ...ir.errors import DeviceError
from .adapters import CtypesDriver, CudaBindings
from .driver import Driver
from .pycuda_adapter import PyCuda

CHOICE = "TILEWRIGHT_CUDA_DRIVER"
"""The environment variable that names the adapter to use."""
ADAPTERS: dict[str, Callable[[], Driver]] = {"cuda-bindings": CudaBindings, "pycuda": PyCuda, "ctypes": CtypesDriver}
"""In the order in which they are tried."""


@functools.cache
def open_driver() -> Driver:
    """The driver of this process, initialised. Raises DeviceError, with the fix, where there is none, or where the package that
    the variable names is missing."""
    chosen = os.environ.get(CHOICE, "")
    if chosen and chosen not in ADAPTERS:
        raise DeviceError(f"{CHOICE}={chosen}: use one of {', '.join(ADAPTERS)}")
    missing = []
    for name in (chosen,) if chosen else tuple(ADAPTERS):
        try:
            return ADAPTERS[name]()
        except ModuleNotFoundError as e:
            missing.append(f"{name}: {e}")
    raise DeviceError(f"{CHOICE}={chosen}, which is not installed ({'; '.join(missing)}): pip install {chosen}, or leave the variable out")
