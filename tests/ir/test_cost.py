"""The counted cost against the formulas of the named kernels, and on small kernels by hand."""

from __future__ import annotations

from typing import Any

import pytest
from kernel_oracles import ORACLES
from tilewright import named_kernels
from tilewright.ir import KernelBuilder, KernelError, cast, const, dtype, exp, float32, float64, int32, int64, sym, where
from tilewright.ir.cost import ELEMENTARY, FLOP, POLYNOMIAL, Cost, cost
from tilewright.ir.node import PAIRED
from tilewright.ir.normal_form import normalise
from tilewright.lower.arithmetic.binary_functions import expand_binary
from tilewright.lower.arithmetic.elementary import expand
from tilewright.program.builder import Builder
from tilewright.program.program import Instr, statements


@pytest.mark.many
@pytest.mark.parametrize("name", named_kernels.NAMES)
def test_agrees_with_the_definitions_formula(name):
    d = named_kernels.get(name)
    for shape in (d.default_shape, d.odd_shape):
        for t in d.dtypes:
            kernel = d.kernel(shape, t)
            c = cost(kernel)
            assert (c.flops, c.bytes) == ORACLES[name].cost(shape, dtype(t))
            assert cost(normalise(kernel)) == c


@pytest.mark.parametrize("epilogue", [("matmul", 0), ("matmul_bias_relu", 2), ("matmul_bias_gelu", 5)])
def test_matmul_is_2mnk_and_its_epilogue(epilogue):
    name, each = epilogue
    c = cost(named_kernels.make(name, {"m": 10, "n": 20, "k": 30}))
    assert c.flops == 2 * 10 * 20 * 30 + each * 200


def test_elementary_functions_are_counted_apart():
    c = cost(named_kernels.make("softmax", {"m": 10, "n": 20}))
    assert c.elementary == 200 and c.poly_flops > 200
    assert cost(named_kernels.make("softmax", {"m": 10, "n": 20}, "float64")).poly_flops > c.poly_flops
    assert cost(named_kernels.make("cross_entropy", {"m": 10, "n": 20})).elementary == 210
    assert cost(named_kernels.make("matmul")).elementary == 0


@pytest.mark.parametrize("dtype", [float32, float64])
@pytest.mark.parametrize("op", sorted(ELEMENTARY))
def test_polynomials_cost_what_they_are_expanded_to(op, dtype):
    b = Builder()
    with b.phase(const(1), []) as phase, b.loop("n", b.const(0), b.const(8)) as loop:
        x = b.op("cast", loop.var, dtype=dtype)
        _ = expand_binary(b, op, x, x) if op in PAIRED else expand(b, op, x)
    ops = [s.op for s in statements(phase.body) if isinstance(s, Instr)]
    flops = sum(2 if o == "fma" else o in FLOP or o == "round" for o in ops)
    assert abs(POLYNOMIAL[op][dtype.size] - flops) <= 0.25 * flops


def test_symbols_take_their_values():
    kernel = named_kernels.make("matmul", {"m": sym("m", 1, 100), "n": 20, "k": 30})
    assert cost(kernel, {"m": 10}) == cost(named_kernels.make("matmul", {"m": 10, "n": 20, "k": 30}))
    with pytest.raises(KernelError, match="the cost of matmul depends on m: give its value in vars"):
        cost(kernel)


def test_what_is_hoisted_counts_once():
    kb = KernelBuilder("k")
    i, j = kb.axis("m", 4), kb.axis("n", 8)
    x, s = kb.input("x", (4, 8), float32), kb.input("s", (4,), float32)
    kb.store("y", float32, (4, 8), (i, j), x[i, j] * exp(s[i] + 1.0))
    c = cost(kb.build())
    assert (c.flops, c.elementary) == (4 * 8 + 4, 4)


def test_a_named_value_counts_once_however_often_it_is_read():
    kb = KernelBuilder("k")
    i, j, l = (kb.axis(f"n@{t}", 8) for t in "abc")
    x = kb.input("x", (8,), float64)
    v = kb.value("v", (i,), x[i] * x[i])
    kb.store("y", float64, (8,), (j,), v[j])
    kb.store("z", float64, (8,), (l,), v[l])
    c = cost(kb.build())
    assert c.flops == 8
    assert (c.reads, c.writes) == (64, 128)


def test_partly_used_inputs():
    kb = KernelBuilder("k")
    i, j = kb.axis("m", 3), kb.axis("n", 4)
    x, table, ids = kb.input("x", (10, 8), float32), kb.input("table", (100, 4), float32), kb.input("ids", (3,), int64, range=(0, 99))
    kb.store("y", float32, (3, 4), (i, j), x[i * 2, j * 2] + table[ids[i], j])
    c = cost(kb.build())
    assert c.reads == 3 * 4 * 4 + 3 * 4 * 4 + 3 * 8


