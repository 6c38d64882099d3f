"""Necessary work is counted once, and only what is necessary."""

from __future__ import annotations

from typing import Any

from tilewright.ir import KernelBuilder, exp, float32, int32, int64
from tilewright.ir.cost import Cost, cost

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
