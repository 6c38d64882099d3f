"""How much memory options may ask for, and which buffers are taken to be in memory.

A schedule that no machine has room for is illegal, and never tried; what this machine has no room for is found where it is loaded
(`devices/cpu/executable.py`)."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Protocol

from ..ir import index as ix
from ..ir.errors import OptError
from ..ir.node import Node
from ..targets import Target
from .opt import Opt
from .schedule import Scheduled

MAX_WORK_BYTES = 1 << 28
"""Of what SPLIT keeps between its two kernels."""
MAX_PROGRAM_BYTES = 1 << 31
"""Of all panels, tiles and workspaces of a program, on every core of its target."""


def check_work(o: Opt, size: int) -> None:
    """Raise OptError where the partial results of `o`, a SPLIT, take too much."""
    if size > MAX_WORK_BYTES:
        raise OptError(f"{o}: the partial results would take {_mib(size)}; at most {_mib(MAX_WORK_BYTES)} are allowed: take fewer chunks")


def check_stages(s: Scheduled) -> None:
    """Raise OptError where what is staged takes too much: panels that are packed once, and tiles of every core; or the tiles that a
    group keeps in shared memory, with all of their slots."""
    if s.group > 1:
        total = sum(p.bytes for p in s.stages.values())
        if total > s.target.shared:
            tiles = " and ".join(f"{p.bytes} for {p.buffer.name}{f' in {p.depth} slots' if p.depth > 1 else ''}" for p in s.stages.values())
            raise OptError(
                f"STAGE: the tiles take {tiles} bytes of shared memory; {s.target.name} has {s.target.shared}: use smaller tiles"
            )
        return
    once = sum(p.bytes for p in s.stages.values() if p.once)
    each = sum(p.bytes for p in s.stages.values() if not p.once)
    check_total(s.target, f"STAGE of {', '.join(s.stages)}", once, each)


def check_total(target: Target, what: str, shared: int, each: int, most: int = MAX_PROGRAM_BYTES) -> None:
    """Raise OptError where `shared` bytes and `each` bytes a core take more than `most`."""
    total = total_bytes(target, shared, each)
    if total > most:
        raise OptError(
            f"{what}: {_mib(shared)} and {_mib(each)} for each of {target.cores} cores are {_mib(total)}; at most {_mib(most)} are allowed: use smaller tiles"
        )


class MemoryNeeds(Protocol):
    """What a program asks for: bytes of workspace, and of scratch for each core."""

    work: int
    scratch: int


def check_program(target: Target, name: str, made: MemoryNeeds, plain: Callable[[], MemoryNeeds]) -> None:
    """Raise OptError where a whole program takes too much. What the kernel itself keeps, in the program without
    options, is no fault of theirs."""
    if total_bytes(target, made.work, made.scratch) > MAX_PROGRAM_BYTES:
        bare = plain()
        check_total(target, name, made.work, made.scratch, max(MAX_PROGRAM_BYTES, total_bytes(target, bare.work, bare.scratch)))


def total_bytes(target: Target, shared: int, each: int) -> int:
    """Bytes of a program on all cores. On GPUs, what threads keep of their own is the driver's business."""
    return shared + (each * target.cores if target.kind == "cpu" else 0)


def _mib(size: int) -> str:
    return f"{size >> 20} MiB"


FAR_CACHES = 4
"""Buffers of more than so many second-level caches are taken to be in memory: the last cache is shared, and seldom all ours."""


def buffer_bytes(shape: tuple[int | Node, ...], size: int) -> int:
    """The bytes of a buffer of elements of `size` bytes; symbolic extents count with their upper bounds, and with 1 at least."""
    return size * prod(n if isinstance(n, int) else max(1, ix.bounds(n)[1]) for n in shape)


def is_far(target: Target, shape: tuple[int | Node, ...], size: int) -> bool:
    """Whether a buffer of elements of `size` bytes is taken to be in memory."""
    return buffer_bytes(shape, size) > FAR_CACHES * target.l2
