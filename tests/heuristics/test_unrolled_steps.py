"""Start schedules of short sums whose steps are far apart, or looked up; and lanes that cost no registers of sums."""

from __future__ import annotations

import pytest
from tilewright.heuristics import starts
from tilewright.ir import Kernel, KernelBuilder, float32, int16, int32, uint8
from tilewright.ir.operators import cast
from tilewright.opts.opt import Opts
from tilewright.targets import named


def first(kernel: Kernel, level: str) -> Opts:
    return starts(kernel, named(level), 1)[0]


def frames(steps: int, n: int, near: bool = False) -> Kernel:
    """Weighted frames of a film, one after the other in memory or with their pixels side by side."""
    kb = KernelBuilder("frames")
    i, t = kb.axis("n", n), kb.axis("t", steps)
    x, w = kb.input("x", (n, steps) if near else (steps, n), int16), kb.input("w", (steps,), int16)
    total = kb.sum("total", (i,), t, (cast(x[i, t] if near else x[t, i], int32) * cast(w[t], int32)) >> 8)
    kb.store("y", int32, (n,), (i,), total[i])
    return kb.build()


def looked_up(steps: int, m: int) -> Kernel:
    """Sums of what a table has for each of a few bytes."""
    kb = KernelBuilder("looked_up")
    i, j = kb.axis("m", m), kb.axis("n", steps)
    x, table = kb.input("x", (m, steps), uint8), kb.input("table", (256,), float32)
    kb.store("y", float32, (m,), (i,), kb.sum("s", (i,), j, table[x[i, j]])[i])
    return kb.build()


def unrolled(opts: Opts) -> dict[str, object]:
    return {str(o.on): o.arg for o in opts if o.op == "UNROLL"}


@pytest.mark.parametrize("level", ["x86-64-v2", "haswell", "cascadelake"])
def test_steps_from_row_to_row_are_spelled_out_with_lanes_over_the_results(level: str) -> None:
    found = first(frames(6, 1 << 18), level)
    assert unrolled(found) == {"t": 6}
    assert any(o.op == "UPCAST" and o.on == "n" for o in found)


@pytest.mark.parametrize("level", ["x86-64-v2", "haswell", "cascadelake"])
def test_looked_up_elements_are_loaded_one_by_one(level: str) -> None:
    for steps in (12, 64):
        found = first(looked_up(steps, 1 << 16), level)
        assert unrolled(found) == {"n": steps}
        assert not any(o.op == "UPCAST" and o.on == "n" for o in found)
        few = [o.arg for o in found if o.op == "UPCAST" and o.on == "m"]
        assert all(isinstance(n, int) and n <= 4 for n in few), "and have no lanes for what stores their sums either"
    assert not unrolled(first(looked_up(65, 1 << 16), level))


def test_sums_of_products_without_reuse_are_spelled_out_too() -> None:
    kb = KernelBuilder("exposures")
    i, t = kb.axis("n", 1 << 18), kb.axis("t", 6)
    x, w = kb.input("x", (6, 1 << 18), uint8), kb.input("w", (6,), uint8)
    total = kb.sum("total", (i,), t, cast(x[t, i], int32) * cast(w[t], int32))
    kb.store("y", int32, (1 << 18,), (i,), total[i])
    assert unrolled(first(kb.build(), "cascadelake")) == {"t": 6}


def test_pairs_of_many_short_rows_have_lanes_along_the_rows() -> None:
    kb = KernelBuilder("spectrum")
    i, k, l = kb.axis("m", 4096), kb.axis("n@a", 200), kb.axis("n@b", 200)
    a, w = kb.input("a", (4096, 200, 2), float32), kb.input("w", (200,), float32)
    power = kb.sum("power", (i,), k, (a[i, k, 0] * a[i, k, 0] + a[i, k, 1] * a[i, k, 1]) * w[k])
    both = kb.sum("both", (i,), l, (a[i, l, 0] + a[i, l, 1]) * w[l])
    kb.store("p", float32, (4096,), (i,), power[i])
    kb.store("q", float32, (4096,), (i,), both[i])
    found = {(o.op, str(o.on)) for o in first(kb.build(), "cascadelake")}
    assert ("UPCAST", "n") in found and ("UPCAST", "m") not in found


def test_long_sums_and_neighbouring_steps_are_not() -> None:
    assert not unrolled(first(frames(64, 1 << 16), "haswell"))
    assert not unrolled(first(frames(8, 1 << 16, near=True), "haswell"))


def test_a_store_gets_no_lanes_that_multiply_sums_past_the_registers() -> None:
    kb = KernelBuilder("complex_rows")
    i, k, l = kb.axis("m", 2048), kb.axis("n@re", 512), kb.axis("n@im", 512)
    a, b = kb.input("a", (2048, 512, 2), float32), kb.input("b", (2048, 512, 2), float32)
    re = kb.sum("re_sum", (i,), k, a[i, k, 0] * b[i, k, 0] + a[i, k, 1] * b[i, k, 1])
    im = kb.sum("im_sum", (i,), l, a[i, l, 0] * b[i, l, 1] - a[i, l, 1] * b[i, l, 0])
    kb.store("re", float32, (2048,), (i,), re[i])
    kb.store("im", float32, (2048,), (i,), im[i])
    found = first(kb.build(), "cascadelake")
    assert not any(o.op == "UPCAST" and o.on == "m" for o in found)
