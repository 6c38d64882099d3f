"""The roofline and the rotation of operands."""

import dataclasses

import pytest
from tilewright import kernels, targets
from tilewright.devices import Limits, Rates
from tilewright.measure.roofline import MOST_SETS, roofline, rotations

ONE = Rates(peak_f32=100e9, peak_f64=50e9, read=12e9, copy=8e9, copy_nt=10e9, triad=9e9, triad_nt=11e9)
TWO = Rates(peak_f32=200e9, peak_f64=100e9, read=20e9, copy=12e9, copy_nt=15e9, triad=13e9, triad_nt=16e9)
LIMITS = Limits("2000-01-01T00:00:00+00:00", {1: ONE, 2: TWO})
TARGET = dataclasses.replace(targets.named("avx2"), l3=32 << 20)


def test_matmul_is_bound_by_arithmetic():
    r = roofline(kernels.make("matmul", {"m": 1024, "n": 1024, "k": 1024}), LIMITS, 1)
    assert (r.bound, r.flops, r.bytes) == ("compute", 2 * 1024**3, 3 * 4 * 1024**2)
    assert r.seconds == pytest.approx(2 * 1024**3 / 100e9)
    assert r.percent(2 * r.seconds) == pytest.approx(50)


def test_threads_and_element_type_choose_the_peak():
    shape = {"m": 1024, "n": 1024, "k": 1024}
    assert roofline(kernels.make("matmul", shape), LIMITS, 2).seconds == pytest.approx(2 * 1024**3 / 200e9)
    assert roofline(kernels.make("matmul", shape, "float64"), LIMITS, 1).seconds == pytest.approx(2 * 1024**3 / 50e9)
    assert roofline(kernels.make("matmul", shape, "float16"), LIMITS, 1).seconds == pytest.approx(2 * 1024**3 / 100e9)


def test_softmax_is_bound_by_memory_at_the_best_kind_of_store():
    r = roofline(kernels.make("softmax", {"m": 4096, "n": 4096}), LIMITS, 2)
    assert r.bound == "memory" and r.bytes == 2 * 4 * 4096**2
    assert r.seconds == pytest.approx(r.bytes / 20e9)  # reading alone is the fastest: no mix of stores may beat it


def test_a_sum_is_bound_by_reading():
    r = roofline(kernels.make("sum_all", {"n": 1 << 26} if kernels.get("sum_all").shape_names == ("n",) else None), LIMITS, 1)
    assert r.seconds == pytest.approx(r.bytes / 12e9)


def test_small_memory_bound_kernels_rotate_past_the_last_level_cache():
    k = kernels.make("layernorm", {"m": 4096, "n": 1024})
    sets = rotations(k, {}, TARGET)
    assert sets == 2 and sets * 2 * 4 * 4096 * 1024 >= 2 * TARGET.l3
    assert rotations(kernels.make("softmax", {"m": 8, "n": 8}), {}, TARGET) == MOST_SETS
    assert rotations(kernels.make("softmax", {"m": 8192, "n": 8192}), {}, TARGET) == 1


def test_kernels_that_compute_do_not_rotate():
    assert rotations(kernels.make("matmul", {"m": 256, "n": 256, "k": 256}), {}, TARGET) == 1


def test_operands_that_stay_in_the_caches_have_no_memory_bound():
    k = kernels.make("softmax", {"m": 8, "n": 8})
    assert roofline(k, LIMITS, 1).bound == "memory"
    assert roofline(k, LIMITS, 1, target=TARGET).bound == "compute"
    assert roofline(kernels.make("softmax", {"m": 4096, "n": 4096}), LIMITS, 1, target=TARGET).bound == "memory"


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
    kernel = kernels.make(name, {"m": 1024, "n": 1024, "k": 1024}, dtype)
    assert roofline(kernel, LIMITS, 1, target=targets.named(target)).seconds == pytest.approx(2 * 1024**3 / 100e9 / times)
