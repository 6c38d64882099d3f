"""Right results at the edges: sizes of one, zero, primes and symbols; cut folds, repeated indices, values read off their axes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import odd_kernels
import pytest
from checks import check_compiled, check_floats, check_twin
from tilewright import kernels, targets
from tilewright.heuristics import starts
from tilewright.interp import run as interpret
from tilewright.ir import KernelBuilder, cast, float32, float64, int8, int32, int64, sym, uint8, where
from tilewright.ir.kernel import Kernel
from tilewright.lower import Program, lower
from tilewright.opts import Opts, apply, opt, parse

AVX512, AVX2 = targets.named("znver5"), targets.named("avx2")
TILE = [["UPCAST", "m", 8], ["UPCAST", "n", 32], ["PARALLEL", "n"], ["STAGE", "b", {"at": "n"}]]


def program(kernel: Kernel, opts: Sequence[Any]) -> Program:
    return lower(apply(kernel, parse(list(opts)), AVX512))


def matmul(m: Any, n: Any, k: Any) -> Kernel:
    return kernels.make("matmul", {"m": m, "n": n, "k": k}, "float32")


def right(kernel: Kernel, opts: Opts, **vars: int) -> None:
    """Every check there is."""
    check_twin(kernel, opts, AVX2, vars)
    check_floats(kernel, opts, AVX512, vars)
    check_compiled(kernel, opts, None, vars, threads=2)


@pytest.mark.parametrize("factor", [2**28, 2**31])
def test_indices_beyond_32_bits_are_compared_in_64(factor: int) -> None:
    kb = KernelBuilder("far")
    i, j = kb.axis("m", 3), kb.axis("n", 53)
    far = 2 * i + factor * j - factor
    kb.store("y", float64, (3, 53), (i, j), where(far < 7 * i, cast(far, float64), cast(7 * i, float64)))
    check_floats(kb.build(), (opt("UPCAST", "n", 8),), AVX2)


# edges of shapes --------------------------------------------------------------------------------------------------
@pytest.mark.many
@pytest.mark.parametrize("m", [1, 2, 7, 8, 9, 31, 64])
@pytest.mark.parametrize(
    "opts",
    [TILE, [*TILE[:2], ["PARALLEL", "m"], ["TILE", "k", 8], ["MOVE", "k", {"before": "n"}]], []],
    ids=["packed", "straddling", "none"],
)
@pytest.mark.covering
def test_one_program_serves_every_size(m: int, opts: list[Any]) -> None:
    right(matmul(sym("m", 1, 64), 61, 12), parse(opts), m=m)


@pytest.mark.slow
@pytest.mark.parametrize("size", ["n", "k"])
def test_symbolic_columns_and_depths(size: str) -> None:
    for value in (1, 16, 33):
        kernel = matmul(**{"m": 9, "n": 45, "k": 19, size: sym(size, 1, 100)})
        for opts in (
            (),
            parse([["UPCAST", "m", 3], ["UPCAST", "n", 16]]),
            parse([["UPCAST", "k", 4], ["TILE", "k", 16]]),
            *starts(kernel, AVX2, 2)[:1],
        ):
            right(kernel, opts, **{size: value})


@pytest.mark.slow
@pytest.mark.parametrize("shape", [(1, 1, 1), (1, 37, 5), (5, 1, 37), (37, 5, 1), (1, 1, 64), (17, 33, 65)])
def test_extents_of_one_and_primes(shape: tuple[int, int, int]) -> None:
    kernel = matmul(*shape)
    for opts in ((), *starts(kernel, targets.host(), 2)[:2]):
        right(kernel, opts)


@pytest.mark.parametrize(("shape", "value"), [((0, 4, 4), None), ((4, 0, 4), None), ((4, 4, 0), 0.0), ((0, 0, 0), None)])
def test_empty_products(shape: tuple[int, int, int], value: float | None) -> None:
    def product(m: int, n: int, k: int) -> Kernel:
        kb = KernelBuilder("product")
        i, j, l = kb.axis("m", m), kb.axis("n", n), kb.axis("k", k)
        a, b = kb.input("a", (m, k), float32), kb.input("b", (k, n), float32)
        acc = kb.sum("acc", (i, j), l, a[i, l] * b[l, j])
        kb.store("c", float32, (m, n), (i, j), acc[i, j])
        return kb.build()

    kernel = product(*shape)
    c = np.full(shape[:2], 7.0, np.float32)
    arrays = [np.ones((shape[0], shape[2]), np.float32), np.ones((shape[2], shape[1]), np.float32), c]
    interpret(program(kernel, []), arrays)
    assert (c == value).all() and c.shape == shape[:2]
    right(kernel, ())


@pytest.mark.parametrize(("combine", "start"), [("add", 0.0), ("mul", 1.0), ("max", -np.inf), ("min", np.inf)])
def test_a_reduction_of_nothing_is_the_identity(combine: str, start: float) -> None:
    for extent, vars in ((0, ()), (sym("n", 0, 9), (0,))):
        kb = KernelBuilder("nothing")
        i, j = kb.axis("m", 3), kb.axis("n", extent)
        x = kb.input("x", (3, extent), float32)
        r = kb.reduce(combine, "r", (i,), j, x[i, j])
        kb.store("y", float32, (3,), (i,), r[i])
        y = np.zeros(3, np.float32)
        interpret(program(kb.build(), []), [np.zeros((3, 0), np.float32), y], vars)
        assert (y == start).all()


ZERO = [(name, at) for name, places in odd_kernels.SYMBOLIC.items() for at in places]


@pytest.mark.many
@pytest.mark.parametrize(("name", "at"), ZERO)
@pytest.mark.covering
def test_extents_that_may_be_zero(name: str, at: int) -> None:
    make, usual = odd_kernels.KERNELS[name]
    sizes: list[Any] = list(usual)
    sizes[at] = 0
    check_twin(make(*sizes), (), AVX2)
    check_compiled(make(*sizes), ())
    sizes[at] = sym("s", 0, 40)
    for value in (0, 5):
        check_twin(make(*sizes), starts(make(*sizes), AVX2, 2)[0], AVX2, {"s": value})
    check_compiled(make(*sizes), (), None, {"s": 0})


# folds, scatters, families ----------------------------------------------------------------------------------------
@pytest.mark.many
@pytest.mark.parametrize("tile", [1, 2, 3, 8, 16])
@pytest.mark.parametrize("name", ["argmax", "attention", "attention_full"])
@pytest.mark.covering
def test_a_cut_fold_merges_to_the_same(name: str, tile: int) -> None:
    shape: dict[str, Any] = {"m": 5, "n": 53} if name == "argmax" else {"b": 1, "h": 2, "s": 29, "d": 3}
    family = "n" if name == "argmax" else "key"
    kernel = kernels.make(name, shape, "float32")
    extra = [["UPCAST", family, min(tile, 4)]] if tile in (8, 16) else []
    right(kernel, parse([["TILE", family, tile], *extra]))


@pytest.mark.parametrize("tile", [1, 3, 16])
def test_argmax_of_ties_is_the_first_in_every_tiling(tile: int) -> None:
    kernel = kernels.make("argmax", {"m": 3, "n": 40}, "float32")
    x = np.zeros((3, 40), np.float32)
    x[1, [7, 8, 39]] = 2.0
    x[2, 39] = 1.0
    y = np.zeros(3, np.int32)
    interpret(program(kernel, [["TILE", "n", tile], *([["UPCAST", "n@top", tile]] if tile > 1 else [])]), [x, y])
    assert y.tolist() == [0, 7, 39]


@pytest.mark.parametrize("opts", [[], [["UPCAST", "d", 8]], [["PARALLEL", "d"]], [["TILE", "d", 8], ["UPCAST", "d", 4], ["PARALLEL", "d"]]])
def test_repeated_indices_are_added_in_order(opts: list[Any]) -> None:
    kernel = kernels.make("embedding_grad", {"v": 3, "n": 29, "d": 16}, "float32")
    right(kernel, parse(opts))
    dy = np.random.default_rng(0).standard_normal((29, 16), np.float32)
    table = np.zeros((3, 16), np.float32)
    interpret(program(kernel, opts), {"dy": dy, "ids": np.ones(29, np.int64), "dtable": table})
    want = np.zeros(16, np.float32)
    for row in dy:
        want = want + row
    np.testing.assert_array_equal(table[1], want)
    assert not table[0].any() and not table[2].any()


@pytest.mark.many
@pytest.mark.parametrize("dtype", [int8, uint8, int32, int64], ids=str)
@pytest.mark.parametrize("columns", [0, 19])
@pytest.mark.parametrize("combine", [None, "max"], ids=["gather", "scatter"])
def test_indices_of_every_integer_type(dtype: Any, columns: int, combine: str | None) -> None:
    """What they are multiplied by overflows the narrow ones."""
    kb = KernelBuilder("rows")
    i, j = kb.axis("i", 50), kb.axis("j", max(1, columns))
    at, row, size = kb.input("at", (50,), dtype, range=(0, 36)), (j,) * bool(columns), (columns,) * bool(columns)
    if combine is None:
        table = kb.input("table", (37, *size), float32)
        kb.store("y", float32, (50, *size), (i, *row), table[(at[i], *row)])
    else:
        x = kb.input("x", (50, *size), float32)
        kb.store("y", float32, (37, *size), (i, *row), x[(i, *row)], indices=(at[i], *row), combine=combine)
    lanes = [["UPCAST", "j", 20], ["PARALLEL", "j"]] if columns else [["UPCAST", "i", 10]] if combine is None else []
    for opts in ([], lanes):
        right(kb.build(), parse(opts))


OVERLAPPING: list[tuple[str, list[Any]]] = [
    ("gram", [["UPCAST", "n", 4]]),
    ("gram", [["UPCAST", "n@i", 4], ["UPCAST", "n@j", 10]]),
    ("two_sums", [["UPCAST", "m", 4], ["UPCAST", "n", 8]]),
    ("transposed", [["UPCAST", "m", 4], ["UPCAST", "n", 4], ["STAGE", "v", {"at": "n"}]]),
    ("stencil", [["UPCAST", "n", 8], ["STAGE", "v", {"at": "m"}]]),
    ("reshaped", [["UPCAST", "f", 8], ["STAGE", "v", {"at": "grid"}]]),
    ("staircase", [["UPCAST", "n", 8], ["STAGE", "e", {"at": "m"}], ["STAGE", "f", {"at": "m"}], ["STAGE", "g", {"at": "m"}]]),
    ("chain", [["UPCAST", "m", 4], ["UPCAST", "n", 6], ["PARALLEL", "m"]]),
]


@pytest.mark.many
@pytest.mark.parametrize(("name", "opts"), OVERLAPPING, ids=[f"{i}-{o[0]}" for i, o in enumerate(OVERLAPPING)])
def test_values_read_off_their_own_axes(name: str, opts: list[Any]) -> None:
    make, sizes = odd_kernels.KERNELS[name]
    right(make(*sizes), parse(opts))


# what random schedules once found ---------------------------------------------------------------------------------
FOUND: list[tuple[str, dict[str, Any], str, list[Any]]] = [
    ("attention", {"b": 2, "h": 1, "s": 13, "d": 4}, "float64", [["UNROLL", "key@max", 8]]),  # read scores past those written
    ("attention", {"b": 1, "h": 1, "s": 5, "d": 3}, "float16", [["UPCAST", "key@max", 2]]),
    ("matvec", {"m": 31, "n": 13}, "bfloat16", [["SPLIT", "n", 2], ["CACHE", "y", {"policy": "stream"}]]),  # streamed the workspace
    (
        "layernorm",
        {"m": 11, "n": 16},
        "float64",
        [["UPCAST", "n", 8], ["CACHE", "y", {"policy": "stream"}]],
    ),  # claimed 64 bytes where 32 were known
    (
        "attention",
        {"b": 1, "h": 2, "s": 13, "d": 5},
        "float64",
        [["STAGE", "v", {"at": "d@out", "order": "row"}], ["TILE", "key", 8]],
    ),  # staged at every d
]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "shape", "dtype", "opts"), FOUND, ids=[f"{i}-{f[0]}" for i, f in enumerate(FOUND)])
def test_what_was_once_wrong(name: str, shape: dict[str, Any], dtype: str, opts: list[Any]) -> None:
    right(kernels.make(name, shape, dtype), parse(opts))


def test_a_fold_inside_a_loop_keeps_its_state_outside_it() -> None:
    right(odd_kernels.log_sum(9, 48), parse([["MOVE", "w", {"before": "m"}], ["TILE", "n", 3]]))


def test_an_interpreted_program_and_its_code_agree_on_integers() -> None:
    kb = KernelBuilder("wrap")
    i = kb.axis("n", 37)
    x = kb.input("x", (37,), int32, range=(-(2**31), 2**31 - 1))
    kb.store("y", int32, (37,), (i,), x[i] * x[i] + x[i])
    right(kb.build(), (opt("UPCAST", "n", 8),))
