"""Chains of stencils: what start schedules and templates make of them, and what the model knows of them."""

from __future__ import annotations

import random

import pytest
from chains import blur, blur_sums, clamped, halved, total
from checks import check_compiled
from tilewright.heuristics import starts, templates
from tilewright.heuristics.machine import DEFAULT
from tilewright.heuristics.model import estimate
from tilewright.heuristics.model.arithmetic import compute_cycles
from tilewright.heuristics.start import quick_starts
from tilewright.ir import KernelBuilder, OptError, cast, clip, exp, float32, int16, int32
from tilewright.opts import apply, parse
from tilewright.targets import named

TARGET = named("cascadelake")


@pytest.mark.parametrize("make", [blur_sums, halved])
def test_what_no_loop_could_spread_is_parallel(make: object) -> None:
    """Nothing is shared by all loops of these kernels, but the first and the last phase of their start schedules have grids and lanes."""
    kernel = make(512, 1024)  # type: ignore[operator]
    for found in (starts(kernel, TARGET, 2), quick_starts(kernel, TARGET, 2)):
        scheduled = apply(kernel, found[0], TARGET)
        assert any(o.op in ("HALO", "PHASE") for o in found[0])
        ends = (scheduled.phases[0], scheduled.phases[-1])  # (between them, a single thread adds up what SPLIT left)
        assert all(p.grid and any(p.lanes(n).lane is not None for n in p.nests) for p in ends)


