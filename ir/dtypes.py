"""Element types, and rounding to them. Floats of 16 and 8 bits are storage types: arithmetic on them happens in float32.

The 8-bit floats are those of the OCP 8-bit Floating Point Specification (OFP8) 1.0 of 2023. float8_e4m3 (e4m3fn) has no
infinities: its largest number is 448 and 0x7f is its NaN. float8_e5m2 has infinities, as float16 does. A number that is
converted to one of them is rounded to the nearest, ties to even. What is too large becomes infinite in float8_e5m2, and
NaN in float8_e4m3 (an infinity too): as ml_dtypes and PyTorch's plain casts have it, and not saturating."""

from __future__ import annotations

import math
import struct
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from .errors import DTypeError

if TYPE_CHECKING:
    import numpy as np


DTypeName = Literal[
    "float64", "float32", "float16", "bfloat16", "float8_e4m3", "float8_e5m2", "int64", "int32", "int16", "int8", "uint64", "uint32",
    "uint16", "uint8", "bool", "f64", "f32", "f16", "fp32", "fp16", "bf16", "half", "fp8", "float8_e4m3fn", "e4m3", "e5m2", "bool_",
]  # fmt: skip
"""What an element type may be called."""
DTypeLike: TypeAlias = "DType | DTypeName | np.dtype[Any] | type[np.generic]"
"""What `dtype` understands: an element type, its name, or NumPy's (`np.float32`, `np.dtype("f4")`, ml_dtypes' types)."""


_PYTHONS: dict[Any, str] = {float: "float64", int: "int64", bool: "bool", complex: "complex128"}
"""What NumPy takes Python's own types for."""


_NUMPYS_NAMES = frozenset(
    {
        "alignment",
        "base",
        "byteorder",
        "char",
        "descr",
        "fields",
        "flags",
        "hasobject",
        "isnative",
        "metadata",
        "names",
        "num",
        "str",
        "subdtype",
    }
)
"""Attributes that a type has from NumPy's."""


@dataclass(frozen=True, slots=True, eq=False)
class DType:
    """One element type. `kind` is 'f' (float), 'i' (signed), 'u' (unsigned) or 'b' (bool); `size` is in bytes. NumPy takes it for
    its own type of that name, and it is equal to that, as to what NumPy's is equal to: the name, and Python's type."""

    name: str
    kind: str
    size: int
    is_float: bool = field(init=False)
    is_int: bool = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "is_float", self.kind == "f")
        object.__setattr__(self, "is_int", self.kind in "iu")

    def __repr__(self) -> str:
        return self.name

    def __reduce__(self) -> tuple[Any, ...]:
        return _named, (self.name,)

    __hash__ = object.__hash__  # (there is one object of each type)

    def __eq__(self, other: object) -> bool:
        if type(other) is DType:
            return self is other
        if isinstance(other, (bytes, int, float, tuple, list)) or other is None:
            return NotImplemented
        if isinstance(other, str) or (isinstance(other, type) and other in _PYTHONS):
            name = other if isinstance(other, str) else _PYTHONS[other]
            return self.name == name or (other is name and "numpy" in sys.modules and self.np == name)  # ("f8")
        return "numpy" in type(other).__module__ + getattr(other, "__module__", "") and self.np == other  # (its types and their classes)

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        """NumPy's class of types for `isinstance`: libraries ask for it before they look at a type."""
        return _numpys_class()

    def __getattr__(self, name: str) -> Any:
        if name not in _NUMPYS_NAMES:
            raise AttributeError(f"'DType' object has no attribute {name!r}")
        return getattr(self.np, name)

    @property
    def itemsize(self) -> int:
        """NumPy's name of `size`."""
        return self.size

    @property
    def dtype(self) -> np.dtype[Any]:
        """NumPy's own type: where `np.dtype` is asked for this one, it looks here."""
        return self.np

    @property
    def type(self) -> type[np.generic]:
        """NumPy's class of its elements."""
        return self.np.type

    @property
    def limits(self) -> tuple[int, int]:
        """The smallest and the largest number of an integer type."""
        bits = 8 * self.size
        return (0, 2**bits - 1) if self.kind == "u" else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)

    @property
    def compute(self) -> DType:
        """The type arithmetic on this type is done in (floats of 16 and 8 bits → float32; else itself)."""
        return float32 if self.narrow else self

    @property
    def narrow(self) -> bool:
        """Whether this is a storage type: a float of 16 or 8 bits, which is cast to float32 before it is computed with."""
        return self.is_float and self.size <= 2

    @property
    def acc(self) -> DType:
        """The type a sum of this type is accumulated in."""
        if self.is_float:
            return self.compute
        return int32 if self.is_int and self.size < 4 else self

    @property
    def eps(self) -> float:
        """Unit roundoff times two (the gap after 1.0); 0 for integers."""
        return FORMATS[self.name].eps if self.is_float else 0.0

    @property
    def np(self) -> np.dtype[Any]:
        """The NumPy dtype (those of bfloat16 and the 8-bit floats come from ml_dtypes)."""
        return _numpys(self.name)

    @property
    def foreign(self) -> bool:
        """Whether NumPy itself lacks the type, so that its bits may come as unsigned integers of its size."""
        return self.name in _ML_DTYPES


