"""Loads whose lanes are known, at borders: whole vectors and a shuffle."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from checks import check_compiled, check_floats, check_twin
from hypothesis import HealthCheck, Phase, given, note, settings
from hypothesis import strategies as st
from in_place_kernels import KERNELS, check_in_place_compiled, check_in_place_twin
from random_schedules import TARGETS, grow, pick_target, shared_axis
from tilewright import best, interp, named_kernels, targets
from tilewright.interp.worker_memory import WorkerMemory
from tilewright.ir import Kernel, KernelBuilder, OptError, absolute, cast, float32, float64, int32, maximum, minimum, uint8, where
from tilewright.ir.buffer import Extent
from tilewright.ir.evaluation import evaluate
from tilewright.ir.node import sym
from tilewright.ir.normal_form import normalise
from tilewright.ir.rewriter import in_place, without_aliases
from tilewright.lower import lower
from tilewright.lower.access.memory_access import _at_lanes
from tilewright.measure.inputs import generate
from tilewright.opts import apply, opt, parse
from tilewright.plan import Artefacts
from tilewright.program.program import Instr, statements
from tilewright.renderers import render
from tilewright.targets import named


def two_phases(n: int = 16) -> Kernel:
    """Four inputs that the first phase reads alone, and one with a border that the second does."""
    kb = KernelBuilder("two_phases")
    i, j = kb.axis("x", n), kb.axis("x@2", n)
    first = [kb.input(f"a{c}", (4 * n,), float32) for c in range(4)]
    z = kb.input("z", (n,), float32)
    v = kb.value("v", (i,), first[0][i] + first[1][i + n] + first[2][i] + first[3][i])
    kb.store("y", float32, (n,), (j,), v[j] + z[minimum(j + 1, n - 1)])
    return kb.build()


def test_a_phase_has_numbers_of_its_own_for_parameters() -> None:
    """The extent that bounds a load is that of the buffer that is loaded, not of another with its number."""
    kernel = two_phases()
    inputs = generate(kernel, {}, 3, whole=True)
    for opts in ([["PHASE", "v"], ["UPCAST", "x", 8]], [["UPCAST", "x", 8]]):
        y = np.zeros(16, np.float32)
        interp.run(lower(apply(kernel, opts, named("avx2"))), inputs | {"y": y})
        assert y.tolist() == evaluate(kernel, inputs)["y"].tolist()


def test_rows_of_a_border_share_the_places_of_their_lanes() -> None:
    """They are found out once for all rows and copies that ask."""
    rows = 8
    kb = KernelBuilder("wrapped")
    i, j = kb.axis("m", 64), kb.axis("n", 64)
    x = kb.input("x", (64, 64), float32)
    kb.store("y", float32, (64, 64), (i, j), x[i, (j + 63) % 64] + x[i, (j + 1) % 64])
    _at_lanes.cache_clear()
    lower(apply(kb.build(), [["UPCAST", "n", 8], ["UPCAST", "m", rows]], named("avx2")))
    found = _at_lanes.cache_info()
    assert found.misses <= 4 and found.hits >= (rows - 1) * found.misses > 0


def ring_of_rows(rows: int, k: int, by: int, wraps: bool) -> Kernel:
    """A kept value whose short rows are read at a neighbour's place, round the end or clamped there."""
    kb = KernelBuilder("ring_of_rows")
    i, j, i2, j2 = kb.axis("n", rows), kb.axis("k", k), kb.axis("n@2", rows), kb.axis("k@2", k)
    x = kb.input("x", (rows, k), float32)
    mid = kb.value("mid", (i, j), x[i, j] * x[i, j] + 1)
    at = (j2 + by % k) % k if wraps else maximum(minimum(j2 + by, k - 1), 0)
    kb.store("y", float32, (rows, k), (i2, j2), mid[i2, j2] - mid[i2, at])
    return kb.build()


