"""Kernels as compiled programs, each distinct one resolved and built once a process."""

from __future__ import annotations

import threading
from collections.abc import Callable
from math import prod
from typing import TYPE_CHECKING, Any

from ..ir.kernel import Kernel

if TYPE_CHECKING:
    from ..plan import Prog

_programs: dict[tuple[str, str, tuple[Any, ...]], Prog] = {}
_lock = threading.Lock()


def program(kernel: Kernel, device: str, threads: int | None = None) -> Callable[..., None]:
    """A call `f(*inputs, *outputs)` on arrays that were checked by the caller."""
    prog = prog_of(kernel, device, threads)
    count = len(kernel.inputs)

    def call(*arrays: Any) -> None:
        shaped = [
            a if a.shape == b.shape else a.reshape(b.shape) for a, b in zip(arrays, prog.kernel.buffers)
        ]  # an equal kernel may declare other shapes
        if any(prod(b.shape) == 0 for b in kernel.outputs):
            return
        out = shaped[count:]
        prog(*shaped[:count], out=tuple(out) if len(out) > 1 else out[0])

    return call


def prog_of(kernel: Kernel, device: str, threads: int | None = None) -> Prog:
    """The compiled kernel."""
    from ..ir.canonical import canonical
    from ..plan import best

    key = (canonical(kernel).identity, device, (threads,))
    with _lock:
        found = _programs.get(key)
    if found is None:
        found = best(kernel, device=device, threads=threads)
        with _lock:
            _programs[key] = found
    return found
