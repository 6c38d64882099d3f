"""The analytic model ranks: better schedules get smaller numbers. Nothing here is timed."""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import pytest
from tilewright import named_kernels, targets
from tilewright.heuristics import estimate, quick_starts, starts
from tilewright.heuristics.machine import DEFAULT
from tilewright.ir import KernelBuilder, float32, sym
from tilewright.ir.cost import cost as cost_of
from tilewright.ir.kernel import Kernel
from tilewright.opts import Opts, actions, apply, parse

TARGET = targets.named("cascadelake")


def cost(name: str | Kernel, opts: list[Any], threads: int = 1, **shape: Any) -> float:
    kernel = named_kernels.make(name, shape) if isinstance(name, str) else name
    return estimate(apply(kernel, parse(opts), TARGET), threads)


@cache
def kernel_and_starts(name: str) -> tuple[Kernel, list[Opts]]:
    """A kernel of its default shape, and its start schedules for one thread."""
    kernel = named_kernels.make(name)
    return kernel, starts(kernel, TARGET, 1)


@pytest.mark.many
@pytest.mark.parametrize("name", named_kernels.NAMES)
@pytest.mark.covering(each=2)
def test_positive_finite_and_the_same_every_time(name: str) -> None:
    kernel, found = kernel_and_starts(name)
    for opts in [(), *found[:3], *actions(apply(kernel, (), TARGET))[::10]]:
        scheduled = apply(kernel, opts, TARGET)
        first = estimate(scheduled, 2)
        assert 0 < first < math.inf
        assert estimate(apply(named_kernels.make(name), opts, TARGET), 2) == first


@pytest.mark.many
@pytest.mark.parametrize("name", named_kernels.NAMES)
def test_start_schedules_are_far_ahead_of_plain_loops(name: str) -> None:
    """Half as fast again at least, or near what memory lets any schedule be: then plain loops wait for it as well."""
    kernel, found = kernel_and_starts(name)
    best, plain = (estimate(apply(kernel, o, TARGET)) for o in (found[0], ()))
    written = sum(math.prod(b.shape) * b.dtype.size for b in kernel.outputs)  # passes once more: it is read before it is written
    memory_s = (cost_of(kernel).bytes + written) / (DEFAULT.caches.dram * DEFAULT.core.clock)
    assert 1.5 * best <= plain or (best < plain and best <= 1.5 * memory_s)


PACKED = [["UPCAST", "m", 8], ["UPCAST", "n", 32], ["TILE", "n", 128], ["PARALLEL", "n"], ["STAGE", "b", {"at": "n"}]]
BETTER: list[tuple[str, dict[str, int], list[Any], list[Any], float]] = [
    ("matmul", {}, PACKED, [], 10.0),
    ("matmul", {}, PACKED, [["UPCAST", "n", 32], *PACKED[2:]], 1.5),  # more than one row shares b
    ("matmul", {}, PACKED, [["UPCAST", "m", 16], ["UPCAST", "n", 64], *PACKED[2:]], 1.2),  # 64 accumulators spill
    ("sum_rows", {}, [["UPCAST", "n", 64]], [["UPCAST", "n", 16]], 1.0),
    ("sum_rows", {"m": 64, "n": 256}, [["UPCAST", "n", 64]], [], 2.5),
    ("gelu", {}, [["UPCAST", "n", 32]], [], 3.0),
    ("transpose", {}, [["UPCAST", "m", 16], ["UPCAST", "n", 16], ["PARALLEL", "m"]], [["PARALLEL", "m"]], 1.0),
]


@pytest.mark.parametrize(("name", "shape", "better", "worse", "factor"), BETTER, ids=[f"{i}-{b[0]}" for i, b in enumerate(BETTER)])
def test_a_better_schedule_costs_less(name: str, shape: dict[str, int], better: list[Any], worse: list[Any], factor: float) -> None:
    assert cost(name, better, **shape) * factor <= cost(name, worse, **shape)


