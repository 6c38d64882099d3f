"""What `cpu_vs.py` compares: one line a case, in groups whose geometric means the table shows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Case:
    """A kernel at a shape. `name` is what --only looks for; `aim` is the ratio to the fastest rival that the group should reach."""

    name: str
    group: str
    kernel: str
    shape: Mapping[str, int]
    dtype: str = "float32"


def _matmul(m: int, n: int, k: int, dtype: str = "float32", group: str = "matmul") -> Case:
    short = {"float32": "", "bfloat16": " bf16", "int8": " int8"}[dtype]
    size = f"{m}^3" if m == n == k else f"{m}x{k}x{n}"
    return Case(f"matmul{short} {size}", group, "matmul", {"m": m, "n": n, "k": k}, dtype)


def _conv(text: str, n: int, c: int, size: int, oc: int, k: int, groups: int = 1) -> Case:
    return Case(
        f"conv2d {text}", "conv2d", "conv2d",
        {"n": n, "c": c, "h": size, "w": size, "oc": oc, "kh": k, "kw": k, "stride": 1, "pad": k // 2, "groups": groups},
    )  # fmt: skip


CASES = (
    *(_matmul(n, n, n) for n in (512, 1024, 2048, 4096)),
    _matmul(1000, 777, 513),
    _matmul(16, 4096, 4096),
    _matmul(1, 4096, 4096),
    _matmul(4096, 4096, 64),
    Case("batched_matmul 64 of 128^3", "matmul", "batched_matmul", {"b": 64, "m": 128, "n": 128, "k": 128}),
    _matmul(1024, 1024, 1024, "bfloat16", "matmul 16 and 8 bits"),
    _matmul(1024, 1024, 1024, "int8", "matmul 16 and 8 bits"),
    _conv("1x64x56x56 64x3x3", 1, 64, 56, 64, 3),
    _conv("8x128x28x28 128x3x3", 8, 128, 28, 128, 3),
    _conv("1x256x14x14 256x1x1", 1, 256, 14, 256, 1),
    _conv("depthwise 32x112x112 3x3", 1, 32, 112, 32, 3, 32),
    *(
        Case(f"matmul {m}x1024x1024, b constant", "constant inputs", "matmul:constant=b", {"m": m, "n": 1024, "k": 1024})
        for m in (16, 64, 256)
    ),
    Case("conv2d 1x64x56x56 64x3x3, weight constant", "constant inputs", "conv2d:constant=weight", {**_conv("", 1, 64, 56, 64, 3).shape}),
    Case("softmax 4096x4096", "rows", "softmax", {"m": 4096, "n": 4096}),
    Case("log_softmax 4096x4096", "rows", "log_softmax", {"m": 4096, "n": 4096}),
    Case("layernorm 16384x1024", "rows", "layernorm", {"m": 16384, "n": 1024}),
    Case("rmsnorm 16384x1024", "rows", "rmsnorm", {"m": 16384, "n": 1024}),
    Case("gelu 4096x4096", "rows", "gelu", {"m": 4096, "n": 4096}),
    Case("add 4096x4096", "rows", "add", {"m": 4096, "n": 4096}),
    Case("transpose 4096x4096", "rows", "transpose", {"m": 4096, "n": 4096}),
    Case("sum_rows 8192x4096", "rows", "sum_rows", {"m": 8192, "n": 4096}),
    Case("sum_cols 8192x4096", "rows", "sum_cols", {"m": 8192, "n": 4096}),
    Case("sum_all 2^26", "rows", "sum_all", {"n": 1 << 26}),
    _matmul(901, 1111, 637, group="odd sizes"),
    Case("log_softmax 2048x50257", "odd sizes", "log_softmax", {"m": 2048, "n": 50257}),
    Case("rmsnorm 513x4097", "odd sizes", "rmsnorm", {"m": 513, "n": 4097}),
    Case("embedding_grad 50257x768 by 4096", "odd sizes", "embedding_grad", {"v": 50257, "n": 4096, "d": 768}),
    Case("attention 12x1024x64", "attention", "attention", {"b": 1, "h": 12, "s": 1024, "d": 64}),
    Case("attention 12x4096x64", "attention", "attention", {"b": 1, "h": 12, "s": 4096, "d": 64}),
    Case("cross_entropy 8192x4096", "more", "cross_entropy", {"m": 8192, "n": 4096}),
    Case("embedding 32768x1024 by 16384", "more", "embedding", {"v": 32768, "n": 16384, "d": 1024}),
    Case("embedding_grad 8192x1024 by 16384", "more", "embedding_grad", {"v": 8192, "n": 16384, "d": 1024}),
    Case("cumsum 4096x4096", "more", "cumsum", {"m": 4096, "n": 4096}),
    Case("argmax 8192x4096", "more", "argmax", {"m": 8192, "n": 4096}),
    Case(
        "max_pool2d 8x64x112x112 3x3/2",
        "more",
        "max_pool2d",
        {"n": 8, "c": 64, "h": 112, "w": 112, "kh": 3, "kw": 3, "stride": 2, "pad": 1},
    ),
)
"""Sizes of bandwidth-bound kernels are such that operands do not fit the last cache of common machines."""
