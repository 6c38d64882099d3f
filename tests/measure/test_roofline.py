"""The roofline, tensor cores included, and the rotation of operands."""

from __future__ import annotations

import dataclasses

import pytest
from tilewright import named_kernels, targets
from tilewright.devices import Cached, Limits, Rates
from tilewright.ir import KernelBuilder, cast, float32, float64, int8, int32, uint8
from tilewright.ir.normal_form import normalise
from tilewright.measure.roofline import MOST_SETS, roofline, rotations, share, tensor_times, unit

ONE = Rates(peak_f32=100e9, peak_f64=50e9, read=12e9, copy=8e9, copy_nt=10e9, triad=9e9, triad_nt=11e9)
TWO = Rates(peak_f32=200e9, peak_f64=100e9, read=20e9, copy=12e9, copy_nt=15e9, triad=13e9, triad_nt=16e9)
LIMITS = Limits("2000-01-01T00:00:00+00:00", {1: ONE, 2: TWO})
TARGET = dataclasses.replace(targets.named("avx2"), l3=32 << 20)


def test_matmul_is_bound_by_arithmetic():
    r = roofline(named_kernels.make("matmul", {"m": 1024, "n": 1024, "k": 1024}), LIMITS, 1)
    assert (r.bound, r.flops, r.bytes) == ("compute", 2 * 1024**3, 3 * 4 * 1024**2)
    assert r.seconds == pytest.approx(2 * 1024**3 / 100e9)
    assert r.percent(2 * r.seconds) == pytest.approx(50)


def test_threads_and_element_type_choose_the_peak():
    shape = {"m": 1024, "n": 1024, "k": 1024}
    assert roofline(named_kernels.make("matmul", shape), LIMITS, 2).seconds == pytest.approx(2 * 1024**3 / 200e9)
    assert roofline(named_kernels.make("matmul", shape, "float64"), LIMITS, 1).seconds == pytest.approx(2 * 1024**3 / 50e9)
    assert roofline(named_kernels.make("matmul", shape, "float16"), LIMITS, 1).seconds == pytest.approx(2 * 1024**3 / 100e9)


def test_softmax_is_bound_by_memory_at_the_best_kind_of_store():
    r = roofline(named_kernels.make("softmax", {"m": 4096, "n": 4096}), LIMITS, 2)
    assert r.bound == "memory" and r.bytes == 2 * 4 * 4096**2
    assert r.seconds == pytest.approx(r.bytes / 20e9)  # reading alone is the fastest: no mix of stores may beat it


def test_a_sum_is_bound_by_reading():
    r = roofline(named_kernels.make("sum_all", {"n": 1 << 26} if named_kernels.get("sum_all").shape_names == ("n",) else None), LIMITS, 1)
    assert r.seconds == pytest.approx(r.bytes / 12e9)


def test_small_memory_bound_kernels_rotate_past_the_last_level_cache():
    k = named_kernels.make("layernorm", {"m": 4096, "n": 1024})
    sets = rotations(k, {}, TARGET)
    assert sets == 2 and sets * 2 * 4 * 4096 * 1024 >= 2 * TARGET.l3
    assert rotations(named_kernels.make("softmax", {"m": 8, "n": 8}), {}, TARGET) == MOST_SETS
    assert rotations(named_kernels.make("softmax", {"m": 8192, "n": 8192}), {}, TARGET) == 1


def test_kernels_that_compute_do_not_rotate():
    assert rotations(named_kernels.make("matmul", {"m": 256, "n": 256, "k": 256}), {}, TARGET) == 1


CACHED = Limits(
    LIMITS.date,
    {
        1: dataclasses.replace(ONE, caches=(Cached(16 << 10, 300e9, 400e9), Cached(64 << 10, 120e9, 100e9), Cached(1 << 20, 30e9, 28e9))),
        2: dataclasses.replace(TWO, caches=(Cached(32 << 10, 600e9, 800e9), Cached(128 << 10, 240e9, 200e9), Cached(2 << 20, 60e9, 56e9))),
    },
)
HERE = dataclasses.replace(TARGET, l1=32 << 10, l2=512 << 10)


