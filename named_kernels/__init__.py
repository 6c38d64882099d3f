"""The named kernels, one file a family, and the way in: `get`, `make`, `parse_shape`.

A name may end in `:constant=INPUT,…`: those inputs keep their contents from call to call (`conv2d:constant=weight`),
so that a schedule may pack them once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from importlib import import_module

from .. import ir as _ir  # noqa: F401
from ..ir.buffer import Extent
from ..ir.dtypes import DTypeLike
from ..ir.errors import KernelError
from ..ir.kernel import Kernel
from ..ir.rewriter import with_constants
from .definition import CONSTANT, KernelDef, is_path, nearest, split_path

__all__ = ["NAMES", "KernelDef", "get", "is_named", "is_path", "make", "parse_shape", "short_name", "split_name", "split_path"]

_FAMILIES: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("matrix_products", ("matmul", "matmul_nt", "matmul_tn", "matmul_mixed", "matmul_int8", "matmul_fp8", "matmul_fp8_blocks", "matmul_w8", "matmul_w4", "matmul_bias_relu", "matmul_bias_gelu", "batched_matmul", "matvec")),
    ("reductions", ("sum_rows", "sum_cols", "sum_all")),
    ("normalisations", ("softmax", "log_softmax", "layernorm", "layernorm_stats", "rmsnorm", "cross_entropy")),
    ("element_kernels", ("gelu", "add", "transpose")),
    ("convolutions", ("conv2d", "conv2d_dx", "conv2d_dw", "max_pool2d")),
    ("reductions", ("argmax", "cumsum")),
    ("element_kernels", ("embedding", "embedding_grad")),
    ("attention", ("attention", "attention_full", "attention_window", "attention_grouped", "attention_lse", "attention_delta", "attention_dq", "attention_dkv")),
)  # fmt: skip
"""Which file defines each named kernel. A file is imported when one of its kernels is asked for."""
_FILE = {name: family for family, names in _FAMILIES for name in names}
NAMES: tuple[str, ...] = tuple(_FILE)
"""Every named kernel, in the order `tune kernels` lists them."""


MAX_DIGITS = 18
"""Of an extent: what fits in 64 bits, as everything that counts elements does."""


def split_name(name: str) -> tuple[str, tuple[str, ...]]:
    """A kernel's name or path, and the inputs that the end of `name` says are constant."""
    base, _, given = name.partition(CONSTANT)
    names = tuple(n.strip() for n in given.split(",")) if CONSTANT in name else ()
    if "" in names or len(set(names)) < len(names):
        raise KernelError(f"cannot read the constant inputs of {name!r}; write {base}{CONSTANT}b or {base}{CONSTANT}a,b")
    return base, names


def short_name(name: str) -> str:
    """What rows and reports call a kernel: of `dir/my.py:function` the function, with its constant inputs; a named kernel's whole name."""
    base, colon, constant = name.partition(CONSTANT)
    return base.rpartition(":")[2] + colon + constant


def is_named(name: str) -> bool:
    """Whether `name` means one of the kernels here."""
    return name.partition(CONSTANT)[0] in NAMES


def get(name: str) -> KernelDef:
    """The definition of a named kernel; KernelError suggests the nearest name."""
    base, constant = split_name(name)
    if base not in NAMES:
        raise KernelError(f"unknown kernel {base!r}{nearest(base, NAMES)} (known: {', '.join(NAMES)}; your own: my.py:function)")
    found = getattr(import_module(f".{_FILE[base]}", __name__), base)
    assert isinstance(found, KernelDef)
    return (
        found if not constant else replace(found, name=name, make=lambda shape, dtype: with_constants(found.make(shape, dtype), constant))
    )


def make(name: str, shape: Mapping[str, Extent] | None = None, dtype: DTypeLike | str | None = None) -> Kernel:
    """A Kernel by name, or from a user's file by `my.py:function`; both may end in `:constant=INPUT,…`.

    Missing sizes take the kernel's defaults; a size may be a symbol (`ir.sym("m", 1, 4096)`). `dtype` defaults to the
    kernel's first. Raises KernelError for an unknown name, size or element type."""
    if is_path(name):
        from .user_file import load

        path, constant = split_name(name)
        return with_constants(load(path, shape, dtype), constant)
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
        if len(digits) > MAX_DIGITS:
            raise KernelError(f"size {name} has {len(digits)} digits; no array is that large")
        shape[name] = int(digits)
    return shape
