"""PyTorch's prims, which some of its decompositions end in: most are an operator of ATen's with fewer variants."""

from __future__ import annotations

from typing import Any

from .... import xp
from ....tensor import Tensor
from . import elementwise, movement, reductions
from .table import OPERATORS, as_result, operator, operators, overload, refuse, wanted

SAME = [
    *("abs", "acos", "acosh", "add.Tensor", "asin", "asinh", "atan", "atan2", "atanh", "bitwise_and.Tensor", "bitwise_not"),
    *("bitwise_or.Tensor", "bitwise_xor.Tensor", "ceil", "clone", "cos", "cosh", "eq.Tensor", "erf", "exp", "exp2", "expm1", "floor"),
    *("fmax", "fmin", "fmod.Tensor", "ge.Tensor", "gt.Tensor", "hypot", "le.Tensor", "log", "log10", "log1p", "log2", "lt.Tensor"),
    *("maximum", "minimum", "mul.Tensor", "ne.Tensor", "neg", "pow.Tensor_Tensor", "reciprocal", "remainder.Tensor", "round", "rsqrt"),
    *("sign", "sin", "sinh", "sqrt", "sub.Tensor", "tan", "tanh", "trunc", "where.self", "squeeze.dims", "cat", "scalar_tensor"),
]
"""Operators of ATen's whose prim has the same name and arguments."""
OTHER = {
    "shift_left": "bitwise_left_shift.Tensor",
    "shift_right_arithmetic": "bitwise_right_shift.Tensor",
    "transpose": "permute",
    "rev": "flip",
    "view_of": "alias",
}
"""The same under another name."""


def _fill_table() -> None:
    pairs = {name.partition(".")[0]: name for name in SAME} | OTHER
    for prim, name in pairs.items():
        found = overload(f"prims.{prim}")
        if found is not None:
            OPERATORS[found] = OPERATORS[overload(name)]


_fill_table()
operator("prims.reshape", "prims.split_dim", "prims.collapse")(movement.reshape)
operator("prims.full", "prims.full_like")(OPERATORS[overload("full_like")])


operators(
    {
        "prims.div": lambda out, /, a, b: elementwise.div_mode(out, a, b, None if wanted(out).startswith(("float", "bfloat")) else "trunc"),
        "prims.isfinite": lambda out, /, x: x.isfinite() if x.dtype.is_float else xp.full(x.shape, True, dtype="bool"),
        "prims.sum": lambda out, /, x, dims, *, output_dtype=None: reductions.sum(out, x, dims),
        "prims.amax": lambda out, /, x, dims, *, output_dtype=None: reductions.amax(out, x, dims),
        "prims.amin": lambda out, /, x, dims, *, output_dtype=None: reductions.amin(out, x, dims),
    }
)


@operator("prims.prod")
def prod(out: Any, /, x: Tensor, dims: Any, *, output_dtype: Any = None) -> Any:
    """Products."""
    return as_result(x, out).prod(axis=tuple(dims)) if dims else as_result(x, out)


@operator("prims.var")
def var(out: Any, /, x: Tensor, dims: Any, correction: float | None = 1, *, output_dtype: Any = None) -> Any:
    """Variances."""
    return x.var(axis=tuple(dims), correction=float(1 if correction is None else correction)) if dims else refuse("a variance of nothing")


@operator("prims.broadcast_in_dim")
def broadcast_in_dim(out: Any, /, x: Tensor, shape: Any, broadcast_dimensions: Any) -> Any:
    """Repeated along axes that the operand has not, or of one element."""
    extents = iter(x.shape)
    own = tuple(next(extents) if axis in broadcast_dimensions else 1 for axis in range(len(shape)))
    return x.reshape(own).expand(tuple(out.shape))
