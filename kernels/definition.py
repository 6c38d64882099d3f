"""What a named workload says about itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ..ir.buffer import Extent
from ..ir.dtypes import DType, DTypeLike
from ..ir.dtypes import dtype as dtype_of
from ..ir.errors import KernelError
from ..ir.kernel import Kernel
from ..ir.node import Node
from .suggest import nearest

if TYPE_CHECKING:
    import numpy as np

Shape = Mapping[str, Any]
"""Size by name: an int, or (for extents) an index node such as `ir.sym("m", 1, 4096)`."""
Arrays = Mapping[str, "np.ndarray[Any, Any]"]


@dataclass(frozen=True)
class KernelDef:
    """One named workload.

    `make(shape, dtype)` writes it as a Kernel. `reference(inputs, shape)` is an independent NumPy cross-check in float64 (inputs
    and outputs by buffer name). `flops(shape)` counts additions, multiplications, divisions, comparisons for max/min and square
    roots (a fused multiply-add is two; exp, log, tanh, erf are not in it) and `bytes(shape, dtype)` the compulsory traffic: every
    used input element read once, every output element written once. `default_shape` is sized for tuning, `odd_shape` is small
    and indivisible. `minimum` holds the least value of a size where it is not 1.
    """

    name: str
    doc: str
    shape_names: tuple[str, ...]
    default_shape: Mapping[str, int]
    odd_shape: Mapping[str, int]
    dtypes: tuple[str, ...]
    make: Callable[[Shape, DType], Kernel]
    reference: Callable[[Arrays, Shape], dict[str, np.ndarray[Any, Any]]]
    flops: Callable[[Shape], int]
    bytes: Callable[[Shape, DType], int]
    minimum: Mapping[str, int] = field(default_factory=dict)

    def complete(self, shape: Mapping[str, Extent] | None) -> dict[str, Extent]:
        """`shape` with missing sizes from the default; KernelError for an unknown name or a size out of range."""
        full: dict[str, Extent] = {n: self.default_shape[n] for n in self.shape_names}
        for name, value in (shape or {}).items():
            if name not in full:
                raise KernelError(
                    f"{self.name} has no size {name!r}{nearest(name, self.shape_names)}; its sizes are {', '.join(self.shape_names)}"
                )
            least = self.minimum.get(name, 1)
            if isinstance(value, bool) or not isinstance(value, (int, Node)):
                raise KernelError(f"{self.name}: size {name} is {value!r}; give an int")
            if isinstance(value, int) and value < least:
                raise KernelError(f"{self.name}: size {name} is {value}; it must be at least {least}")
            full[name] = value
        return full

    def dtype(self, name: DTypeLike | str | None) -> DType:
        """The element type (default: the first of `dtypes`); KernelError where this kernel does not have it."""
        found = dtype_of(self.dtypes[0] if name is None else name)
        if found.name not in self.dtypes:
            raise KernelError(f"{self.name} is not defined for {found.name}; use one of {', '.join(self.dtypes)}")
        return found

    def kernel(self, shape: Mapping[str, Extent] | None = None, dtype: DTypeLike | str | None = None) -> Kernel:
        """The kernel for a (partial) shape and an element type."""
        return self.make(self.complete(shape), self.dtype(dtype))
