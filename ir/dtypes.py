"""Element types. float16 and bfloat16 are storage types: arithmetic on them happens in float32."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .errors import KernelError

if TYPE_CHECKING:
    import numpy as np


@dataclass(frozen=True, slots=True)
class DType:
    """One element type. `kind` is 'f' (float), 'i' (signed), 'u' (unsigned) or 'b' (bool); `size` is in bytes."""

    name: str
    kind: str
    size: int

    def __repr__(self) -> str:
        return self.name

    def __reduce__(self) -> tuple[Any, ...]:
        return dtype, (self.name,)

    @property
    def is_float(self) -> bool:
        return self.kind == "f"

    @property
    def is_int(self) -> bool:
        return self.kind in "iu"

    @property
    def compute(self) -> DType:
        """The type arithmetic on this type is done in (float16, bfloat16 → float32; else itself)."""
        return float32 if self.is_float and self.size == 2 else self

    @property
    def acc(self) -> DType:
        """The type a sum of this type is accumulated in."""
        if self.is_float:
            return self.compute
        return int32 if self.is_int and self.size < 4 else self

    @property
    def eps(self) -> float:
        """Unit roundoff times two (the gap after 1.0); 0 for integers."""
        return _EPS.get(self.name, 0.0)

    @property
    def np(self) -> np.dtype[Any]:
        """The NumPy dtype (bfloat16 comes from ml_dtypes)."""
        import numpy as np

        if self.name == "bfloat16":
            import ml_dtypes

            found: np.dtype[Any] = np.dtype(ml_dtypes.bfloat16)
            return found
        return np.dtype("bool" if self.kind == "b" else self.name)


float64 = DType("float64", "f", 8)
float32 = DType("float32", "f", 4)
float16 = DType("float16", "f", 2)
bfloat16 = DType("bfloat16", "f", 2)
int64 = DType("int64", "i", 8)
int32 = DType("int32", "i", 4)
int16 = DType("int16", "i", 2)
int8 = DType("int8", "i", 1)
uint64 = DType("uint64", "u", 8)
uint32 = DType("uint32", "u", 4)
uint16 = DType("uint16", "u", 2)
uint8 = DType("uint8", "u", 1)
bool_ = DType("bool", "b", 1)
index = int64
"""The type of axes and of index arithmetic."""

_ALL = {d.name: d for d in (float64, float32, float16, bfloat16, int64, int32, int16, int8, uint64, uint32, uint16, uint8, bool_)}
_EPS = {"float64": 2.0**-52, "float32": 2.0**-23, "float16": 2.0**-10, "bfloat16": 2.0**-7}
_ALIASES = {
    "f64": "float64",
    "f32": "float32",
    "f16": "float16",
    "fp32": "float32",
    "fp16": "float16",
    "bf16": "bfloat16",
    "half": "float16",
}


def dtype(name: str | DType) -> DType:
    """The element type called `name`; raises KernelError with the list of names."""
    if isinstance(name, DType):
        return name
    found = _ALL.get(_ALIASES.get(name, name))
    if found is None:
        raise KernelError(f"unknown dtype {name!r}; use one of {', '.join(_ALL)}")
    return found
