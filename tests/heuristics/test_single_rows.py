"""Attention of a single query a head: each nest has the lanes that lie in memory for it. Products with one vector: rows at a time."""

from __future__ import annotations

import pytest
from checks import check_compiled, check_floats
from tilewright.heuristics import quick_starts, starts
from tilewright.ir import DType, Kernel, KernelBuilder, bfloat16, cast, float32
from tilewright.opts import apply
from tilewright.targets import named
from written_attention import attention, plain, single


@pytest.mark.parametrize("shared", [1, 2])
def test_results_of_start_schedules(shared: int) -> None:
    kernel = single(shared=shared)
    for opts in starts(kernel, named("avx2"), 1)[:3]:
        check_floats(kernel, opts, named("avx2"))
        check_compiled(kernel, opts, threads=2)


@pytest.mark.parametrize("target", ["avx2", "znver5"])
def test_every_reduction_has_lanes(target: str) -> None:
    kernel = single(h=16, shared=4, t=1024, d=64)
    for found in (starts(kernel, named(target), 1)[0], quick_starts(kernel, named(target), 1)[0]):
        assert found[0].op == "FOLD"
        (phase,) = apply(kernel, found, named(target)).phases
        reducing = [n for n in phase.nests if n.kind == "reduce"]
        assert len(reducing) == 4 and all(phase.lanes(n).width == named(target).lanes(n.expr.dtype) for n in reducing)


@pytest.mark.parametrize(("shared", "together"), [(4, 4), (8, 4), (2, 2), (6, 3), (5, None), (1, None)])
def test_heads_that_share_keys_are_in_registers_together(shared: int, together: int | None) -> None:
    kernel = single(h=2 * shared, shared=shared, t=512, d=64)
    upcast = {o.on: o.arg for o in starts(kernel, named("avx2"), 1)[0] if o.op == "UPCAST"}
    assert upcast.get("h") == together


@pytest.mark.parametrize("rows", [3, 4, 7, 12, 17, 33])
def test_few_rows_and_those_that_are_no_whole_vectors(rows: int) -> None:
    """Every reduction has lanes, and several rows read a key together in registers."""
    kernel, target = attention(plain, s=rows, t=512, d=64), named("avx2")
    found = starts(kernel, target, 1)[0]
    assert found[0].op == "FOLD"
    (phase,) = apply(kernel, found, target).phases
    assert all(phase.lanes(n).width > 4 for n in phase.nests if n.kind == "reduce")
    assert {o.on: o.arg for o in found if o.op == "UPCAST"}.get("s") == {3: 3, 4: 4, 7: 4, 12: 4, 17: 4, 33: 8}[rows]


def matvec(n: int, k: int, kind: DType) -> Kernel:
    kb = KernelBuilder("matvec")
    i, l = kb.axis("n", n), kb.axis("k", k)
    w, x = kb.input("w", (n, k), kind), kb.input("x", (k,), float32)
    kb.store("y", float32, (n,), (i,), kb.sum("s", (i,), l, cast(w[i, l], float32) * x[l])[i])
    return kb.build()


@pytest.mark.parametrize(
    ("target", "n", "k", "kind", "rows"),
    [
        ("znver4", 2048, 768, float32, None),  # (prefetchers would begin anew with each of four rows)
        ("znver5", 2048, 768, float32, 4),
        ("znver4", 256, 256, float32, 4),  # stays in the second cache
        ("znver4", 896, 8192, float32, 4),  # what rows share fills the first cache
        ("avx2", 768, 768, bfloat16, None),
        ("avx2", 64, 768, bfloat16, 4),
    ],
)
def test_rows_that_come_from_memory(target: str, n: int, k: int, kind: DType, rows: int | None) -> None:
    """One after the other, or four at once, in start schedules of a product with a vector."""
    kernel = matvec(n, k, kind)
    for first in (starts(kernel, named(target), 1)[0], quick_starts(kernel, named(target), 1)[0]):
        assert {o.on: o.arg for o in first if o.op == "UPCAST"}.get("n") == rows
