"""Choices between single floats by comparisons of whole numbers: of bits, where they were read from memory."""

from __future__ import annotations

import re

import numpy as np
import pytest
from tilewright import targets
from tilewright.ir import KernelBuilder, float32, float64, where
from tilewright.ir.dtypes import DType
from tilewright.ir.kernel import Kernel
from tilewright.lower import lower
from tilewright.opts import apply, parse
from tilewright.plan import best
from tilewright.renderers import render

M, N = 12, 16


def triangle(dtype: DType) -> Kernel:
    """A strictly lower triangle times a matrix."""
    kb = KernelBuilder("triangle")
    i, j, k = kb.axis("m", M), kb.axis("n", N), kb.axis("k", M)
    a, x = kb.input("a", (M, M), dtype), kb.input("x", (M, N), dtype)
    kb.store("y", dtype, (M, N), (i, j), kb.sum("total", (i, j), k, where(k < i, a[i, k], 0.0) * x[k, j])[i, j])
    return kb.build()


@pytest.mark.parametrize("dtype", [float32, float64])
def test_elements_of_a_triangle_need_no_branch(dtype: DType) -> None:
    """(LLVM makes one of a choice between two floats, where registers of vectors that are in use are stored and loaded again.)"""
    opts = parse("Um3 Un16 Rk2")
    for name in ("v2", "avx2", "cascadelake"):
        target = targets.named(name)
        text = render(lower(apply(triangle(dtype), opts, target)), target).text
        assert not re.search(r"select i1 \S+, (float|double)", text)
        assert re.search(r"select i1 \S+, i(32|64)", text)
    rng = np.random.default_rng(0)
    a, x = rng.integers(-9, 9, (M, M)).astype(dtype.np), rng.integers(-9, 9, (M, N)).astype(dtype.np)
    np.testing.assert_array_equal(best(triangle(dtype), opts=opts, threads=1)(a, x), np.tril(a, -1) @ x)
