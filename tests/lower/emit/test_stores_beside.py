"""Stores in the loop of a reduction: what they give apart, with one evaluation of what both need, and never where order would count."""

from __future__ import annotations

from typing import Any

import guarded
import numpy as np
import pytest
from checks import check_compiled, check_floats, check_twin
from tilewright import interp
from tilewright.heuristics import starts
from tilewright.heuristics.model import estimate
from tilewright.ir import KernelBuilder, OptError, exp, float32, int32, where
from tilewright.ir.kernel import Kernel
from tilewright.ir.operators import cast
from tilewright.lower import lower
from tilewright.opts import apply, parse
from tilewright.program.program import For, Instr, Program, statements
from tilewright.targets import named

AVX2, AVX512, SSE = named("avx2"), named("cascadelake"), named("x86-64-v2")


def loss(n: int = 53) -> Kernel:
    """A sum of e / (1 + e), e = exp(x), its gradient, and whether it is more than a half."""
    kb = KernelBuilder("loss")
    i, j, k = kb.axis("n", n), kb.axis("n@sum", n), kb.axis("n@more", n)
    x = kb.input("x", (n,), float32)
    p = kb.value("p", (i,), 1.0 - 1.0 / (1.0 + exp(x[i])))
    total = kb.sum("total", (), j, p[j])
    kb.store("dx", float32, (n,), (i,), p[i] * (1.0 - p[i]))
    kb.store("more", int32, (n,), (k,), cast(p[k] > 0.5, int32))
    kb.store("mean", float32, (1,), (), total[()] * (1.0 / max(n, 1)), (0,))
    return kb.build()


def table(m: int = 5, n: int = 29) -> Kernel:
    """Products of two tables, their sums and largest ones along rows, and sums down columns; of what is stored of them, even columns and odd
    ones are of one output, and another one is from right to left."""
    kb = KernelBuilder("table")
    i, j = kb.axis("m", m), kb.axis("n", n)
    j2, j3, i2 = kb.axis("n@row", n), kb.axis("n@top", n), kb.axis("m@column", m)
    x, y = kb.input("x", (m, n), float32), kb.input("y", (m, n), float32)
    kb.store("row", float32, (m,), (i,), kb.sum("along", (i,), j2, x[i, j2] * y[i, j2])[i])
    kb.store("top", float32, (m,), (i,), kb.max("most", (i,), j3, x[i, j3] * y[i, j3])[i] + 1.0)
    kb.store("column", float32, (n,), (j,), kb.sum("down", (j,), i2, x[i2, j] * y[i2, j])[j])
    for c, e in enumerate((x[i, j] * y[i, j], x[i, j] - y[i, j])):
        kb.store("z", float32, (m, 2 * n), (i, j), e, (i, 2 * j + c))
    kb.store("turned", float32, (m, n), (i, j), x[i, j] + y[i, j], (i, n - 1 - j))
    kb.store("masked", float32, (m, n), (i, j), x[i, j] * y[i, j], mask=x[i, j] > y[i, j])
    return kb.build()


def joined(kernel: Kernel, text: str) -> set[tuple[str, ...]]:
    return set(apply(kernel, parse(text), AVX2).siblings)


def body(program: Program) -> list[Any]:
    return [s for p in program.phases for s in statements(p.body)]


FULL = [
    "Jn",
    "Un8 Jn",
    "Un16 Jn",
    "Un3 Jn",
    "Tn16 Un8 Jn",
    "Tn16 Un4 Jn",
    "Un8 Rn@sum2 Jn",
    "Rn@sum3 Jn",
    "PADn64 Un16 Jn",
    "Un8 Jn NTdx",
    "Un8 NTmore NTdx Jn",
]


@pytest.mark.parametrize("text", FULL)
@pytest.mark.parametrize("n", [1, 2, 7, 16, 53])
def test_a_whole_sum(text: str, n: int) -> None:
    kernel, opts = loss(n), parse(text)
    try:
        apply(kernel, opts, AVX2)
    except OptError:
        assert n < 53
        return
    check_twin(kernel, opts, AVX2)
    for target in (AVX2, AVX512, SSE):
        check_floats(kernel, opts, target)


