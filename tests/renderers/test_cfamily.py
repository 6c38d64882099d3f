"""Every operation on every type: C, OpenCL and CUDA text against LLVM's code, in every bit."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import hand_built
import ml_dtypes
import numpy as np
import pytest
import run_text
from cuda_build import needs_nvrtc
from every_op import TYPES, Bench, bench, differences
from group_programs import ring
from hand_built import elementwise, exp_half, grouped_sum, masked_sum, matmul, param
from tensor_programs import Tile
from tensor_programs import matmul as tensor_matmul
from tilewright import targets
from tilewright.devices.cpu import c_compiler as cc
from tilewright.devices.cpu.linker import elf_symbols
from tilewright.devices.cuda import nvrtc
from tilewright.ir import BuildError, DeviceError
from tilewright.ir.dtypes import dtype, float32, int32, int64
from tilewright.ir.node import const, sym
from tilewright.program.builder import Builder
from tilewright.program.program import Mem, Param, Program
from tilewright.renderers import render

FMA = "fma" in targets.host().features


def agree(run: Callable[[Program, list], None], made: Bench, again: Bench, target: targets.Target | None = None) -> None:
    hand_built.run(made.program, made.arrays, target=target)
    run(again.program, again.arrays)
    wrong = differences(again, made)
    assert not wrong, "\n".join(wrong)


LESSER = [t for t in map(targets.named, ("avx2", "x86-64-v2")) if t.arch == targets.host().arch and t.features < targets.host().features]


@pytest.mark.slow
@pytest.mark.parametrize("target", LESSER, ids=lambda t: t.name)
def test_c_for_fewer_instructions(target: targets.Target) -> None:
    made, again = (bench(8, ("float32", "float64")) for _ in range(2))
    agree(lambda p, a: run_text.c(p, a, target=target), made, again, target)


@pytest.mark.many
@pytest.mark.parametrize("small", ["int8", "uint8", "int16", "uint16"])
@pytest.mark.parametrize("target", [targets.host(), *LESSER], ids=lambda t: t.name)
@pytest.mark.covering
def test_vectors_are_no_longer_than_registers(target: targets.Target, small: str) -> None:
    """Small integers that become float32 and come back: gcc takes longer vectors apart element by element, at 20 times the time."""

    def halved_and_wrapped(b: Builder, x: Any) -> Any:
        half = b.op("mul", b.op("cast", x, dtype=float32), b.const(0.5, float32, 64))
        whole = b.op("cast", b.op("cast", half, dtype=dtype(small)), dtype=int32)
        return b.op("cast", b.op("mul", whole, b.const(3, int32, 64)), dtype=dtype(small))

    x = np.arange(1 << 8 * dtype(small).size).astype(small)
    y = np.zeros_like(x)
    program = elementwise([small], small, 64, len(x), halved_and_wrapped)
    run_text.c(program, [x, y], target=target)
    np.testing.assert_array_equal(y, ((x * np.float32(0.5)).astype(small).astype(np.int32) * 3).astype(small))
    text = render(program, replace(target, lang="c")).text
    assert max(map(int, re.findall(r"vector_size\((\d+)\)", text))) <= target.vector_bytes


SOME = ("float32", "int64", "uint8")


# vectors that are registers, and those that are pieces of 8, 4 and 1 lanes
@pytest.mark.slow
@pytest.mark.parametrize(("lanes", "types"), [(1, TYPES), (13, ("float32", "float64", "int16")), (16, ("float32", "float64", "int64"))])
def test_c(lanes: int, types: tuple[str, ...]) -> None:
    agree(run_text.c, bench(lanes, types, fma=FMA), bench(lanes, types, fma=FMA))


@pytest.mark.slow
@pytest.mark.parametrize(("lanes", "types"), [(1, TYPES), (13, SOME), (16, ("float64", "int32"))])
def test_opencl(lanes: int, types: tuple[str, ...]) -> None:
    agree(run_text.opencl, bench(lanes, types, fma=FMA), bench(lanes, types, fma=FMA))


@pytest.mark.slow
@pytest.mark.parametrize(("lanes", "types"), [(1, TYPES), (6, SOME)])
def test_cuda(lanes: int, types: tuple[str, ...]) -> None:
    agree(run_text.cuda, bench(lanes, types, fma=FMA), bench(lanes, types, fma=FMA))


def test_a_difference_is_seen() -> None:
    made, other = bench(1, ("int32",)), bench(1, ("int32",))
    hand_built.run(made.program, made.arrays)
    hand_built.run(other.program, other.arrays)
    assert differences(other, made) == []
    y = other.outputs()["y_int32"]
    y[made.rows["int32"].index("int32x1: mul") * 13 + 2] ^= 1
    (said,) = differences(other, made)
    assert said.startswith("int32x1: mul") and said.endswith("1 of 13")


# Loops, conditions, symbols, phases, memory and groups of threads in C, OpenCL and CUDA.


RUNS = {"c": run_text.c, "opencl": run_text.opencl, "cuda": run_text.cuda}
lang = pytest.mark.parametrize("lang", RUNS)
TARGETS = {"c": replace(targets.named("avx2"), lang="c"), "opencl": targets.named("opencl-gpu"), "cuda": targets.named("sm_90a")}


def loops() -> Program:
    """What loops carry: values that change places, constants, outer values, a splat of a carried one; conditions around stores."""
    b = Builder()
    out = param(0, int64)
    with b.phase(const(3), ()) as phase:
        zero, one, row = b.const(0), b.const(1), b.op("mul", phase.item, b.const(16))
        with b.loop("i", zero, b.const(5), 1, [zero, one]) as i:
            with b.loop("j\nof two lines", i.var, b.const(7), 2, [i.carried[0]]) as j:
                j.yields = [b.op("add", j.carried[0], b.op("mul", j.var, phase.item))]
            i.yields = [i.carried[1], b.op("add", j.results[0], one)]
        b.store(out, row, b.op("sub", i.results[0], i.results[1]))
        with b.loop("k", zero, b.const(3), 1, [b.const(5), b.const(6), b.const(7)]) as k:
            k.yields = [b.const(8), phase.item, k.carried[2]]
        for n, r in enumerate(k.results):
            b.store(out, b.op("add", row, b.const(1 + n)), r)
        with b.loop("s", zero, b.const(4), 1, [one, b.const(0, int64, 4)]) as s:
            s.yields = [b.op("add", s.carried[0], s.carried[0]), b.splat(s.carried[0], 4)]
        b.store(out, b.op("add", row, b.const(4)), s.results[1])
        with b.loop("c", zero, b.const(8)) as c, b.when(b.op("lt", b.op("imod", c.var, attr=3), one)):
            b.store(out, b.op("add", row, b.op("add", c.var, b.const(8))), c.var)
            with b.when(b.op("lt", b.const(5), c.var)):
                b.store(out, b.op("add", row, b.const(15)), b.const(-1))
    return Program("loops", (Param("y", int64, (48,), "out"),), (), [phase])


@pytest.mark.many
@lang
def test_loops_and_conditions(lang: str) -> None:
    y = np.full(48, -7)
    RUNS[lang](loops(), [y])

    def carried(item: int) -> int:
        p, q = 0, 1
        for i in range(5):
            p, q = q, p + sum(j * item for j in range(i, 7, 2)) + 1
        return p - q

    for item, row in enumerate(y.reshape(3, 16)):
        assert row[:8].tolist() == [carried(item), 8, item, 7, 8, 8, 8, 8]
        assert row[[8, 11, 14, 15]].tolist() == [0, 3, 6, -1] and set(row[[9, 10, 12, 13]].tolist()) <= {-7, -1}


def phases(big: int) -> Program:
    """out[i] = 3·in[n − 1 − i] through scratch and the workspace, n a symbol of up to `big`, names that are no identifiers."""
    n = sym("odd name", 1, big)
    work, scratch = Mem("work", 64, int32, align=4), Mem("scratch", 128, int32, 2, 4)
    b = Builder()
    with b.phase(n, (n,)) as first:
        x = b.load(param(0, int32), first.item)
        b.store(scratch, b.const(1), b.op("mul", x, b.const(3, int32)))
        back = b.op("sub", b.op("sub", first.vars[0], b.const(1)), first.item)
        b.store(work, back, b.load(scratch, b.const(1)))
    with b.phase(n, (n,)) as second:
        # as far from the start as the symbol allows, and back: 64 bits where that is needed
        far = b.op("add", second.item, b.op("mul", second.vars[0], b.const(4)))
        at = b.op("sub", far, b.op("mul", second.vars[0], b.const(4)))
        b.store(param(1, int32), at, b.load(work, at))
    params = (Param("in put", int32, (n,), "in"), Param("float", int32, (n,), "out"))
    return Program("two phases", params, (n,), [first, second], scratch=256, work=1024)


@pytest.mark.slow
@lang
@pytest.mark.parametrize("big", [1000, 1 << 40])
def test_phases_symbols_and_names(lang: str, big: int) -> None:
    x, y = np.arange(37, dtype=np.int32), np.zeros(37, np.int32)
    RUNS[lang](phases(big), [x, y], [37])
    np.testing.assert_array_equal(y, 3 * x[::-1])


@pytest.mark.parametrize(("lang", "small", "large"), [("opencl", "int ", "long "), ("cuda", "int ", "i64 ")])
def test_indexes_are_32_bits_where_that_is_known(lang: str, small: str, large: str) -> None:
    line = next(x for x in render(phases(1000), TARGETS[lang]).text.splitlines() if "* 4" in x)
    assert line.strip().startswith(small)
    line = next(x for x in render(phases(1 << 40), TARGETS[lang]).text.splitlines() if "* 4" in x)
    assert line.strip().startswith(large)


@pytest.mark.many
@pytest.mark.parametrize("place", ["private", "arena"])
def test_scratch_of_gpu_threads(place: str) -> None:
    """The same kernel with scratch in private memory and in the arena (more than 16 KiB of it)."""
    program = phases(1000)
    if place == "arena":
        program.scratch = 20_000
    text = render(program, TARGETS["cuda"]).text
    assert ("u8 *__restrict__ arena" in text) == (place == "arena")
    x, y = np.arange(37, dtype=np.int32), np.zeros(37, np.int32)
    run_text.cuda(program, [x, y], [37])
    np.testing.assert_array_equal(y, 3 * x[::-1])


@pytest.mark.many
@pytest.mark.parametrize("lang", ["opencl", "cuda"])
@pytest.mark.parametrize("shuffles", [False, True])
def test_groups_share_memory_and_exchange_values(lang: str, shuffles: bool) -> None:
    program = grouped_sum(shuffles)
    if shuffles and lang == "opencl":
        with pytest.raises(BuildError, match="no shuffles between threads"):
            render(program, TARGETS[lang])
        return
    x, y = np.random.default_rng(0).integers(-9, 9, 3 * 4 * 48).astype("float32"), np.zeros(3, "float32")
    RUNS[lang](program, [x, y])
    np.testing.assert_array_equal(y, x.reshape(3, -1).sum(1))


def test_c_has_no_groups() -> None:
    with pytest.raises(BuildError, match="C has no groups of threads"):
        render(grouped_sum(False), TARGETS["c"])


def test_a_barrier_orders_global_memory_where_the_phase_reads_what_it_wrote() -> None:
    assert "barrier(CLK_LOCAL_MEM_FENCE);" in render(grouped_sum(False), TARGETS["opencl"]).text
    b = Builder()
    with b.phase(const(1), (), 8) as phase:
        assert phase.thread is not None
        b.store(param(0, float32), phase.thread, b.const(1.0, float32))
        b.barrier()
        b.store(param(0, float32), phase.thread, b.load(param(0, float32), b.const(0)))
    program = Program("fence", (Param("y", float32, (8,), "out"),), (), [phase])
    assert "barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);" in render(program, TARGETS["opencl"]).text


def bounds(regs: int, target: Any = TARGETS["cuda"]) -> str:
    program = grouped_sum(False)
    program.regs = regs
    return render(program, target).text.partition("__launch_bounds__(")[2].partition(")")[0]


def test_a_cap_on_registers_becomes_groups_a_multiprocessor() -> None:
    assert bounds(0) == "48"
    assert bounds(128) == "48, 8"  # two warps of 32 threads
    assert bounds(24) == "48, 32"
    assert bounds(24, targets.named("sm_86")) == "48, 24"


def test_shared_memory_of_more_than_48_kib_is_dynamic() -> None:
    program = grouped_sum(False)
    assert f"__shared__ __align__(16) u8 shared[{program.shared}];" in render(program, TARGETS["cuda"]).text
    program.shared = 49 << 10
    assert "extern __shared__ __align__(16) u8 shared[];" in render(program, TARGETS["cuda"]).text
    x, y = np.ones(3 * 4 * 48, "float32"), np.zeros(3, "float32")
    run_text.cuda(program, [x, y])
    np.testing.assert_array_equal(y, [192] * 3)


def test_float64_needs_a_target_that_has_it() -> None:
    from tilewright.ir.dtypes import float64

    b = Builder()
    with b.phase(const(1), ()) as phase:
        b.store(param(0, float64), b.const(0), b.const(1.0, float64))
    program = Program("double", (Param("y", float64, (1,), "out"),), (), [phase])
    assert "cl_khr_fp64" in render(program, TARGETS["opencl"]).text
    with pytest.raises(BuildError, match="computes in float64, which opencl-gpu does not have"):
        render(program, replace(TARGETS["opencl"], features=frozenset()))


@pytest.mark.parametrize(("lang", "name"), [("c", "store_streaming_f32x8("), ("cuda", "__stcs((float4 *)(")])
def test_non_temporal_stores(lang: str, name: str) -> None:
    def copy(nt: bool) -> Program:
        b = Builder()
        with b.phase(const(4), ()) as phase:
            at = b.op("mul", phase.item, b.const(8))
            b.store(param(1, float32, nt=nt, align=32), at, b.load(param(0, float32, align=32), at, 8))
        return Program("copy", (Param("x", float32, (32,), "in"), Param("y", float32, (32,), "out")), (), [phase], align=32)

    assert name in render(copy(True), TARGETS[lang]).text and name not in render(copy(False), TARGETS[lang]).text
    room = np.zeros(128, np.float32)
    start = -(room.ctypes.data // 4) % 8  # both are loaded and stored as aligned to 32 bytes
    x, y = room[start : start + 32], room[start + 64 : start + 96]
    x[:] = np.arange(32)
    RUNS[lang](copy(True), [x, y])
    np.testing.assert_array_equal(y, x)


# 16-bit floats in C, OpenCL and CUDA: every value widens exactly, and rounding is to nearest even, from float32 and
# from float64.


HALVES = {"float16": np.dtype("float16"), "bfloat16": np.dtype(ml_dtypes.bfloat16)}
run = pytest.mark.parametrize("lang", RUNS)
half = pytest.mark.parametrize("name", HALVES)
EVERY = np.arange(1 << 16, dtype=np.uint16)


def convert(lang: str, x: Any, to: str, lanes: int) -> Any:
    """`x` (a whole number of vectors) cast to another type."""
    y = np.zeros(len(x), dtype(to).np)
    program = elementwise([x.dtype.name], to, lanes, len(x), lambda b, v: b.op("cast", v, dtype=dtype(to)))
    RUNS[lang](program, [x, y])
    return y


def edges(name: str) -> tuple[Any, Any]:
    """(float32 values at, just below and just above every tie between neighbours, and special ones; what they round to)."""
    exact = EVERY.view(HALVES[name]).astype("float32")
    ordered = np.unique(exact[np.isfinite(exact)].astype("float64"))
    ties = ((ordered[1:] + ordered[:-1]) / 2).astype("float32")
    x = np.concatenate(
        [
            ties,
            np.nextafter(ties, np.float32(-np.inf)),
            np.nextafter(ties, np.float32(np.inf)),
            [np.inf, -np.inf, np.nan, 65519.9, 65520, 3.395e38],
        ]
    )
    x = np.concatenate([x, np.zeros(-len(x) % 16)]).astype("float32")
    with np.errstate(all="ignore"):
        return x, x.astype(HALVES[name])


def same(got: Any, want: Any) -> None:
    nan = np.isnan(want.astype("float32"))
    assert np.isnan(got.astype("float32"))[nan].all()
    np.testing.assert_array_equal(got.view(f"u{got.itemsize}")[~nan], want.view(f"u{want.itemsize}")[~nan])


@pytest.mark.slow
@run
@half
def test_widening_is_exact(lang: str, name: str) -> None:
    x = EVERY.view(HALVES[name])
    same(convert(lang, x, "float32", 4), x.astype("float32"))


@pytest.mark.slow
@run
@half
def test_narrowing_rounds_to_nearest_even(lang: str, name: str) -> None:
    x, want = edges(name)
    same(convert(lang, x, name, 8), want)


@pytest.mark.slow
@run
@half
def test_float64_is_rounded_once(lang: str, name: str) -> None:
    x, _ = edges(name)
    x = x[np.isfinite(x) & (np.abs(x) < 60000) & (np.abs(x) > 1e-3)][: 1 << 12].astype("float64")
    # a hair beside a tie: float32 would call it a tie
    near = np.concatenate([x * (1 + 2.0**-40), x * (1 - 2.0**-40)])
    every = np.unique(EVERY.view(HALVES[name]).astype("float64"))
    every = every[np.isfinite(every)]
    at = np.searchsorted(every, near)
    want = np.where(near - every[at - 1] < every[at] - near, every[at - 1], every[at]).astype("float32").astype(HALVES[name])
    same(convert(lang, near, name, 4), want)


# The C, OpenCL and CUDA text of small Programs, kept as files: a change of a renderer shows up as a readable
# difference.


GOLDEN = Path(__file__).parents[1] / "golden"
CASES: dict[str, Callable[[], Program]] = {
    "matmul-avx2.c": lambda: matmul(12, 32, 20, 6, 2, 8),
    "masked_sum-cascadelake.c": masked_sum,
    "exp-half-neon.c": exp_half,
    "matmul-opencl-cpu.cl": lambda: matmul(12, 32, 20, 6, 2, 8),
    "masked_sum-opencl-gpu.cl": masked_sum,
    "grouped_sum-opencl-gpu.cl": lambda: grouped_sum(False),
    "exp-half-opencl-gpu.cl": exp_half,
    "matmul-sm_80.cu": lambda: matmul(8, 16, 20, 4, 2, 4),
    "masked_sum-sm_90a.cu": masked_sum,
    "grouped_sum-sm_90a.cu": lambda: grouped_sum(True),
    "exp-half-sm_90a.cu": exp_half,
    "ring-sm_80.cu": lambda: ring(mask=True),
    "tensor_matmul-sm_90a.cu": lambda: tensor_matmul(Tile("mma.m16n8k16.bf16", m=16, n=16, k=32, down=1, high=1, wide=2)),
}


def target(case: str) -> targets.Target:
    found = targets.named(case.rpartition(".")[0].split("-", 1 if "half" not in case else 2)[-1])
    return replace(found, lang="c") if case.endswith(".c") else found


@pytest.mark.parametrize("case", CASES)
def test_text_is_as_recorded(case: str) -> None:
    text = render(CASES[case](), target(case)).text
    path = GOLDEN / case
    if os.environ.get("TILEWRIGHT_GOLDEN") == "write":
        path.write_text(text)
    assert text == path.read_text(), f"{case} differs; see this file's head"


@pytest.mark.parametrize("case", [c for c in CASES if c.endswith(".c")])
def test_recorded_c_needs_nothing_from_outside(case: str) -> None:
    t = target(case)
    if t.arch != targets.host().arch:
        pytest.skip(f"a compiler for {t.arch} is not looked for")
    try:
        compiler = cc.find()
    except DeviceError as e:
        pytest.skip(str(e))
    assert not elf_symbols(cc.compile_c((GOLDEN / case).read_text(), t, compiler))[1]


@pytest.mark.many
@needs_nvrtc
@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("case", [c for c in CASES if c.endswith(".cu")])
@pytest.mark.covering
def test_recorded_cuda_builds(case: str, arch: str) -> None:
    _, log = nvrtc.compile((GOLDEN / case).read_text(), arch)
    found = nvrtc.resources(log)
    assert found and all(r.spill_stores == 0 for r in found.values())
