"""Kernels around a sum of products that tensor cores can make, and random schedules of them that use those: what comes before the sum
(operands as they lie in memory, decoded, gated, scaled), what comes after it (bias, gelu, statistics of rows), and batches."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from random_schedules import Case, Choose
from tilewright import targets
from tilewright.ir import OptError
from tilewright.ir.builder import KernelBuilder
from tilewright.ir.dtypes import DType, bfloat16, float8_e4m3, float8_e5m2, float16, float32, int8, int32, uint8
from tilewright.ir.functions import exp, maximum
from tilewright.ir.kernel import Kernel
from tilewright.ir.node import Node
from tilewright.ir.operators import cast
from tilewright.opts import Opt, Opts, apply, opt
from tilewright.targets import Target
from tilewright.targets.tensor_rows import BY_NAME

TARGETS = ("sm_80", "sm_89", "sm_90a")
EXTENTS = (8, 13, 16, 24, 33, 40, 48)
DEEP = (16, 21, 32, 40, 64, 75)


@dataclass(frozen=True)
class Sum:
    """A kernel with a sum `acc` of products over m and k, and n and k; the rows of the table that can make it."""

    name: str
    make: Callable[[int, int, int], Kernel]
    rows: tuple[str, ...]


ROWS = {
    bfloat16: ("mma.m16n8k16.bf16",), float16: ("mma.m16n8k16.f16",), int8: ("mma.m16n8k32.s8",),
    float8_e4m3: ("mma.m16n8k32.e4m3",), float8_e5m2: ("mma.m16n8k32.e5m2",),
    float32: ("mma.m16n8k8.tf32",),
}  # fmt: skip


def product(t: DType, a_turned: bool, b_turned: bool, after: str = "") -> Callable[[int, int, int], Kernel]:
    """A (m, k), or (k, m) where turned, times B (k, n), or (n, k); then what `after` says."""

    def make(m: int, n: int, k: int) -> Kernel:
        kb = KernelBuilder("product")
        i, j, l = kb.axis("m", m), kb.axis("n", n), kb.axis("k", k)
        a, b = kb.input("a", (k, m) if a_turned else (m, k), t), kb.input("b", (n, k) if b_turned else (k, n), t)
        x, y = a[(l, i) if a_turned else (i, l)], b[(j, l) if b_turned else (l, j)]
        acc = kb.sum("acc", (i, j), l, cast(x, t.acc) * cast(y, t.acc))
        _after(kb, after, t, i, j, acc[i, j], (m, n))
        return kb.build()

    return make


def _after(kb: KernelBuilder, after: str, t: DType, i: Node, j: Node, x: Node, shape: tuple[int, int]) -> None:
    """Stores of what is made of the sum's elements `x`."""
    m, n = shape
    if after == "bias":
        bias, rest = kb.input("bias", (n,), t), kb.input("rest", (m, n), t)
        x = maximum(x + cast(bias[j], x.dtype), 0.0) + cast(rest[i, j], x.dtype)
    if after == "turned":
        kb.store("c", x.dtype, (n, m), (j, i), x)
        return
    if after == "rows":
        over, here = kb.axis("n@max", n), kb.axis("n@sum", n)
        v = kb.value("v", (i, j), x)
        most = kb.max("most", (i,), over, v[i, over])
        total = kb.sum("total", (i,), here, exp(v[i, here] - most[i]))
        kb.store("c", float32, (m, n), (i, j), exp(x - most[i]) / total[i])
        return
    kb.store("c", x.dtype, shape, (i, j), x)


def decoded(t: DType, scaled: bool) -> Callable[[int, int, int], Kernel]:
    """A times weights of 8 bits, which are decoded (and scaled by column and block of k) where they are used."""

    def make(m: int, n: int, k: int) -> Kernel:
        kb = KernelBuilder("decoded")
        i, j, l = kb.axis("m", m), kb.axis("n", n), kb.axis("k", k)
        a, w, s = kb.input("a", (m, k), t), kb.input("w", (k, n), int8), kb.input("s", (k, n), float32)
        weight = cast(w[l, j], float32) * s[l, j] if scaled else cast(w[l, j], float32)
        acc = kb.sum("acc", (i, j), l, cast(a[i, l], float32) * weight)
        kb.store("c", float32, (m, n), (i, j), acc[i, j] if scaled else acc[i, j] * s[0, j])
        return kb.build()

    return make


def gated(m: int, n: int, k: int) -> Kernel:
    """The first operand is a gate times a value, both in memory."""
    kb = KernelBuilder("gated")
    i, j, l = kb.axis("m", m), kb.axis("n", n), kb.axis("k", k)
    g, u, w = kb.input("g", (m, k), bfloat16), kb.input("u", (m, k), bfloat16), kb.input("w", (n, k), bfloat16)
    acc = kb.sum("acc", (i, j), l, cast(g[i, l] * u[i, l], bfloat16) * w[j, l])
    kb.store("c", bfloat16, (m, n), (i, j), cast(acc[i, j], bfloat16))
    return kb.build()


