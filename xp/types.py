"""Element types: their limits, kinds and promotion, and what the namespace says about itself."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from typing import Any

from ..ir import dtypes as D
from ..ir.dtypes import DType
from ..ir.errors import DTypeError
from ..tensor.graph.promotion import DEFAULT_INT, default_float, dtype_of, of_scalar, promote, to_float
from ..tensor.ops.complex_numbers import COMPLEX, REAL

KINDS: dict[str, tuple[DType, ...]] = {
    "bool": (D.bool_,),
    "signed integer": (D.int8, D.int16, D.int32, D.int64),
    "unsigned integer": (D.uint8, D.uint16, D.uint32, D.uint64),
    "real floating": (D.float32, D.float64),
    "complex floating": (D.complex64, D.complex128),
}
KINDS["integral"] = KINDS["signed integer"] + KINDS["unsigned integer"]
KINDS["numeric"] = KINDS["integral"] + KINDS["real floating"] + KINDS["complex floating"]
NARROW = (D.float16, D.bfloat16, D.float8_e4m3, D.float8_e5m2)
"""Float types beyond the standard: real floating for `isdtype`, and not listed by `dtypes()`."""


@dataclass(frozen=True)
class FloatLimits:
    """`bits` of the type, the gap `eps` after 1, the largest and least finite numbers, the least normal one."""

    bits: int
    eps: float
    max: float
    min: float
    smallest_normal: float
    dtype: DType


@dataclass(frozen=True)
class IntegerLimits:
    """`bits` of the type, its largest and its least number."""

    bits: int
    max: int
    min: int
    dtype: DType


def _type(x: Any) -> DType:
    return dtype_of(getattr(x, "dtype", x))


def finfo(type: Any, /) -> FloatLimits:
    """The limits of a float type, or of a tensor's."""
    kind = _type(type)
    return _float_limits(REAL.get(kind, kind))


@cache
def _float_limits(kind: DType) -> FloatLimits:
    import ml_dtypes

    if not kind.is_float:
        raise TypeError(f"finfo of {kind}, which is no float type")
    f = ml_dtypes.finfo(kind.np)  # type: ignore[no-untyped-call]
    return FloatLimits(8 * kind.size, float(f.eps), float(f.max), float(f.min), float(f.smallest_normal), kind)


def iinfo(type: Any, /) -> IntegerLimits:
    """The limits of an integer type, or of a tensor's."""
    kind = _type(type)
    if not kind.is_int:
        raise TypeError(f"iinfo of {kind}, which is no integer type")
    bits = 8 * kind.size
    lo, hi = kind.limits
    return IntegerLimits(bits, hi, lo, kind)


def isdtype(dtype: DType, kind: DType | str | tuple[DType | str, ...]) -> bool:
    """Whether a type is of a kind ("bool", "integral", "real floating" …), is another type, or either of several."""
    if isinstance(kind, tuple):
        return any(isdtype(dtype, k) for k in kind)
    if isinstance(kind, DType):
        return dtype is kind
    if kind not in KINDS:
        raise ValueError(f"isdtype: kinds are {', '.join(KINDS)}, not {kind!r}")
    return dtype in KINDS[kind] or (kind in ("real floating", "numeric") and dtype in NARROW)


def can_cast(from_: Any, to: DType, /) -> bool:
    """Whether promotion leads from a type (or a tensor's) to another."""
    source, target = _type(from_), dtype_of(to)
    if target.kind == "c":
        return source is D.bool_ or (source.kind in "fc" and REAL.get(source, source).size <= REAL[target].size)
    if source.kind == "c":
        return False
    if source.is_float != target.is_float and not (source is D.bool_ or target is D.bool_):
        return False
    try:
        return promote(source, target) is target
    except DTypeError:
        return False


def result_type(*arrays_and_dtypes: Any) -> DType:
    """The type of an operation on tensors, types and Python numbers."""
    return _common(
        tuple([type(a) if isinstance(a, _NUMBERS) and not hasattr(a, "dtype") else _type(a) for a in arrays_and_dtypes]), default_float()
    )


_NUMBERS = (bool, int, float, complex)


@cache
def _common(given: tuple[Any, ...], floats: DType) -> DType:
    """The type that types have in common with classes of Python numbers, where floats without a type are `floats`."""
    kinds = [k for k in given if isinstance(k, DType)]
    if not kinds:
        raise ValueError("result_type: at least one tensor or type is needed")
    out = REAL.get(kinds[0], kinds[0])
    for k in kinds[1:]:
        out = promote(out, REAL.get(k, k))
    numbers = [k for k in given if not isinstance(k, DType)]
    for k in numbers:
        out = of_scalar(0.0 if issubclass(k, complex) else k(), out)
    if any(k in REAL for k in kinds) or any(issubclass(k, complex) for k in numbers):
        out = to_float(out)
        return COMPLEX.get(out, D.complex64)
    return out


class NamespaceInfo:
    """What the namespace can do (the standard's inspection API)."""

    def capabilities(self) -> dict[str, Any]:
        """Masks and results of data-dependent shape work; the most dimensions that NumPy has are the limit."""
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": 64}

    def default_device(self) -> str:
        """The device of arrays that no device was named for."""
        return "cpu"

    def devices(self) -> list[str]:
        """Devices that are there for sure; others are asked for by name."""
        return ["cpu"]

    def default_dtypes(self, *, device: str | None = None) -> dict[str, DType]:
        """Types of arrays made without one."""
        return {
            "real floating": default_float(),
            "complex floating": COMPLEX[default_float()],
            "integral": DEFAULT_INT,
            "indexing": DEFAULT_INT,
        }

    def dtypes(self, *, device: str | None = None, kind: str | tuple[str, ...] | None = None) -> dict[str, DType]:
        """Types by name, all or those of kinds."""
        kinds: Iterable[str] = ("bool", "numeric") if kind is None else (kind,) if isinstance(kind, str) else kind
        return {d.name: d for k in kinds for d in KINDS[k]}
