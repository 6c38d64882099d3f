"""Our schedule beside another library's own kernel: each in a process of its own, in turns. `versus.py` is where to
begin."""

from __future__ import annotations
