"""Attention of a single query a head: each nest has the lanes that lie in memory for it."""

from __future__ import annotations

import pytest
from checks import check_compiled, check_floats
from tilewright.heuristics import quick_starts, starts
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
