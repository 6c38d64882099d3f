"""Extremes of windows without a loop: neighbours share the parts of their windows, and elements are tested once."""

from __future__ import annotations

import numpy as np
import pytest
from tilewright import interp, targets
from tilewright.heuristics.model.windows import window_work
from tilewright.ir import KernelBuilder, absolute, exp, float32, float64, isnan, uint8, where
from tilewright.ir.dtypes import DType
from tilewright.ir.kernel import Kernel
from tilewright.ir.node import Node
from tilewright.lower import lower
from tilewright.opts import apply, parse
from tilewright.opts.analysis.windows import best_order, covering
from tilewright.plan import best
from tilewright.program.program import Instr, Program, bodies

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
