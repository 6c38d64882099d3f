"""Kernels without a reduction: arithmetic on each element, and elements that are moved, gathered or scattered."""

from __future__ import annotations

from ..ir.builder import KernelBuilder
from ..ir.dtypes import DType, int64
from ..ir.functions import erf
from ..ir.kernel import Kernel
from ..ir.node import Node
from .definition import FLOATS, Shape, definition, ids_range, span

SQRT_HALF = 0.7071067811865476


def gelu_of(x: Node) -> Node:
    """x·Φ(x), exact by erf: 4 flops and one erf."""
    return x * 0.5 * (erf(x * SQRT_HALF) + 1.0)


@definition("y = gelu(x)", {"m": 4096, "n": 4096}, {"m": 17, "n": 61})
def gelu(s: Shape, dtype: DType) -> Kernel:
    """x (m, n) → y (m, n)."""
    m, n = s["m"], s["n"]
    kb = KernelBuilder("gelu")
    i, j = kb.axis("m", m), kb.axis("n", n)
    x = kb.input("x", (m, n), dtype)
    kb.store("y", dtype, (m, n), (i, j), gelu_of(x[i, j]))
    return kb.build()


@definition("y = a + b", {"m": 4096, "n": 4096}, {"m": 17, "n": 61}, (*FLOATS, "int32"))
def add(s: Shape, dtype: DType) -> Kernel:
    """a (m, n), b (m, n) → y (m, n)."""
    m, n = s["m"], s["n"]
    kb = KernelBuilder("add")
    i, j = kb.axis("m", m), kb.axis("n", n)
    a = kb.input("a", (m, n), dtype, range=span(dtype))
    b = kb.input("b", (m, n), dtype, range=span(dtype))
    kb.store("y", dtype, (m, n), (i, j), a[i, j] + b[i, j])
    return kb.build()


@definition("y = x.T", {"m": 4096, "n": 4096}, {"m": 31, "n": 67}, (*FLOATS, "int8"))
def transpose(s: Shape, dtype: DType) -> Kernel:
    """x (m, n) → y (n, m)."""
    m, n = s["m"], s["n"]
    kb = KernelBuilder("transpose")
    i, j = kb.axis("m", m), kb.axis("n", n)
    x = kb.input("x", (m, n), dtype, range=span(dtype))
    kb.store("y", dtype, (n, m), (j, i), x[i, j])
    return kb.build()


@definition("y = table[ids]", {"v": 32768, "n": 4096, "d": 1024}, {"v": 23, "n": 31, "d": 19})
def embedding(s: Shape, dtype: DType) -> Kernel:
    """table (v, d), ids (n) int64 in [0, v) → y (n, d)."""
    v, n, d = s["v"], s["n"], s["d"]
    kb = KernelBuilder("embedding")
    i, j = kb.axis("n", n), kb.axis("d", d)
    table, ids = kb.input("table", (v, d), dtype), kb.input("ids", (n,), int64, range=ids_range(v))
    kb.store("y", dtype, (n, d), (i, j), table[ids[i], j])
    return kb.build()


@definition("dtable[ids] += dy", {"v": 8192, "n": 4096, "d": 512}, {"v": 23, "n": 31, "d": 19})
def embedding_grad(s: Shape, dtype: DType) -> Kernel:
    """dy (n, d), ids (n) int64 in [0, v) → dtable (v, d), in the compute type (sums are not rounded to 16 bits at each step)."""
    v, n, d = s["v"], s["n"], s["d"]
    kb = KernelBuilder("embedding_grad")
    i, j = kb.axis("n", n), kb.axis("d", d)
    dy, ids = kb.input("dy", (n, d), dtype), kb.input("ids", (n,), int64, range=ids_range(v))
    kb.store("dtable", dtype.compute, (v, d), (i, j), dy[i, j], indices=(ids[i], j), combine="add")
    return kb.build()
