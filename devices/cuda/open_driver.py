"""Opens NVIDIA's driver by whichever package is installed."""

from __future__ import annotations

import ctypes
import functools
import os
from collections.abc import Callable

from ...ir.errors import DeviceError
from . import adapters as packages
from .driver import Driver

CHOICE = "TILEWRIGHT_CUDA_DRIVER"


@functools.cache
def open_driver() -> Driver:
    """The driver of this process, initialised. Raises DeviceError, with the fix, where there is no package or no driver."""
    adapters: dict[str, Callable[[], Driver]] = {"pycuda": packages.PyCuda, "cuda-bindings": packages.CudaBindings}
    chosen = os.environ.get(CHOICE, "")
    if chosen:
        if chosen not in adapters:
            raise DeviceError(f"{CHOICE}={chosen}: use one of {', '.join(adapters)}")
        adapters = {chosen: adapters[chosen]}
    missing = []
    for name, adapter in adapters.items():
        try:
            return adapter()
        except ModuleNotFoundError as e:
            missing.append(f"{name}: {e}")
    try:
        ctypes.CDLL("libcuda.so.1")
        driver = ""
    except OSError:
        driver = f"{packages.NO_DRIVER}. Also, "
    raise DeviceError(
        f"{driver}no package to talk to the NVIDIA driver with ({'; '.join(missing)}): pip install 'tilewright[cuda]' (cuda-bindings) or 'tilewright[pycuda]'"
    )
