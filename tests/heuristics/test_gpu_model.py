"""What is known of GPUs, and whether the model says the same: orders of schedules, each with its source."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tilewright import named_kernels, targets
from tilewright.devices.limits import Limits, Rates
from tilewright.heuristics import estimate, gpu_estimates
from tilewright.heuristics.machine import Gpu
from tilewright.heuristics.model.gpu.occupancy import chip_of
from tilewright.heuristics.model.gpu.thread_accesses import passes, sectors
from tilewright.ir.normal_form import normalise
from tilewright.opts import Opt, apply, opt
from tilewright.opts.schedule import Scheduled
from tilewright.targets import Target
from tilewright.targets.table import RATES, UNKNOWN, rates_of

pytestmark = pytest.mark.many
HOPPER = targets.named("sm_90a")
AMPERE = targets.named("sm_80")
H200 = replace(HOPPER, bandwidth=4.8e12, l2=60 << 20, l3=60 << 20)
LARGE = {"m": 8192, "n": 8192, "k": 8192}


def schedule(name: str, opts: list[Opt], target: Target = HOPPER, shape: dict[str, int] | None = None, dtype: str = "float32") -> Scheduled:
    return apply(normalise(named_kernels.make(name, shape, dtype)), opts, target)


def tensor(wm: int, wn: int, um: int, un: int, kt: int = 64, depth: int = 3, sk: int = 1, band: int = 8) -> list[Opt]:
    stage = {"at": "k", "order": "row", "depth": depth}
    return [
        *([opt("SPLIT", "k", sk)] if sk > 1 else []),
        opt("TC", "acc", m="m", n="n", k="k", row="mma.m16n8k16.bf16"),
        *(opt("LOCAL", a, n) for a, n in (("m", wm), ("n", wn)) if n > 1),
        *(opt("UPCAST", a, n) for a, n, least in (("m", um, 16), ("n", un, 8)) if n > least),
        opt("TILE", "k", kt),
        opt("UNROLL", "k", kt // 16),
        opt("STAGE", "a", **stage, **({"swizzle": 8} if kt >= 64 else {"pad": 8})),
        opt("STAGE", "b", **stage, **({"swizzle": 8} if wn * un >= 64 else {"pad": 8})),
        *([opt("SWIZZLE", "grid", band)] if band else []),
    ]


def simt(lm: int, um: int, ln: int, un: int, kt: int = 16, depth: int = 1) -> list[Opt]:
    return [
        opt("LOCAL", "m", lm),
        opt("UPCAST", "m", um),
        opt("LOCAL", "n", ln),
        opt("UPCAST", "n", un),
        opt("TILE", "k", kt),
        opt("UNROLL", "k", 8),
        opt("STAGE", "a", at="k", pad=0 if depth > 1 else 4, depth=depth, swizzle=8 if depth > 1 else 0),
        opt("STAGE", "b", at="k", depth=depth),
    ]


def seconds(name: str, opts: list[Opt], target: Target = HOPPER, shape: dict[str, int] | None = None, dtype: str = "float32") -> float:
    return estimate(schedule(name, opts, target, shape, dtype))


# What reaches cuBLAS: a tile of 64 × 64 for a warp is worth 78 → 106 % of it (a ladder of mma.sync kernels,
# waynehacking8); blocks of
# 128 × 128 and more are what libraries choose for large products.
@pytest.mark.parametrize("target", [AMPERE, HOPPER], ids=["sm_80", "sm_90a"])
def test_large_warp_tiles_beat_small_ones(target: Target) -> None:
    large, small, tiny = (seconds("matmul", tensor(2, 2, t, t), target, LARGE, "bfloat16") for t in (64, 32, 16))
    assert large < small < tiny


def test_bfloat16_by_tensor_cores_beats_fma() -> None:
    """FFMA is at a twentieth of cuBLAS on Hopper, mma.sync at about a half."""
    by_units = seconds("matmul", tensor(2, 2, 64, 64), shape=LARGE, dtype="bfloat16")
    by_threads = seconds("matmul", simt(16, 8, 16, 8), shape=LARGE, dtype="bfloat16")
    assert 6 < by_threads / by_units < 20


def test_mma_reaches_the_known_share_of_peak() -> None:
    """mma.sync tops out at 63-65 % of Hopper's peak of 989 TFLOP/s (arXiv 2501.12084) and reaches about all of Ampere's
    312."""
    work = 2 * 8192.0**3
    hopper = work / seconds("matmul", tensor(2, 2, 64, 64), HOPPER, LARGE, "bfloat16")
    ampere = work / seconds("matmul", tensor(2, 2, 64, 64), AMPERE, LARGE, "bfloat16")
    assert 0.35 < hopper / 989e12 < 0.65 and 0.6 < ampere / 312e12 < 1.0


def test_float32_reaches_most_of_the_fma_peak() -> None:
    """Threads of 8 × 8 with both operands in shared memory are at 80 to 90 % of cuBLAS (siboehm's ladder ends at 93.7
    %)."""
    shape = {"m": 4096, "n": 4096, "k": 4096}
    found = 2 * 4096.0**3 / seconds("matmul", simt(16, 8, 16, 8, 16, 2), shape=shape)
    assert 0.7 < found / (132 * 128 * 2 * 1.755e9) < 1.0
    assert seconds("matmul", simt(16, 8, 16, 8), shape=shape) < seconds("matmul", simt(16, 4, 16, 4), shape=shape)


def test_deeper_rings_are_better_until_they_take_residents_away() -> None:
    """Two to four slots are the third thing that pays (78 % → more); five of 32 KB leave one group of a
    multiprocessor."""
    found = {d: seconds("matmul", tensor(2, 2, 64, 64, 64, d), shape=LARGE, dtype="bfloat16") for d in (1, 2, 3, 6)}
    assert found[1] > found[2] >= found[3] and found[6] > found[3]
    shared = {d: gpu_estimates(schedule("matmul", tensor(2, 2, 64, 64, 64, d), HOPPER, LARGE, "bfloat16"))[0].resident for d in (3, 6)}
    assert shared == {3: 2, 6: 1}


def test_splitting_the_reduction_pays_where_tiles_are_few() -> None:
    """Stream-K and split-K are for shapes of few waves: what fills the machine only pays for the second phase."""

    def gain(side: int, k: int, sk: int) -> float:
        shape = {"m": side, "n": side, "k": k}
        whole, split = (seconds("matmul", tensor(2, 2, 32, 32, sk=n, band=0), shape=shape, dtype="bfloat16") for n in (1, sk))
        return whole / split

    assert gain(256, 16384, 8) > 2 and gain(4096, 4096, 2) < 1


def test_bands_of_groups_spare_memory() -> None:
    """Numbered row by row, the groups of a wave want every column of B at once."""

    def moved(band: int) -> float:
        terms = gpu_estimates(schedule("matmul", tensor(2, 2, 64, 64, band=band), HOPPER, LARGE, "bfloat16"))[0].terms
        return next(t.seconds for t in terms if t.name == "memory")

    assert moved(8) < 0.7 * moved(0)


def test_a_last_wave_of_few_groups_costs_a_whole_one() -> None:
    """DeepGEMM divides by a wave's efficiency: 133 groups of one a multiprocessor take as long as 264."""
    times = [
        seconds("matmul", tensor(2, 4, 64, 64, 64, 4, band=0), shape={"m": 128 * m, "n": 256 * n, "k": 8192}, dtype="bfloat16")
        for m, n in ((12, 11), (7, 19), (12, 22))
    ]
    assert times[1] > 1.4 * times[0] and times[2] < 1.25 * times[1]


