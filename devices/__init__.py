"""Devices: build source text into objects, load them, run and time them. `get(name)` finds one; plug-ins add more."""

from .. import ir as _ir  # noqa: F401
from .. import targets as _targets  # noqa: F401
from .base import Device, DeviceArrays, Executable, Memory, Packed, SourceLike
from .bound_calls import AnyCall, BoundCall, BoundLoop, LoopCarry, LoopCopy, LoopWord, Places, Size
from .limits import Cached, Limits, Rates
from .registry import get, local_names, names, register

__all__ = [
    "AnyCall",
    "BoundCall",
    "BoundLoop",
    "Cached",
    "Device",
    "DeviceArrays",
    "Executable",
    "Limits",
    "LoopCarry",
    "LoopCopy",
    "LoopWord",
    "Memory",
    "Packed",
    "Places",
    "Rates",
    "Size",
    "SourceLike",
    "get",
    "local_names",
    "names",
    "register",
]
