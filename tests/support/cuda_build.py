"""What tests of CUDA text share: whether there is an NVRTC to build it with (there need be no GPU)."""

from __future__ import annotations

import shutil
from collections.abc import Callable

import pytest
from tilewright.devices.cuda import machine_code as sass
from tilewright.devices.cuda import nvrtc
from tilewright.devices.cuda.host import COMPILERS
from tilewright.ir import DeviceError

ARCHITECTURES = ("sm_80", "sm_90a")
"""What tests build for."""


def _missing(find: Callable[[], object] = nvrtc.library) -> str:
    try:
        find()
    except DeviceError as e:
        return str(e)
    return ""


needs_nvrtc = pytest.mark.skipif(bool(_missing()), reason=_missing() or "NVRTC is there")
"""Skips a test where NVRTC is missing; the extra `dev` installs it."""
needs_cxx = pytest.mark.skipif(not any(map(shutil.which, COMPILERS)), reason="running CUDA text on the processor needs g++ or clang++")
"""Skips a test where no C++ compiler is installed."""
needs_nvdisasm = pytest.mark.skipif(bool(_missing(sass.find)), reason=_missing(sass.find) or "nvdisasm is there")
"""Skips a test that reads machine code (`sass.counts`) where nvdisasm is missing; the extra `dev` installs it."""
