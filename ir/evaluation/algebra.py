"""The arithmetic a dense evaluation runs in: float64, or the integer twin (`ir.evaluation.error_bound` adds a third).

A *quantity* is whatever an algebra computes with: an array here, a value with its error there. Integers and booleans are
arrays of their own NumPy type (they wrap) in every algebra.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..body import IDENTITY
from ..dtypes import DType, bool_
from ..errors import KernelError
from . import twin
from .array_math import COUNTS, INTEGER, ProductLayout, contract, contract_exact, erf, floor_quotient, narrowed, power

Array = np.ndarray[Any, Any]
Quantity = Any

UFUNC: dict[str, Any] = {
    "add": np.add,
    "mul": np.multiply,
    "max": np.maximum,
    "min": np.minimum,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
}
BINARY: dict[str, Callable[[Any, Any], Any]] = {
    **UFUNC,
    "sub": np.subtract,
    "div": np.divide,
    "lt": np.less,
    "le": np.less_equal,
    "eq": np.equal,
    "ne": np.not_equal,
    **INTEGER,
    "pow": power,
    "floor_div": floor_quotient,
    "floor_mod": np.remainder,
}
UNARY: dict[str, Callable[[Any], Any]] = {
    "neg": np.negative,
    "abs": np.abs,
    "exp": np.exp,
    "log": np.log,
    "sqrt": np.sqrt,
    "tanh": np.tanh,
    "erf": erf,
    "floor": np.floor,
    "round": np.rint,
    "trunc": np.trunc,
    "expm1": np.expm1,
    "log1p": np.log1p,
    "sin": np.sin,
    "cos": np.cos,
    "atan": np.arctan,
    **COUNTS,
}


def narrows(source: DType, to: DType) -> bool:
    """Whether a float type lacks numbers of another one."""
    return to.eps > source.eps or (to.size < source.size) or (to.size == source.size and to is not source)


def int_identity(combine: str, dtype: DType) -> int:
    """The neutral element of a combine of integers, or of conditions bit by bit."""
    if combine in IDENTITY:
        return IDENTITY[combine]
    if dtype is bool_:
        return 1
    if combine == "and":
        return -1 if dtype.kind == "i" else int(np.iinfo(dtype.np).max)
    info = np.iinfo(dtype.np)
    return int(info.min if combine == "max" else info.max)


class Algebra:
    """float64 arithmetic; float16, bfloat16 and float32 values are float64 too, and are rounded only where a kernel converts them."""

    float_np: np.dtype[Any] = np.dtype(np.float64)
    unwritten: Any = float("nan")

    in_order = False
    """Whether factors are multiplied in the order that is written: what overflows on the way depends on it."""

    # leaves -------------------------------------------------------------------------------------------------------
    def storage(self, dtype: DType) -> np.dtype[Any]:
        """The array type that holds values of `dtype`."""
        return self.float_np if dtype.is_float else dtype.np

    def leaf(self, raw: Array, dtype: DType) -> Quantity:
        """Elements of an input buffer."""
        return raw.astype(self.storage(dtype), copy=False)

    def number(self, value: Any, dtype: DType) -> Quantity:
        """A constant, rounded to its type."""
        if dtype.is_float:
            return np.array(value).astype(dtype.np).astype(np.float64)
        return np.array(value).astype(dtype.np)

    def identity(self, combine: str, dtype: DType) -> Any:
        """The neutral element of a combine."""
        if not dtype.is_float:
            return int_identity(combine, dtype)
        return {"add": 0.0, "mul": 1.0, "max": -np.inf, "min": np.inf}[combine]

    def wrap(self, array: Array) -> Quantity:
        """Plain integers (axes, indices) as a quantity."""
        return array

    def array(self, q: Quantity) -> Array:
        """The values alone."""
        return np.asarray(q)

    def map(self, q: Quantity, f: Callable[[Array], Array]) -> Quantity:
        """A change of shape applied to every component."""
        return f(np.asarray(q))

    # operators ----------------------------------------------------------------------------------------------------
    def unary(self, op: str, a: Quantity, dtype: DType) -> Quantity:
        """An operator of one operand of type `dtype`."""
        return np.invert(a) if op == "not" else UNARY[op](a)

    def binary(self, op: str, a: Quantity, b: Quantity, dtype: DType) -> Quantity:
        """An operator whose operands have type `dtype`."""
        if op == "div" and not dtype.is_float:
            raise KernelError(f"div of {dtype}: cast to a float type, or use // on indices")
        return BINARY[op](a, b)

    def where(self, cond: Quantity, a: Quantity, b: Quantity, dtype: DType) -> Quantity:
        """Selection."""
        return np.where(cond, a, b)

    def cast(self, a: Quantity, source: DType, to: DType) -> Quantity:
        """Conversion; to a narrower float type it rounds."""
        if to is bool_:
            return np.not_equal(a, 0)
        if to.is_float:
            if not source.is_float:
                return np.asarray(a).astype(np.float64)
            return narrowed(np.asarray(a), to) if narrows(source, to) else a
        return np.asarray(a).astype(np.int64).astype(to.np) if source.is_float else np.asarray(a).astype(to.np)

    def about(self, a: Quantity, to: DType, times: int) -> Quantity:
        """What may have been rounded to a type, so often."""
        return a

    def mask(self, keep: Array, a: Quantity) -> Quantity:
        """`a` where `keep`, else exactly 0."""
        return self.map(a, lambda x: np.where(keep, x, x.dtype.type(0)))

    # reductions ---------------------------------------------------------------------------------------------------
    def partial(self, combine: str, a: Quantity, axes: tuple[int, ...], dtype: DType) -> Any:
        """The state of a reduction over part of its range; `join` and `finish` complete it."""
        return UFUNC[combine].reduce(
            a, axis=axes, dtype=self.storage(dtype), initial=self.storage(dtype).type(self.identity(combine, dtype))
        )

    def join(self, combine: str, a: Any, b: Any) -> Any:
        """Two states of disjoint parts."""
        return UFUNC[combine](a, b)

    def finish(self, combine: str, state: Any, count: int, dtype: DType, eps: float) -> Quantity:
        """The reduction's value; `count` elements were combined, and `eps` is the coarsest type's that took part."""
        return state

    def product(self, x: Quantity, y: Quantity, layout: ProductLayout, dtype: DType) -> Any:
        """The state of Σ x·y over the reduce positions of `layout`."""
        return contract(x, y, layout) if dtype.is_float else contract_exact(x, y, layout, dtype.np)

    def scan(self, combine: str, a: Quantity, position: int, dtype: DType) -> Quantity:
        """Inclusive prefix along one position."""
        return UFUNC[combine].accumulate(a, axis=position, dtype=self.storage(dtype))

    # memory -------------------------------------------------------------------------------------------------------
    def blank(self, shape: Sequence[int], dtype: DType) -> Quantity:
        """Room for a result; elements never written are NaN (0 for integers)."""
        return np.full(shape, self.unwritten if dtype.is_float else 0, self.storage(dtype))

    def assign(self, out: Quantity, key: Any, q: Quantity) -> None:
        """out[key] = q."""
        out[key] = q

    def accumulator(self, size: int, combine: str, dtype: DType) -> Any:
        """The state of `size` scattered elements before any write."""
        return np.full(size, self.identity(combine, dtype), self.storage(dtype))

    def scatter(self, state: Any, combine: str, at: Array, q: Quantity) -> None:
        """Combine the elements `q` into `state` at the flat positions `at`."""
        UFUNC[combine].at(state, at, q)

    def scattered(self, state: Any, combine: str, dtype: DType) -> Quantity:
        """The finished elements."""
        return state


class Twin(Algebra):
    """The integer twin of `ir.evaluation.twin`; integers behave as in the base."""

    float_np = np.dtype(np.uint32)
    unwritten = 0

    def leaf(self, raw: Array, dtype: DType) -> Quantity:
        if dtype.is_float and raw.dtype != np.uint32:
            raise KernelError(f"the twin of a {dtype} buffer is a uint32 array, not {raw.dtype}: draw it with ir.evaluation.twin.draw")
        return raw.astype(self.storage(dtype), copy=False)

    def number(self, value: Any, dtype: DType) -> Quantity:
        return np.asarray(twin.const(value)) if dtype.is_float else super().number(value, dtype)

    def identity(self, combine: str, dtype: DType) -> Any:
        if not dtype.is_float:
            return int_identity(combine, dtype)
        return {"add": 0, "mul": 1, "max": 0, "min": 0xFFFFFFFF}[combine]

    def unary(self, op: str, a: Quantity, dtype: DType) -> Quantity:
        return twin.unary(op, a) if dtype.is_float else super().unary(op, a, dtype)

    def binary(self, op: str, a: Quantity, b: Quantity, dtype: DType) -> Quantity:
        return twin.binary(op, a, b) if dtype.is_float else super().binary(op, a, b, dtype)

    def cast(self, a: Quantity, source: DType, to: DType) -> Quantity:
        if source.is_float and to.is_float:
            return a
        if to.is_float:
            return twin.from_int(a)
        if source.is_float and to is not bool_:
            return twin.to_int(a, to)
        return super().cast(a, source, to)

    def product(self, x: Quantity, y: Quantity, layout: ProductLayout, dtype: DType) -> Any:
        return contract_exact(x, y, layout, self.storage(dtype))
