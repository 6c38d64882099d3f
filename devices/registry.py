"""Finds devices: the built-in one, those registered here, entry points of the group "tilewright.devices", and by import path.

`get` takes a name (`cpu`), or `package.module:attribute`, or `path/file.py:attribute`; the attribute is called without
arguments and returns a Device. The import forms are how another process (the measuring runner) finds a device that only a test
or a script knows: pass `device.spec`."""

from __future__ import annotations

import difflib
import functools
import importlib
from collections.abc import Callable
from typing import Any

from ..files.plugins import entry_points, imported, is_path
from ..ir.errors import DeviceError, TilewrightError
from ..log import logger
from .base import Device
from .once import process_lock

GROUP = "tilewright.devices"
_BUILTIN = {
    "cpu": ("cpu.device", "CpuDevice"),
    "cpu:c": ("cpu.c_compiler", "CpuCDevice"),
    "opencl": ("opencl", "OpenClDevice"),
    "cuda": ("cuda", "CudaDevice"),
}
"""Module of this folder and class, by name; imported when asked for."""
_CHOOSING = ("opencl", "cuda")
"""Devices of which there may be several: `NAME:WHICH`."""
log = logger("devices")
_FACTORIES: dict[str, Callable[[], Device]] = {}
_MADE: dict[str, Device] = {}
_LOCK = process_lock()


def register(name: str, factory: Callable[[], Device]) -> None:
    """Add (or replace) a device of this process under `name`."""
    _FACTORIES[name] = factory
    _MADE.pop(name, None)


def names() -> tuple[str, ...]:
    """Every device name known here, usable or not (ask `get(name).check()`), sorted."""
    return tuple(sorted({*_BUILTIN, *_FACTORIES, *entry_points(GROUP)}))


def local_names() -> frozenset[str]:
    """Names that only this process knows, because `register` was called in it."""
    return frozenset(_FACTORIES)


def get(name: str | Device) -> Device:
    """The device called `name`, made once a process; a Device is returned as it is. Raises DeviceError."""
    if isinstance(name, Device):
        return name
    found = _MADE.get(name)
    if found is None:
        with _LOCK:
            found = _MADE.get(name) or _new(name)
    return found


def _new(name: str) -> Device:
    device = _created(name)
    if not isinstance(device, Device):
        raise DeviceError(f"device {name!r}: its factory returned {type(device).__name__}, not a tilewright Device")
    device.spec = device.spec or name
    found = _MADE[name] = device
    log.debug("device %s is made by %s", name, type(device).__qualname__)
    return found


def _created(name: str) -> Any:
    """What a device's factory returns. One that somebody else wrote may raise anything, and so may what its name imports."""
    if name.partition(":")[0] in _BUILTIN:
        return _factory(name)()
    try:
        return _factory(name)()
    except TilewrightError:
        raise
    except (Exception, SystemExit) as e:
        raise DeviceError(
            f"device {name!r} cannot be made: {type(e).__name__}: {e}; its factory takes no arguments and returns a tilewright Device"
        ) from e


def _factory(name: str) -> Callable[[], Any]:
    if name in _FACTORIES:
        return _FACTORIES[name]
    if name in _BUILTIN:
        module, attribute = _BUILTIN[name]
        builtin: Callable[[], Any] = getattr(importlib.import_module(f".{module}", __package__), attribute)
        return builtin
    points = entry_points(GROUP)
    if name in points:
        return _imported(points[name], name)
    family, _, which = name.partition(":")
    if family in _CHOOSING and family in _BUILTIN and which:
        made: Callable[..., Any] = _factory(family)
        return functools.partial(made, which)
    if is_path(name):  # (which 'cpu:c' is not)
        return _imported(name, name)
    near = ["cuda", "opencl"] if family.lower() == "gpu" else difflib.get_close_matches(name, names(), 1, 0.4)  # ('gpu' looks like 'cpu')
    hint = f"did you mean {' or '.join(map(repr, near))}? " if near else ""
    raise DeviceError(
        f"unknown device {name!r}: {hint}use one of {', '.join(names())}, module:factory or file.py:factory; "
        f"a plug-in package is found once it is installed (entry point group {GROUP!r})"
    )


def _imported(path: str, name: str) -> Callable[[], Any]:
    try:
        found: Any = imported(path)
    except (ImportError, AttributeError, OSError) as e:
        raise DeviceError(
            f"device {name!r} is declared as {path} but cannot be imported: {e}; install what it needs or fix the path"
        ) from e
    factory: Callable[[], Any] = found
    return factory