def test_sixteen_bytes_a_load_beat_four() -> None:
    """4 bytes a thread keep 8 KB under way, where an H200 needs 24 KB (4.8 TB/s × 650 ns ÷ 132): 0.4 of a copy's
    rate."""
    four, sixteen, most = (
        gpu_estimates(schedule("gelu", [*([opt("UPCAST", "m_n", n)] if n > 1 else []), opt("LOCAL", "m_n", 256)], H200))[0]
        for n in (1, 4, 8)
    )
    assert (four.under_way, sixteen.under_way) == (8 << 10, 32 << 10)
    assert 20e3 < sixteen.needed < 25e3
    assert four.terms[0].name == "waiting" and sixteen.terms[0].name == "memory"
    assert four.seconds > 1.3 * sixteen.seconds >= 1.3 * most.seconds


def test_whole_vectors_beat_masked_elements() -> None:
    """A row that is no multiple of the threads' vectors makes loads masked scalars, one after another."""
    opts = [opt("UPCAST", "n", 4), opt("GROUP", "n", 256)]
    ragged, whole = (seconds("sum_rows", opts, shape={"m": 4096, "n": n}) for n in (4097, 4096))
    assert ragged > 1.2 * whole


def test_a_transpose_goes_through_shared_memory() -> None:
    base = [opt("LOCAL", "m", 8), opt("LOCAL", "n", 8), opt("UPCAST", "n", 4), opt("UPCAST", "m", 4)]
    padded = [*base, opt("STAGE", "x", at="m", order="row", pad=1)]
    swizzled = [*base, opt("STAGE", "x", at="m", order="row", swizzle=8)]
    plain = [opt("LOCAL", "m", 256)]
    assert max(seconds("transpose", padded), seconds("transpose", swizzled)) < 0.5 * seconds("transpose", plain)


