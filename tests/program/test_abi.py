"""Where scratch lives and what a kernel's arguments are, for languages with groups of threads."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tilewright import targets
from tilewright.ir.dtypes import float32
from tilewright.ir.errors import BuildError
from tilewright.ir.node import const, sym
from tilewright.program import abi
from tilewright.program.program import Param, Signature

CPU, GPU, CUDA = (targets.named(n) for n in ("opencl-cpu", "opencl-gpu", "sm_90a"))
N = sym("n", 1, 1 << 30)


def signature(scratch: int = 0, threads: int = 1, shared: int = 0, work: int = 0) -> Signature:
    return Signature("k", (Param("A", float32, (N,), "in"),), ("n",), (N, const(3)), scratch, work, (threads, 1), shared)


def test_scratch_of_one_worker_is_group_memory_of_a_processor() -> None:
    assert abi.place(signature(), CPU) == "none" and abi.shared_bytes(signature(), CPU) == 0
    assert abi.place(signature(100_000), CPU) == "shared"
    assert abi.shared_bytes(signature(100_000, shared=10), CPU) == 64 + 100_000
    assert abi.place(signature(CPU.shared + 1), CPU) == "arena"
    assert abi.place(signature(abi.PRIVATE_BYTES, threads=32), CPU) == "private"


@pytest.mark.parametrize("target", [GPU, CUDA], ids=lambda t: t.name)
def test_scratch_of_gpu_threads_is_private_while_it_is_small(target: targets.Target) -> None:
    for threads in (1, 64):
        assert abi.place(signature(abi.PRIVATE_BYTES, threads), target) == "private"
        assert abi.place(signature(abi.PRIVATE_BYTES + 1, threads), target) == "arena"


def test_the_arena_holds_every_thread_of_the_largest_phase() -> None:
    s = signature(20_001, threads=32)
    assert abi.stride(s) == 20_032
    assert abi.arena_bytes(s, GPU, [10]) == 10 * 32 * 20_032
    assert abi.arena_bytes(signature(16, 32), GPU, [10]) == 0
    with pytest.raises(BuildError, match=r"scratch for each of 32000 threads.*512 MiB"):
        abi.arena_bytes(s, GPU, [1000])


def test_shared_memory_is_dynamic_above_what_a_kernel_may_declare() -> None:
    assert abi.dynamic_shared(signature(shared=48 << 10), CUDA, 0) == 0
    assert abi.dynamic_shared(signature(shared=49 << 10), CUDA, 0) == 49 << 10
    assert abi.dynamic_shared(signature(shared=49 << 10), replace(GPU, shared=64 << 10), 0) == 0
    with pytest.raises(BuildError, match="wants 33000 bytes of shared memory and opencl-gpu has 32768"):
        abi.shared_bytes(signature(shared=33_000), GPU)


def test_arguments_come_in_order_under_distinct_names() -> None:
    params = tuple(Param(n, float32, (N,), "in") for n in ("A", "out put", "out_put", "float", "é"))
    s = replace(signature(20_000, work=64), params=params, symbols=("n", "odd name"))
    found = abi.arguments(s, GPU)
    assert [(a.kind, a.at, a.name) for a in found] == [
        ("param", 0, "p_A"),
        ("param", 1, "p_out_put"),
        ("param", 2, "p_out_put_2"),
        ("param", 3, "p_float"),
        ("param", 4, "p__"),
        ("work", 0, "work"),
        ("arena", 0, "arena"),
        ("symbol", 0, "s_n"),
        ("symbol", 1, "s_odd_name"),
    ]
    assert [a.kind for a in abi.arguments(signature(), GPU)] == ["param", "symbol"]


def test_kernels_have_names_that_c_can_hold() -> None:
    assert abi.entry(signature(), 1) == "k_p1"
    assert abi.entry(replace(signature(), name="two words"), 0) == "two_words_p0"
    assert abi.entry(replace(signature(), name="3d.conv"), 0) == "k3d_conv_p0"


def test_a_grid_of_an_unknown_symbol_is_refused() -> None:
    with pytest.raises(BuildError, match="grid depends on n"):
        abi.grids(replace(signature(), symbols=("m",)), [3])
    assert abi.grids(signature(), [7]) == (7, 3)
