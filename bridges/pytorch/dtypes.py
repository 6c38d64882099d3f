"""Element types of PyTorch and ours, by name."""

from __future__ import annotations

from typing import Any

import torch

NAMES: dict[torch.dtype, str] = {
    torch.float32: "float32",
    torch.float64: "float64",
    torch.float16: "float16",
    torch.bfloat16: "bfloat16",
    torch.int64: "int64",
    torch.int32: "int32",
    torch.int16: "int16",
    torch.int8: "int8",
    torch.uint8: "uint8",
    torch.bool: "bool",
}
TORCH = {name: dtype for dtype, name in NAMES.items()} | {"bool_": torch.bool}


def name_of(dtype: torch.dtype) -> Any:
    """Our name of a type of PyTorch's. Raises NotImplementedError for one that we lack, such as complex numbers."""
    if dtype not in NAMES:
        raise NotImplementedError(f"no element type for {dtype}")
    return NAMES[dtype]


def torch_dtype(name: str) -> torch.dtype:
    """PyTorch's type of one of ours. Raises NotImplementedError."""
    if name not in TORCH:
        raise NotImplementedError(f"PyTorch has no type for {name}")
    return TORCH[name]