def test_phases_have_lanes_where_a_value_has_sites_of_its_own() -> None:
    """Rows twice as long, then twice as many of them: the first step's axis `wide@rows` is a site of the family of the output's `wide`,
    and what cuts the family cuts both."""
    h, w = 540, 720
    kb = KernelBuilder("doubled")
    x = kb.input("x", (h, w), float32)
    a, b = kb.axis("h@rows", h), kb.axis("wide@rows", 2 * w)
    rows = kb.value("rows", (a, b), exp(0.75 * x[a, b // 2] + 0.25 * x[a, clip((b + 1) // 2 - 1 + b % 2, 0, w - 1)]))
    i, j = kb.axis("high", 2 * h), kb.axis("wide", 2 * w)
    near = rows[clip((i + 1) // 2 - 1 + i % 2, 0, h - 1), j]
    kb.store("y", float32, (2 * h, 2 * w), (i, j), 0.75 * rows[i // 2, j] + 0.25 * near)
    kernel = kb.build()
    phased = [opts for opts in starts(kernel, TARGET, 1) if any(o.op == "PHASE" for o in opts)]
    for opts in phased:
        for phase in apply(kernel, opts, TARGET).phases:
            lanes = [phase.lanes(n).lane for n in phase.nests]
            assert all(lane is not None and lane.axis.arg.family == "wide" for lane in lanes)
    assert phased


@pytest.mark.parametrize("picture", [True, False])
def test_a_total_may_stand_beside_a_chain_or_at_its_end(picture: bool) -> None:
    """Its store has no axes, and so no lane and no row."""
    kb = KernelBuilder("variation")
    i, j, k = kb.axis("n", 64), kb.axis("n@sum", 64), kb.axis("n@y", 64)
    x = kb.input("x", (64,), float32)
    v = kb.value("v", (i,), exp(x[i]))
    total = kb.sum("total", (), j, v[j] * v[clip(j - 2, 0, 63)])
    kb.store("t", float32, (), (), total[()])
    if picture:
        kb.store("y", float32, (64,), (k,), v[k] - v[clip(k - 1, 0, 63)])
    kernel = kb.build()
    for found in (starts(kernel, TARGET, 2), quick_starts(kernel, TARGET, 2)):
        check_compiled(kernel, found[0], named("avx2"), threads=2)
    (chain,) = (t for t in templates(kernel, TARGET, 2) if t.name == "chain")
    assert any(chain.make({k: v[at] for k, v in chain.params.items()}) for at in (0, -1))


def test_groups_of_threads_get_phases() -> None:
    kernel, target = blur_sums(256, 256), named("sm_80")
    for found in (starts(kernel, target), quick_starts(kernel, target)):
        assert all(p.grid and p.group > 1 for p in apply(kernel, found[0], target).phases)


def test_start_schedules_of_small_chains_are_right() -> None:
    kernel = clamped(12, 40)
    for opts in starts(kernel, named("avx2"), 2)[:2]:
        check_compiled(kernel, opts, threads=2)


def test_the_template_makes_every_kind_of_schedule() -> None:
    kernel = blur(256, 256)
    template = next(t for t in templates(kernel, TARGET, 2) if t.name == "chain")
    rng, seen = random.Random(0), set()
    for _ in range(20):
        try:
            opts = template.make({name: rng.choice(values) for name, values in template.params.items()})
            apply(kernel, opts, TARGET)
        except OptError:
            continue
        seen |= {o.op for o in opts}
    assert {"HALO", "PHASE", "STAGE", "UPCAST", "PARALLEL", "CACHE"} <= seen


def seconds(*listed: object) -> float:
    """The model's for a blur of a large image."""
    kernel = blur(2048, 2048)
    return estimate(apply(kernel, parse(listed), TARGET), 1)


def test_the_model_knows_what_is_computed_again_and_what_goes_through_memory() -> None:
    wide = [["UPCAST", "x", 16], ["UPCAST", "x1", 16]]
    kept = {n: seconds(["HALO", "y", n], ["STAGE", "rows", {"at": "y.h"}], *wide) for n in (2, 32)}
    phase = seconds(["PHASE", "rows"], *wide)
    assert kept[32] < kept[2]  # a halo of two rows for two
    assert kept[32] < phase  # the value goes to memory and back
    assert seconds(["UPCAST", "x", 16], ["UPCAST", "y", 4]) < seconds(["UPCAST", "x", 16])  # rows that copies share
    pieces = seconds(["UPCAST", "x", 8], ["UPCAST", "y", 8], ["CACHE", "out", {"policy": "stream"}])
    assert seconds(["UPCAST", "x", 16], ["UPCAST", "y", 8], ["CACHE", "out", {"policy": "stream"}]) < pieces


def test_what_the_caches_keep_from_call_to_call_does_not_come_from_memory() -> None:
    """An image of 1 MB and one of 16 MB: a point of the large one is dearer, and computing counts less beside its memory."""
    times = {n: [estimate(apply(blur(n, n), parse(o), TARGET), 1) / n**2 for o in ("Ux16", "Ux16 Uy4")] for n in (512, 2048)}
    assert times[2048][1] > 1.5 * times[512][1]
    assert times[512][0] / times[512][1] > times[2048][0] / times[2048][1]


def test_rows_that_copies_share_are_computed_once_of_kept_values_too() -> None:
    n = 1024
    kb = KernelBuilder("pairs")
    y1, x1, y, x = kb.axis("y1", n + 2), kb.axis("x1", n + 1), kb.axis("y", n), kb.axis("x", n)
    v = kb.value("v", (y1, x1), exp(kb.input("a", (n + 2, n + 1), float32)[y1, x1]))
    kb.store("out", float32, (n, n), (y, x), total(v[y + d, x] + v[y + d, x + 1] for d in range(3)))
    works = []
    for rows in ([], [["UPCAST", "y", 4]]):
        s = apply(kb.build(), parse([["HALO", "y", 64], ["STAGE", "v", {"at": "y.h"}], ["UPCAST", "x", 16], *rows]), TARGET)
        s = (s.phases or (s,))[-1]
        works.append(next(compute_cycles(s, nest, DEFAULT) for nest in s.nests if nest.kind == "store"))
    assert works[1] < 0.6 * works[0], "six sums of two and eight more for four rows, where one row takes three and two more"


@pytest.mark.parametrize("name", ["x86-64-v2", "avx2", "x86-64-v4"])
def test_a_sum_of_a_computed_row_does_not_hide_the_chain(name: str) -> None:
    """A filter of samples that a sum of narrow integers reads: made once, not for each step of the sum."""
    kb, n = KernelBuilder("averaged"), 4000
    c, low, band, wide = kb.axis("c", 8), kb.axis("low", n + 80), kb.axis("band", n + 40), kb.axis("wide", 32)
    mean, beat = kb.axis("mean", n), kb.axis("beat", 30)
    x = kb.input("x", (8, n + 100), int16, range=(-2048, 2047))
    taps = [cast(x[c, low + k], int32) * min(k + 1, 11 - k) for k in range(11)]
    smooth = kb.value("smooth", (c, low), sum(taps[1:], taps[0]))
    around = kb.sum("around", (c, band), wide, smooth[c, band + wide])
    sharp = kb.value("sharp", (c, band), cast(smooth[c, band + 16] * 32 - around[c, band], float32))
    total = kb.sum("total", (c, mean), beat, sharp[c, mean + beat] * sharp[c, mean + beat])
    kb.store("y", float32, (8, n), (c, mean), total[c, mean])
    kernel, target = kb.build(), named(name)
    quick, ranked = (estimate(apply(kernel, found(kernel, target)[0], target)) for found in (quick_starts, starts))
    assert quick < 3 * ranked
