"""A kernel's schedule as text for a GPU or another device with groups of threads, with its launches as data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..program.hopper import MapNumbers
from .program import ExportedArray


@dataclass(frozen=True)
class Launch:
    """A phase's kernel: a grid of `groups` of so many `threads`, in clusters of `cluster` groups, with `shared` bytes of dynamic shared
    memory."""

    kernel: str
    groups: int
    threads: int
    cluster: int
    shared: int


@dataclass(frozen=True)
class GpuKernel:
    """What the files say. `arguments`: of every kernel in order, places in the arrays, then in `own`: the bytes of buffers that the host makes for a
    call; before them go the tensor maps `maps`, each of the array in its place. `exact`: the recorded call was made on this very device."""

    name: str
    text: str
    arch: str
    arrays: list[ExportedArray]
    launches: list[Launch]
    arguments: list[int]
    own: list[int]
    maps: list[tuple[int, MapNumbers]]
    exact: bool
    facts: Mapping[str, Any]
