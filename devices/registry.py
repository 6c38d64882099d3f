"""Finds devices: the built-in one, those registered here, entry points of the group "tilewright.devices", and by import path.

`get` takes a name (`cpu`), or `package.module:attribute`, or `path/file.py:attribute`; the attribute is called without
arguments and returns a Device. The import forms are how another process (the measuring runner) finds a device that only a test
or a script knows: pass `device.spec`."""

from __future__ import annotations

import difflib
import functools
import importlib
import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ..ir.errors import DeviceError, TilewrightError
from ..log import logger
from .base import Device
from .once import process_lock

GROUP = "tilewright.devices"
_BUILTIN = {
    "cpu": ("cpu.device", "CpuDevice"),
    "cpu:c": ("cpu.c_compiler", "CpuCDevice"),
    "opencl": ("opencl.device", "OpenClDevice"),
    "cuda": ("cuda.device", "CudaDevice"),
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
    return tuple(sorted({*_BUILTIN, *_FACTORIES, *_entry_points()}))


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
    device = _made(name)
    if not isinstance(device, Device):
        raise DeviceError(f"device {name!r}: its factory returned {type(device).__name__}, not a tilewright Device")
    device.spec = device.spec or name
    found = _MADE[name] = device
    log.debug("device %s is made by %s", name, type(device).__qualname__)
    return found


def _made(name: str) -> Any:
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
    points = _entry_points()
    if name in points:
        return _imported(points[name], name)
    family, _, which = name.partition(":")
    if family in _CHOOSING and family in _BUILTIN and which:
        made: Callable[..., Any] = _factory(family)
        return functools.partial(made, which)
    module, _, attribute = name.rpartition(":")
    # 'cpu:c' is a device's name, 'package.module:thing' and 'file.py:thing' are import paths
    if attribute.isidentifier() and ("." in module or _importable(module)):
        return _imported(name, name)
    near = difflib.get_close_matches(name, names(), 1, 0.4)
    hint = f"did you mean {near[0]!r}? " if near else ""
    raise DeviceError(
        f"unknown device {name!r}: {hint}use one of {', '.join(names())}, module:factory or file.py:factory; "
        f"a plug-in package is found once it is installed (entry point group {GROUP!r})"
    )


def _importable(module: str) -> bool:
    return bool(module) and module.isidentifier() and importlib.util.find_spec(module) is not None


def _imported(path: str, name: str) -> Callable[[], Any]:
    module, _, attribute = path.rpartition(":")
    try:
        space = _module_file(Path(module)) if module.endswith(".py") else importlib.import_module(module)
        found: Any = space
        for part in attribute.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError, OSError) as e:
        raise DeviceError(
            f"device {name!r} is declared as {path} but cannot be imported: {e}; install what it needs or fix the path"
        ) from e
    factory: Callable[[], Any] = found
    return factory


def _module_file(file: Path) -> Any:
    """The module in a file, loaded once a process."""
    file = file.resolve()
    key = f"tilewright_device_{file.stem}_{abs(hash(str(file)))}"
    if key in sys.modules:
        return sys.modules[key]
    spec = importlib.util.spec_from_file_location(key, file)
    if spec is None or spec.loader is None or not file.is_file():
        raise ImportError(f"there is no file {file}")
    module = importlib.util.module_from_spec(spec)
    sys.modules[key] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[key]
        raise
    return module


@functools.cache
def _entry_points() -> dict[str, str]:
    from importlib.metadata import entry_points

    return {e.name: e.value for e in entry_points(group=GROUP)}
