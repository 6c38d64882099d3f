"""The control groups of Linux that this process is in (v2 and v1)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path


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
