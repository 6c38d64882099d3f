"""What is no number reaches an extreme from wherever it stands, though vectors are compared by an instruction that drops it."""

from __future__ import annotations

import numpy as np
import pytest
from tilewright import interp, targets
from tilewright.ir import KernelBuilder, absolute, float32, float64, maximum, minimum
from tilewright.ir.body import Combine
from tilewright.ir.dtypes import DType
from tilewright.ir.kernel import Kernel
from tilewright.lower import lower
from tilewright.opts import apply, parse
from tilewright.plan import best
from tilewright.program.text import show

M, N, K = 3, 24, 21


def extremes(combine: Combine, dtype: DType, sizes: bool = False) -> Kernel:
    """The largest or smallest a[k] + b[k, n], or size of that, for all rows of a."""
    kb = KernelBuilder("extremes")
    i, j, k = kb.axis("m", M), kb.axis("n", N), kb.axis("k", K)
    a, b = kb.input("a", (M, K), dtype), kb.input("b", (K, N), dtype)
    element = absolute(a[i, k] + b[k, j]) if sizes else a[i, k] + b[k, j]
    kb.store("y", dtype, (M, N), (i, j), kb.reduce(combine, "e", (i, j), k, element)[i, j])
    return kb.build()


def numbers(dtype: DType) -> tuple[np.ndarray, np.ndarray]:
    """Operands of which each place of the sum is no number for some result, one of them twice, and rows of infinities."""
    rng = np.random.default_rng(3)
    a, b = rng.standard_normal((M, K)).astype(dtype.np), rng.standard_normal((K, N)).astype(dtype.np)
    b[np.arange(K), np.arange(K)] = np.nan
    b[0, 5] = np.nan
    a[1, :], a[2, 7] = -np.inf, np.inf
    b[3, 23] = -np.inf
    return a, b


@pytest.mark.parametrize("text", ["Un8", "Un24 Rk2", "Un8 Um3 Rk3", "Uk8", "Uk2 Un8 Tk4", "Tk8 Un8 Mk<n", "Uk12 Um3"])
@pytest.mark.parametrize(("combine", "dtype"), [("max", float32), ("min", float64)])
def test_what_is_no_number_stays(text: str, combine: Combine, dtype: DType) -> None:
    a, b = numbers(dtype)
    with np.errstate(invalid="ignore"):
        want = getattr(np, combine)(a[:, :, None] + b[None], axis=1)
    assert np.isnan(want).any() and not np.isnan(want).all()
    kernel, opts = extremes(combine, dtype), parse(text)
    for name in ("v2", "avx2", "znver3", "cascadelake"):
        y = np.zeros((M, N), dtype.np)
        interp.run(lower(apply(kernel, opts, targets.named(name))), {"a": a, "b": b, "y": y})
        np.testing.assert_array_equal(y, want)
    np.testing.assert_array_equal(best(kernel, opts=opts, threads=1)(a, b), want)


@pytest.mark.parametrize("text", ["Un8", "Un24 Rk2", "Uk8", "Tk8 Un8 Mk<n", "Uk12 Um3", "(none)"])
def test_the_largest_of_sizes_is_taken_by_whole_numbers(text: str) -> None:
    """Their bits are in the same order, and those of what is no number, whose sign is gone, above all."""
    a, b = numbers(float32)
    b[1, 4] = -np.nan
    a, b = a[[0, 2, 0]], np.where(np.isinf(b), -4.0, b).astype(np.float32)
    want = np.abs(a[:, :, None] + b[None]).max(axis=1)
    assert np.isnan(want).any() and np.isinf(want).any() and np.isfinite(want).any()
    kernel, opts = extremes("max", float32, sizes=True), parse(text)
    for name in ("v2", "avx2", "znver3", "cascadelake"):
        program = lower(apply(kernel, opts, targets.named(name)))
        y = np.zeros((M, N), np.float32)
        interp.run(program, {"a": a, "b": b, "y": y})
        np.testing.assert_array_equal(y, want)
        whole = "int32x" in show(program) and " lt " not in show(program)
        assert whole or text == "(none)"
    np.testing.assert_array_equal(best(kernel, opts=opts, threads=1)(a, b), want)


def test_only_processors_that_drop_it_take_notes() -> None:
    kernel, opts = extremes("max", float32), parse("Un8")
    loops = {name: show(lower(apply(kernel, opts, targets.named(name)))) for name in ("avx2", "neon")}
    assert " max " not in loops["avx2"] and " max " in loops["neon"]


@pytest.mark.parametrize("dtype", [float32, float64])
def test_networks_of_extremes_hand_it_on(dtype: DType) -> None:
    """The median of three neighbours: no number where one of them is none, infinities in their places."""
    kb = KernelBuilder("median")
    i = kb.axis("n", 37)
    x = kb.input("x", (39,), dtype)
    a, b, c = x[i], x[i + 1], x[i + 2]
    kb.store("y", dtype, (37,), (i,), maximum(minimum(a, b), minimum(maximum(a, b), c)))
    v = np.random.default_rng(0).standard_normal(39).astype(dtype.np)
    v[[5, 20, 21, 38]], v[10], v[12] = np.nan, np.inf, -np.inf
    three = np.stack([v[:-2], v[1:-1], v[2:]])
    want = np.where(np.isnan(three).any(axis=0), np.nan, np.median(three, axis=0))
    for name in ("v2", "avx2", "cascadelake", "neon"):
        y = np.zeros(37, dtype.np)
        interp.run(lower(apply(kb.build(), parse("Un8"), targets.named(name))), {"x": v, "y": y})
        np.testing.assert_array_equal(y, want)
    np.testing.assert_array_equal(best(kb.build(), opts=parse("Un8"), threads=1)(v), want)


@pytest.mark.parametrize(("name", "dtype", "whole"), [("avx2", float32, False), ("znver3", float32, True), ("znver3", float64, False)])
def test_notes_are_of_pairs_or_of_whole_numbers(name: str, dtype: DType, whole: bool) -> None:
    """One test for two elements; and none in the loop where tests wait for the units that add: their bits are whole numbers."""
    text = show(lower(apply(extremes("min", dtype), parse(f"Un{32 // dtype.size} Rk7"), targets.named(name))))
    loop = text[text.index("carry") : text.index("yield")]
    assert loop.count("uint32x8 = max") == 7 * whole
    assert loop.count(" | ") == (0 if whole else 3 + 3 + 1)
