"""Devices: build source text into objects, load them, run and time them. `get(name)` finds one; plug-ins add more."""

from .base import Device, DeviceArrays, Executable, Memory, SourceLike
from .bound_calls import BoundCall, Places
from .limits import Cached, Limits, Rates
from .packed import Packed
from .registry import get, local_names, names, register

__all__ = [
    "BoundCall",
    "Cached",
    "Device",
    "DeviceArrays",
    "Executable",
    "Limits",
    "Memory",
    "Packed",
    "Places",
    "Rates",
    "SourceLike",
    "get",
    "local_names",
    "names",
    "register",
]