@pytest.mark.parametrize(
    ("kernel", "shape", "threads", "bound", "bandwidth"),
    [
        ("add", {"m": 1, "n": 8}, 1, "L1", 400e9),  # 96 bytes × 256 sets
        ("add", {"m": 1, "n": 64}, 1, "L2", 120e9),  # 192 KiB: in the second cache, and no set between 64 KiB and 1 MiB was measured
        ("add", {"m": 1, "n": 64}, 2, "L2", 240e9),
        ("add", {"m": 1, "n": 1024}, 1, "L3", 30e9),
        ("sum_all", {"n": 4096}, 2, "L3", 60e9),
        ("add", {"m": 1, "n": 1 << 24}, 2, "memory", 20e9),
        ("add", {"m": 1, "n": 1 << 16}, 2, "memory", 20e9),  # 96 sets are twice the last cache
    ],
)
def test_operands_lie_where_timing_leaves_them(kernel, shape, threads, bound, bandwidth):
    r = roofline(named_kernels.make(kernel, shape), CACHED, threads, target=HERE)
    assert (r.bound, r.bandwidth) == (bound, bandwidth)
    assert r.seconds == pytest.approx(r.bytes / bandwidth) and r.facts["bound"] == bound


def test_what_computes_is_not_rotated_and_has_the_bound_of_its_cache():
    k = named_kernels.make("matmul", {"m": 64, "n": 64, "k": 64})
    assert roofline(k, CACHED, 1, target=HERE).bound == "compute"
    slow = Limits(
        "",
        {
            1: dataclasses.replace(
                CACHED.rates[1], caches=(Cached(16 << 10, 1e9, 1e9),), read=5e8, copy=5e8, copy_nt=5e8, triad=5e8, triad_nt=5e8
            )
        },
    )
    assert roofline(k, slow, 1, target=HERE).bound == "L2"


def mixed(narrow, wide, rows=0):
    """Σ over `narrow` and over `wide` elements, of float32 and float64; with rows, of integers beside."""
    kb = KernelBuilder("mixed")
    i, j = kb.axis("m", narrow), kb.axis("n", wide)
    x, z = kb.input("x", (narrow,), float32), kb.input("z", (wide,), float64)
    kb.store("y", float32, (), (), kb.sum("s", (), i, x[i])[()])
    kb.store("w", float64, (), (), kb.sum("t", (), j, z[j])[()])
    if rows:
        r = kb.axis("r", rows)
        q = kb.input("q", (rows,), int32)
        kb.store("v", int32, (), (), kb.sum("u", (), r, q[r])[()])
    return kb.build()


def test_every_operation_counts_at_the_peak_of_its_own_type():
    fast = Limits("", {1: dataclasses.replace(ONE, read=1e18)})
    assert roofline(mixed(10**6, 10), fast, 1).seconds == pytest.approx(10**6 / 100e9 + 10 / 50e9)  # not all at the rate of float64
    assert roofline(mixed(10, 10**6), fast, 1).seconds == pytest.approx(10 / 100e9 + 10**6 / 50e9)
    assert roofline(mixed(10**6, 10, 500_000), fast, 1).seconds == pytest.approx(10**6 / 100e9 + 10 / 50e9)  # integers beside them
    assert roofline(mixed(10, 10, 10**6), fast, 1).seconds == pytest.approx(10**6 / 100e9)


def test_only_sums_that_an_instruction_fits_have_its_peak():
    """A product of bytes, and ten times the arithmetic in float32 after it."""
    kb = KernelBuilder("k")
    i, j, k = kb.axis("m", 64), kb.axis("n", 64), kb.axis("k", 64)
    a, b = kb.input("a", (64, 64), uint8), kb.input("b", (64, 64), int8)
    c = kb.sum("c", (i, j), k, cast(a[i, k], int32) * cast(b[k, j], int32))
    e = cast(c[i, j], float32)
    for _ in range(100):
        e = e * e + 1.0
    kb.store("y", float32, (64, 64), (i, j), e)
    r = roofline(kb.build(), LIMITS, 1, target=targets.named("cascadelake"))
    assert r.seconds == pytest.approx(200 * 64**2 / 100e9)


def test_shares_are_shown_with_what_they_mean():
    assert share(87.2, "memory") == share(87.2, "compute") == share(87.2) == "87 %"
    assert share(41.0, "L2") == "41 % in L2"
    assert share(104.9) == "105 %" and share(187.0, "memory") == "187 %!" and share(187.0, "L1") == "187 %! in L1"


