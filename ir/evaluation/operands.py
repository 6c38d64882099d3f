"""What a kernel is evaluated on: the values of its symbols, and its inputs as arrays."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from .. import index as ix
from ..buffer import Buffer
from ..checks.operand_ranges import check_operands, highest, operand_ranges
from ..errors import KernelError
from ..kernel import Kernel
from ..node import Node

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]


def bind(kernel: Kernel, inputs: Mapping[str, Array], vars: Mapping[str, int]) -> dict[Node, int]:
    """The value of every symbol: from `vars`, else from an input dimension that is that symbol."""
    out: dict[Node, int] = {}
    for s in kernel.symbols:
        name = s.arg.name
        found = vars.get(name)
        if found is None:
            dims = ((b, d) for b in kernel.inputs if b.name in inputs for d in range(len(b.shape)) if b.shape[d] is s)
            found = next((inputs[b.name].shape[d] for b, d in dims if inputs[b.name].ndim == len(b.shape)), None)
        if found is None:
            raise KernelError(f"kernel {kernel.name}: give symbol {name} in vars")
        if not s.arg.lo <= found <= s.arg.hi:
            raise KernelError(f"kernel {kernel.name}: {name}={found} is outside [{s.arg.lo}, {s.arg.hi}]")
        out[s] = int(found)
    return out


def checked_inputs(kernel: Kernel, inputs: Mapping[str, Array], symbols: dict[Node, int]) -> dict[Buffer, Array]:
    """The arrays by buffer, in the shapes that the kernel declares. Raises KernelError for those that are missing or misshapen,
    and OutOfRangeError for places outside."""
    import numpy as np

    out: dict[Buffer, Array] = {}
    for b in kernel.inputs:
        if b.name not in inputs:
            raise KernelError(f"kernel {kernel.name}: input {b.name} is missing; give {', '.join(x.name for x in kernel.inputs)}")
        a = np.asarray(inputs[b.name])
        if b.dtype.foreign and a.dtype == np.dtype(f"u{b.dtype.size}"):
            a = a.view(b.dtype.np)
        shape = tuple(d if isinstance(d, int) else ix.evaluate(d, symbols) for d in b.shape)
        if a.shape != shape:
            raise KernelError(f"kernel {kernel.name}: input {b.name} has shape {a.shape}, expected {shape}")
        out[b] = a
    ranges = operand_ranges(kernel)
    check_operands(f"kernel {kernel.name}", ranges, highest(ranges, symbols), list(out.values()))
    return out