@pytest.mark.parametrize("target", ["avx2", "x86-64-v4"])
@pytest.mark.parametrize(
    ("k", "by", "wraps"), [(16, 1, True), (16, -3, True), (16, 2, False), (24, -1, True), (14, 1, True), (20, -2, False)]
)
@pytest.mark.covering
def test_lanes_round_the_end_of_a_kept_row(target: str, k: int, by: int, wraps: bool) -> None:
    """Whole rows that are written are read in vectors, and nothing that is not written (which the interpreter refuses)."""
    kernel = ring_of_rows(13, k, by, wraps)
    inputs = generate(kernel, {}, 3, whole=True)
    wide = [["PADTO", "k", -(-k // 16) * 16], ["UPCAST", "k", 16]] if k % 16 else [["UPCAST", "k", 16]]
    kept = [["HALO", "n", 4], ["STAGE", "mid", {"at": "n.h"}]], [["PHASE", "mid"]]
    for opts in ([*kept[0], ["UPCAST", "k", 8]], [*kept[1], ["UPCAST", "k", 8]], [*kept[0], *wide], wide):
        y = np.zeros((13, k), np.float32)
        program = lower(apply(kernel, opts, named(target)))
        interp.run(program, inputs | {"y": y})
        assert y.tolist() == evaluate(kernel, inputs)["y"].tolist()
        if k == 16:
            assert not any(isinstance(s, Instr) and s.op == "gather" for p in program.phases for s in statements(p.body))


# Vectors under a mask of which no lane is on are read where the array is: beside it there may be no page.


def lagged(n: int = 61, lags: int = 40, back: bool = True) -> Kernel:
    """y[i] = the largest rise from one of the places before i, or after it, of which there may be none."""
    kb = KernelBuilder("lagged")
    i, k = kb.axis("i", n), kb.axis("k", lags)
    x, at = kb.input("x", (n,), float32), i - k - 1 if back else i + k + 1
    inside = (at >= 0) & (at < n)
    most = kb.max("most", (i,), k, where(inside, x.masked(inside, at) - x[i], 0.0))
    kb.store("y", float32, (n,), (i,), most[i])
    return kb.build()


def steepest(h: int = 19, w: int = 45, r: int = 5) -> Kernel:
    """Along a diagonal of a map, so that rows as well as columns may not be there."""
    kb = KernelBuilder("steepest")
    i, j, s = kb.axis("i", h), kb.axis("j", w), kb.axis("s", r)
    z, y, x = kb.input("z", (h, w), float32), i - s - 1, j + s + 1
    inside = (y >= 0) & (x < w)
    most = kb.max("most", (i, j), s, where(inside, z.masked(inside, y, x) - z[i, j], 0.0))
    kb.store("y", float32, (h, w), (i, j), most[i, j])
    return kb.build()


def moved(n: int = 53) -> Kernel:
    """Rows that begin where data says, beside the array too."""
    kb = KernelBuilder("moved")
    i, j = kb.axis("i", 7), kb.axis("j", n)
    x, by = kb.input("x", (7, n), float32), kb.input("by", (7,), int32, range=(-90, 90))
    at = j + cast(by[i], "int64")
    kb.store("y", float32, (7, n), (i, j), x.masked((at >= 0) & (at < n), i, at))
    return kb.build()


CASES = [
    (lagged(), "Ui8"), (lagged(), "Ui16 Pi"), (lagged(back=False), "Ui16 Rk2"), (lagged(back=False), "Ui32"),
    (steepest(), "Uj8"), (steepest(), "Uj16 Ui2 Pi"), (steepest(), "Uj16 Rs5"), (moved(), "Uj16 Pi"), (moved(), "Uj8 Ui2"),
]  # fmt: skip


@pytest.mark.parametrize("target", ["avx2", "skylake-avx512"])
@pytest.mark.parametrize(("kernel", "text"), CASES)
@pytest.mark.covering
def test_every_vector_has_a_place_in_its_array(kernel: Kernel, text: str, target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[int, int, int]] = []
    load = WorkerMemory.load

    def watched(self: WorkerMemory, s: Instr) -> Callable[..., Any]:
        run, elements = load(self, s), len(self.region(s.mem).data)
        if s.op != "load" or len(s.args) < 2 or s.out is None or s.out.lanes == 1:
            return run
        lanes = s.out.lanes

        def noted(at: Any, mask: Any) -> Any:
            seen.append((int(at) + s.mem.offset, lanes, elements))
            return run(at, mask)

        return noted

    monkeypatch.setattr(WorkerMemory, "load", watched)
    check_twin(kernel, parse(text), targets.named(target))
    assert seen, "something is loaded under a mask"
    assert [s for s in seen if not -s[1] < s[0] < s[2]] == []


@pytest.mark.parametrize(("kernel", "text"), CASES)
def test_compiled_code_gives_the_same(kernel: Kernel, text: str) -> None:
    check_compiled(kernel, parse(text))


# Loads under a mask of elements that exist in any case: plain loads and a choice, where masked loads are slow.


def neighbours(n: int = 61, away: int = 0) -> Kernel:
    """y[i] = the sum of as many neighbours of x[i] as a map says, up to two to each side, cut at the border."""
    kb = KernelBuilder("neighbours")
    i, q = kb.axis("i", n), kb.axis("q", 5)
    x, radius = kb.input("x", (n + away,), float32), kb.input("radius", (n,), uint8, range=(0, 2))
    at = i + q - 2
    near = cast(absolute(cast(q - 2, int32)), int32) <= cast(radius[i], int32)
    total = kb.sum("total", (i,), (q,), x.masked(near & (at >= 0) & (at < n), at))
    kb.store("y", float32, (n,), (i,), total[i])
    return kb.build()


def masked(kernel: Kernel, text: str, target: str) -> int:
    """Loads of vectors under a mask."""
    program = lower(apply(kernel, parse(text), targets.named(target)))
    found = (s for p in program.phases for s in statements(p.body) if isinstance(s, Instr))
    return sum(s.op in ("load", "gather") and s.out is not None and s.out.lanes > 1 and len(s.args) > 1 for s in found)


@pytest.mark.parametrize("text", ["Ui4", "Ui8", "Ui8 Rq5", "Ui4 Pi", "Ui8 Ti16", "Uq5 Ui4", "(none)"])
@pytest.mark.parametrize("target", ["x86-64-v2", "avx2", "skylake-avx512"])
@pytest.mark.covering
def test_sums_of_masked_neighbours_are_right(text: str, target: str) -> None:
    kernel = neighbours()
    check_twin(kernel, parse(text), targets.named(target))
    check_floats(kernel, parse(text), targets.named(target))


@pytest.mark.parametrize("text", ["Ui4", "Ui8 Rq5"])
def test_compiled_code_stays_inside_the_array(text: str) -> None:
    check_compiled(neighbours(), parse(text), targets.named("x86-64-v2"))


def test_only_loads_at_the_border_are_masked() -> None:
    """With all five unrolled: two of the first vector, two of the last, and none between."""
    kernel = neighbours(64)
    assert masked(kernel, "Ui8 Rq5", "avx2") == 4
    assert masked(kernel, "Ui16 Rq5", "skylake-avx512") > 4  # masks cost nothing there


def test_what_may_be_past_the_end_stays_masked() -> None:
    """Lanes past the extent, in the last vector of 61."""
    assert masked(neighbours(61), "Ui8 Rq5", "avx2") > 4


# Lanes over elements that data decides: where there is an instruction for it, and with 32-bit places where those do.


OPTS = parse('[["UPCAST","q",8]]')


def mixed(p: int = 5, q: int = 24) -> Kernel:
    """An image at another size, whose rows and columns come from tables."""
    kb = KernelBuilder("mixed")
    i, j = kb.axis("p", p), kb.axis("q", q)
    x, part = kb.input("x", (9, 40), float32), kb.input("part", (q,), float32)
    row, column = kb.input("row", (p,), int32, range=(0, 7)), kb.input("column", (q,), int32, range=(0, 38))
    a, b = (x[row[i] + d, column[j]] * (1.0 - part[j]) + x[row[i] + d, column[j] + 1] * part[j] for d in (0, 1))
    kb.store("y", float32, (p, q), (i, j), a + b)
    return kb.build()


def picked(p: int = 5, q: int = 24) -> Kernel:
    """Sums of elements that a table names."""
    kb = KernelBuilder("picked")
    i, j = kb.axis("p", p), kb.axis("q", q)
    x, column = kb.input("x", (p + 3, 40), float32), kb.input("column", (q,), int32, range=(0, 39))
    kb.store("y", float32, (p, q), (i, j), sum(x[i + d, column[j]] for d in range(1, 4)) + x[i, column[j]])
    return kb.build()


@pytest.mark.parametrize(("name", "gathers"), [("avx2", True), ("x86-64-v4", True), ("x86-64-v2", False)])
def test_lanes_gather_where_there_is_an_instruction(name: str, gathers: bool) -> None:
    """What is only added up; where more is computed, lanes are worth it all the same."""
    for kernel, wanted in ((picked(), gathers), (mixed(), True)):
        program = lower(apply(kernel, OPTS, targets.named(name)))
        found = [s for p in program.phases for s in statements(p.body) if isinstance(s, Instr) and s.op == "gather"]
        assert bool(found) == wanted
        check_twin(kernel, OPTS, targets.named(name))


def test_what_all_lanes_share_is_added_to_the_pointer() -> None:
    text = render(lower(apply(mixed(), OPTS, targets.named("avx2"))), targets.named("avx2")).text
    places = re.findall(r"getelementptr float, ptr \S+, <8 x i64> (%\w+)", text)
    assert len(places) == 4 and all(re.search(rf"{p} = sext <8 x i32>", text) for p in places)
    check_compiled(mixed(), OPTS)


# Places that become numbers, or are compared, are computed in 32 bits along the lanes.


TARGET = targets.named("avx2")
SCHEDULES = ([["UPCAST", "n", 16]], [["UPCAST", "n", 8], ["UPCAST", "m", 3]], [["UPCAST", "n", 8], ["TILE", "n", 16]])


def places(m: int = 3, n: int = 53) -> Kernel:
    """Distances, remainders, quotients and clamps of places, and a table that is read at some of them."""
    kb = KernelBuilder("places")
    i, j = kb.axis("m", m), kb.axis("n", n)
    x, table = kb.input("x", (m, n), float32), kb.input("table", (40,), float32)
    near = maximum(minimum(j - 3 * i, 5), -5)
    kb.store("a", float32, (m, n), (i, j), x[i, j] * cast(i - j, float32) + cast((5 * i + 2 * j) % 24, float32))
    kb.store("b", float64, (m, n), (i, j), cast(absolute(near), float64) - cast((j + i - 9) // 7, float64))
    kb.store("c", int32, (m, n), (i, j), where((j % 6) < (i + 2), cast(near, int32), cast(j // 3, int32)))
    kb.store("d", float32, (m, n), (i, j), table[(3 * (j // 5) + i) % 40])
    return kb.build()


def far() -> Kernel:
    """Places that 32 bits do not hold."""
    kb = KernelBuilder("far")
    i, j = kb.axis("m", 3), kb.axis("n", 16)
    kb.store("y", float64, (3, 16), (i, j), cast((i + 1) * 3_000_000_000 + j, float64))
    return kb.build()


@pytest.mark.many
@pytest.mark.parametrize("opts", SCHEDULES, ids=str)
def test_numbers_of_places(opts: list[list[object]]) -> None:
    check_twin(places(), parse(opts), TARGET)


def test_compiled_code_agrees() -> None:
    check_compiled(places(), parse(SCHEDULES[0]), TARGET)


def wide(kernel: Kernel, opts: list[list[object]]) -> set[str]:
    """Operations on vectors of int64, but the widening of what gathers read at."""
    program = lower(apply(kernel, parse(opts), TARGET))
    made = [s for p in program.phases for s in statements(p.body) if isinstance(s, Instr)]
    return {s.op for s in made if s.out is not None and s.out.dtype.name == "int64" and s.out.lanes > 1 and s.op not in ("cast", "splat")}


def test_vectors_of_places_are_short_where_they_fit() -> None:
    assert wide(places(), SCHEDULES[0]) <= {"add", "mul"}  # of the table's addresses
    assert "add" in wide(far(), [["UPCAST", "n", 8]])
    check_twin(far(), parse([["UPCAST", "n", 8]]), TARGET)


# Buffers whose row length is a symbol, read across their rows: no address may lose the part that varies with it.


TARGET_SYMBOLIC_STRIDES = targets.named("cascadelake")
M, N, K = sym("m", 1, 64), sym("n", 1, 64), sym("k", 1, 64)


def permuted(order: tuple[int, ...], m: Extent, n: Extent, k: Extent) -> Kernel:
    """An array of rank 3 with its dimensions in another order."""
    kb = KernelBuilder("permuted")
    sizes = (m, n, k)
    axes = [kb.axis(name, size) for name, size in zip("mnk", sizes, strict=True)]
    x = kb.input("x", sizes, float32)
    kb.store("y", float32, tuple(sizes[i] for i in order), tuple(axes[i] for i in order), x[tuple(axes)])
    return kb.build()


def named_of_symbolic_strides(name: str, dtype: str = "float32", **shape: Extent) -> Kernel:
    return named_kernels.make(name, shape, dtype)


def rows_by_number(m: Extent, n: Extent) -> Kernel:
    """Rows that data chooses, written as columns: an address with a part that memory decides."""
    kb = KernelBuilder("rows_by_number")
    i, j = kb.axis("m", m), kb.axis("n", n)
    table, number = kb.input("table", (9, n), float32), kb.input("number", (m,), int32, range=(0, 8))
    kb.store("y", float32, (n, m), (j, i), table[number[i], j])
    return kb.build()


COPIES = (opt("UPCAST", "m", 16), opt("UPCAST", "n", 16))
CASES_SYMBOLIC_STRIDES = {
    "rows": (named_of_symbolic_strides("transpose", m=16, n=N), COPIES, ("n",)),
    "masked rows": (named_of_symbolic_strides("transpose", m=27, n=N), COPIES, ("n",)),
    "columns": (named_of_symbolic_strides("transpose", m=M, n=45), COPIES, ("m",)),
    "both": (named_of_symbolic_strides("transpose", m=M, n=N), COPIES, ("m", "n")),
    "tiled": (named_of_symbolic_strides("transpose", m=64, n=N), (*COPIES, opt("TILE", "m", 32), opt("PARALLEL", "m")), ("n",)),
    "float64": (named_of_symbolic_strides("transpose", "float64", m=16, n=N), (opt("UPCAST", "m", 8), opt("UPCAST", "n", 4)), ("n",)),
    "several blocks": (named_of_symbolic_strides("transpose", m=32, n=N), (opt("UPCAST", "m", 32), opt("UPCAST", "n", 32)), ("n",)),
    "matmul_nt": (named_of_symbolic_strides("matmul_nt", m=6, n=32, k=K), (opt("UPCAST", "n", 16), opt("UNROLL", "k", 8)), ("k",)),
    "matmul_nt, panel": (
        named_of_symbolic_strides("matmul_nt", m=6, n=N, k=K),
        (opt("UPCAST", "m", 3), opt("UPCAST", "n", 32), opt("TILE", "k", 8), opt("STAGE", "b", at="k")),
        ("n", "k"),
    ),
    "matmul, rows of both": (
        named_of_symbolic_strides("matmul", m=M, n=N, k=K),
        (opt("UPCAST", "m", 16), opt("UNROLL", "k", 4)),
        ("m", "n", "k"),
    ),
    # copies of a third axis, of which the blocks that are turned must be told apart
    "reversed": (permuted((2, 1, 0), 16, 5, K), (opt("UPCAST", "m", 16), opt("UPCAST", "n", 2), opt("UPCAST", "k", 4)), ("k",)),
    "middle last": (permuted((0, 2, 1), M, N, K), (opt("UPCAST", "n", 16), opt("UPCAST", "k", 8)), ("m", "n", "k")),
    "chosen rows": (rows_by_number(16, N), COPIES, ("n",)),
    "chosen rows, masked": (rows_by_number(27, 45), COPIES, ()),
}


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES_SYMBOLIC_STRIDES)
def test_every_row_is_read_where_it_lies(case):
    kernel, opts, symbols = CASES_SYMBOLIC_STRIDES[case]
    kernel = normalise(kernel)
    for extents in ((7, 64, 16), (16, 1, 7)):
        vars = dict(zip(symbols, extents, strict=False))
        check_twin(kernel, opts, TARGET_SYMBOLIC_STRIDES, vars)
    check_compiled(kernel, opts, targets.host(), vars)


def test_a_symbolic_transpose_gathers_nothing():
    """A row length that only the call tells is no reason to gather: the addresses of a block's rows are scalars."""
    kernel = normalise(named_of_symbolic_strides("transpose", m=16, n=N))
    text = render(lower(apply(kernel, COPIES, TARGET_SYMBOLIC_STRIDES)), TARGET_SYMBOLIC_STRIDES).text
    assert "shufflevector" in text and "gather" not in text


@pytest.mark.slow
@pytest.mark.parametrize("shape", [{"n": N}, {"m": M, "n": 20}, {"m": 37, "n": N}, {"m": M, "n": N}], ids=str)
def test_start_schedules_of_symbolic_transposes_agree_with_numpy(shape, tmp_path):
    compiled = best("transpose", {"m": 128, **shape}, threads=1, cache=tmp_path / "cache.db", store=Artefacts(tmp_path / "store"))
    for m, n in itertools.product((1, 16, 61), (1, 8, 64)):
        m, n = (m if shape.get("m") is M else shape.get("m", 128)), (n if shape["n"] is N else shape["n"])
        x = np.arange(m * n, dtype=np.float32).reshape(m, n)
        np.testing.assert_array_equal(compiled(x), x.T)


# Outputs in the memory of their inputs: right under every schedule, and refused where some schedule could be wrong.


SIZES = (1, 3, 8, 13, 16, 24, 33)


def any_schedule(
    request: pytest.FixtureRequest, name: str, few: int, host_only: bool, check: Callable[..., None], kernel: Kernel | None = None
) -> None:
    """Random schedules of a kernel from the table, or of the one given, which is not shrunk when it fails."""
    asked = request.config.getoption("--examples")
    phases = [Phase.generate] if kernel is not None else list(Phase)

    @settings(
        max_examples=asked or few,
        deadline=None,
        derandomize=not asked,
        database=None,
        phases=phases,
        suppress_health_check=list(HealthCheck),
    )
    @given(st.data())
    def run(data: st.DataObject) -> None:
        def choose(n: int) -> int:
            return data.draw(st.integers(0, n - 1))

        m, n = SIZES[choose(len(SIZES))], SIZES[choose(len(SIZES))]
        symbol = choose(4) == 3
        made = normalise(kernel or KERNELS[name](m, sym("s", 1, n + 100) if symbol else n))
        target = pick_target(choose, host_only, TARGETS)
        start = shared_axis(made, target, choose) if target.groups else ()
        opts = grow(made, target, [choose(1 << 20) for _ in range(choose(8))], start)
        note(f"{name} {m} {n} {symbol} for {target.name}: {opts}")
        try:
            check(made, opts, target, {"s": n} if symbol and kernel is None else {}, choose(1000))
        except OptError:
            return  # some legal schedules cannot be lowered; that is said, and nothing is run

    run()


@pytest.mark.many
@pytest.mark.parametrize("name", KERNELS)
def test_every_schedule_is_right_in_place(request, name):
    any_schedule(request, name, 20, False, check_in_place_twin)


@pytest.mark.many
@pytest.mark.parametrize("name", KERNELS)
def test_compiled_code_is_right_in_place(request, name):
    any_schedule(request, name, 5, True, check_in_place_compiled)


@pytest.mark.slow
def test_c_is_right_in_place():
    target = replace(targets.host(), lang="c")
    for name, opts in (("step", (opt("UPCAST", "m_n", 16),)), ("residual", (opt("UPCAST", "n", 8), opt("UPCAST", "m", 4)))):
        check_in_place_compiled(normalise(KERNELS[name](24, 32)), opts, target, {}, 1, device="cpu:c")


def unchecked(kernel: Kernel, alias: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> Kernel:
    """A kernel in place although that is refused."""
    monkeypatch.setattr("tilewright.ir.checks.structure_checks.check_aliases", lambda _: None)
    return in_place(kernel, alias)


def neighbours_of_aliases(m: int = 24, n: int = 16) -> Kernel:
    kb = KernelBuilder("neighbours")
    i, j = kb.axis("m", m), kb.axis("n", n)
    x = kb.input("x", (m + 1, n), float32)
    kb.store("y", float32, (m + 1, n), (i, j), x[i + 1, j] - x[i, j])
    return kb.build()


def shared_input(m: int = 24, n: int = 16) -> Kernel:
    """Two outputs from one input."""
    kb = KernelBuilder("shared_input")
    i, j, k, l = kb.axis("m", m), kb.axis("n", n), kb.axis("m@b", m), kb.axis("n@b", n)
    x = kb.input("x", (m, n), float32)
    kb.store("y", float32, (m, n), (i, j), x[i, j] * 2.0)
    kb.store("z", float32, (m, n), (k, l), x[k, l] + 1.0)
    return kb.build()


@pytest.mark.slow
@pytest.mark.parametrize("make", [neighbours_of_aliases, shared_input])
def test_what_is_refused_would_go_wrong(request, make, monkeypatch):
    kernel = unchecked(make(), {"y": "x"}, monkeypatch)
    with pytest.raises(AssertionError, match="in place differs"):
        any_schedule(request, make.__name__, 60, False, check_in_place_twin, kernel)


def test_a_kept_value_does_not_wait_in_the_output():
    """The rows of an output are free until it is written, but not where an input lies in them."""
    kernel = normalise(KERNELS["expensive"](16, 64))
    target, opts = targets.named("cascadelake"), (opt("STAGE", "e", at="m"),)
    check_in_place_twin(kernel, opts, target, {}, 1)
    own = without_aliases(kernel)
    assert lower(apply(kernel, opts, target)).scratch > lower(apply(own, opts, target)).scratch


def test_parameters_that_may_share_memory_promise_nothing():
    kernel = normalise(KERNELS["step"](16, 16))
    for lang, target in (
        ("noalias", targets.host()),
        ("restrict", replace(targets.host(), lang="c")),
        ("restrict", targets.named("sm_90a")),
    ):
        texts = [render(lower(apply(k, (), target)), target).text for k in (kernel, without_aliases(kernel))]
        assert texts[0].count(lang) == texts[1].count(lang) - 2, target.name
