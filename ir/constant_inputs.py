"""Inputs that keep their contents from call to call, such as the weights of a trained model: what is packed of them is packed once."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from .errors import KernelError
from .kernel import Kernel
from .rewrite import Rewriter


def with_constants(kernel: Kernel, names: Iterable[str]) -> Kernel:
    """`kernel` with these inputs (by name) constant. Raises KernelError for a name that is not an input."""
    wanted = list(names)
    inputs = {b.name: b for b in kernel.inputs}
    for name in wanted:
        if name not in inputs:
            raise KernelError(f"{kernel.name} has no input {name!r} that could be constant (inputs: {', '.join(inputs) or 'none'})")
    found = Rewriter(kernel)
    found.buffers = {inputs[n]: replace(inputs[n], constant=True) for n in wanted}
    return found.run() if wanted else kernel
