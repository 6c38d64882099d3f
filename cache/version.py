"""Version numbers: the schema of the cache, and a digest of the code that turns options into source.

The digest is what `Row.tool_version` and the artefact store use: as long as it is equal, the same options of the same kernel
give the same source, so nothing has to be rendered again to know that a row is valid.
"""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path

SCHEMA = 2
"""Of the tables. 2: `tilewright_tally` counts the rows of each key, so that rows which a damaged index hides are missed."""
OLDEST = 1
"""The first schema whose tables are read as they are; writing migrates them."""
BUNDLE_SCHEMA = 1
"""Of bundles."""

CODE = ("ir", "targets", "opts", "program", "lower", "renderers")
"""The folders whose code decides what source a schedule becomes."""


@cache
def tool_version() -> str:
    """16 hex digits over the content of every Python file in `CODE`, computed once a process (some milliseconds)."""
    return digest(Path(__file__).resolve().parent.parent)


def digest(root: Path) -> str:
    """The code digest of the package at `root`."""
    h = hashlib.sha256()
    for path in sorted(p for folder in CODE for p in (root / folder).rglob("*.py")):
        name, text = path.relative_to(root).as_posix().encode(), path.read_bytes()
        h.update(b"%d %s %d " % (len(name), name, len(text)))
        h.update(text)
    return h.hexdigest()[:16]
