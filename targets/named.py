"""Targets by name: those of the table, and `host`, this machine."""

from __future__ import annotations

from .here import host
from .table import entry
from .target import Target


def named(name: str) -> Target:
    """The target called `name`; 'host' is this machine, as far as TILEWRIGHT_TARGET lets it be used. Raises DeviceError that
    suggests the nearest name."""
    return host() if name == "host" else entry(name)