@cache
def _numpys(name: str) -> np.dtype[Any]:
    """NumPy's type of a name of ours."""
    import numpy as np

    if name in _ML_DTYPES:
        import ml_dtypes

        found: np.dtype[Any] = np.dtype(getattr(ml_dtypes, _ML_DTYPES[name]))
        return found
    return np.dtype(name)


float64 = DType("float64", "f", 8)
float32 = DType("float32", "f", 4)
float16 = DType("float16", "f", 2)
bfloat16 = DType("bfloat16", "f", 2)
float8_e4m3 = DType("float8_e4m3", "f", 1)
float8_e5m2 = DType("float8_e5m2", "f", 1)
int64 = DType("int64", "i", 8)
int32 = DType("int32", "i", 4)
int16 = DType("int16", "i", 2)
int8 = DType("int8", "i", 1)
uint64 = DType("uint64", "u", 8)
uint32 = DType("uint32", "u", 4)
uint16 = DType("uint16", "u", 2)
uint8 = DType("uint8", "u", 1)
bool_ = DType("bool", "b", 1)
complex64 = DType("complex64", "c", 8)
complex128 = DType("complex128", "c", 16)
"""Complex types, which tensors have and kernels do not: `dtype` does not know them."""
index = int64
"""The type of axes and of index arithmetic."""

_FLOATS = (float64, float32, float16, bfloat16, float8_e4m3, float8_e5m2)
_ALL = {d.name: d for d in (*_FLOATS, int64, int32, int16, int8, uint64, uint32, uint16, uint8, bool_)}
_COMPLEX = {d.name: d for d in (complex64, complex128)}
_ML_DTYPES = {"bfloat16": "bfloat16", "float8_e4m3": "float8_e4m3fn", "float8_e5m2": "float8_e5m2"}
_ALIASES = {
    "f64": "float64",
    "f32": "float32",
    "f16": "float16",
    "fp32": "float32",
    "fp16": "float16",
    "bf16": "bfloat16",
    "half": "float16",
    "fp8": "float8_e4m3",
    "float8_e4m3fn": "float8_e4m3",
    "e4m3": "float8_e4m3",
    "e5m2": "float8_e5m2",
    "bool_": "bool",
}


@dataclass(frozen=True)
class FloatFormat:
    """The bits of a float type: `size` of them, `mantissa` after the point. In a type that is not `infinite`, the last magnitude alone is
    no number, where other types have infinity and NaN."""

    size: int
    mantissa: int
    infinite: bool = True

    @cached_property
    def sign(self) -> int:
        """The bit of the sign."""
        return 1 << (self.size - 1)

    @cached_property
    def bias(self) -> int:
        """What is added to an exponent."""
        return (1 << (self.size - self.mantissa - 2)) - 1

    @cached_property
    def top(self) -> int:
        """The bits of the first magnitude that is no number: an infinity, or NaN in a type without."""
        return self.sign - (1 << self.mantissa if self.infinite else 1)

    @cached_property
    def nan(self) -> int:
        """The bits of its NaN."""
        return self.top | 1 << (self.mantissa - 1)

    @cached_property
    def eps(self) -> float:
        """The gap after 1."""
        return 2.0**-self.mantissa

    @cached_property
    def least(self) -> float:
        """The smallest subnormal number."""
        return 2.0 ** (1 - self.bias - self.mantissa)

    @cached_property
    def largest(self) -> float:
        """The largest number."""
        exponent, rest = divmod(self.top - 1, 1 << self.mantissa)
        return math.ldexp(rest + (1 << self.mantissa), exponent - self.bias - self.mantissa)

    @cached_property
    def limit(self) -> float:
        """From here on numbers round to infinity, or NaN: half way between the largest number and what would follow it, where the even one
        is chosen. The largest float64 instead of that type's own limit, which it cannot hold."""
        half = math.ldexp(0.5, math.frexp(self.largest)[1] - 1 - self.mantissa)
        return min(self.largest + half, sys.float_info.max)

    @cached_property
    def overflow(self) -> int:
        """The bits of the largest float32 that is rounded to a number."""
        bits: int = struct.unpack("<I", struct.pack("<f", self.limit))[0]
        return bits - (self.bits(self.limit) == self.top)

    def rounded(self, value: float) -> float:
        """A float64 rounded once to nearest even."""
        if math.isnan(value):
            return value
        if math.isfinite(value):
            # scaled so that one unit is the last bit of the result; round() is to nearest even
            unit = max(math.frexp(value)[1] - 1, 1 - self.bias) - self.mantissa
            short = math.copysign(math.ldexp(round(math.ldexp(value, -unit)), unit), value)
            if abs(short) <= self.largest:
                return short
        return math.copysign(math.inf, value) if self.infinite else math.nan

    def bits(self, value: float) -> int:
        """The bits of a float64, rounded once to nearest even."""
        sign = self.sign if math.copysign(1.0, value) < 0 else 0
        if math.isnan(value) or math.isinf(value):
            return sign | (self.nan if math.isnan(value) else self.top)
        # scaled so that one unit is the last bit of the result; round() is to nearest even, and a carry moves the exponent on
        exponent = max(math.frexp(value)[1] - 1 if value else 1 - self.bias, 1 - self.bias)
        short = round(math.ldexp(abs(value), self.mantissa - exponent)) + ((exponent + self.bias - 1) << self.mantissa)
        return sign | min(short, self.top)