ROWS = [
    *("Jn", "Un8 Jn", "Um4 Jn", "Um2 Un8 Jn", "Jn Mn@row<m", "Um4 Jn Tn8 Mn@row<m", "Um8 Jn", "Un16 Jn NTturned", "PADn32 Un16 Jn"),
    *("Jm", "Un8 Rm@column4 Jm", "Un8 Jm Mm@column<n", "Un8 Um2 Jm", "Un8 Jm NTz NTmasked", "Un8 Tn16 Jm Mm@column<n.t"),
]


@pytest.mark.parametrize("text", ROWS)
@pytest.mark.parametrize("sizes", [(5, 29), (1, 8), (3, 1), (1, 1), (8, 32)], ids=str)
def test_rows_and_columns(text: str, sizes: tuple[int, int]) -> None:
    kernel, opts = table(*sizes), parse(text)
    try:
        apply(kernel, opts, AVX2)
    except OptError:
        assert sizes != (8, 32)
        return
    check_twin(kernel, opts, AVX2)
    check_floats(kernel, opts, AVX512)


def test_what_joins() -> None:
    """Not the pairs of neighbours, which have an axis of their own; and each store has one place."""
    assert joined(loss(), "Jn@sum") == {("total", "dx", "more")}
    assert joined(table(), "Jn") == {("along", "most", "turned", "masked")}
    assert joined(table(), "Jm") == {("down", "turned", "masked")}


@pytest.mark.parametrize("text", ["Un8 Jn", "Un16 Jn"])
def test_compiled(text: str) -> None:
    check_compiled(loss(10007), parse(text))
    check_compiled(table(37, 101), parse(text), threads=2)


def test_one_loop_and_one_exponential() -> None:
    def found(text: str) -> tuple[int, int]:
        each = body(lower(apply(loss(64), parse(text), AVX2), expand=False))
        return sum(isinstance(s, For) for s in each), sum(isinstance(s, Instr) and s.op == "exp" for s in each)

    assert found("Un8") == (3, 3) or found("Un8")[1] > 1
    assert found("Un8 Jn") == (1, 1)


def test_what_is_not_ordinary_is_computed_and_added_again() -> None:
    """Of a step with an infinity, a NaN, or an overflow both the sum and the stores are those of any arguments."""
    n, special = 40, np.array([np.inf, -np.inf, 200.0, -200.0, 88.8, -104.0, 1e-40], np.float32)
    for at, x in enumerate((*special, np.float32(np.nan))):
        arrays = {"x": np.linspace(-2, 2, n, dtype=np.float32)}
        arrays["x"][5 * at] = x
        arrays |= {"dx": np.zeros(n, np.float32), "more": np.zeros(n, np.int32), "mean": np.zeros(1, np.float32)}
        interp.run(lower(apply(loss(n), parse("Un8 Jn"), AVX2)), arrays)
        with np.errstate(over="ignore"):
            p = 1 - 1 / (1 + np.exp(arrays["x"].astype(np.float64)))
        np.testing.assert_allclose(arrays["mean"], [p.sum() / n], rtol=1e-5)
        np.testing.assert_allclose(arrays["dx"], p * (1 - p), rtol=1e-4, atol=1e-6)
        assert arrays["more"].tolist() == (p > 0.5).astype(int).tolist()


@pytest.mark.parametrize("off", [0, 4])
@pytest.mark.parametrize("n", [64, 69])
def test_past_the_caches(off: int, n: int) -> None:
    program = lower(apply(loss(n), parse("Un16 Jn NTdx"), AVX512))
    x = np.linspace(-3, 3, n, dtype=np.float32)
    dx, more, mean = guarded.array(np.full(n, np.nan, np.float32), 64, off), np.zeros(n, np.int32), np.zeros(1, np.float32)
    interp.run(program, {"x": x, "dx": dx, "more": more, "mean": mean}, [])
    p = 1 - 1 / (1 + np.exp(x))
    np.testing.assert_allclose(dx, p * (1 - p), rtol=1e-4)
    np.testing.assert_allclose(mean, [p.mean()], rtol=1e-5)
    assert not guarded.broken(dx)


