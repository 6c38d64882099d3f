"""One piece of memory as thread groups see it in the interpreter."""

from __future__ import annotations

from dataclasses import dataclass

from .ops import Array
from .shadow import Shadow


@dataclass(slots=True)
class GroupBuffer:
    """One parameter, or one piece of the workspace, of shared memory or of scratch, with rows of `size` elements. An input has
    neither marks: `shadow` is for memory that threads share, `written` for scratch."""

    name: str
    data: Array
    size: int
    base: int = 0
    shadow: Shadow | None = None
    written: Array | None = None
    rows: int = 0
    """Threads that have a row together; 0: all of them."""
