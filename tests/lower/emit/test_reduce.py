"""Places of extremes in the loop of the extreme: the first of equals, infinities, NaN, and under several schedules the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from checks import check_compiled, check_floats, check_twin
from tilewright import interp, named_kernels, targets
from tilewright.heuristics import quick_starts, starts
from tilewright.heuristics.model.shared_work import window_work
from tilewright.ir import KernelBuilder, OptError, absolute, exp, float32, float64, int32, isnan, uint8, where
from tilewright.ir.body import Combine
from tilewright.ir.dtypes import DType
from tilewright.ir.kernel import Kernel
from tilewright.ir.node import Node
from tilewright.ir.operators import cast
from tilewright.lower import lower
from tilewright.opts import apply, opt, parse
from tilewright.opts.analysis.extremes import best_order, covering
from tilewright.plan import best
from tilewright.program.program import Instr, Program, bodies, statements
from tilewright.targets import named

AVX2 = named("avx2")


def best_way(m: int = 5, n: int = 21, p: int = 13, combine: Combine = "max", none: int | None = None, dtype: DType = float32) -> Kernel:
    """The extreme of x + y over p, and where it is."""
    kb = KernelBuilder("best_way")
    i, j = kb.axis("m", m), kb.axis("n", n)
    a, b = kb.axis("p@best", p), kb.axis("p@at", p)
    x, y = kb.input("x", (m, p), dtype), kb.input("y", (p, n), dtype)
    best = kb.reduce(combine, "best", (i, j), a, x[i, a] + y[a, j])
    at = kb.min("at", (i, j), b, where((x[i, b] + y[b, j]).eq(best[i, j]), cast(b, int32), p if none is None else none))
    kb.store("v", dtype, (m, n), (i, j), best[i, j])
    kb.store("w", int32, (m, n), (i, j), at[i, j])
    return kb.build()


@pytest.mark.parametrize(
    "text", ["Jp", "Un8 Jp Um2 Rp2", "Up8 Jp Um2", "Up2 Un8 Jp Pm", "Tp4 Un8 Jp", "Jp Sx@m Um2", "Un8 Tn16 Rp2 Jp Mp@best<n.t"]
)
@pytest.mark.parametrize(("combine", "dtype"), [("max", float32), ("min", int32)])
@pytest.mark.covering
def test_every_schedule_finds_the_place(text: str, combine: Combine, dtype: DType) -> None:
    kernel = best_way(combine=combine, dtype=dtype)
    opts = parse(text)
    s = apply(kernel, opts, AVX2)
    assert s.siblings == (("best", "at"),) and s.places["at"].extreme == "best"
    check_floats(kernel, opts, AVX2)
    check_twin(kernel, opts, AVX2)
    if text.startswith("U"):
        check_compiled(kernel, opts)


@pytest.mark.parametrize("text", ["Un8 Jp", "Up4 Jp", "Up2 Un4 Jp", "Tp4 Up2 Jp", "Rp3 Jp", "Un4 Jp Mp@best<n", "Un4 Rp3 Jp Mp@best<n"])
def test_what_is_special(text: str) -> None:
    """Ties, nothing but the least number, NaN among others: as the kernel is written."""
    inf, nan = np.inf, np.nan
    rows = [[1, 3, 3, 2, 0, 3, 1, 1, 1, 1, 1], [-inf] * 11, [1, nan, 5] + [0] * 8, [inf] * 11, [-inf] * 10 + [0], [nan] * 11]
    x = np.array(rows, np.float32)
    arrays = {"x": x, "y": np.zeros((11, 8), np.float32), "v": np.zeros((6, 8), np.float32), "w": np.zeros((6, 8), np.int32)}
    for name in ("avx2", "cascadelake", "neon"):  # the larger of indices, one that a mask chooses, and a selection
        interp.run(lower(apply(best_way(6, 8, 11), parse(text), named(name))), arrays)
        assert arrays["w"].T.tolist() == [[1, 0, 11, 0, 10, 11]] * 8


@pytest.mark.parametrize(
    ("kernel", "text", "words"),
    [
        (best_way(none=5), "Jp", "without needing each other"),  # an index may be larger than what stands for none
        (best_way(), "Tn8 Up2 Jp Mp@best<n.t", "keep the loops over p@best innermost, or take UNROLL"),
        (best_way(), "Up@best8 Jp", "cut differently"),
    ],
)
def test_what_cannot_be_joined(kernel: Kernel, text: str, words: str) -> None:
    with pytest.raises(OptError, match=words):
        apply(kernel, parse(text), AVX2)


def test_groups_of_threads_combine_one_by_one() -> None:
    with pytest.raises(OptError, match="without needing each other"):
        apply(best_way(), parse("Jp"), named("opencl-cpu"))


def test_start_schedules_join_them() -> None:
    kernel = best_way(64, 96, 48)
    for found in (starts(kernel, AVX2), quick_starts(kernel, AVX2)):
        assert apply(kernel, found[0], AVX2).places


# Sums that the threads of a group share: one word a warp, one barrier, and the same bits in every thread.


CASES: dict[str, tuple[str, dict[str, int], list[Any], int]] = {
    "eight warps": ("sum_rows", {"m": 3, "n": 700}, [opt("GROUP", "n", 256)], 1),
    "32 warps": ("sum_rows", {"m": 2, "n": 3000}, [opt("GROUP", "n", 1024)], 1),
    "one warp": ("sum_rows", {"m": 3, "n": 70}, [opt("GROUP", "n", 32)], 0),
    "several sums": ("sum_cols", {"m": 300, "n": 64}, [opt("LOCAL", "n", 16), opt("GROUP", "m", 16)], 1),
    "several values": ("matmul", {"m": 8, "n": 8, "k": 600}, [opt("GROUP", "k", 64), opt("UPCAST", "n", 4), opt("LOCAL", "m", 2)], 1),
}


def barriers(case: str, target: str) -> int:
    name, shape, opts, _ = CASES[case]
    program = lower(apply(named_kernels.make(name, shape), opts, targets.named(target)))
    return sum(isinstance(s, Instr) and s.op == "barrier" for p in program.phases for s in statements(p.body))


@pytest.mark.parametrize("case", CASES)
def test_one_barrier_where_there_are_shuffles(case: str) -> None:
    assert barriers(case, "sm_90a") == CASES[case][3]


def test_without_shuffles_words_are_made_fewer_first() -> None:
    assert barriers("eight warps", "opencl-gpu") == 2 and barriers("several sums", "opencl-gpu") == 1


@pytest.mark.parametrize("target", ["sm_90a", "opencl-gpu", "opencl-cpu"])
@pytest.mark.parametrize("case", CASES)
@pytest.mark.covering
def test_sums_are_right(case: str, target: str) -> None:
    name, shape, opts, _ = CASES[case]
    if target == "opencl-gpu" and case == "32 warps":
        pytest.skip("it takes groups of 256 threads at most")
    kernel = named_kernels.make(name, shape)
    check_twin(kernel, opts, targets.named(target))
    check_floats(kernel, opts, targets.named(target))


# Extremes of windows without a loop: neighbours share the parts of their windows, and elements are tested once.


N, K, H, W = 39, 5, 6, 16


def ranges(dtype: DType) -> Kernel:
    """The largest less the smallest of K neighbours."""
    kb = KernelBuilder("ranges")
    i, a, b = kb.axis("n", N), kb.axis("k@hi", K), kb.axis("k@lo", K)
    x = kb.input("x", (N + K - 1,), dtype)
    hi, lo = kb.max("hi", (i,), a, x[i + a]), kb.min("lo", (i,), b, x[i + b])
    kb.store("y", dtype, (N,), (i,), hi[i] - lo[i])
    return kb.build()


def dilated(dtype: DType, size: bool = False) -> Kernel:
    """The largest of 3 × 3 neighbours, or of their sizes."""
    kb = KernelBuilder("dilated")
    i, j, p, q = kb.axis("h", H), kb.axis("w", W), kb.axis("p", 3), kb.axis("q", 3)
    x = kb.input("x", (H + 2, W + 2), dtype)

    def element(v: Node) -> Node:
        return absolute(v) if size else v

    top = kb.max("top", (i, j), (p, q), element(x[i + p, j + q]))
    kb.store("y", dtype, (H, W), (i, j), top[i, j])
    return kb.build()


def elements(shape: tuple[int, ...], dtype: DType, missing: float) -> np.ndarray:
    """Numbers, some of them none, some infinite."""
    rng = np.random.default_rng(5)
    v = (50 * rng.standard_normal(shape)).astype(dtype.np)
    if dtype.is_float:
        v[rng.random(shape) < missing] = np.nan
        v[rng.random(shape) < missing] = -np.inf
    return v


@pytest.mark.parametrize("missing", [0.0, 0.06])
@pytest.mark.parametrize("text", ["Un8 Rk@hi5 Rk@lo5", "Un16 Tn32 Rk@hi5 Rk@lo5 Pn", "Un8 Rk@hi5", "Un8 Rk5 Jk"])
@pytest.mark.covering
def test_windows_along_the_lanes(text: str, missing: float) -> None:
    x = elements((N + K - 1,), float32, missing)
    with np.errstate(invalid="ignore"):
        windows = np.lib.stride_tricks.sliding_window_view(x, K)
        want = windows.max(axis=1) - windows.min(axis=1)
    for name in ("v2", "avx2", "cascadelake"):
        y = np.zeros(N, np.float32)
        interp.run(lower(apply(ranges(float32), parse(text), targets.named(name))), {"x": x, "y": y})
        np.testing.assert_array_equal(y, want)
    np.testing.assert_array_equal(best(ranges(float32), opts=parse(text), threads=1)(x), want)


@pytest.mark.parametrize("text", ["Uh3 Uw8 Rp3 Rq3", "Uh2 Uw16 Rp3 Rq3 Ph", "Uw4 Rq3"])
@pytest.mark.parametrize(("dtype", "size"), [(float64, False), (float32, True), (uint8, False)])
@pytest.mark.covering
def test_windows_over_rows(text: str, dtype: DType, size: bool) -> None:
    x = elements((H + 2, W + 2), dtype, 0.05)
    windows = np.lib.stride_tricks.sliding_window_view(np.abs(x) if size else x, (3, 3))
    kernel, opts = dilated(dtype, size), parse(text)
    for name in ("avx2", "cascadelake"):
        y = np.zeros((H, W), dtype.np)
        interp.run(lower(apply(kernel, opts, targets.named(name))), {"x": x, "y": y})
        np.testing.assert_array_equal(y, windows.max(axis=(2, 3)))


def count(program: Program, op: str) -> int:
    """Instructions of a kind in what runs where all is ordinary."""
    found, stack = 0, [s for p in program.phases for s in p.body.stmts]
    while stack:
        s = stack.pop()
        if isinstance(s, Instr):
            found += s.op == op
        elif type(s).__name__ != "If":
            stack += [x for b in bodies(s) for x in b.stmts]
    return found


def test_neighbours_share_what_their_windows_have_in_common() -> None:
    """Of three rows of results five rows of three elements are reduced: 5 · 2 + 3 · 2 steps, not 3 · 8; each is tested once."""
    program = lower(apply(dilated(float32), parse("Uh3 Uw8 Rp3 Rq3"), targets.named("avx2")))
    assert count(program, "lt") == 16
    assert count(program, "eq") == 10  # of each row two vectors hold what three windows have
    assert count(lower(apply(dilated(uint8), parse("Uh3 Uw16 Rp3 Rq3"), targets.named("avx2"))), "max") == 16


def test_the_model_counts_them_so() -> None:
    s = apply(dilated(float32), parse("Uh3 Uw8 Rp3 Rq3"), targets.named("avx2"))
    nest = s.nests[0]
    lane, regs = s.lanes(nest).lane, s.registers(nest)
    copies = {p.name: p.trips // 8 if p is lane else p.trips for p in regs}
    assert window_work(s, nest, regs, copies, (lane, 8)) == 26
    s = apply(dilated(float32), parse("Uh3 Uw8"), targets.named("avx2"))
    assert window_work(s, s.nests[0], s.registers(s.nests[0]), copies, (lane, 8)) is None


def test_the_order_with_most_in_common_is_taken() -> None:
    steps = [{"p": p, "q": q} for p in range(2) for q in range(3)]
    down = [[10 * (i + s["p"]) + s["q"] for s in steps] for i in range(2)]
    right = [[10 * s["p"] + j + s["q"] for s in steps] for j in range(2)]
    assert best_order(("p", "q"), steps, down) == (("p", "q"), 3 * 2 + 2)
    assert best_order(("p", "q"), steps, right) == (("q", "p"), 4 + 4)


def test_few_vectors_cover_all() -> None:
    assert covering({k: k for k in (*range(9), *range(16, 25))}, 16) == [0, 16, 24]
    assert covering({0: 0, 40: 40, 50: 50}, 16) == [0, 40, 50]


@pytest.mark.parametrize("target", ["v2", "avx2", "cascadelake"])
@pytest.mark.parametrize("how", ["mask", "mask of a function", "index"])
@pytest.mark.covering
def test_what_decides_where_is_stored_is_computed_exactly(how: str, target: str) -> None:
    """A store to a wrong place cannot be taken back."""
    kb = KernelBuilder("decided")
    i, a = kb.axis("n", N), kb.axis("k", K)
    x = kb.input("x", (N + K - 1,), float32)
    hi = kb.max("hi", (i,), a, x[i + a])
    if how == "mask":
        kb.store("y", float32, (2 * N,), (i,), x[i], mask=hi[i] > 0)
    elif how == "index":
        kb.store("y", float32, (2 * N,), (i,), x[i], (where(isnan(hi[i]), i + N, i),))
    else:
        kb.store("y", float32, (2 * N,), (i,), x[i], mask=exp(x[i]).ne(float("inf")))
    v = elements((N + K - 1,), float32, 0.06)
    v[3], v[11] = 1000.0, -1000.0
    top = np.lib.stride_tricks.sliding_window_view(v, K).max(axis=1)
    at = np.arange(N)
    want = np.full(2 * N, 77, np.float32)
    with np.errstate(over="ignore"):
        there = {"mask": top > 0, "index": at >= 0}.get(how, np.exp(v[:N]) != np.inf)
    want[(at + N * np.isnan(top) if how == "index" else at)[there]] = v[:N][there]
    y = np.full(2 * N, 77, np.float32)
    opts = "Un8" if how == "mask of a function" else "Un8 Rk5"
    interp.run(lower(apply(kb.build(), parse(opts), targets.named(target))), {"x": v, "y": y})
    np.testing.assert_array_equal(y, want)