def test_two_sites_read_the_same_elements():
    kb = KernelBuilder("k")
    i, j = kb.axis("n@a", 4), kb.axis("n@b", 4)
    x = kb.input("x", (100,), float32)
    total = kb.sum("total", (), i, x[i])
    kb.store("y", float32, (4,), (j,), x[j] * total[()])
    assert cost(kb.build()).reads == 16


def test_a_scatter_writes_its_whole_output():
    c = cost(named_kernels.make("embedding_grad", {"v": 1000, "n": 3, "d": 8}))
    assert c.writes == 1000 * 8 * 4 and c.flops == 24


def test_index_arithmetic_is_free():
    d = named_kernels.get("conv2d")
    shape = {**d.odd_shape, "groups": 1}
    assert cost(d.kernel(shape)).flops == ORACLES["conv2d"].cost(shape, d.dtype(None))[0]


def test_sums_by_keys_look_at_each_element_once() -> None:
    kb = KernelBuilder("histogram")
    i, v = kb.axis("n", 1000), kb.axis("v", 64)
    k, x = kb.input("k", (1000,), int32), kb.input("x", (1000,), float32)
    total = kb.sum("total", (v,), i, where(k[i].eq(cast(v, int32)), x[i], 0.0))
    kb.store("y", float32, (64,), (v,), total[v])
    assert cost(kb.build()).flops == 1000


# Necessary work is counted once, and only what is necessary.


M, N = 64, 96


def made(write: Any) -> Cost:
    """The cost of what `write(kb, i, j, x)` stores, over i < 64, j < 96 and x of twice that many columns."""
    kb = KernelBuilder("k")
    write(kb, kb.axis("m", M), kb.axis("n", N), kb.input("x", (M, 2 * N), float32))
    return cost(kb.build())


def three_sums(kb: Any, i: Any, j: Any, x: Any) -> None:
    a, b = kb.axis("a", N), kb.axis("b", N)
    sums = [
        kb.sum(n, (i,), k, f(exp(x[i, k]))) for n, k, f in (("p", j, lambda e: e), ("q", a, lambda e: e * e), ("r", b, lambda e: e * 2.0))
    ]
    kb.store("y", float32, (M,), i, sums[0][i] + sums[1][i] + sums[2][i])


def test_what_three_nests_compute_counts_once() -> None:
    c = made(three_sums)
    assert c.elementary == M * N and c.flops == M * N * (3 + 2) + 2 * M
    assert c.reads == 4 * M * N, "also where each goes through an axis of its own"


def test_taps_of_a_stencil_read_their_box() -> None:
    c = made(lambda kb, i, j, x: kb.store("y", float32, (M, N), (i, j), x[i, j] + x[i, j + 1] + x[i, j + 2]))
    assert c.reads == 4 * M * (N + 2)


def test_what_masks_leave_out_does_not_count() -> None:
    c = made(lambda kb, i, j, x: kb.store("y", float32, (M, N), (i, j), exp(x.masked(j < i, i, j)), mask=j < i))
    half = M * (M - 1) // 2
    assert (c.reads, c.writes, c.elementary) == (4 * half, 4 * half, half)


def test_what_no_store_needs_does_not_count() -> None:
    def write(kb: Any, i: Any, j: Any, x: Any) -> None:
        kb.sum("idle", (i,), j, exp(x[i, j + N]))
        k = kb.axis("k", N)
        kb.store("y", float32, (M, N), (i, k), x[i, k] * 2.0)

    c = made(write)
    assert (c.reads, c.flops, c.elementary) == (4 * M * N, M * N, 0)


def test_rows_that_data_chooses_are_as_many_as_draws_find() -> None:
    def write(kb: Any, i: Any, j: Any, x: Any) -> None:
        ids, table = kb.input("ids", (M,), int32, range=(0, 31)), kb.input("t", (4096, N), float32)
        kb.store("y", float32, (M, N), (i, j), table[ids[i].cast(int64), j] + x[i, j])

    c = made(write)
    rows = (c.reads - 4 * M - 4 * M * N) / (4 * N)
    assert 25 < rows <= 32, "64 draws of 32 rows find most of these, and never the whole table"


def test_parts_of_one_output_add_up() -> None:
    def write(kb: Any, i: Any, j: Any, x: Any) -> None:
        kb.store("y", float32, (2 * M, N), (i, j), x[i, j])
        kb.store("y", float32, (2 * M, N), (i, j), x[i, j + N], (i + M, j))

    assert made(write).writes == 4 * 2 * M * N