def test_keeping_exp_beats_computing_it_twice() -> None:
    lanes = [["UPCAST", "n", 64]]
    assert cost("softmax", [*lanes, ["STAGE", "e", {"at": "m"}]], m=256, n=1024) < cost("softmax", lanes, m=256, n=1024)


def test_threads_help_large_kernels_and_not_small_ones() -> None:
    assert 1.6 < cost("matmul", PACKED, 1) / cost("matmul", PACKED, 2) <= 2.0
    assert cost("add", [["PARALLEL", "m"]], 2, m=4, n=16) > cost("add", [["PARALLEL", "m"]], 1, m=4, n=16)  # waking the pool costs more


def test_more_work_costs_more() -> None:
    sizes = [cost("matmul", PACKED, m=n, n=n, k=n) for n in (256, 512, 1024)]
    assert sizes[0] * 6 < sizes[1] and sizes[1] * 6 < sizes[2]


def test_a_symbol_counts_with_its_largest_value() -> None:
    kernel = named_kernels.make("matmul", {"m": sym("m", 1, 512), "n": 512, "k": 512})
    assert cost(kernel, []) == pytest.approx(cost("matmul", [], m=512, n=512, k=512), rel=0.05)


def test_phases_add_up() -> None:
    s = apply(named_kernels.make("sum_all"), parse([["SPLIT", "n", 16], ["UPCAST", "n", 64]]), TARGET)
    assert estimate(s, 2) == pytest.approx(sum(estimate(p, 2) for p in s.phases))


def test_measured_bandwidth_is_used() -> None:
    class Slow:
        def bandwidth(self, threads: int, nt: bool = False) -> float:
            return 1e9

    s = apply(named_kernels.make("add"), parse([["UPCAST", "n", 64]]), TARGET)
    assert estimate(s, 1, Slow()) > 2 * estimate(s, 1)


def test_stored_rows_share_sets_with_those_that_are_read() -> None:
    """Four rows of a page each that are stored, with the six that they are computed of, are more lines of a set than eight ways hold; rows
    of another length are spread."""

    def gain(w: int) -> float:
        kb = KernelBuilder("rows")
        i, j = kb.axis("h", 256), kb.axis("w", w)
        x = kb.input("x", (258, w), float32)
        kb.store("y", float32, (256, w), (i, j), x[i, j] + x[i + 1, j] + x[i + 2, j])
        two, four = (cost(kb.build(), [["UPCAST", "w", 16], ["UPCAST", "h", n]]) for n in (2, 4))
        return two / four

    assert gain(1024) < 0.98 * gain(1040)


def test_threads_take_short_items_in_chunks() -> None:
    alone, shared = (cost("sum_rows", [["UPCAST", "n", 16], ["PARALLEL", "m"]], threads, m=65536, n=16) for threads in (1, 2))
    assert 0.5 * alone < shared < 0.8 * alone


def test_rows_of_two_blocks_of_a_view_cost_more_than_those_of_one() -> None:
    """Rows of a matrix that is a view cut into blocks of 32: twelve of them are in two blocks, with addresses of their own."""
    kb = KernelBuilder("cut_rows")
    i, j, k = kb.axis("i", 384), kb.axis("j", 128), kb.axis("k", 512)
    a, b = kb.input("a", (12, 512, 32), float32), kb.input("b", (512, 128), float32)
    total = kb.sum("total", (i, j), k, a[i // 32, k, i % 32] * b[k, j])
    kb.store("y", float32, (384, 128), (i, j), total[i, j])
    kernel = kb.build()

    def of(rows: int) -> float:
        return cost(
            kernel, [["UPCAST", "i", rows], ["UPCAST", "j", 32], ["PARALLEL", "j"], ["UNROLL", "k", 2], ["STAGE", "b", {"at": "j"}]]
        )

    assert of(8) < 0.8 * of(12)
    rows = next(o.arg for o in quick_starts(kernel, TARGET, 1)[0] if o.op == "UPCAST" and o.on == "i")
    assert 32 % int(str(rows)) == 0
