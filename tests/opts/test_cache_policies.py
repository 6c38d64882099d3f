"""CACHE with prefetch: which reduction asks for which output's lines, and the start schedules that have it."""

from __future__ import annotations

from typing import Any

import pytest
from tilewright import named_kernels
from tilewright.heuristics import starts
from tilewright.heuristics.model import estimate
from tilewright.ir import KernelBuilder, OptError
from tilewright.ir.dtypes import float32
from tilewright.ir.normal_form import normalise
from tilewright.opts import apply
from tilewright.opts.options.cache import prefetches
from tilewright.targets import named

TARGET = named("cascadelake")


def scheduled(name: str, shape: dict[str, int], opts: list[Any], target: Any = TARGET) -> Any:
    return apply(normalise(named_kernels.make(name, shape)), opts, target)


@pytest.mark.parametrize("name", ["softmax", "log_softmax", "layernorm", "rmsnorm"])
def test_the_last_pass_before_the_store_asks(name: str) -> None:
    s = scheduled(name, {"m": 8, "n": 64}, [["CACHE", "y", {"policy": "prefetch"}]])
    ((name, (found,)),) = prefetches(s).items()
    assert name == found.nest.name == [n.name for n in s.nests if n.kind == "reduce"][-1]
    assert found.buffer.name == "y" and not found.later and found.indices[-1] is found.nest.reduce_axes[0]


def test_the_last_pass_over_a_row_asks_for_the_next() -> None:
    for kernel, last in (("cross_entropy", "total"), ("argmax", "at")):
        s = scheduled(kernel, {"m": 8, "n": 64}, [["CACHE", "x", {"policy": "prefetch"}]])
        ((name, (found,)),) = prefetches(s).items()
        assert (name, found.buffer.name, found.later) == (last, "x", True)


@pytest.mark.parametrize("name", ["softmax", "sum_rows", "gelu", "matmul"])
def test_inputs_that_are_read_again_or_once_are_refused(name: str) -> None:
    kernel = normalise(named_kernels.make(name))
    with pytest.raises(OptError, match="no reduction is the last of several"):
        apply(kernel, [["CACHE", kernel.inputs[0].name, {"policy": "prefetch"}]], TARGET)


def test_nobody_asks_unless_told() -> None:
    plain, told = (scheduled("softmax", {"m": 8, "n": 64}, opts) for opts in ([], [["CACHE", "y", {"policy": "prefetch"}]]))
    assert prefetches(plain) == {} and plain.hash != told.hash


@pytest.mark.parametrize("name", ["sum_cols", "cumsum", "gelu", "transpose", "argmax", "embedding_grad"])
def test_other_stores_are_refused(name: str) -> None:
    kernel = normalise(named_kernels.make(name))
    with pytest.raises(OptError, match="no reduction before its store"):
        apply(kernel, [["CACHE", kernel.outputs[0].name, {"policy": "prefetch"}]], TARGET)


def test_of_a_split_reduction_the_first_phase_asks_for_inputs() -> None:
    with pytest.raises(OptError, match="no reduction is the last of several"):
        scheduled("sum_all", {"n": 4096}, [["SPLIT", "n", 4], ["CACHE", "x", {"policy": "prefetch"}]])


def test_it_is_for_items_of_one_thread() -> None:
    scheduled("softmax", {"m": 8, "n": 64}, [["CACHE", "y", {"policy": "prefetch"}]], named("opencl-cpu"))
    with pytest.raises(OptError, match="one thread an item"):
        scheduled("softmax", {"m": 8, "n": 64}, [["CACHE", "y", {"policy": "prefetch"}], ["LOCAL", "m", 2]], named("opencl-cpu"))


@pytest.mark.parametrize("target", ["opencl-gpu", "sm_90a"])
def test_it_is_for_processors(target: str) -> None:
    with pytest.raises(OptError, match="prefetch is for processors"):
        scheduled("softmax", {"m": 8, "n": 64}, [["CACHE", "y", {"policy": "prefetch"}]], named(target))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("shape", "wanted"),
    [({"m": 4096, "n": 4096}, True), ({"m": 256, "n": 256}, False), ({"m": 64, "n": 1 << 20}, False)],
    ids=["in memory", "in a cache", "rows longer than a cache"],
)
def test_start_schedules_ask_where_lines_come_from_memory_and_stay(shape: dict[str, int], wanted: bool) -> None:
    for name in ("softmax", "layernorm", "cross_entropy"):
        found = starts(normalise(named_kernels.make(name, shape)), TARGET, 2)[:4]
        assert all(any(o.fields.get("policy") == "prefetch" for o in opts) == wanted for opts in found)


def test_the_model_prefers_it_where_the_pass_computes() -> None:
    rows: list[Any] = [["UPCAST", "n", 64], ["PARALLEL", "m"]]
    plain, told = (scheduled("softmax", {"m": 4096, "n": 4096}, opts) for opts in (rows, [*rows, ["CACHE", "y", {"policy": "prefetch"}]]))
    assert estimate(told, 2) < estimate(plain, 2)


def moments(m: int, n: int, again: bool) -> Any:
    """A sum of each row and one of its squares; `again`: of the squares less the mean, in a pass after the other."""
    kb = KernelBuilder("moments")
    i, j = kb.axis("i", m), kb.axis("j", n)
    x = kb.input("x", (m, n), float32)
    mean = kb.sum("mean", (i,), j, x[i, j] * (1.0 / n))
    each = x[i, j] - mean[i] if again else x[i, j]
    squares = kb.sum("squares", (i,), j, each * each)
    kb.store("y", float32, (m,), (i,), squares[i] - mean[i])
    return normalise(kb.build())


@pytest.mark.parametrize(("again", "wanted"), [(True, True), (False, False)], ids=["two passes", "one pass"])
def test_start_schedules_ask_for_rows_that_passes_after_each_other_read(again: bool, wanted: bool) -> None:
    first = starts(moments(4096, 1024, again), TARGET, 1)[0]
    assert any(o.fields.get("policy") == "prefetch" for o in first) == wanted


def test_rows_that_one_loop_reads_come_from_memory_whoever_asks() -> None:
    rows: list[Any] = [["UPCAST", "j", 32], ["PARALLEL", "i"], ["FUSE", "j"]]
    plain, told = (apply(moments(4096, 1024, False), opts, TARGET) for opts in (rows, [*rows, ["CACHE", "x", {"policy": "prefetch"}]]))
    assert estimate(told) > 0.9 * estimate(plain)


@pytest.mark.parametrize("again", [False, True])
def test_a_zen_4_takes_a_row_at_a_time_from_memory(again: bool) -> None:
    """Two at once would be short streams, each of which is slow to start."""
    first = starts(moments(8192, 1024, again), named("znver4"), 1)[0]
    assert {o.on for o in first if o.op == "UPCAST"} == {"j"}


def test_rows_are_asked_for_once_in_a_schedule() -> None:
    for opts in starts(moments(4096, 1024, True), TARGET, 1)[:6]:
        assert len([o for o in opts if o.fields.get("policy") == "prefetch"]) <= 1
