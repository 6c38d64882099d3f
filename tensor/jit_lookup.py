"""The kernels of a captured function: looked up in the cache, each distinct one once, and built."""

from __future__ import annotations

from collections.abc import Sequence

from .calls import Call, KernelCall
from .jit_options import JitOptions
from .programs import prog_of
from .replay import LinkedCall


def linked(calls: Sequence[Call], device: str, options: JitOptions) -> list[LinkedCall]:
    """Every call with its executable."""
    out = []
    for c in calls:
        executable = prog_of(c.kernel, device, options.threads, options.cache).executable if isinstance(c, KernelCall) else None
        out.append(LinkedCall(c, executable))
    return out
