"""The quick start schedule: legal everywhere, the same every time, cheap, and mostly what the ranking picks."""

from __future__ import annotations

import statistics
from functools import cache

import pytest
from tilewright import named_kernels, targets
from tilewright.heuristics import estimate, quick_starts, starts
from tilewright.heuristics.model import cpu
from tilewright.heuristics.start import choose
from tilewright.heuristics.start import contractions as products
from tilewright.heuristics.start import trials as trials_of
from tilewright.heuristics.start.start_rule import StartFacts
from tilewright.heuristics.start.trials import Trials
from tilewright.ir import Kernel, KernelBuilder, OptError, cast, float32, int16, int32, int64, log, maximum, minimum, sym, tanh, where
from tilewright.ir.normal_form import normalise
from tilewright.lower import lower
from tilewright.opts import Opts, apply, dumps, opt, parse, short
from tilewright.opts.analysis import structure

WHERE = [
    ("znver5", "default", 2),
    ("znver5", "odd", 1),
    ("avx2", "odd", 2),
    ("x86-64-v2", "odd", 2),
    ("neon", "odd", 1),
    ("opencl-cpu", "odd", 2),
    ("opencl-gpu", "odd", 1),
    ("sm_90a", "odd", 1),
]
SHARE = 0.6
"""Of the named kernels at odd sizes, those whose quick start schedule has the loops of the ranked one, at least. (Of products whose lanes
are padded, several tiles are as good: the ranking takes a narrow one, the quick choice a wide one, within 2 % of each other.)"""


def made(name: str, size: str) -> Kernel:
    d = named_kernels.get(name)
    return normalise(d.kernel(d.default_shape if size == "default" else d.odd_shape))


@cache
def chosen(name: str, where: str, size: str, threads: int) -> tuple[Kernel, list[Opts]]:
    kernel = made(name, size)
    return kernel, quick_starts(kernel, targets.named(where), threads)


@pytest.mark.many
@pytest.mark.parametrize(("where", "size", "threads"), WHERE)
@pytest.mark.parametrize("name", named_kernels.NAMES)
@pytest.mark.covering
def test_every_list_is_legal_and_the_first_lowers(name: str, where: str, size: str, threads: int) -> None:
    kernel, found = chosen(name, where, size, threads)
    assert found and len(set(found)) == len(found) <= choose.MOST + 2  # (with one that stores in a phase, and none at all)
    for opts in found:
        apply(kernel, opts, targets.named(where))
    if size == "odd":
        assert lower(apply(kernel, found[0], targets.named(where))).phases


@pytest.mark.many
@pytest.mark.parametrize("name", named_kernels.NAMES)
def test_it_is_the_same_every_time(name: str) -> None:
    first = [dumps(o) for o in chosen(name, "avx2", "odd", 2)[1]]
    assert [dumps(o) for o in quick_starts(made(name, "odd"), targets.named("avx2"), 2)] == first


@pytest.mark.slow
def test_it_is_mostly_what_the_ranking_picks() -> None:
    target, same, ratios = targets.named("znver5"), 0, []
    for name in named_kernels.NAMES:
        kernel, found = chosen(name, "znver5", "odd", 1)
        mine, best = (apply(kernel, o, target) for o in (found[0], starts(kernel, target, 1)[0]))
        same += mine.hash == best.hash
        ratios.append(estimate(mine) / estimate(best))
    assert same >= SHARE * len(named_kernels.NAMES)
    assert statistics.median(ratios) <= 1.01


