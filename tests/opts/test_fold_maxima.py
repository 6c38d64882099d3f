"""FOLD of attention whose maximum is not subtracted as it is: kept finite, shifted, or part of a log-sum-exp. Scores are large, so that an
exponential of one alone would be infinite."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tilewright.interp import run as interpret
from tilewright.ir import KernelBuilder, OptError, exp, float32, log, maximum, where
from tilewright.ir.evaluation import evaluate
from tilewright.ir.kernel import Kernel
from tilewright.ir.operators import cast
from tilewright.lower import lower
from tilewright.opts import apply, parse
from tilewright.opts.options.fold import folded
from tilewright.targets import named

INF = float("inf")
S, T, D = 5, 11, 4
TILES: list[Any] = [["FOLD", "k"], ["TILE", "k.o", 4], ["UPCAST", "s", 5]]
CENTRES: dict[str, Callable[[Any, Any], Any]] = {
    "clamped": lambda m, sink: maximum(m, -1e30),
    "clamped low": lambda m, sink: maximum(-1e30, m),
    "beside a sink": maximum,
    "unless infinite": lambda m, sink: where(m.eq(-INF), 0.0, m),
    "where finite": lambda m, sink: where(m > -INF, m, 0.0),
    "where not infinite": lambda m, sink: where(m.ne(-INF), m, 0.0),
    "shifted": lambda m, sink: m + 1.0,
}


def attention(centre: Callable[[Any, Any], Any], masked: bool = False, safe: bool = False, lse: bool = False) -> Kernel:
    """y[s, d] of scores that see as many keys as a row's number says. `masked`: weights are 0 under a mask of their own; `safe`: no
    division by 0; `lse`: weights are exponentials of what the log-sum-exp is subtracted from."""
    kb = KernelBuilder("written_out")
    i, o, e = kb.axis("s", S), kb.axis("d@out", D), kb.axis("d@dot", D)
    jd, jm, js, jo = (kb.axis(f"k@{n}", T) for n in ("dot", "max", "sum", "out"))
    q, k, v = kb.input("q", (S, D), float32), kb.input("k", (T, D), float32), kb.input("v", (T, D), float32)
    sink, n = kb.input("sink", (S,), float32), kb.input("n", (S,), "int32", range=(0, T))
    dot = kb.sum("dot", (i, jd), e, q[i, e] * k[jd, e])

    def score(j: Any) -> Any:
        return where(cast(j, "int32") < n[i], dot[i, j], -INF)

    def weight(j: Any, m: Any) -> Any:
        return where(cast(j, "int32") < n[i], exp(score(j) - m), 0.0) if masked else exp(score(j) - m)

    top = kb.max("top", (i,), jm, score(jm))
    m = centre(top[i], sink[i])
    total = kb.sum("total", (i,), js, weight(js, m))
    read = kb.value("read", (i,), m + log(total[i]))[i] if lse else m
    mix = kb.sum("mix", (i, o), jo, weight(jo, read) * v[jo, o])
    kb.store("y", float32, (S, D), (i, o), mix[i, o] if lse else mix[i, o] / (maximum(total[i], 1e-20) if safe else total[i]))
    if safe:
        kb.store("z", float32, (S,), (i,), m + log(total[i]))
    return kb.build()


def check(kernel: Kernel, many: tuple[int, ...], scale: float) -> None:
    rng = np.random.default_rng(0)
    inputs = {b.name: rng.standard_normal(b.shape).astype(np.float32) for b in kernel.inputs}
    inputs["q"] *= scale
    inputs["sink"] -= 1000.0
    inputs["n"] = np.array(many, np.int32)
    want = evaluate(kernel, inputs)
    out = {b.name: np.zeros(b.shape, np.float32) for b in kernel.outputs}
    interpret(lower(apply(kernel, parse(TILES), named("avx2"))), {**inputs, **out})
    for name, got in out.items():
        np.testing.assert_allclose(got, want[name], rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("name", CENTRES)
def test_large_scores_stay_finite(name: str) -> None:
    check(attention(CENTRES[name]), (1, 3, 4, 5, 11), 100.0)


def test_weights_under_a_log_sum_exp() -> None:
    check(attention(lambda m, sink: m, lse=True), (1, 3, 4, 5, 11), 100.0)
    check(attention(CENTRES["unless infinite"], lse=True), (1, 3, 4, 5, 11), 100.0)


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("name", ["clamped", "unless infinite", "where finite", "beside a sink"])
def test_rows_that_see_nothing_are_0_where_numpy_says_so(name: str, masked: bool) -> None:
    with np.errstate(divide="ignore"):
        check(attention(CENTRES[name], masked, safe=True), (0, 3, 0, 5, 11), 1.0)


def test_weights_with_a_mask_of_their_own_are_0_in_such_rows() -> None:
    """Their maximum is −∞ there, and what it is subtracted from does not count."""
    with np.errstate(divide="ignore", invalid="ignore"):
        check(attention(lambda m, sink: m, masked=True, safe=True), (0, 3, 0, 5, 11), 1.0)
        check(attention(lambda m, sink: m, safe=True), (0, 3, 0, 5, 11), 1.0)


def test_what_nothing_keeps_small_is_refused() -> None:
    kernel = attention(lambda m, sink: m * m)
    with pytest.raises(OptError, match="overflows"):
        folded(kernel, "k")
