"""What `gpu_vs_cublas.py` measures: kernels, shapes and types by group, and what each is set beside."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class GpuCase:
    """One kernel. `beside`: 'cublas', 'copy' (the GPU's own copy bandwidth), 'torch' (eager PyTorch: FlashAttention,
    cuDNN), 'inductor' (PyTorch's compiled form: Triton). `allow`: effects that the search may use, as `tune run
    --allow` has them: FlashAttention's probabilities are of 16 bits too."""

    name: str
    group: str
    kernel: str
    shape: Mapping[str, int]
    dtype: str
    beside: tuple[str, ...]
    allow: tuple[str, ...] = ()


def _product(group: str, dtype: str, m: int, n: int, k: int) -> GpuCase:
    return GpuCase(f"matmul-{dtype}-{m}x{n}x{k}", group, "matmul", {"m": m, "n": n, "k": k}, dtype, ("cublas", "torch"))


def _row(kernel: str, dtype: str = "float32", **shape: int) -> GpuCase:
    return GpuCase(f"{kernel}-{dtype}", "rows", kernel, shape or {"m": 8192, "n": 8192}, dtype, ("copy", "torch", "inductor"))


def _attention(kernel: str, d: int, s: int) -> GpuCase:
    shape = {"b": 1, "h": 16, "s": s, "d": d}  # as much as a reference in float64 has memory for
    return GpuCase(f"{kernel}-d{d}", "attention", kernel, shape, "bfloat16", ("torch",), ("downconvert",))


def _conv(dtype: str, n: int, c: int, size: int, kh: int = 3, kernel: str = "conv2d") -> GpuCase:
    window = {"kh": kh, "kw": kh, "stride": 1, "pad": kh // 2, "groups": 1}
    shape = {"n": n, "c": c, "h": size, "w": size, "oc": c, **window}
    return GpuCase(f"{kernel}-{dtype}-c{c}-{size}-k{kh}", "conv", kernel, shape, dtype, ("torch",))


SKINNY = ((16, 8192, 8192), (64, 8192, 8192), (256, 8192, 8192), (8192, 64, 8192), (512, 512, 65536))
ODD = ((4095, 4095, 4095), (1000, 3000, 2000), (4104, 4104, 4104), (3333, 1111, 2222))
CASES = (
    _product("fp32", "float32", 4096, 4096, 4096),
    _product("bf16", "bfloat16", 8192, 8192, 8192),
    _product("bf16", "bfloat16", 4096, 4096, 4096),
    *(_product("skinny", "bfloat16", *mnk) for mnk in SKINNY),
    *(_product("odd", "bfloat16", *mnk) for mnk in ODD),
    _product("odd", "float32", 4095, 4095, 4095),
    *(_row(k) for k in ("softmax", "layernorm", "rmsnorm", "gelu", "add", "transpose", "sum_rows", "sum_cols")),
    _row("sum_all", n=1 << 26),
    *(_row(k, "bfloat16") for k in ("softmax", "layernorm")),
    _attention("attention", 64, 4096),
    _attention("attention", 128, 4096),
    _attention("attention_full", 128, 4096),
    _conv("bfloat16", 32, 128, 56),
    _conv("bfloat16", 32, 256, 14),
    _conv("float32", 32, 64, 56),
    _conv("bfloat16", 32, 256, 28, 1),
    *(_conv("bfloat16", 32, 128, 56, kernel=k) for k in ("conv2d_dx", "conv2d_dw")),
)  # fmt: skip
GROUPS = tuple(dict.fromkeys(c.group for c in CASES))
GOALS = {"fp32": 0.9, "bf16": 0.9, "skinny": 0.9, "odd": 0.9, "rows": 0.9, "attention": 0.6, "conv": 0.7}
"""The ratio that each group is to reach, as a geometric mean: to cuBLAS, to copy bandwidth, to PyTorch."""
