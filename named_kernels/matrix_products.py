"""Matrix products: plain, transposed, of mixed and quantised types, with epilogues, batched, and with a vector.

16-bit floats accumulate in float32, int8 in int32 (and is stored as int32)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..ir.buffer import Buffer
from ..ir.builder import KernelBuilder
from ..ir.dtypes import DType, bfloat16, float32, int8, int32, uint8
from ..ir.errors import KernelError
from ..ir.functions import maximum
from ..ir.kernel import Kernel
from ..ir.node import Node
from ..ir.operators import cast
from .definition import FLOATS, FP8, Shape, definition, span, sum_type
from .element_kernels import gelu_of

SQUARE = {"m": 1024, "n": 1024, "k": 1024}
ODD = {"m": 13, "n": 37, "k": 29}


@definition("c = a @ b", SQUARE, ODD, (*FLOATS, "int8", *FP8))
def matmul(s: Shape, dtype: DType) -> Kernel:
    """a (m, k), b (k, n) → c (m, n)."""
    m, n, k = s["m"], s["n"], s["k"]
    kb = KernelBuilder("matmul")
    i, j, l = kb.axis("m", m), kb.axis("n", n), kb.axis("k", k)
    a = kb.input("a", (m, k), dtype, range=span(dtype))
    b = kb.input("b", (k, n), dtype, range=span(dtype))
    acc = kb.sum("acc", (i, j), l, cast(a[i, l], dtype.acc) * cast(b[l, j], dtype.acc))
    kb.store("c", sum_type(dtype), (m, n), (i, j), acc[i, j])
    return kb.build()


def _product(
    name: str,
    s: Shape,
    a: tuple[str, DType],
    b: tuple[str, DType],
    out: DType,
    epilogue: Callable[[KernelBuilder, Node, Node], Node] | None = None,
) -> Kernel:
    """c[m, n] = Σₖ a · b of type `out`. `a` and `b`: the names of their dimensions in order, and their types. `epilogue` makes what is
    stored from the builder, the sum, and the axis of n."""
    kb = KernelBuilder(name)
    axes = {size: kb.axis(size, s[size]) for size in "mnk"}
    acc_type = a[1].acc
    terms = []
    for tensor, (dims, dtype) in {"a": a, "b": b}.items():
        of = kb.input(tensor, tuple(s[d] for d in dims), dtype, range=(0, 255) if dtype is uint8 else span(dtype))
        terms.append(cast(of[tuple(axes[d] for d in dims)], acc_type))
    i, j = axes["m"], axes["n"]
    acc = kb.sum("acc", (i, j), axes["k"], terms[0] * terms[1])
    stored = acc[i, j] if epilogue is None else epilogue(kb, acc[i, j], j)
    kb.store("c", out, (s["m"], s["n"]), (i, j), stored)
    return kb.build()


@definition("c = a @ b.T", SQUARE, ODD, (*FLOATS, "int8", *FP8))
def matmul_nt(s: Shape, dtype: DType) -> Kernel:
    """a (m, k), b (n, k) → c (m, n)."""
    return _product("matmul_nt", s, ("mk", dtype), ("nk", dtype), sum_type(dtype))


@definition("c = a.T @ b", SQUARE, ODD, (*FLOATS, "int8"))
def matmul_tn(s: Shape, dtype: DType) -> Kernel:
    """a (k, m), b (k, n) → c (m, n)."""
    return _product("matmul_tn", s, ("km", dtype), ("kn", dtype), sum_type(dtype))


@definition("c = a @ b, 16- or 8-bit inputs, float32 output", SQUARE, ODD, ("bfloat16", "float16", *FP8))
def matmul_mixed(s: Shape, dtype: DType) -> Kernel:
    """a (m, k), b (k, n) in `dtype` → c (m, n) in float32: the accumulator is stored unrounded."""
    return _product("matmul_mixed", s, ("mk", dtype), ("kn", dtype), float32)


@definition("c = a @ b, a uint8, b int8, int32 output", SQUARE, ODD, ("uint8",))
def matmul_int8(s: Shape, dtype: DType) -> Kernel:
    """a (m, k) in `dtype`, b (k, n) in int8 → c (m, n) in int32, as quantised networks multiply (`matmul` has int8 by int8)."""
    return _product("matmul_int8", s, ("mk", dtype), ("kn", int8), int32)


@definition("c = relu(a @ b + bias)", SQUARE, ODD)
def matmul_bias_relu(s: Shape, dtype: DType) -> Kernel:
    """a (m, k), b (k, n), bias (n) → c (m, n)."""

    def relu(kb: KernelBuilder, acc: Node, j: Node) -> Node:
        return maximum(acc + kb.input("bias", (s["n"],), dtype)[j], 0.0)

    return _product("matmul_bias_relu", s, ("mk", dtype), ("kn", dtype), dtype, relu)


@definition("c = gelu(a @ b + bias)", SQUARE, ODD)
def matmul_bias_gelu(s: Shape, dtype: DType) -> Kernel:
    """a (m, k), b (k, n), bias (n) → c (m, n)."""

    def gelu(kb: KernelBuilder, acc: Node, j: Node) -> Node:
        return gelu_of(acc + kb.input("bias", (s["n"],), dtype)[j])

    return _product("matmul_bias_gelu", s, ("mk", dtype), ("kn", dtype), dtype, gelu)


@definition("c = (a * scale_a) @ (b * scale_b).T, 8-bit floats, a scale a row", SQUARE, ODD, FP8)
def matmul_fp8(s: Shape, dtype: DType) -> Kernel:
    """a (m, k), b (n, k) in `dtype`, scale_a (m), scale_b (n) in float32 → c (m, n) in bfloat16; sums are of float32.

    Both operands have k last, as the tensor cores of Hopper take 8-bit operands, and as linear layers keep their weights. Each row of
    `a` (token) and each column of the result (channel) has a scale. The scale of a whole operand is the same number in each."""
    m, n, k = s["m"], s["n"], s["k"]
    kb = KernelBuilder("matmul_fp8")
    i, j, l = kb.axis("m", m), kb.axis("n", n), kb.axis("k", k)
    a, b = kb.input("a", (m, k), dtype), kb.input("b", (n, k), dtype)
    scale_a, scale_b = kb.input("scale_a", (m,), float32), kb.input("scale_b", (n,), float32)
    acc = kb.sum("acc", (i, j), l, a[i, l] * b[j, l])
    kb.store("c", bfloat16, (m, n), (i, j), acc[i, j] * scale_a[i] * scale_b[j])
    return kb.build()


def _ceil_div(kernel: str, name: str, s: Shape, group: str) -> int:
    """⌈size / size⌉ of two sizes by name. KernelError where one is no int."""
    if not isinstance(s[name], int) or not isinstance(s[group], int):
        raise KernelError(f"{kernel}: sizes {name} and {group} must be ints")
    return -(-int(s[name]) // int(s[group]))


def _padded(k: int, group: int, b: Buffer, row: Node, element: Node) -> Node:
    """An element of a row, and 0 past the end of k where groups do not come out even."""
    return b[row, element] if k % group == 0 else b.masked(element < k, row, element)


def _sum_of_groups(kb: KernelBuilder, at: tuple[Node, Node], group: str, groups: int, part: Any, scaled: Callable[[Node], Node]) -> Node:
    """Σ over groups of `scaled(group)`, as a fold over groups whose sums are `part`."""
    acc = kb.block_reduce("add", "acc", at, h := kb.axis(f"{group}@scaled", groups), scaled(h))
    kb.fold("sum", kb.axis(group, groups), (part, acc), (acc,), (0.0,), (kb.lhs(acc) + kb.rhs(acc),))
    return acc[at]


@definition(
    "c = a @ b.T, 8-bit floats with a scale for each block of k",
    {**SQUARE, "block": 128},
    {"m": 7, "n": 37, "k": 45, "block": 16},
    FP8,
)
def matmul_fp8_blocks(s: Shape, dtype: DType) -> Kernel:
    """a (m, k), b (n, k) in `dtype`, scale_a (m, ⌈k / block⌉), scale_b (⌈n / block⌉, ⌈k / block⌉) in float32 → c (m, n) in bfloat16.

    A scale is of 1 × `block` elements of activations and `block` × `block` of weights, as DeepSeek-V3 is trained (DeepSeek-AI,
    "DeepSeek-V3 Technical Report", 2024, §3.3.2: blocks of 128). The sum of a block is finished before it is scaled, so that tensor cores
    which keep few bits of a sum add up no more than a block. The outer sum is a fold, so that a block's sum is in registers when it is
    scaled."""
    m, n, k, block = s["m"], s["n"], s["k"], s["block"]
    blocks, columns = _ceil_div("matmul_fp8_blocks", "k", s, "block"), _ceil_div("matmul_fp8_blocks", "n", s, "block")
    kb = KernelBuilder("matmul_fp8_blocks")
    i, j, g, l = kb.axis("m", m), kb.axis("n", n), kb.axis("block@part", blocks), kb.axis("k", block)
    element = g * block + l
    a, b = kb.input("a", (m, k), dtype), kb.input("b", (n, k), dtype)
    scale_a, scale_b = kb.input("scale_a", (m, blocks), float32), kb.input("scale_b", (columns, blocks), float32)
    part = kb.block_reduce("add", "part", (i, j, g), l, _padded(k, block, a, i, element) * _padded(k, block, b, j, element))
    acc = _sum_of_groups(kb, (i, j), "block", blocks, part, lambda h: part[i, j, h] * (scale_a[i, h] * scale_b[j // block, h]))
    kb.store("c", bfloat16, (m, n), (i, j), acc)
    return kb.build()


@definition("y = x @ (w * scale).T, int8 weights with a scale a channel", SQUARE, ODD, ("bfloat16", "float16", "float32"))
def matmul_w8(s: Shape, dtype: DType) -> Kernel:
    """x (m, k) in `dtype`, w (n, k) in int8, scale (n) in float32 → y (m, n) in `dtype`.

    Weights have k last, as linear layers keep them. Every int8 is a number of each of these types exactly, so the product is as exact as one of
    floats, and the scale is applied when the sum is done."""
    m, n, k = s["m"], s["n"], s["k"]
    kb = KernelBuilder("matmul_w8")
    i, j, l = kb.axis("m", m), kb.axis("n", n), kb.axis("k", k)
    x, w = kb.input("x", (m, k), dtype), kb.input("w", (n, k), int8, range=span(int8))
    scale = kb.input("scale", (n,), float32)
    acc = kb.sum("acc", (i, j), l, x[i, l] * cast(w[j, l], float32))
    kb.store("y", dtype, (m, n), (i, j), acc[i, j] * scale[j])
    return kb.build()


@definition(
    "y = x @ ((w - zero) * scale).T, 4-bit weights, two a byte, in groups",
    {**SQUARE, "group": 128},
    {"m": 7, "n": 37, "k": 45, "group": 16},
    ("bfloat16", "float16", "float32"),
)
def matmul_w4(s: Shape, dtype: DType) -> Kernel:
    """x (m, k) in `dtype`, w (n, ⌈k / 2⌉) in uint8, scale (n, ⌈k / group⌉) in `dtype`, zero (n, ⌈k / group⌉) in uint8 → y (m, n) in `dtype`.

    Byte i of a channel holds element 2i in its low half and element 2i + 1 in its high half. A group of `group` elements of k has a scale
    and a zero point (0 to 15), as GPTQ (Frantar et al., 2022) and AWQ (Lin et al., 2023) quantise weights. The sum of a group is finished
    before it is scaled: its terms are products with whole numbers from −15 to 15, which every float type holds. The outer sum is a fold,
    so that a group's sum is in registers when it is scaled."""
    m, n, k, group = s["m"], s["n"], s["k"], s["group"]
    groups = _ceil_div("matmul_w4", "k", s, "group")
    kb = KernelBuilder("matmul_w4")
    i, j, g, l = kb.axis("m", m), kb.axis("n", n), kb.axis("group@part", groups), kb.axis("k", group)
    element = g * group + l
    x, w = kb.input("x", (m, k), dtype), kb.input("w", (n, -(-k // 2)), uint8, range=(0, 255))
    scale, zero = kb.input("scale", (n, groups), dtype), kb.input("zero", (n, groups), uint8, range=(0, 15))
    byte = w[j, element // 2] if k % group == 0 else w.masked(element < k, j, element // 2)
    bits = (cast(byte, int32) >> cast(element % 2 * 4, int32)) & 15
    # as int8, which 16-bit floats hold: tensor cores may multiply it
    weight = cast(cast(bits - cast(zero[j, g], int32), int8), float32)
    part = kb.block_reduce("add", "part", (i, j, g), l, _padded(k, group, x, i, element) * weight)
    acc = _sum_of_groups(kb, (i, j), "group", groups, part, lambda h: part[i, j, h] * scale[j, h])
    kb.store("y", dtype, (m, n), (i, j), acc)
    return kb.build()


@definition("c[b] = x[b] @ y[b]", {"b": 16, "m": 256, "n": 256, "k": 256}, {"b": 3, "m": 7, "n": 19, "k": 11}, (*FLOATS, "int8"))
def batched_matmul(s: Shape, dtype: DType) -> Kernel:
    """x (b, m, k), y (b, k, n) → c (b, m, n)."""
    b, m, n, k = s["b"], s["m"], s["n"], s["k"]
    kb = KernelBuilder("batched_matmul")
    h, i, j, l = kb.axis("b", b), kb.axis("m", m), kb.axis("n", n), kb.axis("k", k)
    x = kb.input("x", (b, m, k), dtype, range=span(dtype))
    y = kb.input("y", (b, k, n), dtype, range=span(dtype))
    acc = kb.sum("acc", (h, i, j), l, cast(x[h, i, l], dtype.acc) * cast(y[h, l, j], dtype.acc))
    kb.store("c", sum_type(dtype), (b, m, n), (h, i, j), acc[h, i, j])
    return kb.build()


@definition("y = a @ x", {"m": 4096, "n": 4096}, {"m": 31, "n": 67}, (*FLOATS, "int8"))
def matvec(s: Shape, dtype: DType) -> Kernel:
    """a (m, n), x (n) → y (m)."""
    m, n = s["m"], s["n"]
    kb = KernelBuilder("matvec")
    i, j = kb.axis("m", m), kb.axis("n", n)
    a, x = kb.input("a", (m, n), dtype, range=span(dtype)), kb.input("x", (n,), dtype, range=span(dtype))
    acc = kb.sum("acc", (i,), j, cast(a[i, j], dtype.acc) * cast(x[j], dtype.acc))
    kb.store("y", sum_type(dtype), (m,), (i,), acc[i])
    return kb.build()
