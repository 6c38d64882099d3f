"""Several outputs that are stored past the caches: they ask once whether they may, and what they share is computed once for each answer."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import guarded
import numpy as np
import pytest
import run_text
from checks import check_compiled, check_floats, check_twin
from random_schedules import grow
from run_text import c
from tilewright import devices, interp, targets
from tilewright.heuristics import starts
from tilewright.heuristics.model import estimate
from tilewright.interp import run
from tilewright.interp import run as interpret
from tilewright.ir import Kernel, KernelBuilder, Node, OptError, bfloat16, cast, clip, exp, float16, float32, int32, maximum, sym, where
from tilewright.ir.dtypes import DType
from tilewright.ir.errors import InternalError
from tilewright.lower import lower
from tilewright.lower.emit.stores import ALONE, SEVERAL
from tilewright.opts import apply, opt, parse
from tilewright.program.ops import PAGE
from tilewright.program.program import For, If, Instr, Program, statements, touched
from tilewright.program.verify import verify
from tilewright.renderers import render
from tilewright.targets import named

CASCADE = targets.named("cascadelake")
LANES = 16


def pair(n: int) -> Kernel:
    """exp(x) + 1 and exp(x) - 1."""
    kb = KernelBuilder("pair")
    i = kb.axis("n", n)
    shared = exp(kb.input("x", (n,), float32)[i])
    for name, by in (("y", 1.0), ("z", -1.0)):
        kb.store(name, float32, (n,), (i,), shared + by)
    return kb.build()


def lowered(n: int, *past: str) -> Program:
    opts = [opt("UPCAST", "n", LANES), *(opt("CACHE", name, policy="stream") for name in past)]
    return lower(apply(pair(n), opts, CASCADE), expand=False)


def counts(program: Program) -> dict[str, int]:
    body = [s for p in program.phases for s in statements(p.body)]
    named = [s.op for s in body if isinstance(s, Instr)]
    return {"branches": sum(isinstance(s, If) for s in body), "exp": named.count("exp")}


def test_what_both_share_is_computed_once_for_each_answer() -> None:
    plain, both = counts(lowered(4 * LANES)), counts(lowered(4 * LANES, "y", "z"))
    assert plain == {"branches": 0, "exp": 1}
    assert both == {"branches": 2, "exp": 2}


@pytest.mark.parametrize("past", [("y",), ("z",), ("y", "z")])
@pytest.mark.parametrize("off", [(0, 0), (4, 0), (0, 4), (4, 4)], ids=str)
@pytest.mark.parametrize("n", [4 * LANES, 4 * LANES + 5])
@pytest.mark.covering(pairs=True)
def test_outputs_of_any_alignment_are_written_whole(n: int, off: tuple[int, int], past: tuple[str, ...]) -> None:
    program = lower(apply(pair(n), [opt("UPCAST", "n", LANES), *(opt("CACHE", name, policy="stream") for name in past)], CASCADE))
    x = np.linspace(-3, 3, n, dtype=np.float32)
    y, z = (guarded.array(np.full(n, np.nan, np.float32), 64, by) for by in off)
    run(program, {"x": x, "y": y, "z": z}, [])
    np.testing.assert_allclose(y, np.exp(x) + 1, rtol=1e-6)
    np.testing.assert_allclose(z, np.exp(x) - 1, rtol=1e-5, atol=1e-6)
    assert not guarded.broken(y) and not guarded.broken(z)


# Outputs that lie in a page where loads come to next are stored to as any others: those stores past the caches would
# be written early.


N = 2048
AVX2 = targets.named("avx2")


def outputs(many: int = 1, shift: int = 0) -> Kernel:
    kb = KernelBuilder("outputs")
    i = kb.axis("n", N)
    x = kb.input("x", (N + 8,), float32)
    for k in range(many):
        kb.store(f"y{k}", float32, (N,), (i,), x[i] * float(k + 1) + x[i + shift])
    return kb.build()


def past(many: int) -> str:
    return "Un16 " + " ".join(f"Cy{k}/stream" for k in range(many))


def windows(program: Program) -> list[tuple[int, ...]]:
    """(output, input, first byte, bytes) of each condition."""
    return [s.picks for p in program.phases for s in statements(p.body) if isinstance(s, Instr) and s.op == "apart"]


def test_several_rows_at_once_keep_a_longer_distance() -> None:
    assert windows(lower(apply(outputs(1), parse(past(1)), AVX2))) == [(1, 0, 1, ALONE - 1)]
    assert windows(lower(apply(outputs(2), parse(past(2)), AVX2))) == [(1, 0, 1, SEVERAL - 1), (2, 0, 1, SEVERAL - 1)]


def test_loads_beside_each_other_have_one_window() -> None:
    assert windows(lower(apply(outputs(2, 4), parse(past(2)), AVX2))) == [(k, 0, 1, SEVERAL - 1 + 16) for k in (1, 2)]


def test_what_is_read_at_borders_counts_as_inside() -> None:
    """A stencil whose neighbours are clamped loads the element before each, so an output at the same place in a page is too near."""
    kb = KernelBuilder("clamped")
    i, j = kb.axis("h", 64), kb.axis("w", 1024)
    x = kb.input("x", (64, 1024), float32)
    kb.store("y", float32, (64, 1024), (i, j), x[i, j] + x[i, maximum(j - 1, 0)])
    kernel = kb.build()
    found = windows(lower(apply(kernel, parse("Uw8 Uh2 Cy/stream"), AVX2)))
    assert any((0 - first) % PAGE < size for _, _, first, size in found)
    assert not windows(lower(apply(kernel, parse("Uw16 Uh2 Cy/stream"), targets.named("znver5")))), "there it does not matter"


def test_rows_that_forbid_most_of_a_page_leave_no_place() -> None:
    kb = KernelBuilder("rows")
    i, j = kb.axis("h", 32), kb.axis("w", 800)
    x = kb.input("x", (40, 800), float32)
    total: Node = x[i, j]
    for k in range(1, 8):
        total = total + x[i + k, j] * float(k)
    kb.store("y", float32, (32, 800), (i, j), total)
    program = lower(apply(kb.build(), parse("Uw8 Uh2 Cy/stream"), AVX2))
    assert not windows(program) and not any(
        getattr(s.attr, "nt", False) for p in program.phases for s in statements(p.body) if isinstance(s, Instr)
    )


@pytest.mark.parametrize("off", [0, 64, 128, 1024, 2048, PAGE - 64])
@pytest.mark.parametrize("many", [1, 2])
@pytest.mark.covering
def test_what_is_stored_is_the_same_wherever_it_lies(many: int, off: int) -> None:
    device = devices.get("cpu")
    program = lower(apply(outputs(many, 4), parse(past(many)), device.target))
    room = [np.full(4 * N + 3 * PAGE, 7, np.uint8) for _ in range(many + 1)]
    x, *ys = (r[-r.ctypes.data % PAGE + (off if k else 0) :][: 4 * (N if k else N + 8)].view(np.float32) for k, r in enumerate(room))
    x[:] = np.random.default_rng(0).standard_normal(N + 8)
    source = render(program, device.target)
    device.load(device.build(source), source.signature, 1).run([a.ctypes.data for a in (x, *ys)])
    for k, y in enumerate(ys):
        np.testing.assert_allclose(y, x[:N] * (k + 1) + x[4 : N + 4], rtol=1e-6, atol=1e-6)
    again = [np.full_like(y, 3.0) for y in ys]
    c(lower(apply(outputs(many, 4), parse(past(many)), targets.host())), [x.copy(), *again])
    for y, z in zip(ys, again, strict=True):
        np.testing.assert_array_equal(y, z)


@pytest.mark.parametrize("picks", [(0, 1, 0), (0, 9, 0, 64), (0, 1, PAGE, 64), (0, 1, 0, 0), (0, 1, -1, 64), (0, 1, 0, PAGE)])
def test_a_window_that_is_none_is_found(picks: tuple[int, ...]) -> None:
    program = lower(apply(outputs(1), parse(past(1)), AVX2))
    verify(program)
    for s in (s for p in program.phases for s in statements(p.body) if isinstance(s, Instr) and s.op == "apart"):
        object.__setattr__(s, "attr", picks)
    with pytest.raises(InternalError, match="apart"):
        verify(program)


# Stamps that data places: their rows are combined in vectors, whatever a mask leaves out of them, and never beside
# their row.


LEVELS = ("x86-64-v2", "avx2", "x86-64-v4")
H, W, R = 9, 21, 2


def stamped(combine: str = "add", dtype: str = "float32", masked: str = "inside", batch: int = 1) -> Kernel:
    """Squares of 5 by 5, weighed and combined where data says; cut off at the border, or also where data says so of each element."""
    kb = KernelBuilder("stamped")
    g, i, a, b = kb.axis("g", batch), kb.axis("i", 7), kb.axis("a", 2 * R + 1), kb.axis("b", 2 * R + 1)
    inset = 0 if masked else R
    y = kb.input("y", (batch, 7), "int32", range=(inset, H - 1 - inset))[g, i]
    x = kb.input("x", (batch, 7), "int32", range=(inset, W - 1 - inset))[g, i]
    w = kb.input("w", (batch, 7, 2 * R + 1), dtype)
    row, column = cast(y, "int64") + a - R, cast(x, "int64") + b - R
    value = w[g, i, a] + w[g, i, b] if combine != "add" else w[g, i, a] * w[g, i, b]
    holds = None
    if masked:
        holds = (row >= 0) & (row < H) & (column >= 0) & (column < W)
    if masked == "data":
        holds = holds & (w[g, i, b] > w[g, i, 0])
    kb.store("out", dtype, (batch, H, W), (g, i, a, b), value, (g, row, column), combine=combine, mask=holds)
    return kb.build()


OPTS = ["(none)", "Ub2", "PADb8 Ub8", "Ub5", "PADb8 Ub4", "Uout.2:8 PADb8 Ub8"]


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("masked", ["", "inside", "data"])
@pytest.mark.parametrize("combine", ["add", "max"])
@pytest.mark.covering(pairs=True)
def test_stamps_mean_what_they_say(level: str, masked: str, combine: str) -> None:
    for dtype in ("float32", "float64", "int32", "uint8"):
        for opts in OPTS:
            for seed in range(2):
                check_twin(stamped(combine, dtype, masked), parse(opts), targets.named(level), None, seed)


@pytest.mark.parametrize("level", LEVELS)
def test_each_image_is_its_items_own(level: str) -> None:
    for opts in ("Pg PADb8 Ub8", "Pg Ub5"):
        for masked in ("", "inside", "data"):
            check_twin(stamped("add", "float32", masked, 3), parse(opts), targets.named(level))


@pytest.mark.many
@pytest.mark.parametrize("masked", ["", "inside", "data"])
def test_random_schedules_equal_the_reference(masked: str) -> None:
    rng = random.Random(masked)
    for n in range(12):
        kernel = stamped("add" if n % 3 else "max", ("float32", "int16")[n % 2], masked, 1 + 2 * (n % 2))
        target = targets.named(LEVELS[n % 3])
        check_twin(kernel, grow(kernel, target, [rng.randrange(1 << 20) for _ in range(1 + n % 5)]), target, None, n)


@pytest.mark.parametrize("masked", ["", "inside", "data"])
def test_compiled_code_agrees(masked: str) -> None:
    for dtype in ("float32", "uint8"):
        for opts in OPTS:
            check_compiled(stamped("add", dtype, masked), parse(opts))


def test_c_agrees() -> None:
    import numpy as np

    rng = np.random.default_rng(1)
    y, x = rng.integers(0, H, (1, 7)).astype(np.int32), rng.integers(0, W, (1, 7)).astype(np.int32)
    w = rng.standard_normal((1, 7, 2 * R + 1)).astype(np.float32)
    program = lower(apply(stamped("add", "float32", "data"), parse("PADb8 Ub8"), targets.host()))
    got, want = np.full((1, H, W), 7, np.float32), np.full((1, H, W), 7, np.float32)
    run_text.c(program, [y, x, w, got])
    interpret(program, {"y": y, "x": x, "w": w, "out": want}, [])
    assert np.array_equal(got, want)


def test_rows_are_combined_in_vectors() -> None:
    program = lower(apply(stamped("add", "float32", ""), parse("PADb8 Ub4"), targets.named("avx2")))
    stores = [s for p in program.phases for s in statements(p.body) if isinstance(s, Instr) and s.op == "store"]
    assert any(s.args[1].lanes == 4 for s in stores)


def test_lanes_that_may_meet_write_one_after_the_other() -> None:
    """Along an axis that is in no index, or in two, points of one vector may be one element."""
    kb = KernelBuilder("met")
    i, b = kb.axis("i", 5), kb.axis("b", 8)
    at, x = kb.input("at", (5, 8), "int32", range=(0, 11)), kb.input("x", (5, 8), float32)
    kb.store("y", float32, (20,), (i, b), x[i, b], (cast(at[i, b], "int64") + b,), combine="add")
    kernel = kb.build()
    for level in LEVELS:
        check_twin(kernel, parse("Ub8"), targets.named(level))
    program = lower(apply(kernel, parse("Ub8"), targets.named("avx2")))
    stores = [s for p in program.phases for s in statements(p.body) if isinstance(s, Instr) and s.op == "store"]
    assert stores and not any(s.args[1].lanes == 8 and mem.space == "param" and mem.base == 2 for s in stores for mem, _ in touched(s))


def test_a_number_that_all_points_add_to_is_no_row() -> None:
    kb = KernelBuilder("trace")
    i, j = kb.axis("i", 9), kb.axis("j", 8)
    x = kb.input("x", (9, 8), float32)
    kb.store("y", float32, (), (i, j), x[i, j], (), combine="add")
    for opts in ("(none)", "Uj8"):
        check_twin(kb.build(), parse(opts), targets.named("avx2"))
    assert starts(kb.build(), targets.named("avx2"))


@pytest.mark.parametrize("opts", ["Ui4 Ub8", "Ui8 Ub8", "Ub8 Ui8", "Ub8 Ui4"])
@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.covering
def test_copies_past_an_extent_beside_vectors(opts: str, level: str) -> None:
    kb = KernelBuilder("rows")
    i, b = kb.axis("i", 7), kb.axis("b", 8)
    x, w = kb.input("x", (7,), "int32", range=(-3, 20))[i], kb.input("w", (7, 8), float32)
    column = cast(x, "int64") + b
    kb.store("out", float32, (16,), (i, b), w[i, b], (column,), combine="add", mask=(column >= 0) & (column < 16))
    for seed in range(3):
        check_twin(kb.build(), parse(opts), targets.named(level), None, seed)


def test_where_the_last_write_counts_it_stays_the_last() -> None:
    kb = KernelBuilder("last")
    i, a, b = kb.axis("i", 4), kb.axis("a", 2), kb.axis("b", 3)
    x, w = kb.input("x", (4,), "int32", range=(0, 5))[i], kb.input("w", (4, 3), "int32")
    kb.store("out", "int32", (8,), (i, a, b), w[i, b] * cast(a + 1, "int32"), (cast(x, "int64") + b,), mask=w[i, b] > 0)
    kernel = kb.build()
    for opts in ("(none)", "Ub3"):
        for seed in range(5):
            check_twin(kernel, parse(opts), targets.named("avx2"), None, seed)
    for opts in ("Ub3 Ua2 Ui2", "Ub3 Ui4", "Ua2", "Mb<i", "Ma<i"):
        with pytest.raises(OptError, match="can meet"):
            apply(kernel, parse(opts), targets.named("avx2"))


# Stores in the loop of a reduction: what they give apart, with one evaluation of what both need, and never where
# order would count.


AVX512, SSE = named("cascadelake"), named("x86-64-v2")


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
    for k, e in enumerate((x[i, j] * y[i, j], x[i, j] - y[i, j])):
        kb.store("z", float32, (m, 2 * n), (i, j), e, (i, 2 * j + k))
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
    "Un8 Jn Cdx/stream",
    "Un8 Cmore/stream Cdx/stream Jn",
]


@pytest.mark.parametrize("text", FULL)
@pytest.mark.parametrize("n", [1, 2, 7, 16, 53])
@pytest.mark.covering
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
    *("Jn", "Un8 Jn", "Um4 Jn", "Um2 Un8 Jn", "Jn Mn@row<m", "Um4 Jn Tn8 Mn@row<m", "Um8 Jn", "Un16 Jn Cturned/stream", "PADn32 Un16 Jn"),
    *("Jm", "Un8 Rm@column4 Jm", "Un8 Jm Mm@column<n", "Un8 Um2 Jm", "Un8 Jm Cz/stream Cmasked/stream", "Un8 Tn16 Jm Mm@column<n.t"),
]


@pytest.mark.parametrize("text", ROWS)
@pytest.mark.parametrize("sizes", [(5, 29), (1, 8), (3, 1), (1, 1), (8, 32)], ids=str)
@pytest.mark.covering
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
    program = lower(apply(loss(n), parse("Un16 Jn Cdx/stream"), AVX512))
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


# Points of scatters: those that data leaves out, products that are added, and places that are only read.


def compacted(combine: str = "add", dtype: str = "float32", n: int = 37, loose: bool = False) -> Kernel:
    """The positive numbers of each row without gaps. `loose`: places that only the mask keeps inside."""
    kb = KernelBuilder("compacted")
    i, j = kb.axis("b", 3), kb.axis("n", n)
    x = kb.input("x", (3, n), dtype)
    if loose:
        at = kb.input("at", (3, n), int32, range=(-3, n - 1))[i, j]
        place, mask = cast(at, "int64"), at >= 0
    else:
        before = kb.scan("add", "before", (i, j), j, cast(x[i, j] > 0, int32))
        place, mask = cast(clip(before[i, j] - 1, 0, n - 1), "int64"), x[i, j] > 0
    kb.store("y", dtype, (3, n), (i, j), x[i, j], (i, place), combine=combine, mask=mask)
    return kb.build()


def triplets() -> Kernel:
    """Products that are added where data says."""
    kb = KernelBuilder("triplets")
    i = kb.axis("z", 101)
    row, column = kb.input("row", (101,), int32, range=(0, 12)), kb.input("column", (101,), int32, range=(0, 10))
    value, x = kb.input("value", (101,), float32), kb.input("x", (11,), float32)
    kb.store("y", float32, (13,), (i,), value[i] * x[cast(column[i], "int64")], (cast(row[i], "int64"),), combine="add")
    return kb.build()


def cubes() -> Kernel:
    """What is computed along lanes, and added where data says."""
    kb = KernelBuilder("cubes")
    i = kb.axis("z", 104)
    row, value = kb.input("row", (104,), int32, range=(0, 12)), kb.input("value", (104,), float32)
    v = value[i]
    kb.store("y", float32, (13,), (i,), v * v * v + v, (cast(row[i], "int64"),), combine="add")
    return kb.build()


def ops(kernel: Kernel, opts: str) -> Counter[str]:
    """How many instructions of each kind there are; "if": branches."""
    program = lower(apply(kernel, parse(opts), AVX2))
    found = [s for p in program.phases for s in statements(p.body)]
    return Counter("if" if isinstance(s, If) else s.op for s in found if isinstance(s, (If, Instr)))


@pytest.mark.parametrize("opts", ["(none)", "Un4", "Un8 Uy.1:8", "Ub3", "Pb"])
@pytest.mark.parametrize("loose", [False, True])
@pytest.mark.covering
def test_points_that_data_leaves_out(opts: str, loose: bool) -> None:
    check_twin(compacted(loose=loose, n=40), parse(opts), AVX2)
    check_compiled(compacted(loose=loose, n=40), parse(opts))
    check_twin(compacted(loose=loose), parse("(none)"), AVX2)


@pytest.mark.many
@pytest.mark.parametrize("combine", ["add", "max", "min", "and", "or", "xor"])
def test_what_changes_nothing_is_combined(combine: str) -> None:
    for dtype in ("int32", "uint8", *(["float32"] if combine in ("add", "max", "min") else [])):
        for opts in ("(none)", "Un8"):
            check_twin(compacted(combine, dtype, n=40), parse(opts), AVX2)


def test_no_branch_where_the_place_exists() -> None:
    for opts in ("(none)", "Un8"):
        assert ops(compacted(n=40), opts)["if"] == 0
        assert ops(compacted(n=40, loose=True), opts)["if"] > 0
        assert ops(compacted("max", n=40), opts)["if"] > 0  # (of floats that are no numbers)
    assert ops(compacted(n=1 << 15), "(none)")["if"] == 0  # in the second cache
    assert ops(compacted(n=1 << 18), "(none)")["if"] > 0


def test_products_are_added_in_one_operation() -> None:
    assert ops(triplets(), "(none)")["fma"] == 1
    check_twin(triplets(), parse("Uz4"), AVX2)
    check_compiled(triplets(), parse("Uz8"))


def test_lanes_are_for_arithmetic() -> None:
    found = ops(triplets(), "Uz8")
    assert not found["gather"] and not found["extract"] and not found["insert"]
    found = ops(cubes(), "Uz8")
    assert found["extract"] == 8  # the results, and no place
    check_twin(cubes(), parse("Uz8"), AVX2)
    check_compiled(cubes(), parse("Uz8"))


@pytest.mark.many
@pytest.mark.parametrize("combine", ["add", "max", "min"])
@pytest.mark.parametrize("dtype", [float16, bfloat16])
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.covering(pairs=True)
def test_points_of_short_floats_are_combined_as_float32(combine: Any, dtype: DType, masked: bool) -> None:
    """And their output begins with what changes nothing, in its own type: nothing is written behind it."""
    kb = KernelBuilder("short")
    i = kb.axis("n", 37)
    x, at, on = kb.input("x", (37,), dtype), kb.input("at", (37,), int32, range=(0, 4)), kb.input("on", (37,), int32)
    kb.store("y", dtype, (5,), (i,), x[i], indices=(at[i],), combine=combine, mask=on[i] > 0 if masked else None)
    kernel = kb.build()
    for listed in ([], [["UPCAST", "n", 8]]):
        check_twin(kernel, parse(listed), targets.named("avx2"))
        check_compiled(kernel, parse(listed))


@pytest.mark.parametrize("step", [-1, 2])
@pytest.mark.parametrize("upcast", [2, 4, 8])
def test_lanes_past_the_last_point_touch_nothing(upcast: int, step: int) -> None:
    """Their places would lie outside of the output, which the checked Program would say."""
    kb = KernelBuilder("turned")
    i = kb.axis("n", 7)
    x, on = kb.input("x", (7,), int32), kb.input("on", (7,), "int8")
    kb.store("y", int32, (13,), (i,), where(on[i] > 0, x[i] * x[i], 0), (6 - i if step < 0 else 2 * i,), combine="add")
    check_twin(kb.build(), parse(f"Un{upcast}"), AVX2)


# Scatters into floats of 16 bits: combined in float32, and rounded where they are written.


def scattered(dtype: str, combine: str, masked: bool) -> Kernel:
    """Elements, those above 0 if `masked`, combined at the places that are read. Every place has few of them."""
    kb = KernelBuilder("scattered")
    i, j = kb.axis("m", 3), kb.axis("n", 13)
    x, at = kb.input("x", (3, 13), dtype), kb.input("at", (3, 13), "int32", range=(0, 6))
    mask = x[i, j] > 0 if masked else None
    kb.store("y", dtype, (3, 7), (i, j), x[i, j], (i, cast(at[i, j], "int64")), combine=combine, mask=mask)
    return kb.build()


@pytest.mark.parametrize("opts", ["(none)", "Un13", "Pm"])
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("combine", ["add", "max"])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.covering(pairs=True)
def test_results_are_rounded_where_they_are_written(dtype: str, combine: str, masked: bool, opts: str) -> None:
    kernel = scattered(dtype, combine, masked)
    check_twin(kernel, parse(opts), named("avx2"))
    check_floats(kernel, parse(opts), named("avx2"))
    check_compiled(kernel, parse(opts))


# copies in a loop -----------------------------------------------------------------------------------------------------


def product(m: Any, n: Any, dtype: DType = float32, turned: bool = False, two: bool = False) -> Kernel:
    """exp of a product and a bias, stored as rows or as columns; `two`: the product itself as well."""
    kb = KernelBuilder("product")
    i, j, k = kb.axis("m", m), kb.axis("n", n), kb.axis("k", 7)
    a, b, bias = kb.input("a", (m, 7), dtype), kb.input("b", (7, n), dtype), kb.input("bias", (n,), dtype)
    c = kb.sum("c", (i, j), k, a[i, k] * b[k, j])[i, j]
    place, shape = ((j, i), (n, m)) if turned else ((i, j), (m, n))
    kb.store("y", dtype, shape, place, cast(exp(c + bias[j]), dtype))
    if two:
        kb.store("z", dtype, shape, place, cast(c, dtype))
    return kb.build()


def functions(kernel: Kernel, opts: str, level: str = "znver4") -> int:
    """How many vectors of exp a program has in its text."""
    program = lower(apply(kernel, parse(opts), targets.named(level)), expand=False)
    return sum(isinstance(s, Instr) and s.op == "exp" for p in program.phases for s in statements(p.body))


def test_functions_of_many_accumulators_are_written_once_a_row() -> None:
    kernel = product(24, 64)
    assert functions(kernel, "Um6 Un64") == 4
    assert functions(kernel, "Um4 Un64") == 16  # (as many as are written out)
    assert functions(product(24, 64, turned=True), "Um6 Un64") > 16  # (rows that are turned in registers stay side by side)
    assert functions(kernel, "Um6 Un64", "sm_90a") > 16  # (a thread's registers have no numbers)


@pytest.mark.parametrize("m,n", [(24, 128), (23, 127), (6, 113), (sym("m", 1, 40), 125), (17, sym("n", 1, 300))])
@pytest.mark.parametrize("level", ["x86-64-v2", "avx2", "znver4"])
@pytest.mark.parametrize("dtype", [float32, bfloat16])
@pytest.mark.parametrize("two", [False, True])
@pytest.mark.covering
def test_rows_in_a_loop_are_right(m: Any, n: Any, level: str, dtype: DType, two: bool) -> None:
    kernel, numbers = product(m, n, dtype, two=two), {"m": 17, "n": 203}
    opts = parse("Um6 Un64 Pm")
    sizes = {name: numbers[name] for name, size in (("m", m), ("n", n)) if isinstance(size, Node)}
    check_twin(kernel, opts, targets.named(level), sizes)
    check_compiled(kernel, opts, targets.named(level), sizes)
