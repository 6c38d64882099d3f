"""Elements that indices choose: one instruction where the processor is quick at that, else an access of each; pairs side by side are one."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from idle_lanes import built, run_native
from tilewright import interp, targets
from tilewright.ir import KernelBuilder, float32, float64, int8, int16, int32, int64, uint8, uint16
from tilewright.ir.dtypes import DType
from tilewright.ir.kernel import Kernel
from tilewright.ir.operators import cast
from tilewright.lower import lower
from tilewright.opts import apply, parse
from tilewright.plan import best
from tilewright.renderers import render

N, W = 125, 64


def mixed(dtype: DType, whole: DType = int32, n: int = N) -> Kernel:
    """Four neighbours of a place in each of two rows, and one further on: y[n] = x[r, c] - x[r, c + 1] + …"""
    kb = KernelBuilder("mixed")
    i = kb.axis("n", n)
    x, at = kb.input("x", (2, W), dtype), kb.input("at", (n,), whole, range=(1, W - 6))
    total = x[0, at[i] - 1] * 2
    for k, row in enumerate((0, 1, 0, 1, 1)):
        total = total + x[row, at[i] + k] * (k + 3)
    kb.store("y", dtype, (n,), (i,), total + x[1, at[i] + 5])
    return kb.build()


def expected(x: np.ndarray, at: np.ndarray) -> np.ndarray:
    rows = (0, 1, 0, 1, 1)
    return x[0, at - 1] * 2 + sum(x[row, at + k] * (k + 3) for k, row in enumerate(rows)) + x[1, at + 5]


@pytest.mark.parametrize("whole", [int32, int64])
@pytest.mark.parametrize("dtype", [float32, float64, int32])
def test_elements_are_those_that_indices_choose(dtype: DType, whole: DType) -> None:
    rng = np.random.default_rng(0)
    x, at = rng.integers(-50, 50, (2, W)).astype(dtype.np), rng.integers(1, W - 5, N).astype(whole.np)
    for text in ("Un8", "Un16", "Un4 Pn"):
        opts = parse(text)
        np.testing.assert_array_equal(best(mixed(dtype, whole), opts=opts, threads=1)(x, at), expected(x, at))
        y = np.zeros(N, dtype.np)
        interp.run(lower(apply(mixed(dtype, whole), opts, targets.named("avx2"))), {"x": x, "at": at, "y": y})
        np.testing.assert_array_equal(y, expected(x, at))


@pytest.mark.parametrize(("name", "gathers", "pairs"), [("znver3", False, True), ("v2", False, True), ("cascadelake", True, False)])
def test_pairs_are_one_access_where_gathers_are_slow(name: str, gathers: bool, pairs: bool) -> None:
    """Of seven vectors, those at (1, c + 3), (1, c + 4) and (1, c + 5) make one pair, and (0, c - 1), (0, c) another."""
    target = targets.named(name)
    lanes = target.lanes(float32)
    text = render(lower(apply(mixed(float32, n=128), parse(f"Un{lanes} Pn"), target)), target).text
    assert ("masked.gather" in text) == gathers
    assert text.count("load <2 x float>") == (2 * lanes if pairs else 0)


def coded(whole: DType, columns: int = 13) -> Kernel:
    """What the row of a table that belongs to a place has for the place's code."""
    kb = KernelBuilder("coded")
    i, k = kb.axis("m", 24), kb.axis("n", 32)
    table, code = kb.input("table", (32, columns), float32), kb.input("code", (24, 32), whole, range=(0, columns - 1))
    kb.store("y", float32, (24, 32), (i, k), table[k, code[i, k].cast("int64")])
    return kb.build()


@pytest.mark.parametrize("whole", [uint8, int8, uint16, int16])
def test_narrow_places_are_read_one_by_one(whole: DType) -> None:
    """Where each element has an access of its own, its place comes from memory and not out of a vector, the row's beginning added."""
    target = targets.named("znver3")
    text = render(lower(apply(coded(whole), parse("Un8"), target)), target).text
    assert "masked.gather" not in text and "extractelement" not in text
    assert text.count(" zext i" if whole.kind == "u" else " sext i") >= 8
    rng = np.random.default_rng(1)
    table, code = rng.standard_normal((32, 13)).astype(np.float32), rng.integers(0, 13, (24, 32)).astype(whole.np)
    for opts in ("Un8", "Un16", "Un32 Um2"):
        found = best(coded(whole), opts=parse(opts), threads=1)(table, code)
        np.testing.assert_array_equal(found, table[np.arange(32), code])


# rows of a sparse matrix -------------------------------------------------------------------------------------------------
def rows_of(dtype: DType, first: int = 0, rows: int = 24, entries: int = 100, columns: int = 40) -> Kernel:
    """y[i] = Σ a[k]·x[column[k] - first] over the entries of row i."""
    kb = KernelBuilder("rows")
    i = kb.axis("i", rows)
    p = kb.input("p", (rows + 1,), int32, range=(0, entries), ascending=True)
    k = kb.axis("k", (p[i], p[i + 1]))
    column, a = kb.input("column", (entries,), int32, range=(first, columns - 1 + first)), kb.input("a", (entries,), dtype)
    x, place = kb.input("x", (columns,), dtype), column[k].cast("int64")
    kb.store("y", dtype, (rows,), (i,), kb.sum("total", (i,), k, a[k] * x[place - first if first else place])[i])
    return kb.build()


