"""Stands in for PyTorch in tests of comparisons: as much of it as a float32 matmul and softmax need, on NumPy.

TORCH_STUB=die ends the process in the middle of a comparison."""

from __future__ import annotations

import os
from types import SimpleNamespace
from typing import Any

import numpy as np

__version__ = "0.stub"
_CALLS = [0]
bfloat16, float16, float32, int8, int64 = "bfloat16", "float16", "float32", "int8", "int64"


class Tensor:
    """An array."""

    def __init__(self, a: Any) -> None:
        self.a = a

    dtype = property(lambda self: str(self.a.dtype))
    shape = property(lambda self: self.a.shape)
    dim = lambda self: self.a.ndim  # noqa: E731
    to = cpu = lambda self, *_: self
    numpy = lambda self: self.a  # noqa: E731
    is_floating_point = lambda self: self.a.dtype.kind == "f"  # noqa: E731

    def new_empty(self, shape: Any, dtype: str = "float32") -> Tensor:
        return Tensor(np.empty(shape, dtype))


def matmul(a: Tensor, b: Tensor, out: Tensor) -> Tensor:
    _CALLS[0] += 1
    if os.environ.get("TORCH_STUB") == "die" and _CALLS[0] > 20:
        os._exit(7)
    np.matmul(a.a, b.a, out=out.a)
    return out


from_numpy = Tensor
set_grad_enabled = set_num_threads = set_float32_matmul_precision = lambda *_: None
backends = SimpleNamespace(cudnn=SimpleNamespace())
cuda = SimpleNamespace(is_available=lambda: False)
nn = SimpleNamespace(functional=None)
ops = SimpleNamespace(aten=None)