def test_conflicts_are_counted_as_banks_give_words() -> None:
    g = Gpu()
    consecutive = range(0, 128, 4)
    assert passes(list(consecutive), 4, g) == 1
    assert passes([0] * 32, 4, g) == 1  # the same word for all
    assert passes([4 * 32 * i for i in range(32)], 4, g) == 32  # a column of a tile of 32
    assert passes([4 * 33 * i for i in range(32)], 4, g) == 1  # padded by one word
    assert passes([4 * 132 * i for i in range(32)], 4, g) == 4  # 132 ≡ 4 mod 32: eight rows, then again
    assert passes([16 * i for i in range(32)], 16, g) == 4  # 512 bytes at 128 a cycle
    assert passes([16 * (i // 16) for i in range(32)], 16, g) == 2
    assert passes([128 * i for i in range(8)], 16, g) == 8 and passes([128 * i + 16 * i for i in range(8)], 16, g) == 1  # swizzled


def test_sectors_are_counted_by_lane() -> None:
    assert sectors(tuple(range(0, 128, 4)), 4, 32) == 4
    assert sectors(tuple(range(0, 512, 16)), 16, 32) == 16
    assert sectors(tuple(4096 * i for i in range(32)), 4, 32) == 32
    assert sectors((0,) * 32, 4, 32) == 1


def test_rates_come_from_the_device_then_from_the_architecture() -> None:
    assert chip_of(H200, Gpu()).memory > 1.4 * chip_of(HOPPER, Gpu()).memory
    measured = Limits("2026-01-01", {1: Rates(6e13, 3e13, 4.3e12, 4.2e12, 4.1e12, 4.0e12, 4.0e12)})
    chip = chip_of(H200, Gpu(), measured)
    assert chip.memory * chip.clock == pytest.approx(4.2e12)
    assert rates_of(replace(AMPERE, cpu="sm_87")) == RATES["sm_86"] and rates_of(replace(HOPPER, cpu="sm_100a")) == RATES["sm_90a"]
    assert rates_of(targets.named("opencl-gpu")) == UNKNOWN
    assert rates_of(replace(HOPPER, clock=1.2e9)).clock == 1.2e9
    s, t = (schedule("add", [opt("UPCAST", "m_n", 4), opt("LOCAL", "m_n", 256)], x) for x in (HOPPER, H200))
    assert estimate(s) > 1.25 * estimate(t)


def test_an_estimate_says_what_decides() -> None:
    found = gpu_estimates(schedule("matmul", tensor(2, 2, 64, 64), HOPPER, LARGE, "bfloat16"))
    assert len(found) == 1 and (found[0].groups, found[0].threads) == (4096, 128)
    names = [t.name for t in found[0].terms]
    assert {"instructions", "matrix units", "shared memory", "L2", "waiting", "memory"} == set(names)
    assert [t.seconds for t in found[0].terms] == sorted((t.seconds for t in found[0].terms), reverse=True)
    assert found[0].terms[0].seconds <= found[0].seconds and all(t.why for t in found[0].terms)
    assert len(gpu_estimates(schedule("matmul", tensor(2, 2, 32, 32, sk=2), shape={"m": 512, "n": 512, "k": 512}, dtype="bfloat16"))) == 2
