"""The table of operators: for each overload of ATen a function of tensors."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch

from .... import xp
from ....tensor import Tensor
from ..dtypes import name_of, torch_dtype

Operator = Callable[..., Any]
"""`operator(out, *args, **kwargs)`: `out` is a tensor without data (or a tuple of them) that has the shape and type which PyTorch
gives the result; the rest is as ATen's overload takes it, with `tilewright.Tensor` in the place of PyTorch's. Raises
NotImplementedError for arguments that it does not know; PyTorch computes such a node itself."""

OPERATORS: dict[Any, Operator] = {}


def overload(name: str) -> Any:
    """The overload `add.Tensor` of `torch.ops.aten` (or `prims.name.overload`); None where this PyTorch has none."""
    space, _, rest = name.rpartition("prims.")
    base, _, variant = rest.partition(".")
    packet = getattr(torch.ops.prims if space or name.startswith("prims.") else torch.ops.aten, base, None)
    return getattr(packet, variant or "default", None)


def operator(*names: str) -> Callable[[Operator], Operator]:
    """Put a function into the table under the overloads of these names."""

    def put(function: Operator) -> Operator:
        for name in names:
            found = overload(name)
            if found is not None:
                OPERATORS[found] = function
        return function

    return put


def operators(expressions: Mapping[str, Operator]) -> None:
    """Put functions of one expression into the table, each under the overloads of its name."""
    for name, function in expressions.items():
        operator(name)(function)


def wanted(out: Any) -> Any:
    """The name of the type that a result has."""
    return name_of(out.dtype)


HALVES = ("float16", "bfloat16")


def wide(x: Any) -> Any:
    """A tensor of 16-bit floats in float32, in which PyTorch computes with it; others as they are. (Results are rounded by who stores them.)"""
    return x.astype("float32") if isinstance(x, Tensor) and x.dtype.name in HALVES else x


def operands(out: Any, *values: Any) -> list[Any]:
    """Operands in the type of the result. Beside a number, 16-bit floats are float32, since a number keeps its digits; the first operand
    is a tensor in any case."""
    kind = wanted(out)
    if kind in HALVES and not all(isinstance(x, Tensor) for x in values):
        kind = "float32"
    found = [x.astype(kind) if isinstance(x, Tensor) else x for x in values]
    if not isinstance(found[0], Tensor):
        found[0] = xp.full((), found[0], dtype=kind)
    return found


def rounded_operands(out: Any, *values: Any) -> list[Any]:
    """As `operands`, for what PyTorch computes of 16-bit floats with a number that is one of them too: it does not keep its digits."""
    if wanted(out) in HALVES:
        values = tuple(x if isinstance(x, Tensor) else torch.tensor(x, dtype=out.dtype).item() for x in values)
    return operands(out, *values)


def as_result(x: Any, out: Any) -> Any:
    """A tensor in the type that the result has; a number as it is."""
    return x.astype(wanted(out)) if isinstance(x, Tensor) else x


def common_type(*operands: Any) -> Any:
    """The type in which PyTorch would compare or combine these operands: tensors without dimensions and numbers count less."""
    stand_ins = [
        torch.empty((1,) * x.ndim, dtype=torch_dtype(x.dtype.name), device="meta") if isinstance(x, Tensor) else x for x in operands
    ]
    found = stand_ins[0]
    for other in stand_ins[1:]:
        kind = torch.result_type(found, other)
        found = torch.empty((1,) * max(getattr(found, "ndim", 0), getattr(other, "ndim", 0)), dtype=kind, device="meta")
    return name_of(found.dtype)


def axes(x: Tensor, dim: Any) -> Any:
    """The axes of a reduction of `x`: None, all of them, for an empty list and for a tensor without dimensions too."""
    if not x.ndim or dim is None or (isinstance(dim, (list, tuple)) and not dim):
        return None
    return tuple(dim) if isinstance(dim, (list, tuple)) else dim


def spread(value: Any, count: int) -> tuple[int, ...]:
    """One number for each of `count` dimensions."""
    numbers = tuple(value) if isinstance(value, (list, tuple)) else (value,)
    return numbers * count if len(numbers) == 1 else numbers


def refuse(what: str) -> Any:
    """Leave a node to PyTorch."""
    raise NotImplementedError(what)


def of_one_type(*operands: Any) -> None:
    """Leave operands of several types to PyTorch, whose operator says what is wrong with them. (Nobody looks at them before.)"""
    if len({x.dtype for x in operands if isinstance(x, Tensor)}) > 1:
        refuse("operands of several types")


def of_floats(x: Tensor) -> Tensor:
    """A tensor of floats; others are left to PyTorch, which has the operator for floats only."""
    return x if x.dtype.is_float else refuse(f"a function of floats, of {x.dtype.name}")
