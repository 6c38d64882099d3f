"""Buffers whose row length is a symbol, read across their rows: no address may lose the part that varies with it."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from checks import check_compiled, check_twin
from tilewright import best, kernels, targets
from tilewright.ir.buffer import Extent
from tilewright.ir.builder import KernelBuilder
from tilewright.ir.dtypes import float32, int32
from tilewright.ir.kernel import Kernel
from tilewright.ir.node import sym
from tilewright.ir.normal_form import normalise
from tilewright.lower import lower
from tilewright.opts import apply, opt
from tilewright.plan import Artefacts
from tilewright.renderers import render

TARGET = targets.named("cascadelake")
M, N, K = sym("m", 1, 64), sym("n", 1, 64), sym("k", 1, 64)


def permuted(order: tuple[int, ...], m: Extent, n: Extent, k: Extent) -> Kernel:
    """An array of rank 3 with its dimensions in another order."""
    kb = KernelBuilder("permuted")
    sizes = (m, n, k)
    axes = [kb.axis(name, size) for name, size in zip("mnk", sizes, strict=True)]
    x = kb.input("x", sizes, float32)
    kb.store("y", float32, tuple(sizes[i] for i in order), tuple(axes[i] for i in order), x[tuple(axes)])
    return kb.build()


def named(name: str, dtype: str = "float32", **shape: Extent) -> Kernel:
    return kernels.make(name, shape, dtype)


def rows_by_number(m: Extent, n: Extent) -> Kernel:
    """Rows that data chooses, written as columns: an address with a part that memory decides."""
    kb = KernelBuilder("rows_by_number")
    i, j = kb.axis("m", m), kb.axis("n", n)
    table, number = kb.input("table", (9, n), float32), kb.input("number", (m,), int32, range=(0, 8))
    kb.store("y", float32, (n, m), (j, i), table[number[i], j])
    return kb.build()


COPIES = (opt("UPCAST", "m", 16), opt("UPCAST", "n", 16))
CASES = {
    "rows": (named("transpose", m=16, n=N), COPIES, ("n",)),
    "masked rows": (named("transpose", m=27, n=N), COPIES, ("n",)),
    "columns": (named("transpose", m=M, n=45), COPIES, ("m",)),
    "both": (named("transpose", m=M, n=N), COPIES, ("m", "n")),
    "tiled": (named("transpose", m=64, n=N), (*COPIES, opt("TILE", "m", 32), opt("PARALLEL", "m")), ("n",)),
    "float64": (named("transpose", "float64", m=16, n=N), (opt("UPCAST", "m", 8), opt("UPCAST", "n", 4)), ("n",)),
    "several blocks": (named("transpose", m=32, n=N), (opt("UPCAST", "m", 32), opt("UPCAST", "n", 32)), ("n",)),
    "matmul_nt": (named("matmul_nt", m=6, n=32, k=K), (opt("UPCAST", "n", 16), opt("UNROLL", "k", 8)), ("k",)),
    "matmul_nt, panel": (
        named("matmul_nt", m=6, n=N, k=K),
        (opt("UPCAST", "m", 3), opt("UPCAST", "n", 32), opt("TILE", "k", 8), opt("STAGE", "b", at="k")),
        ("n", "k"),
    ),
    "matmul, rows of both": (named("matmul", m=M, n=N, k=K), (opt("UPCAST", "m", 16), opt("UNROLL", "k", 4)), ("m", "n", "k")),
    # copies of a third axis, of which the blocks that are turned must be told apart
    "reversed": (permuted((2, 1, 0), 16, 5, K), (opt("UPCAST", "m", 16), opt("UPCAST", "n", 2), opt("UPCAST", "k", 4)), ("k",)),
    "middle last": (permuted((0, 2, 1), M, N, K), (opt("UPCAST", "n", 16), opt("UPCAST", "k", 8)), ("m", "n", "k")),
    "chosen rows": (rows_by_number(16, N), COPIES, ("n",)),
    "chosen rows, masked": (rows_by_number(27, 45), COPIES, ()),
}


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_every_row_is_read_where_it_lies(case):
    kernel, opts, symbols = CASES[case]
    kernel = normalise(kernel)
    for extents in ((7, 64, 16), (16, 1, 7)):
        vars = dict(zip(symbols, extents, strict=False))
        check_twin(kernel, opts, TARGET, vars)
    check_compiled(kernel, opts, targets.host(), vars)


def test_a_symbolic_transpose_gathers_nothing():
    """A row length that only the call tells is no reason to gather: the addresses of a block's rows are scalars."""
    kernel = normalise(named("transpose", m=16, n=N))
    text = render(lower(apply(kernel, COPIES, TARGET)), TARGET).text
    assert "shufflevector" in text and "gather" not in text


@pytest.mark.slow
@pytest.mark.parametrize("shape", [{"n": N}, {"m": M, "n": 20}, {"m": 37, "n": N}, {"m": M, "n": N}], ids=str)
def test_start_schedules_of_symbolic_transposes_agree_with_numpy(shape, tmp_path):
    compiled = best("transpose", {"m": 128, **shape}, threads=1, cache=tmp_path / "cache.db", store=Artefacts(tmp_path / "store"))
    for m, n in itertools.product((1, 16, 61), (1, 8, 64)):
        m, n = (m if shape.get("m") is M else shape.get("m", 128)), (n if shape["n"] is N else shape["n"])
        x = np.arange(m * n, dtype=np.float32).reshape(m, n)
        np.testing.assert_array_equal(compiled(x), x.T)