def test_operands_that_stay_in_caches_nobody_measured_have_no_memory_bound():
    k = named_kernels.make("softmax", {"m": 8, "n": 8})
    assert roofline(k, LIMITS, 1).bound == "memory"
    assert roofline(k, LIMITS, 1, target=TARGET).bound == "compute"
    assert roofline(named_kernels.make("softmax", {"m": 4096, "n": 4096}), LIMITS, 1, target=TARGET).bound == "memory"


@pytest.mark.parametrize(
    ("name", "dtype", "target", "times"),
    [
        ("matmul_int8", "uint8", "cascadelake", 4),
        ("matmul", "int8", "alderlake", 4),
        ("matmul", "bfloat16", "znver5", 2),
        ("matmul", "int8", "avx2", 2),
        ("matmul", "int8", "neon", 1),
    ],
)
def test_matrix_instructions_raise_the_peak(name: str, dtype: str, target: str, times: int) -> None:
    kernel = named_kernels.make(name, {"m": 1024, "n": 1024, "k": 1024}, dtype)
    assert roofline(kernel, LIMITS, 1, target=targets.named(target)).seconds == pytest.approx(2 * 1024**3 / 100e9 / times)


def test_operations_that_another_order_of_contraction_leaves_out_do_not_count():
    m, k, l, n = 64, 96, 80, 112
    kb = KernelBuilder("three")
    i, p, q, j = kb.axis("m", m), kb.axis("k", k), kb.axis("l", l), kb.axis("n", n)
    a, b, c = kb.input("a", (m, k), float32), kb.input("b", (k, l), float32), kb.input("c", (l, n), float32)
    kb.store("y", float32, (m, n), (i, j), kb.sum("y_sum", (i, j), (p, q), a[i, p] * b[p, q] * c[q, j])[i, j])
    assert roofline(kb.build(), LIMITS, 1).flops == 2 * (m * k * l + m * l * n)


GPU_LIMITS = Limits("2026-01-01", {1: Rates(60e12, 30e12, 3e12, 3e12, 3e12, 3e12, 3e12)})


@pytest.mark.parametrize(
    ("name", "dtype", "times"),
    [
        ("matmul", "bfloat16", 16),
        ("matmul", "float16", 16),
        ("matmul", "int8", 32),
        ("matmul_mixed", "bfloat16", 16),
        ("conv2d", "bfloat16", 16),
        ("matmul", "float32", 0),
        ("matmul", "float64", 0),
        ("matvec", "bfloat16", 0),
        ("softmax", "bfloat16", 0),
    ],
)
@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
@pytest.mark.covering
def test_sums_of_products_in_types_of_tensor_cores(name: str, dtype: str, times: float, target: str) -> None:
    here = targets.named(target)
    kernel = normalise(named_kernels.make(name, None, dtype))
    found = tensor_times(kernel, here)
    assert list(found.values()) == ([pytest.approx(times)] if times else [])
    assert unit(kernel, here) == ("tensor cores" if times else "FMA units")
    roof = roofline(kernel, GPU_LIMITS, 1, target=here)
    if times:
        assert 0.9 * times * 60e12 < roof.peak <= 1.001 * times * 60e12


def test_fewer_digits_count_where_they_are_allowed() -> None:
    here = targets.named("sm_90a")
    attention = normalise(named_kernels.make("attention", None, "bfloat16"))  # its probabilities are float32
    assert (len(tensor_times(attention, here)), len(tensor_times(attention, here, lossy=True))) == (1, 2)
    matmul = normalise(named_kernels.make("matmul", None, "float32"))
    assert tensor_times(matmul, here) == {} and unit(matmul, here) == "FMA units"
    assert list(tensor_times(matmul, here, lossy=True).values()) == [pytest.approx(8)] and unit(matmul, here, True) == "tensor cores"
    exact, lossy = (roofline(matmul, GPU_LIMITS, 1, target=here, lossy=x) for x in (False, True))
    assert lossy.peak == pytest.approx(8 * exact.peak, rel=0.01)
    assert tensor_times(normalise(named_kernels.make("matmul", None, "float64")), here, lossy=True) == {}


@pytest.mark.parametrize("target", ["avx2", "neon", "opencl-gpu", "opencl-cpu"])
def test_other_targets_have_none(target: str) -> None:
    here = targets.named(target)
    kernel = normalise(named_kernels.make("matmul", None, "bfloat16"))
    assert tensor_times(kernel, here) == {} and unit(kernel, here) == ("FMA units" if here.kind == "gpu" else "")
