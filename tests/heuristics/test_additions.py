"""What is added to the likeliest start schedules."""

from __future__ import annotations

import pytest
from tilewright import named_kernels
from tilewright.heuristics import starts
from tilewright.ir import KernelBuilder
from tilewright.ir.dtypes import float32
from tilewright.ir.kernel import Kernel
from tilewright.opts.options.cache import has_streams
from tilewright.targets import named


def ops(kernel: Kernel, level: str = "haswell") -> list[set[tuple[str, str]]]:
    """Of each start schedule, which options it has, and on what."""
    return [{(str(o.fields.get("policy", o.op)), str(o.on)) for o in opts} for opts in starts(kernel, named(level), 1)]


def tripled(n: int) -> Kernel:
    """A kernel that reads and writes n × n floats once."""
    kb = KernelBuilder("tripled")
    i, j = kb.axis("i", n), kb.axis("j", n)
    kb.store("y", float32, (n, n), (i, j), 3 * kb.input("x", (n, n), float32)[i, j])
    return kb.build()


def centred_products(n: int, d: int) -> Kernel:
    """A contraction of rows less their means, which are a nest of their own."""
    kb = KernelBuilder("centred_products")
    i, j, k, l, m = kb.axis("i", d), kb.axis("j", d), kb.axis("n@mean", n), kb.axis("n@sum", n), kb.axis("m", d)
    x = kb.input("x", (n, d), float32)
    mean = kb.sum("mean", (m,), k, x[k, m] * (1.0 / n))
    total = kb.sum("total", (i, j), l, (x[l, i] - mean[i]) * (x[l, j] - mean[j]))
    kb.store("y", float32, (d, d), (i, j), total[i, j])
    return kb.build()


def test_an_output_beyond_the_second_cache_is_stored_past_it_by_the_second_start_schedule_and_not_by_the_first() -> None:
    first, second, *_ = ops(tripled(512))
    assert ("stream", "y") not in first, "what reads it next finds it in the last cache"
    assert second == first | {("stream", "y")}


def test_what_stays_in_the_second_cache_is_not() -> None:
    assert not any(("stream", "y") in s for s in ops(tripled(64)))


def test_rows_that_are_read_several_times_may_be_fetched_ahead() -> None:
    found = ops(named_kernels.make("argmax", {"m": 128, "n": 1024}, "float32"))
    assert ("prefetch", "x") in found[1] and ("prefetch", "x") not in found[0]


def test_a_nest_beside_a_contraction_gets_lanes_too() -> None:
    assert ("UPCAST", "m") in ops(centred_products(4096, 64))[0]
    assert ("UPCAST", "m") in ops(centred_products(4001, 24), "x86-64-v4")[0]  # (of columns that fill up no whole vectors as well)


def test_a_transposed_output_may_leave_in_whole_lines() -> None:
    found = starts(named_kernels.make("transpose", {"m": 512, "n": 512}, "float32"), named("haswell"), 1)
    past = [opts for opts in found[:4] if has_streams(opts)]
    assert past and found[0] not in past
    assert ("UPCAST", "m", 16) in {(o.op, str(o.on), o.arg) for o in past[0]}, "64 bytes of float32"


@pytest.mark.parametrize("m", [33, 36])
def test_rows_of_no_whole_vectors_are_transposed_in_blocks(m: int) -> None:
    found = starts(named_kernels.make("transpose", {"m": m, "n": 391}, "float32"), named("x86-64-v4"), 1)
    assert {("UPCAST", "m", 8), ("UPCAST", "n", 16)} <= {(o.op, str(o.on), o.arg) for o in found[0]}
