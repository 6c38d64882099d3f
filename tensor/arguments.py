"""Tensors without values: what a function is called with to see what it computes."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count
from typing import Any

from ..ir.dtypes import DType
from .graph.node import make
from .tensor import Tensor

_number = count()


@dataclass(frozen=True)
class Placeholder:
    """Which argument a slot is: each is one of its own."""

    number: int
    range: tuple[int, int] | None = None


def placeholder(shape: tuple[int, ...], dtype: DType, device: str = "cpu") -> Any:
    """A tensor of a shape and a type that has no values, and never will."""
    return Tensor.of(make("slot", (), Placeholder(next(_number)), shape, dtype), device)
