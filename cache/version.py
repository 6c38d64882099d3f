"""Version numbers: the schema of the cache, and a digest of the code that turns options into source.

The digest is what `Row.tool_version` and the artefact store use: as long as it is equal, the same options of the same kernel
give the same source, so nothing has to be rendered again to know that a row is valid.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import cache
from pathlib import Path

SCHEMA = 2
"""Of the tables. 2: `tilewright_tally` counts the rows of each key, so that rows which a damaged index hides are missed."""
SERVER_SCHEMA = 3
"""The same on servers. 3: rows have change numbers, by which mirrors pull."""
OLDEST = 1
"""The first schema whose tables are read as they are; writing migrates them."""
BUNDLE_SCHEMA = 1
"""Of bundles."""

CODE = ("ir", "targets", "opts", "program", "lower", "renderers")
"""The folders whose code decides what source a schedule becomes."""
CHOICE = ("heuristics",)
"""The folders whose code, beside that, decides which start schedule a kernel has."""


@cache
def tool_version() -> str:
    """16 hex digits over the content of every Python file in `CODE`, computed once a process (some milliseconds)."""
    return digest(Path(__file__).resolve().parent.parent)


@cache
def start_version() -> str:
    """The same of the code that chooses start schedules: one that is remembered is not another version's."""
    return f"{tool_version()} {digest(Path(__file__).resolve().parent.parent, CHOICE)}"


def digest(root: Path, folders: Sequence[str] = CODE) -> str:
    """The code digest of some folders of the package at `root`."""
    h = hashlib.sha256()
    for path in sorted(p for folder in folders for p in (root / folder).rglob("*.py")):
        name, text = path.relative_to(root).as_posix().encode(), path.read_bytes()
        h.update(b"%d %s %d " % (len(name), name, len(text)))
        h.update(text)
    return h.hexdigest()[:16]