@pytest.mark.parametrize("name", ["matmul", "softmax", "embedding_grad"])
def test_the_model_is_asked_a_few_times(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    monkeypatch.setattr(trials_of, "estimate", lambda s, threads: asked.append(s.hash) or estimate(s, threads))
    quick_starts(made(name, "default"), targets.named("znver5"), 2)
    assert 1 < len(asked) <= choose.MOST + choose.OTHERS / choose.EACH


def smoothed() -> Kernel:
    """Six channels that lie interleaved: five points beside each other, weighted."""
    kb = KernelBuilder("smoothed")
    i, k = kb.axis("n", 4000), kb.axis("c", 6)
    x = kb.input("x", (4000, 6), int16)
    taps = [cast(x[maximum(minimum(i + o, 3999), 0), k], int32) * (9 - o * o) for o in range(-2, 3)]
    kb.store("y", float32, (4000, 6), (i, k), cast(taps[0] + taps[1] + taps[2] + taps[3] + taps[4], float32))
    return normalise(kb.build())


def first_difference() -> Kernel:
    kb = KernelBuilder("first_difference")
    i, k = kb.axis("n", 2000), kb.axis("k", 200)
    a, b = kb.input("a", (200, 2000), int32), kb.input("b", (200, 2000), int32)
    least = kb.min("least", (i,), k, where(a[k, i].ne(b[k, i]), cast(k, int32), 200))
    kb.store("y", int32, (2000,), (i,), least[i])
    return normalise(kb.build())


@pytest.mark.parametrize("where", ["znver4", "avx2"])
def test_lanes_along_an_axis_that_no_rule_likes_are_found_where_they_are_far_faster(where: str) -> None:
    kernel, target = smoothed(), targets.named(where)
    found = apply(kernel, quick_starts(kernel, target)[0], target)
    assert {p.axis.arg.name: p.upcast for p in found.plans.values()}["c"] >= 6, "all channels at once, not two of them"
    assert estimate(found) <= 1.5 * estimate(apply(kernel, starts(kernel, target)[0], target))


def test_a_reduction_that_is_known_before_its_end_is_left() -> None:
    assert "EARLY_EXIT" in {o.op for o in quick_starts(first_difference(), targets.named("znver4"))[0]}


def test_long_expressions_are_asked_about_less() -> None:
    assert choose.most_guesses(chain(2, 64)) > choose.most_guesses(chain(48, 64)) >= 2


def chain(inputs: int, n: int) -> Kernel:
    kb = KernelBuilder("chain")
    i = kb.axis("i", n)
    total = kb.input("x0", (n,), float32)[i]
    for a in range(1, inputs):
        total = tanh(total) * kb.input(f"x{a}", (n,), float32)[i] + 0.5
    kb.store("y", float32, (n,), (i,), total)
    return normalise(kb.build())


def reduced(over: tuple[int, ...], shape: tuple[int, ...] = (6, 20, 33)) -> Kernel:
    kb = KernelBuilder("reduced")
    axes = [kb.axis(f"d{d}", n) for d, n in enumerate(shape)]
    kept = tuple(a for d, a in enumerate(axes) if d not in over)
    r = kb.sum("r", kept, tuple(axes[d] for d in over), kb.input("x", shape, float32)[tuple(axes)])
    kb.store("y", float32, tuple(n for d, n in enumerate(shape) if d not in over), kept, r[kept])
    return normalise(kb.build())


def picked() -> Kernel:
    kb = KernelBuilder("picked")
    i, j = kb.axis("n", 9), kb.axis("d", 40)
    ids, table = kb.input("ids", (9,), int64, range=(0, 6)), kb.input("table", (7, 40), float32)
    kb.store("y", float32, (9, 40), (i, j), table[ids[i], j])
    return normalise(kb.build())


def symbolic() -> Kernel:
    return normalise(named_kernels.make("matmul", {"m": sym("m", 1, 512), "n": 96, "k": 40}, "float32"))


@pytest.mark.parametrize("where", ["znver5", "avx2", "sm_90a", "opencl-gpu"])
@pytest.mark.parametrize("empty", ["m", "n", "k"])
@pytest.mark.covering
def test_empty_products(empty: str, where: str) -> None:
    m, n, k = ({"m": 8, "n": 16, "k": 4} | {empty: 0}).values()
    kb = KernelBuilder("product")
    i, j, r = kb.axis("m", m), kb.axis("n", n), kb.axis("k", k)
    a, b = kb.input("a", (m, k), float32), kb.input("b", (k, n), float32)
    kb.store("c", float32, (m, n), (i, j), kb.sum("acc", (i, j), r, a[i, r] * b[r, j])[i, j])
    kernel = normalise(kb.build())
    found = quick_starts(kernel, targets.named(where), 2)
    assert lower(apply(kernel, found[0], targets.named(where))).phases


@pytest.mark.many
@pytest.mark.parametrize("where", ["znver5", "avx2", "sm_90a", "opencl-gpu"])
@pytest.mark.parametrize(
    "kernel",
    [chain(1, 1), chain(24, 1000), reduced((1,)), reduced((0, 2)), reduced((0, 1, 2)), reduced((1,), (3, 0, 5)), picked(), symbolic()],
    ids=["one element", "many inputs", "middle axis", "outer axes", "all axes", "nothing to sum", "gather", "symbolic product"],
)
@pytest.mark.covering
def test_pulled_kernels_have_a_start_schedule_that_lowers(kernel: Kernel, where: str) -> None:
    found = quick_starts(kernel, targets.named(where), 2)
    assert lower(apply(kernel, found[0], targets.named(where))).phases


def test_a_large_chain_gets_lanes_and_threads() -> None:
    first = quick_starts(chain(3, 1 << 20), targets.named("znver5"), 2)[0]
    assert {o.op for o in first} >= {"UPCAST", "PARALLEL"}


def test_constant_inputs_are_packed_once() -> None:
    first = quick_starts(normalise(named_kernels.make("matmul:constant=b", {"m": 256, "n": 1024, "k": 1024})), targets.named("znver5"), 1)[
        0
    ]
    assert any(o.op == "STAGE" and o.fields["at"] == "once" for o in first), dumps(first)


def test_each_list_is_applied_once(monkeypatch: pytest.MonkeyPatch) -> None:
    tried = []
    monkeypatch.setattr(trials_of, "apply", lambda k, o, t, made: tried.append(o) or apply(k, o, t, made))
    trials = Trials(made("matmul", "odd"), targets.named("avx2"))
    wish = (opt("UPCAST", "n", 8), opt("UPCAST", "n", 8), opt("PARALLEL", "n"))
    assert trials.legal(wish) == trials.legal(wish) == trials.legal_at_once(wish)
    assert len(tried) == len(set(tried))
    with pytest.raises(OptError):
        trials.apply(wish)


def test_what_cannot_act_is_dropped() -> None:
    trials = Trials(made("matmul", "default"), targets.named("avx2"))
    wish = (opt("UPCAST", "n", 16), opt("TILE", "nowhere", 4), opt("PARALLEL", "m"), opt("UNROLL", "m", 2))
    assert trials.legal_at_once(wish) == (wish[0], wish[2]) == trials.legal(wish)


def test_blocks_of_an_odd_sum_are_whole_steps_and_long_sums_of_few_columns_are_read_where_they_lie() -> None:
    """A step beside the last block's end is masked in all blocks, which took twice as long."""
    kb = KernelBuilder("product")
    i, j, k = kb.axis("i", 57), kb.axis("j", 61), kb.axis("k", 10007)
    a, b = kb.input("a", (57, 10007), float32), kb.input("b", (10007, 61), float32)
    kb.store("c", float32, (57, 61), (i, j), kb.sum("total", (i, j), k, a[i, k] * b[k, j])[i, j])
    first = quick_starts(kb.build(), targets.named("znver5"))[0]
    assert {(o.op, o.on) for o in first} >= {("TILE", "k"), ("MOVE", "k")} and not {"STAGE", "UNROLL"} & {o.op for o in first}
    assert {o.on: o.amount for o in first if o.op == "UPCAST"} == {"i": 6, "j": 64}


@pytest.mark.parametrize("where", ["znver5", "avx2"])
def test_a_narrow_matrix_that_the_first_cache_does_not_hold_is_read_where_it_lies(where: str) -> None:
    n = targets.named(where).lanes(float32) + 3
    kernel = normalise(named_kernels.make("matmul", {"m": 21, "n": n, "k": 3001}))
    assert not any(o.op == "STAGE" for o in quick_starts(kernel, targets.named(where))[0])


@pytest.mark.parametrize(("rows", "other"), [((31, 682, 2228), "Um8 Un48 Pn Rk2"), ((24, 3289, 1519), "Um24 Un16 Rk16 Mk<n")])
def test_few_rows_start_as_fast_as_tiles_that_pack_nothing_and_as_streams(rows: tuple[int, int, int], other: str) -> None:
    kernel, target = normalise(named_kernels.make("matmul", dict(zip("mnk", rows)))), targets.named("znver4")
    first, plain = (estimate(apply(kernel, o, target)) for o in (quick_starts(kernel, target)[0], parse(other)))
    assert first <= 1.1 * plain


def depthwise(size: int, stride: int = 1) -> Kernel:
    shape = {"n": 1, "c": 96, "h": size, "w": size, "oc": 96, "kh": 3, "kw": 3, "stride": stride, "pad": 1, "groups": 96}
    return normalise(named_kernels.make("conv2d", shape))


@pytest.mark.parametrize("size", [28, 14, 7])
def test_windows_with_borders_are_spelled_out_where_rows_share_what_they_read(size: int) -> None:
    """Reads of one place, and the conditions that it lies inside, are one for all rows of results that are in registers."""
    kernel, target = depthwise(size), targets.named("cascadelake")
    first = quick_starts(kernel, target)[0]
    assert {o.on for o in first if o.op == "UNROLL"} == {"kh", "kw"} and all(o.op != "STAGE" for o in first), short(first)
    rolled = tuple(o for o in first if o.on != "kh")
    assert estimate(apply(kernel, first, target)) < estimate(apply(kernel, rolled, target))


def test_of_planes_larger_than_the_first_cache_a_few_rows_are_staged() -> None:
    target = targets.named("cascadelake")
    staged = {size: [o.json[2]["at"] for o in quick_starts(depthwise(size, 2), target)[0] if o.op == "STAGE"] for size in (112, 56)}
    assert staged == {112: ["oh"], 56: []}


def test_a_worker_alone_packs_a_panel_for_all_rows() -> None:
    """Not for each tile of rows, which copies the matrix as often as there are tiles."""
    kernel, target = normalise(named_kernels.get("matmul").kernel({"m": 640, "n": 384, "k": 512})), targets.named("znver4")
    c = structure.contractions(kernel)[0]
    assert not any(b.rows for b in products.contraction_guesses(c, target, 1)) and any(
        b.rows for b in products.contraction_guesses(c, target, 2)
    )
    opts = quick_starts(kernel, target, 1)[0]
    assert not any(o.op == "PARALLEL" and o.on == c.rows[0].arg.name for o in opts), short(opts)


@pytest.mark.parametrize("target", ["v3", "v4"])
@pytest.mark.parametrize("size", [24, 33])
def test_results_that_a_view_parts_into_heads_are_lanes(size: int, target: str) -> None:
    """A layer whose results are stored head by head, whatever a head's size: lanes along the sum take up to three times as long."""
    kb = KernelBuilder("heads")
    m, n, k = kb.axis("m", 213), kb.axis("n", 6 * size), kb.axis("k", 130)
    x, w = kb.input("x", (213, 130), float32), kb.input("w", (6 * size, 130), float32)
    total = kb.sum("total", (m, n), k, x[m, k] * w[n, k])
    kb.store("y", float32, (6, 213, size), (m, n), total[m, n], (n // size, m, n % size))
    kernel = normalise(kb.build())
    first = quick_starts(kernel, targets.named(target))[0]
    along = structure.contractions(kernel)[0].reduce[0].arg.name
    assert not any(o.op == "UPCAST" and o.on == along for o in first), short(first)


def test_the_first_layer_of_an_image_has_a_tile_that_takes_few_strided_vectors() -> None:
    shape = {"n": 1, "c": 3, "h": 224, "w": 224, "oc": 64, "kh": 3, "kw": 3, "stride": 2, "pad": 0, "groups": 1}
    kernel, target = normalise(named_kernels.make("conv2d", shape)), targets.named("znver4")
    quick, ranked = (estimate(apply(kernel, found(kernel, target)[0], target)) for found in (quick_starts, starts))
    assert quick <= 1.05 * ranked


def test_windows_whose_rows_are_in_registers_are_spelled_out_with_few_registers() -> None:
    """What one step reads and the next one reads again is loaded again, as part of an instruction: it takes no register."""
    kb = KernelBuilder("filtered")
    h, w, dy, dx = (kb.axis(name, n) for name, n in (("h", 512), ("w", 512), ("dy", 5), ("dx", 5)))
    x, k = kb.input("x", (516, 516), float32), kb.input("k", (5, 5), float32)
    total = kb.sum("total", (h, w), (dy, dx), x[h + dy, w + dx] * k[dy, dx])
    kb.store("y", float32, (512, 512), (h, w), total[h, w])
    kernel, target = normalise(kb.build()), targets.named("x86-64-v3")
    rolled, whole = (estimate(apply(kernel, parse(f"Uw8 Uh8 {steps} Ph"), target)) for steps in ("Rdx5", "Rdy5 Rdx5"))
    assert whole <= rolled


def test_no_sum_is_cut_where_one_image_is_near() -> None:
    shape = {"n": 8, "c": 256, "h": 14, "w": 14, "oc": 256, "kh": 3, "kw": 3, "stride": 1, "pad": 1}
    first = quick_starts(normalise(named_kernels.make("conv2d", shape)), targets.named("znver4"))[0]
    assert any(o.op == "STAGE" for o in first) and all(o.op != "MOVE" for o in first), short(first)


def test_of_two_products_that_are_close_the_counts_decide(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel, target = normalise(named_kernels.make("matmul", {"m": 640, "n": 384, "k": 512})), targets.named("znver4")
    monkeypatch.setattr(Trials, "counted", lambda self, opts: 1.0)
    best, second = quick_starts(kernel, target)[:2]
    monkeypatch.setattr(Trials, "counted", lambda self, opts: 0.8 if opts == second else 1.0)
    assert quick_starts(kernel, target)[:2] == [second, best]


def test_copies_of_what_the_last_cache_holds_wait_less() -> None:
    kernel, target = normalise(named_kernels.make("matmul", {"m": 64, "n": 4096, "k": 4096})), targets.named("znver4")
    s = apply(kernel, parse("Um8 Un32 Tn256 Pn Sb@n"), target)
    plan = s.stages["b"]
    near, far = (cpu.copy_cycles(s, plan, cpu.loops_around(s, plan), cpu.DEFAULT, away) for away in (0.0, 1.0))
    assert 0 < near < far


@pytest.mark.parametrize(("name", "size"), [("haswell", 28), ("znver4", 7)])
def test_lanes_go_along_channels_where_residues_share_what_they_read(name: str, size: int) -> None:
    kb = KernelBuilder("strided_gradient")
    c, h, ph, w, pw = (kb.axis(n, e) for n, e in zip(("c", "h", "ph", "w", "pw"), (64, size, 2, size, 2)))
    k, i, j = (kb.axis(n, e) for n, e in zip("kij", (64, 2, 2)))
    dy, weight = kb.input("dy", (64, size, size), float32), kb.input("weight", (64, 64, 3, 3), float32)
    y, x, ky, kx = (ph + 1) // 2 + h - i, (pw + 1) // 2 + w - j, (ph + 1) % 2 + 2 * i, (pw + 1) % 2 + 2 * j
    inside = (ky < 3) & (kx < 3)
    read = dy.masked(inside & (y >= 0) & (y < size) & (x >= 0) & (x < size), k, y, x)
    total = kb.sum("total", (c, h, ph, w, pw), (k, i, j), read * weight.masked(inside, k, c, ky, kx))
    places = (c, h * 2 + ph, w * 2 + pw)
    kb.store("dx", float32, (64, 2 * size, 2 * size), (c, h, ph, w, pw), total[c, h, ph, w, pw], indices=places)
    kernel = normalise(kb.build())
    target = targets.named(name)
    first = quick_starts(kernel, target)[0]
    assert {o.on: o.fields["order"] for o in first if o.op == "STAGE"} == {"dy": "row", "weight": "panel"}
    along = [o for o in choose.RESIDUES.guesses(StartFacts(kernel, target)) if not any(x.op == "STAGE" for x in o)]
    trials = Trials(kernel, target)
    assert trials.seconds(first) < min(map(trials.seconds, along))


def cepstra(frames: int, bands: int) -> Kernel:
    """Logarithms of sums over windows of each frame, and few sums of these weighted by a table."""
    kb = KernelBuilder("cepstra")
    t, v, o, k, w = kb.axis("t", frames), kb.axis("v", bands), kb.axis("o", 13), kb.axis("k", 24), kb.axis("v@o", bands)
    power, first = kb.input("power", (frames, 257), float32), kb.input("first", (bands,), int32, range=(0, 233))
    weight, dct = kb.input("weight", (bands, 24), float32), kb.input("dct", (13, bands), float32)
    band = kb.sum("band", (t, v), k, power[t, cast(first[v], int64) + k] * weight[v, k])
    kb.store("y", float32, (frames, 13), (t, o), kb.sum("cep", (t, o), w, log(band[t, w] + 1e-6) * dct[o, w])[t, o])
    return kb.build()


def test_a_fold_is_compared_with_lanes_along_each_axis() -> None:
    """Scores of short sums: a frame in each lane takes a third to a half of the fold's time."""
    first = quick_starts(normalise(cepstra(2400, 40)), targets.named("znver4"))[0]
    assert first[0].on == "t" and not any(o.op == "FOLD" for o in first)
