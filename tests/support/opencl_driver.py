"""PoCL and Oclgrind for tests, where they are installed; OpenCL C by hand, and devices that other processes find by this file's path."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from dataclasses import dataclass

import pytest
from tilewright import devices
from tilewright.devices.opencl import oclgrind
from tilewright.devices.opencl.device import OpenClDevice
from tilewright.ir import DeviceError, Node, const, float32
from tilewright.program.program import Param, Signature
from tilewright.targets import Target

POCL = "opencl:portable"
QUICK = f"{__file__}:Quick"


class Quick(OpenClDevice):
    """PoCL, given up on sooner."""

    first_launch_s = 3.0

    def __init__(self) -> None:
        super().__init__("portable")


def _pocl_is_missing() -> str:
    try:
        devices.get(POCL).check()
    except DeviceError as e:
        return f"no PoCL here: {e}"
    return ""


def _oclgrind_is_missing() -> str:
    try:
        oclgrind.library()
    except DeviceError as e:
        return str(e)
    return ""


if "POCL_CACHE_DIR" not in os.environ:
    os.environ["POCL_CACHE_DIR"] = tempfile.mkdtemp(prefix="tilewright-test-pocl-")
    atexit.register(shutil.rmtree, os.environ["POCL_CACHE_DIR"], ignore_errors=True)

needs_pocl = pytest.mark.skipif(bool(why := _pocl_is_missing()), reason=why)
needs_oclgrind = pytest.mark.skipif(bool(why := _oclgrind_is_missing()), reason=why)


@dataclass(frozen=True)
class Text:
    text: str
    target: Target
    signature: Signature
    sha: str = "0" * 64


def source(
    text: str,
    target: Target,
    *,
    items: int | Node | tuple[int | Node, ...] = 1,
    threads: int | tuple[int, ...] = 1,
    params: tuple[tuple[int, str], ...] = ((64, "in"), (64, "out")),
    symbols: tuple[str, ...] = (),
    scratch: int = 0,
    work: int = 0,
    shared: int = 0,
    name: str = "k",
) -> Text:
    """OpenCL C by hand: `params` are (elements, role) of float32 buffers; `items` and `threads` of one phase, or of each."""
    each = items if isinstance(items, tuple) else (items,)
    buffers = tuple(Param(f"b{i}", float32, (n,), role) for i, (n, role) in enumerate(params))
    grids = tuple(const(n) if isinstance(n, int) else n for n in each)
    groups = threads if isinstance(threads, tuple) else (threads,) * len(grids)
    return Text(text, target, Signature(name, buffers, symbols, grids, scratch, work, groups, shared))
