"""The named workloads, one file each, and the way in: `get`, `make`, `parse_shape`."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module

from ..ir.dtypes import DType
from ..ir.errors import KernelError
from ..ir.kernel import Extent, Kernel
from .definition import KernelDef
from .suggest import nearest
from .user import is_path, load

__all__ = ["NAMES", "KernelDef", "get", "is_path", "make", "parse_shape"]

NAMES: tuple[str, ...] = (
    "matmul", "matmul_nt", "matmul_tn", "matmul_mixed", "matmul_int8", "matmul_bias_relu", "matmul_bias_gelu", "batched_matmul", "matvec",
    "sum_rows", "sum_cols", "sum_all", "softmax", "log_softmax", "layernorm", "layernorm_stats", "rmsnorm", "cross_entropy", "gelu", "add", "transpose",
    "conv2d", "max_pool2d", "argmax", "cumsum", "embedding", "embedding_grad", "attention", "attention_full",
    "attention_window", "attention_grouped", "attention_lse", "attention_delta", "attention_dq", "attention_dkv",
)  # fmt: skip
"""Every named kernel, in the order `tune kernels` lists them."""


def get(name: str) -> KernelDef:
    """The definition of a named kernel; KernelError suggests the nearest name."""
    if name not in NAMES:
        raise KernelError(f"unknown kernel {name!r}{nearest(name, NAMES)} (known: {', '.join(NAMES)}; your own: my.py:function)")
    found = import_module(f".{name}", __name__).DEF
    assert isinstance(found, KernelDef)
    return found


def make(name: str, shape: Mapping[str, Extent] | None = None, dtype: str | DType | None = None) -> Kernel:
    """A Kernel by name, or from a user's file by `my.py:function`.

    Missing sizes take the kernel's defaults; a size may be a symbol (`ir.sym("m", 1, 4096)`). `dtype` defaults to the kernel's first. Raises
    KernelError for an unknown name, size or element type.
    """
    if is_path(name):
        return load(name, shape, dtype)
    return get(name).kernel(shape, dtype)


def parse_shape(text: str) -> dict[str, int]:
    """`"m=1000,n=777"` as a dict; KernelError says what is wrong with the text."""
    shape: dict[str, int] = {}
    for part in filter(None, (p.strip() for p in text.split(","))):
        name, equals, number = (t.strip() for t in part.partition("="))
        digits = number.replace("_", "")
        if not equals or not name.isidentifier() or not digits.isascii() or not digits.isdigit():
            raise KernelError(f"cannot read {part!r} as a size; write --shape m=1000,n=777")
        if name in shape:
            raise KernelError(f"size {name} is given twice in {text!r}")
        shape[name] = int(digits)
    return shape