@pytest.mark.parametrize(
    ("name", "first", "gathers"), [("znver4", 0, False), ("znver3", 0, False), ("znver4", 1, True), ("cascadelake", 0, True)]
)
def test_lanes_that_a_mask_leaves_out_are_read_where_their_indices_are_inside(name: str, first: int, gathers: bool) -> None:
    """Not where 0, which a masked index is, would be before the array; nor where gathers are quick."""
    target = targets.named(name)
    text = render(lower(apply(rows_of(float32, first), parse("Ui8 Uk16"), target)), target).text
    assert ("masked.gather" in text) == gathers
    assert "extractelement <16 x i32>" not in text, "indices come from memory"


@pytest.mark.parametrize("opts", ["Ui2 Uk16", "Uk4"])
@pytest.mark.parametrize(("name", "dtype"), [("znver3", float32), ("znver3", float64), ("znver4", float32), ("znver4", float64)])
def test_no_lane_reads_past_an_array(name: str, dtype: DType, opts: str) -> None:
    """The last rows end where the arrays of entries do, behind which no page can be read; the first ones are empty."""
    target = targets.named(name)
    if not target.features <= targets.host().features:
        pytest.skip(f"this machine does not run code for {name}")
    rng = np.random.default_rng(3)
    ends = np.sort(rng.integers(0, 101, 22))
    p = np.concatenate([[0, 0], ends, [100]]).astype(np.int32)
    column, a, x = (
        rng.integers(0, 40, 100).astype(np.int32),
        rng.integers(-9, 9, 100).astype(dtype.np),
        rng.integers(-9, 9, 40).astype(dtype.np),
    )
    program = lower(apply(rows_of(dtype), parse(opts), target))
    wanted = np.array([(a[b:e] * x[column[b:e]]).sum() for b, e in pairwise(p)], dtype.np)
    y, by_steps = np.full(24, np.nan, dtype.np), np.full(24, np.nan, dtype.np)
    source = render(program, target)
    code = built(source)
    run_native(code, source, [p, column, a, x, y])
    code.close()
    interp.run(program, {"p": p, "column": column, "a": a, "x": x, "y": by_steps})
    np.testing.assert_array_equal(y, wanted)
    np.testing.assert_array_equal(by_steps, wanted)


def row_sums(dtype: DType, size: int, whole: DType = uint8, n: int = 61) -> Kernel:
    """What each letter, or the one that is paired with it, has in every row of a table: two look-ups a row."""
    kb = KernelBuilder("row_sums")
    i, k = kb.axis("n", n), kb.axis("k", 3)
    letter, w = kb.input("letter", (n + 3,), whole, range=(0, size - 1)), kb.input("w", (3, size), dtype)
    at = cast(letter[i + k], int64)
    kb.store("y", dtype, (n,), (i,), kb.sum("total", (i,), k, w[k, at] + w[2 - k, size - 1 - at] * 2)[i])
    return kb.build()


@pytest.mark.parametrize("size", [4, 11, 21])
@pytest.mark.parametrize(
    ("name", "dtype", "longest"),
    [
        ("znver4", float32, 32),
        ("avx2", float32, 16),
        ("znver4", float64, 16),
        ("avx2", float64, 0),
        ("avx2", uint8, 32),
        ("znver4", int16, 64),
    ],
)
def test_elements_of_a_short_row_are_picked_out_of_registers(name: str, dtype: DType, longest: int, size: int) -> None:
    target = targets.named(name)
    kernel = row_sums(dtype, size)
    opts = parse(f"Un{target.lanes(dtype)}")
    program = lower(apply(kernel, opts, target))
    source = render(program, target)
    picked = any(f"@llvm.x86.{x}" in source.text for x in ("avx512.permvar", "avx2.permd", "ssse3.pshuf", "avx2.pshuf", "avx512.pshuf"))
    assert picked == (size <= longest) and (picked or "gather" in str(program))
    if not target.features <= targets.host().features:
        pytest.skip(f"this machine does not run code for {name}")
    rng = np.random.default_rng(size)
    letter, w = rng.integers(0, size, 64).astype(np.uint8), rng.integers(0, 9, (3, size)).astype(dtype.np)
    y, by_steps = np.zeros(61, dtype.np), np.zeros(61, dtype.np)
    code = built(source)
    run_native(code, source, [letter, w, y])
    code.close()
    interp.run(program, {"letter": letter, "w": w, "y": by_steps})
    rows = [letter[k : k + 61].astype(int) for k in range(3)]
    wanted = sum(w[k, at] + w[2 - k, size - 1 - at] * 2 for k, at in enumerate(rows))
    np.testing.assert_array_equal(y, wanted)
    np.testing.assert_array_equal(by_steps, wanted)


def test_what_is_picked_lies_in_the_array_and_is_short() -> None:
    """Numbers of no known range may be anywhere, so that they are gathered; and so is what a kernel writes."""
    target = targets.named("znver4")
    text = str(lower(apply(mixed(float32), parse("Un16"), target)))
    assert "row=0" in text and not any(f"row={k}" in text for k in range(1, W + 1))
