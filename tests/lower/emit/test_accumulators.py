"""Reductions, scans and scatters of conditions, however they are scheduled."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import run_text
from checks import check_compiled, check_floats, check_twin
from hand_built import compile_for, run
from random_schedules import grow, shared_axis
from tilewright import interp, named_kernels, targets
from tilewright.heuristics import starts
from tilewright.ir import (
    BuildError,
    KernelBuilder,
    OptError,
    absolute,
    bool_,
    cast,
    dtype,
    exp,
    float32,
    float64,
    int32,
    maximum,
    minimum,
    sym,
    uint8,
    where,
)
from tilewright.ir.body import Combine, Fold
from tilewright.ir.dtypes import DType
from tilewright.ir.kernel import Kernel
from tilewright.ir.normal_form import normalise
from tilewright.ir.online import online
from tilewright.lower import lower
from tilewright.measure.inputs import generate
from tilewright.opts import apply, opt, parse
from tilewright.plan import best
from tilewright.program.listing import show
from tilewright.program.program import Instr, Program, statements
from tilewright.renderers import render
from tilewright.targets import Target, named

AVX2, AVX512, OPENCL, SM80 = (targets.named(n) for n in ("avx2", "cascadelake", "opencl-gpu", "sm_80"))


def rows_and_columns(m: int = 7, n: int = 37, of: str = "float32") -> Kernel:
    """Of rows and columns: whether any is above 0, whether all are, whether an odd number is, and how many are."""
    kb = KernelBuilder("rows_and_columns")
    i, j, x = kb.axis("m", m), kb.axis("n", n), kb.input("x", (m, n), dtype(of))
    a, b, c = (kb.axis(f"n@{s}", n) for s in "abc")
    p, q = kb.axis("m@p", m), kb.axis("m@q", m)
    some, every = kb.max("some", (i,), a, x[i, a] > 0), kb.min("every", (j,), p, x[p, j] >= 0)
    odd, many = kb.reduce("xor", "odd", (i,), b, x[i, b].ne(1)), kb.sum("many", (j,), q, x[q, j] > 0)
    none = kb.max("none", (i,), c, (x[i, c] > 2) & (c > i))
    kb.store("rows", uint8, (m,), (i,), cast(some[i], uint8) + cast(odd[i], uint8) * 2)
    kb.store("z", bool_, (m,), (i,), ~none[i])
    kb.store("columns", int32, (n,), (j,), where(every[j], many[j], -1))
    return kb.build()


def whole(m: int = 5, n: int = 23, of: str = "uint8") -> Kernel:
    """Whether any byte of an image is 255, and all of them are below the limit of their row."""
    kb = KernelBuilder("whole")
    i, j, p, q, x = kb.axis("m", m), kb.axis("n", n), kb.axis("m@2", m), kb.axis("n@2", n), kb.input("x", (m, n), dtype(of))
    limit = kb.input("limit", (m,), dtype(of))
    some, every = kb.max("some", (), (i, j), x[i, j].eq(5)), kb.min("every", (), (q, p), x[p, q] <= limit[p])
    kb.store("y", bool_, (2,), (kb.axis("k", 2),), where(kb.axis("k", 2).eq(0), cast(some[()], int32), cast(every[()], int32)).ne(0))
    return kb.build()


def running(m: int = 6, n: int = 21, of: str = "float32") -> Kernel:
    """Whether anything above 1 came before, whether all in a column were below so far, and the number of each that is."""
    kb = KernelBuilder("running")
    i, j, x = kb.axis("m", m), kb.axis("n", n), kb.input("x", (m, n), dtype(of))
    seen, fine = kb.scan("max", "seen", (i, j), j, x[i, j] > 1), kb.scan("min", "fine", (i, j), i, x[i, j] < 1)
    rank = kb.scan("add", "rank", (i, j), j, x[i, j] > 0)
    (found,) = kb.associative_scan(("found",), (i, j), j, (x[i, j] > 1,), (False,), lambda a, b: (a[0] | b[0],))
    kb.store("y", int32, (m, n), (i, j), where(seen[i, j] & ~fine[i, j], rank[i, j], 0))
    kb.store("z", bool_, (m, n), (i, j), found[i, j])
    return kb.build()


def scattered(n: int = 61, k: int = 7, of: str = "float32") -> Kernel:
    """Which classes have an element above 1, and all of theirs above 0."""
    kb = KernelBuilder("scattered")
    i, x, at = kb.axis("n", n), kb.input("x", (n,), dtype(of)), kb.input("at", (n,), int32, range=(0, k - 1))
    kb.store("some", bool_, (k,), (i,), x[i] > 1, (at[i],), combine="max")
    kb.store("every", bool_, (k,), (i,), x[i] > 0, (at[i],), combine="min", mask=x[i].ne(1))
    return kb.build()


KERNELS = (rows_and_columns, whole, running, scattered)
TYPES = ("float32", "uint8", "float64", "int16", "bfloat16", "int64")


@pytest.mark.slow
@pytest.mark.parametrize("of", TYPES)
@pytest.mark.parametrize("make", KERNELS, ids=lambda f: f.__name__)
@pytest.mark.covering
def test_random_schedules_equal_the_reference(make: Callable[..., Kernel], of: str) -> None:
    rng = random.Random(f"{make.__name__} {of}")
    for n in range(4):
        sizes = [rng.choice((1, 2, 7, 16, 31, 40)) for _ in range(2)]
        kernel, target = make(*sizes, of=of), rng.choice((AVX2, AVX512))
        opts = grow(kernel, target, [rng.randrange(1 << 20) for _ in range(n)])
        check_twin(kernel, opts, target, None, n)
        check_floats(kernel, opts, target, None, n)
    host = targets.host()
    opts = grow(kernel, host, [rng.randrange(1 << 20) for _ in range(3)])
    check_compiled(kernel, opts, host, None, 2, 0)


@pytest.mark.many
@pytest.mark.parametrize("target", [OPENCL, SM80], ids=lambda t: t.name)
@pytest.mark.parametrize("make", KERNELS, ids=lambda f: f.__name__)
@pytest.mark.covering
def test_groups_of_threads(make: Callable[..., Kernel], target: targets.Target) -> None:
    rng = random.Random(f"{make.__name__} {target.name}")
    for kernel in (make(), make(of="uint8")):
        opts = shared_axis(kernel, target, rng.randrange)
        for found in (opts, starts(kernel, target, 1)[0]):
            try:
                check_twin(kernel, found, target)
            except OptError:
                continue
            assert render(lower(apply(kernel, found, target)), target).text


@pytest.mark.slow
@pytest.mark.parametrize("device", ["cpu", "cpu:c"])
@pytest.mark.parametrize("of", ["float32", "uint8", "float64"])
def test_callers_get_what_numpy_gives(device: str, of: str) -> None:
    x = np.random.default_rng(1).integers(0, 3, (9, 53)).astype(of) - (of != "uint8")
    x[3], x[:, 5] = 0, 1
    rows, none, columns = best(rows_and_columns(9, 53, of), device=device)(x)
    np.testing.assert_array_equal(rows, (x > 0).any(axis=1) + 2 * np.bitwise_xor.reduce(x != 1, axis=1))
    np.testing.assert_array_equal(none, ~((x > 2) & (np.arange(53) > np.arange(9)[:, None])).any(axis=1))
    np.testing.assert_array_equal(columns, np.where((x >= 0).all(axis=0), (x > 0).sum(axis=0), -1))


def test_of_none_any_is_false_and_all_is_true() -> None:
    kb = KernelBuilder("none")
    n = sym("n", 0, 9)
    i, j, k, x = kb.axis("m", 4), kb.axis("n", n), kb.axis("n@2", n), kb.input("x", (4, n), float32)
    some, every = kb.max("some", (i,), j, x[i, j] > 0.0), kb.min("every", (i,), k, x[i, k] > 0.0)
    kb.store("y", bool_, (4,), (i,), some[i])
    kb.store("z", bool_, (4,), (i,), every[i])
    kernel = kb.build()
    check_twin(kernel, (), AVX2, {"n": 0})
    check_compiled(kernel, (), None, {"n": 0})


def test_vectors_are_combined_as_they_were_compared() -> None:
    """In the loop, what was compared is selected and joined, and nothing is converted."""
    kb = KernelBuilder("some")
    i, j, x = kb.axis("m", 64), kb.axis("n", 512), kb.input("x", (64, 512), uint8)
    some = kb.max("some", (i,), j, x[i, j] > 3)
    kb.store("y", uint8, (64,), (i,), some[i])
    program = lower(apply(kb.build(), (opt("UPCAST", "n", 32),), AVX2))
    wide = [s for s in statements(program.phases[0].body) if isinstance(s, Instr) and s.out is not None and s.out.lanes == 32]
    assert {s.op for s in wide} >= {"lt", "select", "or"} and not {s.op for s in wide} & {"cast", "ne", "max"}


@pytest.mark.many
@pytest.mark.parametrize(("combine", "size"), [("max", 0), ("min", 0), ("min", 8)])
def test_beside_sums_that_run_in_tiles(combine: Combine, size: int) -> None:
    """A row of attention where any (all) of its scores are above a limit: all of it is one loop over the keys."""
    kb = KernelBuilder("chosen")
    i, d, e = kb.axis("m", 6), kb.axis("d", 8), kb.axis("e", 8)
    a, b, c, f, g = (kb.axis(f"n@{site}", 32) for site in "abcfg")
    q, k, v = kb.input("q", (6, 8), float32), kb.input("k", (32, 8), float32), kb.input("v", (32, 8), float32)
    scores = kb.sum("scores", (i, a), d, q[i, d] * k[a, d])
    top = kb.max("top", (i,), b, scores[i, b])
    total = kb.sum("total", (i,), c, exp(scores[i, c] - top[i]))
    out = kb.sum("out", (i, e), f, exp(scores[i, f] - top[i]) * v[f, e])
    holds = kb.reduce(combine, "holds", (i,), g, scores[i, g] > (3.0 if combine == "max" else -5.0))
    kb.store("y", float32, (6, 8), (i, e), where(holds[i], out[i, e] / total[i], 0.0))
    found = online(kb.build())
    assert isinstance(found, Kernel)
    (fold,) = [item for item in found.body if isinstance(item, Fold)]
    assert fold.components[-1] == "holds" and fold.monoid.identity[-1].arg == (0 if combine == "max" else -1)
    opts = (opt("TILE", fold.axis.arg.name, size),) if size else ()
    check_floats(found, opts, AVX2)
    check_compiled(found, opts)


# Arrays of partial sums that are cleared before the first of many blocks: nothing that the sums read is copied for
# that.


SHAPE = {"m": 12, "n": 20, "k": 40}
CASES = ["Mk<m Sa@m", "Tk20 Mk<m Sa@m Mk.t<n", "Mk<m Sa@n", "Un4 Mk<n Sb@n", "Um4 Un8 Pn Tk2 Mk<m Sa@m", "Um4 Un8 Mk<m Sa@m Sb@k"]


@pytest.mark.parametrize("text", CASES)
def test_a_tile_of_the_summed_axis_is_filled_in_the_sums_only(text: str) -> None:
    kernel = named_kernels.make("matmul", SHAPE)
    check_twin(kernel, parse(text), targets.named("avx2"))
    check_compiled(kernel, parse(text), targets.named("avx2"))


# What is no number reaches an extreme from wherever it stands, though vectors are compared by an instruction that
# drops it.


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
@pytest.mark.covering
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


# Prefetches as lowered and rendered: a request a line, no effect on results, an instruction in the code.


CASCADE = named("cascadelake")
LANES: list[Any] = [["UPCAST", "n", 64]]
ASK: list[Any] = [["CACHE", "y", {"policy": "prefetch"}]]


def program(name: str, shape: dict[str, int], opts: list[Any], dtype: str = "float32", target: Target = CASCADE) -> Program:
    return lower(apply(normalise(named_kernels.make(name, shape, dtype)), opts, target))


def requests(p: Program) -> list[Instr]:
    return [s for phase in p.phases for s in statements(phase.body) if isinstance(s, Instr) and s.op == "prefetch"]


@pytest.mark.parametrize(("dtype", "offsets"), [("float32", [0, 16, 32, 48]), ("float64", [*range(0, 64, 8)]), ("bfloat16", [0, 32])])
def test_each_line_is_asked_for_once(dtype: str, offsets: list[int]) -> None:
    found = requests(program("log_softmax", {"m": 4, "n": 256}, LANES + ASK, dtype))
    assert [s.attr.offset for s in found] == offsets and len({s.args for s in found}) == 1


def test_the_addresses_are_those_of_the_store() -> None:
    text = show(program("log_softmax", {"m": 4, "n": 64}, LANES + ASK)).splitlines()
    asked = [line.split()[1] for line in text if line.split()[0] == "prefetch"]
    stored = [line.split()[1] for line in text if line.split()[0] == "store" and " y[" in line]
    assert len(asked) == 4 and asked == stored


@pytest.mark.parametrize(("opts", "ahead"), [([], 256), ([["PARALLEL", "m"]], 256), ([["UPCAST", "m", 2]], 512)])
def test_the_next_row_is_a_step_of_the_loop_further_on(opts: list[Any], ahead: int) -> None:
    found = requests(program("cross_entropy", {"m": 4, "n": 256}, [*LANES, *opts, ["CACHE", "x", {"policy": "prefetch"}]]))
    assert sorted(s.attr.offset for s in found) == [at + row for row in range(ahead, 2 * ahead, 256) for at in (0, 16, 32, 48)]


def test_without_lanes_along_the_row_nothing_is_asked() -> None:
    assert requests(program("log_softmax", {"m": 4, "n": 64}, ASK)) == []
    assert requests(program("log_softmax", {"m": 64, "n": 16}, [["UPCAST", "m", 16], *ASK])) == []


@pytest.mark.many
@pytest.mark.parametrize("way", [interp, run, run_text.c], ids=["interpreter", "llvm", "c"])
@pytest.mark.parametrize("n", [64, 190, 250])
@pytest.mark.covering
def test_results_are_the_same(way: Any, n: int) -> None:
    target = targets.host()
    kernel = normalise(named_kernels.make("softmax", {"m": 5, "n": n}))
    results = []
    for opts in (LANES, LANES + ASK):
        p = lower(apply(kernel, opts, target))
        assert bool(requests(p)) == (opts != LANES)
        x, y = generate(kernel, {}, 0)["x"], np.zeros((5, n), np.float32)
        if way is interp:
            interp.run(p, {"x": x, "y": y})
        else:
            way(p, [x, y])
        results.append(y)
    assert results[0].any() and results[0].tobytes() == results[1].tobytes()


@pytest.mark.parametrize("name", ["cascadelake", "x86-64-v2", "neoverse-n1"])
def test_it_is_an_instruction(name: str) -> None:
    target = named(name)
    p = program("log_softmax", {"m": 4, "n": 256}, LANES + ASK, target=target)
    assembly, _ = compile_for(target, render(p, target))
    assert sum(line.split()[0].startswith(("prefetch", "prf")) for line in assembly.splitlines() if line.split()) == len(requests(p)) > 0


def test_languages_without_it_say_so() -> None:
    p = program("log_softmax", {"m": 4, "n": 64}, LANES + ASK)
    assert "__builtin_prefetch(" in render(p, replace(CASCADE, lang="c")).text
    with pytest.raises(BuildError, match="CUDA has no prefetch: leave out CACHE"):
        render(program("log_softmax", {"m": 4, "n": 64}, LANES + ASK, target=named("opencl-cpu")), named("sm_90a"))


def test_opencl_asks_where_its_compiler_can() -> None:
    text = render(program("log_softmax", {"m": 4, "n": 256}, LANES + ASK, target=named("opencl-cpu")), named("opencl-cpu")).text
    assert text.count("fetch_line(&") + text.count("fetch_line(p") > 1 and "__has_builtin(__builtin_prefetch)" in text


def test_opencl_streams_where_its_compiler_can() -> None:
    text = render(
        program(
            "transpose",
            {"m": 64, "n": 64},
            [["UPCAST", "m", 16], ["UPCAST", "n", 16], ["CACHE", "y", {"policy": "stream"}]],
            target=named("opencl-cpu"),
        ),
        named("opencl-cpu"),
    ).text
    assert text.count("store_streaming(") > 2 and "__has_builtin(__builtin_nontemporal_store)" in text