@pytest.mark.parametrize("text", ["Jn Sx@m", "Un8 Jn Sx@m", "Un8 Tn16 Jn Sx@n@sum", "Un8 Jn Pm", "Um2 Tm4 Jn Pm Mn@sum<m.t"])
def test_one_row_at_a_time(text: str) -> None:
    for m, n in ((8, 21), (12, 32)):
        kb = KernelBuilder("rows")
        i, j, k = kb.axis("m", m), kb.axis("n", n), kb.axis("n@sum", n)
        x, y = kb.input("x", (m, n), float32), kb.input("y", (n,), float32)
        kb.store("s", float32, (m,), (i,), kb.sum("total", (i,), k, x[i, k] * y[k])[i])
        kb.store("z", float32, (m, n), (i, j), x[i, j] * y[j] + 1.0)
        check_twin(kb.build(), parse(text), AVX2)


def test_in_place() -> None:
    """A step that stores over one of its inputs, beside a sum of the other one."""
    n = 45
    kb = KernelBuilder("step")
    i, j = kb.axis("n", n), kb.axis("n@sum", n)
    w, g = kb.input("w", (n,), float32), kb.input("g", (n,), float32)
    norm = kb.sum("norm", (), j, exp(g[j]))
    out = kb.store("w2", float32, (n,), (i,), w[i] - 0.5 * exp(g[i]))
    kb.store("total", float32, (1,), (), norm[()], (0,))
    kb.in_place(out, w)
    kernel = kb.build()
    for text in ("Jn", "Un8 Jn", "Un8 Rn@sum2 Jn"):
        assert apply(kernel, parse(text), AVX2).siblings == (("norm", "w2"),)
        x, y, total = np.linspace(0, 1, n, dtype=np.float32), np.linspace(-2, 2, n, dtype=np.float32), np.zeros(1, np.float32)
        want = x - 0.5 * np.exp(y)
        interp.run(lower(apply(kernel, parse(text), AVX2)), {"w": x, "w2": x, "g": y, "total": total})
        np.testing.assert_allclose(x, want, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(total, [np.exp(y).sum()], rtol=1e-5)


def kernel_of(kind: str, n: int = 32) -> Kernel:
    """A sum over n, and a store over n that cannot run beside it."""
    kb = KernelBuilder(kind)
    i, j = kb.axis("n", n), kb.axis("n@sum", n)
    x, at = kb.input("x", (n,), float32), kb.input("at", (n,), int32, range=(0, n - 1))
    many = kb.input("many", (1,), int32, range=(0, n))
    limited = kind == "limited"
    total = kb.sum("total", (), j, where(cast(j, int32) < many[0], x[j], 0.0) if limited else x[j])
    if kind == "needs":
        kb.store("y", float32, (n,), (i,), x[i] / total[()])
    elif kind == "adds":
        kb.store("y", float32, (n,), (i,), x[i], (cast(at[i], "int64"),), combine="add")
    elif kind == "nothing in common":
        kb.store("y", float32, (n,), (i,), cast(at[i], float32))
    else:
        kb.store("y", float32, (n,), (i,), x[i] * 2.0)
    kb.store("s", float32, (1,), (), total[()], (0,))
    return kb.build()


@pytest.mark.parametrize(
    ("kernel", "text", "words"),
    [
        *(
            (kernel_of(kind), "Jn", "nor does a store at these points share anything")
            for kind in ("needs", "adds", "limited", "nothing in common")
        ),
        (kernel_of("plain"), "Un@sum8 Jn", "the same copies along n"),
        (kernel_of("plain"), "Pn Jn", "it is reduced in total"),
        (kernel_of("plain"), "Sy@n Jn", "runs in the loop of total only if|nor does a store"),
    ],
)
def test_refusals(kernel: Kernel, text: str, words: str) -> None:
    with pytest.raises(OptError, match=words):
        apply(kernel, parse(text), AVX2)


def test_threads_of_a_group_store_apart() -> None:
    with pytest.raises(OptError, match="without needing each other"):
        apply(loss(), parse("Jn"), named("sm_90a"))


def test_start_schedules_and_the_model_know_it() -> None:
    kernel = loss(40001)
    assert "FUSE" in {o.op for o in starts(kernel, AVX2)[0]}
    apart, beside = (estimate(apply(kernel, parse(text), AVX2)) for text in ("Un16", "Un16 Jn"))
    assert 0.3 * apart < beside < 0.8 * apart
