"""How much memory can be had here, and refusing what needs more: else the system ends some process when it is touched."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from ..ir.errors import UsageError

# the control groups of Linux that this process is in (v2 and v1) ------------------------------------------------------


def groups(controller: str, proc: str, root: str) -> Iterator[tuple[Path, bool]]:
    """The folder of each group that a controller has of this process, and of those above it, with whether it is one of v1."""
    for line in read(Path(proc)).splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers and controller not in controllers.split(","):
            continue
        base = Path(root) / controller if controllers else Path(root)
        # inside a container the path may be the host's: then only the root of the mount exists, and it is our group
        parts = Path(path.lstrip("/")).parts
        yield from ((base.joinpath(*parts[:n]), bool(controllers)) for n in range(len(parts) + 1))


def read(path: Path) -> str:
    """What a file says; nothing where it cannot be read."""
    try:
        return path.read_text().strip()
    except OSError:
        return ""


# free memory ----------------------------------------------------------------------------------------------------------

WORTH_ASKING = 1 << 26
"""Bytes below which nobody asks: that much is always there, and asking takes a tenth of a millisecond."""
_NO_LIMIT = 1 << 60


class NoRoom(UsageError, MemoryError):
    """What is asked for is larger than the memory that can be had."""


def require_room(nbytes: int, what: str, instead: str = "give a smaller shape") -> None:
    """Raise NoRoom where `what` needs more bytes than can be had; `instead`: what to do then."""
    if nbytes < WORTH_ASKING:
        return
    free = free_memory()
    if nbytes > free:
        raise NoRoom(f"{what} needs {_gib(nbytes)} of memory, and {_gib(free)} can be had here: {instead}")


def free_memory(meminfo: str = "/proc/meminfo", proc: str = "/proc/self/cgroup", root: str = "/sys/fs/cgroup") -> int:
    """Bytes that can be had without swapping: what is free and what the system would give back, within the limits of this process's
    cgroups (v2 and v1) and of its address space."""
    left = (_group_free(group, v1) for group, v1 in groups("memory", proc, root))
    rooms = [_available(meminfo), *(n for n in left if n is not None), *_address_space()]
    return max(0, min(rooms))


def _available(meminfo: str) -> int:
    try:
        with open(meminfo) as f:
            kib = next((int(line.split()[1]) for line in f if line.startswith("MemAvailable:")), 0)
    except (OSError, ValueError):
        kib = 0
    names = os.sysconf_names
    pages = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") if "SC_AVPHYS_PAGES" in names else 0
    return kib * 1024 or pages or _NO_LIMIT


def _group_free(group: Path, v1: bool) -> int | None:
    """What is left of a group's limit."""
    limit, used = ("memory.limit_in_bytes", "memory.usage_in_bytes") if v1 else ("memory.max", "memory.current")
    try:
        most, now = int(read(group / limit)), int(read(group / used))
    except ValueError:  # "max", or no such file
        return None
    if most >= _NO_LIMIT:
        return None
    # files in memory count as used, and are dropped where somebody needs the room
    stat = dict(line.split() for line in read(group / "memory.stat").splitlines() if len(line.split()) == 2)
    dropped = int(stat.get("total_inactive_file" if v1 else "inactive_file", 0))
    return most - now + dropped


def _address_space() -> Iterator[int]:
    """What RLIMIT_AS leaves."""
    try:
        import resource

        most, _ = resource.getrlimit(resource.RLIMIT_AS)
    except (ImportError, OSError):
        return
    if most == resource.RLIM_INFINITY:
        return
    try:
        used = int(read(Path("/proc/self/statm")).split()[0]) * resource.getpagesize()
    except (IndexError, ValueError):
        used = 0
    yield most - used


def _gib(nbytes: int) -> str:
    size = nbytes / (1 << 30)
    return f"{size:,.0f} GiB" if size >= 100 else f"{size:.1f} GiB"
