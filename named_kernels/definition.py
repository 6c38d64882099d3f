"""What a named kernel says about itself, and what several of them share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ..ir.buffer import Extent
from ..ir.dtypes import DType, DTypeLike
from ..ir.dtypes import dtype as dtype_of
from ..ir.errors import KernelError
from ..ir.index import bounds
from ..ir.kernel import Kernel
from ..ir.node import Node

Shape = Mapping[str, Any]
"""Size by name: an int, or (for extents) an index node such as `ir.sym("m", 1, 4096)`."""
Make = Callable[[Shape, DType], Kernel]
CONSTANT = ":constant="
"""Separates a kernel's name or path from its constant inputs."""
FLOATS = ("float32", "float16", "bfloat16", "float64")
FP8 = ("float8_e4m3", "float8_e5m2")


@dataclass(frozen=True)
class KernelDef:
    """A named kernel. `make(shape, dtype)` writes it as a Kernel. `default_shape` is sized for tuning, `odd_shape` is small and
    indivisible. `minimum` holds the least value of a size where it is not 1."""

    name: str
    doc: str
    default_shape: Mapping[str, int]
    odd_shape: Mapping[str, int]
    dtypes: tuple[str, ...]
    make: Make
    minimum: Mapping[str, int] = field(default_factory=dict)

    @property
    def shape_names(self) -> tuple[str, ...]:
        """The names of its sizes."""
        return tuple(self.default_shape)

    def complete(self, shape: Mapping[str, Extent] | None) -> dict[str, Extent]:
        """`shape` with missing sizes from the default; KernelError for an unknown name or a size out of range."""
        full: dict[str, Extent] = dict(self.default_shape)
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


def definition(
    doc: str, default: Mapping[str, int], odd: Mapping[str, int], dtypes: tuple[str, ...] = FLOATS, minimum: Mapping[str, int] | None = None
) -> Callable[[Make], KernelDef]:
    """A decorator of a function that makes a kernel: the definition of the kernel of the function's name."""
    return lambda make: KernelDef(make.__name__, doc, default, odd, dtypes, make, minimum or {})


def is_path(name: str) -> bool:
    """Whether `name` means a file (`my.py:function` or `my.py`) and not a named kernel."""
    name = name.partition(CONSTANT)[0]
    return ":" in name or name.endswith(".py")


def split_path(name: str) -> tuple[str, str]:
    """(file, function) of `my.py:function`; the function is `make_kernel` where none is named."""
    file, _, function = name.rpartition(":")
    return (file, function) if file else (name, "make_kernel")


def nearest(name: str, known: Iterable[str]) -> str:
    """`; did you mean 'x'?` for the closest of `known`, or nothing when none is close."""
    from difflib import get_close_matches

    found = get_close_matches(name, list(known), n=1, cutoff=0.5)
    return f"; did you mean {found[0]!r}?" if found else ""


def span(dtype: DType) -> tuple[int, int] | None:
    """The range of an integer input: all of int8; for wider types, narrow enough that sums of 2¹⁰ elements do not wrap."""
    if not dtype.is_int:
        return None
    return (-128, 127) if dtype.size == 1 else (-(1 << 20), 1 << 20)


def sum_type(dtype: DType) -> DType:
    """The stored type of a sum or product of `dtype` elements: floats keep their type, small integers widen to int32."""
    return dtype.acc if dtype.is_int else dtype


def ids_range(extent: Extent) -> tuple[int, int]:
    """The range of indices into a dimension: valid for every value of a symbolic extent."""
    least = extent if isinstance(extent, int) else bounds(extent)[0]
    return 0, max(0, least - 1)
