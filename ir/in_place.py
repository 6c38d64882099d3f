"""Kernels whose outputs are written over their inputs, such as an optimiser's step on its parameters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from .buffer import Buffer
from .errors import KernelError
from .kernel import Kernel
from .rewrite import Rewriter


def in_place(kernel: Kernel, aliases: Mapping[str, str]) -> Kernel:
    """`kernel` with outputs (by name) that may share the memory of the inputs that they are mapped to: the very same
    memory, or none of it. Its key stays what it is. Raises KernelError for a name that is not an output, and where an
    output cannot be written in place (`ir.checks.check`)."""
    outputs = {b.name: b for b in kernel.outputs}
    for name in aliases:
        if name not in outputs:
            raise KernelError(f"{kernel.name} has no output {name!r} that could be in place (outputs: {', '.join(outputs)})")
    return _with(kernel, {outputs[o]: replace(outputs[o], alias=i) for o, i in aliases.items()})


def apart(kernel: Kernel) -> Kernel:
    """`kernel` with memory of its own for every output; what is tuned, and what the cache knows."""
    return _with(kernel, {b: replace(b, alias="") for b in kernel.outputs if b.alias})


def _with(kernel: Kernel, changed: Mapping[Buffer, Buffer]) -> Kernel:
    found = Rewriter(kernel)
    found.buffers = changed
    return found.run() if changed else kernel