def batched(m: int, n: int, k: int) -> Kernel:
    """Three products, of unsigned and signed bytes."""
    kb = KernelBuilder("batched")
    z, i, j, l = kb.axis("z", 3), kb.axis("m", m), kb.axis("n", n), kb.axis("k", k)
    a, b = kb.input("a", (3, m, k), uint8), kb.input("b", (3, n, k), int8)
    acc = kb.sum("acc", (z, i, j), l, cast(a[z, i, l], int32) * cast(b[z, j, l], int32))
    kb.store("c", int32, (3, m, n), (z, i, j), acc[z, i, j])
    return kb.build()


def window(m: int, n: int, k: int) -> Kernel:
    """A sum over a window and over channels: its k is not the only reduce axis, and reads reach past the end of k."""
    kb = KernelBuilder("window")
    i, j, l, d = kb.axis("m", m), kb.axis("n", n), kb.axis("k", k), kb.axis("d", 3)
    x, w = kb.input("x", (m + 2, k + 3), bfloat16), kb.input("w", (3, n, k), bfloat16)
    acc = kb.sum("acc", (i, j), (d, l), x[i + d, l + 3] * w[d, j, l])
    kb.store("c", float32, (m, n), (i, j), acc[i, j])
    return kb.build()


SUMS = (
    *(Sum(f"{t}{'t' * x or 'n'}{'t' * y or 'n'}", product(t, x, y), ROWS[t]) for t in (bfloat16, int8) for x in (False, True) for y in (False, True)),
    Sum("float16nn", product(float16, False, False, "bias"), ROWS[float16]),
    Sum("float32nn", product(float32, False, False), ROWS[float32]),
    Sum("float32tt", product(float32, True, True, "bias"), ROWS[float32]),
    Sum("float8nt", product(float8_e4m3, False, True), ROWS[float8_e4m3]),
    Sum("float8nn", product(float8_e5m2, False, False), ROWS[float8_e5m2]),
    Sum("turned", product(bfloat16, False, True, "turned"), ROWS[bfloat16]),
    Sum("rows", product(bfloat16, False, True, "rows"), ROWS[bfloat16]),
    Sum("decoded", decoded(bfloat16, False), ROWS[bfloat16]),
    Sum("scaled", decoded(bfloat16, True), ROWS[bfloat16]),
    Sum("gated", gated, ROWS[bfloat16]),
    Sum("batched", batched, ("mma.m16n8k32.u8.s8",)),
    Sum("window", window, ROWS[bfloat16]),
)  # fmt: skip


def draw(of: Sum, choose: Choose) -> Case:
    """A schedule of a kernel that makes its sum by tensor cores, of a size that is quick to interpret; what of it is not legal is left
    out."""
    m, n, k = EXTENTS[choose(len(EXTENTS))], EXTENTS[choose(len(EXTENTS))], DEEP[choose(len(DEEP))]
    kernel, target = of.make(m, n, k), targets.named(TARGETS[choose(len(TARGETS))])
    row = of.rows[choose(len(of.rows))]
    if BY_NAME[row].flag != "sm80":  # (8-bit floats, whose sums keep 13 bits before Hopper)
        target = targets.named("sm_90a")
    swap = choose(4) == 3 and row != "mma.m16n8k32.u8.s8"
    wishes = [opt("TC", "acc", m="n" if swap else "m", n="m" if swap else "n", k="k", row=row)]
    for axis, step in (("n", 8), ("m", 16)) if not swap else (("m", 8), ("n", 16)):
        wishes += [opt("UPCAST", axis, step * (1 + choose(3)))] * (choose(3) > 0)
        wishes += [opt("LOCAL" if choose(2) else "GROUP", axis, 2)] * (choose(3) == 0)
    block = (8, 16, 32, 48, 64)[choose(5)]
    wishes += [[], [opt("TILE", "k", block)], [opt("UNROLL", "k", 2)], [opt("TILE", "k", 2 * block), opt("UNROLL", "k", 2)]][choose(4)]
    wishes += [opt("SPLIT", "k", 2)] * (choose(6) == 0) + [opt("SWIZZLE", "grid", 2)] * (choose(6) == 0)
    wishes += [opt("LOCAL", "z", 3)] * (choose(3) == 0)
    depth = (1, 1, 2, 3)[choose(4)]
    for b in kernel.inputs:
        layout: dict[str, Any] = [{"pad": 0}, {"pad": 16 // b.dtype.size}, {"swizzle": 4}, {"swizzle": 8}, {"pad": 1}][choose(5)]
        wishes += [
            opt("STAGE", b.name, at=("k", "n", "grid")[choose(3) // 2], order=("row", "panel")[choose(4) // 3], depth=depth, **layout)
        ] * (choose(4) > 0)
    opts = legal(kernel, tuple(wishes), target)
    return Case(of.name, "", {"m": m, "n": n, "k": k}, kernel, target, opts, {}, 1, choose(1000))


def legal(kernel: Kernel, wishes: Opts, target: Target) -> Opts:
    """The options of a list that can be had one after the other, the first of which must be."""
    kept: list[Opt] = []
    for o in wishes:
        try:
            apply(kernel, (*kept, o), target)
        except OptError:
            assert kept or o.op == "SPLIT", o
            continue
        kept.append(o)
    return tuple(kept)