FORMATS: Mapping[str, FloatFormat] = {
    "float64": FloatFormat(64, 52),
    "float32": FloatFormat(32, 23),
    "float16": FloatFormat(16, 10),
    "bfloat16": FloatFormat(16, 7),
    "float8_e4m3": FloatFormat(8, 3, infinite=False),
    "float8_e5m2": FloatFormat(8, 2),
}
OVERFLOW = {name: f.limit for name, f in FORMATS.items()}
"""From here on numbers round to infinity, or NaN where a type has none."""
HALF_SUBNORMAL = {name: f.least / 2 for name, f in FORMATS.items()}
"""The absolute rounding of subnormal numbers; 0 for float64, which cannot hold it."""


def _named(name: str) -> DType:
    return _COMPLEX[name] if name in _COMPLEX else dtype(name)


def complex_named(name: Any) -> DType | None:
    """The complex type of that name, or of Python's or NumPy's; None for all else."""
    if isinstance(name, DType):
        return name if name.kind == "c" else None
    called = (
        "complex128" if name is complex else name if isinstance(name, str) else getattr(name, "name", None) or getattr(name, "__name__", "")
    )
    return _COMPLEX.get(called) if isinstance(called, str) else None


def dtype(name: Any) -> DType:
    """The element type of that name, or of a type of NumPy's (see DTypeLike). Raises DTypeError, with the list of names, for
    what is none, and for NumPy types that only look alike: another byte order, or ml_dtypes' IEEE-like float8_e4m3."""
    if isinstance(name, DType):
        return name
    if name is float or name is int:
        raise DTypeError(f"Python's {name.__name__} has no size; give {'float32 or float64' if name is float else 'int32 or int64'}")
    called = name if isinstance(name, str) else getattr(name, "name", None) or getattr(name, "__name__", None)
    found = _ALL.get(_ALIASES.get(called, called)) if isinstance(called, str) else None
    if found is None:
        raise DTypeError(f"unknown dtype {called or name!r}; use one of {', '.join(_ALL)}")
    if not isinstance(name, str) and not _is_same_type(name, found):
        raise DTypeError(f"{name!r} of NumPy is not the {found.name} of kernels, {found.np!r}: convert the arrays")
    return found


def is_dtype(name: str) -> bool:
    """Whether an element type is called so."""
    return name in _ALL or name in _ALIASES or name in _COMPLEX


def _numpys_class() -> Any:
    """`np.dtype`, where somebody has NumPy."""
    numpy = sys.modules.get("numpy")
    return getattr(numpy, "dtype", DType)


def _is_same_type(given: Any, found: DType) -> bool:
    """Whether an object that is called as `found` is that type, as far as NumPy knows it."""
    import numpy as np

    if not isinstance(given, np.dtype) and not (isinstance(given, type) and issubclass(given, np.generic)):
        return True
    same: bool = np.dtype(given) == found.np
    return same


def rounded(value: Any, dtype: DType) -> Any:
    """A Python number as its type holds it: floats are rounded once to nearest even (what is too large is infinite, or NaN where a type
    has no infinities), integers wrap."""
    if dtype.is_float:
        return FORMATS[dtype.name].rounded(float(value))
    if dtype.is_int:
        bits = 8 * dtype.size
        value = int(value) & ((1 << bits) - 1)
        return value - (1 << bits) if dtype.kind == "i" and value >> (bits - 1) else value
    return value
