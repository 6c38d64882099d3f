"""Targets by name: those of the table, and `host`, this machine."""

from __future__ import annotations

import functools
import os
from dataclasses import replace

from ..ir.errors import DeviceError
from . import detect
from .table import entry, vector_shape
from .target import Target

# here -------------------------------------------------------------------------------------------------------
# This machine as another one: TILEWRIGHT_TARGET names a processor, and code here uses no more than that one has.
#
# It only ever takes features away. Name, caches and cores stay those of this machine: it is what runs. So its key is
# the key of this processor with fewer features, which no measurement of the whole machine has, nor one of the processor
# that was named.


VARIABLE = "TILEWRIGHT_TARGET"


def asked() -> str:
    """What TILEWRIGHT_TARGET names; '' where it is not set, or says 'host'."""
    name = os.environ.get(VARIABLE, "").strip()
    return "" if name == "host" else name


def host() -> Target:
    """What code may use in this process: this machine, or what TILEWRIGHT_TARGET leaves of it. Raises DeviceError
    where it names no processor, or one that has what this machine has not. (The environment is asked each time, so
    helper processes and tests need nothing else.)"""
    name = asked()
    return _lowered(name) if name else detect.machine()


def lowered() -> str:
    """'TILEWRIGHT_TARGET=NAME' where that takes something away from this machine, else ''."""
    return f"{VARIABLE}={asked()}" if host().features != detect.machine().features else ""


def command_prefix(device: str) -> list[str]:
    """What a command line begins with that shall do the same on `device` in another shell: the assignment where that device is lowered."""
    return [lowered()] if device.partition(":")[0] == "cpu" and lowered() else []


@functools.cache
def _lowered(name: str) -> Target:
    machine = detect.machine()
    try:
        wanted = entry(name)
    except DeviceError as e:
        raise DeviceError(f"{VARIABLE}: {e}") from e
    if wanted.lang != "llvm":
        raise DeviceError(
            f"{VARIABLE}={name} is not a processor ({wanted.kind}, {wanted.lang}): it lowers what the cpu device may use; name one such as x86-64-v3"
        )
    if wanted.arch != machine.arch:
        raise DeviceError(
            f"{VARIABLE}={name} is {wanted.arch} and this machine is {machine.arch}: name a processor of its kind, or unset it"
        )
    missing = sorted(wanted.features - detect.features())
    if missing:
        raise DeviceError(
            f"{VARIABLE}={name} needs {', '.join(missing)}, which this machine ({machine.name}) has not: it can only be lowered; name an older processor, or unset it"
        )
    features = detect.usable(wanted.features)
    width, registers = vector_shape(machine.arch, features)
    return replace(machine, features=features, vector_bytes=width, registers=registers)


# named ------------------------------------------------------------------------------------------------------
def named(name: str) -> Target:
    """The target called `name`; 'host' is this machine, as far as TILEWRIGHT_TARGET lets it be used. Raises DeviceError that
    suggests the nearest name."""
    return host() if name == "host" else entry(name)
