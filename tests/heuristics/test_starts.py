"""Start schedules of every named kernel: legal, sensible and the same every time."""

from __future__ import annotations

from functools import cache

import pytest
from thorough import amount
from tilewright import named_kernels, targets
from tilewright.heuristics import starts
from tilewright.heuristics.start import StartFacts
from tilewright.ir import KernelBuilder, OptError, float32, sym
from tilewright.ir.kernel import Kernel
from tilewright.lower import lower
from tilewright.opts import Opts, apply, dumps, opt
from tilewright.opts.options.cache import has_streams
from tilewright.targets import Target

WHERE = [
    ("znver5", "default", 8),
    ("znver5", "odd", 2),
    ("avx2", "default", 2),
    ("neon", "odd", 2),
    ("host", "odd", 1),
]


def target(name: str) -> Target:
    return targets.host() if name == "host" else targets.named(name)


@cache
def kernel_and_starts(name: str, where: str, size: str, threads: int) -> tuple[Kernel, list[Opts]]:
    """A kernel at its default or odd shape, and its start schedules."""
    d = named_kernels.get(name)
    kernel = d.kernel(d.default_shape if size == "default" else d.odd_shape)
    return kernel, starts(kernel, target(where), threads)


def cuts(opts: Opts, op: str) -> dict[str, int]:
    return {o.on: o.amount for o in opts if o.op == op}


@pytest.mark.many
@pytest.mark.parametrize(("where", "size", "threads"), WHERE)
@pytest.mark.parametrize("name", named_kernels.NAMES)
@pytest.mark.covering(each=2)
def test_start_schedules_apply_to_every_kernel(name: str, where: str, size: str, threads: int) -> None:
    kernel, found = kernel_and_starts(name, where, size, threads)
    assert found and len(set(found)) == len(found)
    for opts in found:
        apply(kernel, opts, target(where))


@pytest.mark.many
@pytest.mark.parametrize("name", named_kernels.NAMES)
@pytest.mark.covering(each=2)
def test_the_first_start_schedule_uses_lanes_and_threads(name: str) -> None:
    t = targets.named("znver5")
    kernel, found = kernel_and_starts(name, "znver5", "default", 8)
    first = found[0]
    assert first, "a kernel of the default size deserves more than the empty schedule"
    assert max(cuts(first, "UPCAST").values()) >= 8, dumps(first)
    scheduled = apply(kernel, first, t)
    grids = [[p.trips for p in s.grid] for s in (scheduled.phases or (scheduled,))]
    items = 1
    for n in grids[0]:
        items *= n
    assert items >= 8, dumps(first)


@pytest.mark.many
@pytest.mark.parametrize("name", named_kernels.NAMES)
@pytest.mark.covering(each=2)
def test_every_start_schedule_lowers(name: str, request: pytest.FixtureRequest) -> None:
    """Three of the first type, and one of every other; in a quick run of every second one, others for the next kernel of the list.
    (lower/test_twin.py computes with them.)"""
    d = named_kernels.get(name)
    turn, step = named_kernels.NAMES.index(name), amount(request, 2, 1)
    for i, t in enumerate(d.dtypes):
        if i and (i + turn) % step:
            continue
        kernel = d.kernel(d.odd_shape, t)
        for opts in starts(kernel, targets.named("avx2"), 2)[: 3 if i == 0 else amount(request, 1, 3)]:
            assert lower(apply(kernel, opts, targets.named("avx2"))).phases


@pytest.mark.slow
def test_a_large_product_gets_a_register_tile_and_packed_panels() -> None:
    for where, registers in (("znver5", 32), ("avx2", 16)):
        first = starts(named_kernels.make("matmul"), targets.named(where), 2)[0]
        lanes = targets.named(where).lanes(named_kernels.make("matmul").values["acc"].dtype)
        tile = cuts(first, "UPCAST")
        rows, columns = tile["m"], tile["n"]
        assert columns % lanes == 0 and rows > 1
        assert registers // 4 <= rows * columns // lanes <= registers, dumps(first)
        assert any(o.op == "STAGE" and o.on == "b" for o in first)
        assert any(o.op == "PARALLEL" for o in first)


@pytest.mark.parametrize("where", ["avx2", "neon"])
def test_stores_that_are_woven_may_have_nothing_to_store(where: str) -> None:
    kb = KernelBuilder("woven")
    i, j = kb.axis("m", 17), kb.axis("n", 0)
    x = kb.input("x", (17, 0), float32)
    for part in range(2):
        kb.store("y", float32, (17, 0), (i, j), x[i, j] * (part + 1.0), (i, 2 * j + part))
    assert starts(kb.build(), targets.named(where), 2)


def test_a_row_reduction_gets_independent_partials() -> None:
    first = starts(named_kernels.make("sum_rows"), targets.named("znver5"), 2)[0]
    assert cuts(first, "UPCAST")["n"] >= 32
    assert opt("PARALLEL", "m") in first


def test_one_long_reduction_is_split_over_threads_only() -> None:
    kernel, t = named_kernels.make("sum_all"), targets.named("znver5")
    assert any(o.op == "SPLIT" for o in starts(kernel, t, 8)[0])
    assert not any(o.op == "SPLIT" for o in starts(kernel, t, 1)[0])


def test_what_is_dear_and_used_twice_is_kept() -> None:
    assert any(o.op == "STAGE" and o.on == "e" for o in starts(named_kernels.make("softmax"), targets.named("znver5"), 2)[0])


@pytest.mark.slow
@pytest.mark.parametrize("name", ["matmul", "softmax", "attention", "sum_all", "argmax"])
def test_start_schedules_are_the_same_every_time(name: str) -> None:
    make, t = named_kernels.get(name).kernel, targets.named("znver5")
    assert [dumps(o) for o in starts(make(), t, 2)] == [dumps(o) for o in starts(make(), t, 2)]


@pytest.mark.parametrize("size", ["m", "n", "k"])
def test_symbolic_products_have_start_schedules(size: str) -> None:
    kernel = named_kernels.make("matmul", {"m": 64, "n": 64, "k": 64, size: sym(size, 1, 4096)})
    first = starts(kernel, targets.named("znver5"), 2)[0]
    assert cuts(first, "UPCAST")


@pytest.mark.parametrize("name", named_kernels.NAMES)
def test_start_schedules_of_the_smallest_shape(name: str) -> None:
    d = named_kernels.get(name)
    kernel = d.kernel({n: d.minimum.get(n, 1) for n in d.shape_names})
    for opts in starts(kernel, targets.named("znver5"), 2):
        lower(apply(kernel, opts, targets.named("znver5")))


def prefix(kernel: Kernel, *opts: list[object]) -> Opts | None:
    from tilewright.opts import parse

    return StartFacts(kernel, targets.named("znver5")).trials.legal(parse(opts))


def test_a_start_schedule_is_a_wish() -> None:
    """What is illegal is left out, the rest stays; the result is always legal."""
    kernel = named_kernels.make("matmul", {"m": 10, "n": 48, "k": 20})
    kept = prefix(kernel, ["UPCAST", "m", 8], ["UPCAST", "n", 16], ["TILE", "k", 64], ["PARALLEL", "n"], ["STAGE", "b", {"at": "nowhere"}])
    assert kept is not None
    assert dumps(kept) == '[["UPCAST","n",16],["PARALLEL","n"]]'
    with pytest.raises(OptError):
        apply(kernel, (opt("UPCAST", "m", 8),), targets.named("znver5"))


@pytest.mark.many
@pytest.mark.parametrize("name", ["attention", "attention_full", "attention_window", "attention_grouped"])
@pytest.mark.parametrize("where", ["znver5", "avx2"])
@pytest.mark.covering
def test_attention_in_blocks_has_its_lanes_along_the_queries(name: str, where: str) -> None:
    kernel, t = named_kernels.make(name), targets.named(where)
    s = apply(kernel, starts(kernel, t, 2)[0], t)
    made = {n.name: s.kernel.values[n.name].axes[s.inner.get(n.name, -1)].arg.name for n in s.nests if n.kind == "reduce"}
    assert made == {"dot": "row", "M": "row", "L": "row", "O": "row"}
    assert any(p.kind == "fold" for p in s.loops(s.nests[0])) and "q" in s.stages


@pytest.mark.slow
@pytest.mark.parametrize("where", ["avx2", "znver3", "alderlake"])
def test_panels_are_used_for_more_than_one_register_tile(where: str) -> None:
    """Else the other operand, which no cache of a core holds, is read again for every few columns, a piece of a row at a time."""
    found = starts(named_kernels.make("matmul", {"m": 1024, "n": 1024, "k": 1024}, "float32"), targets.named(where))[0]
    assert cuts(found, "TILE").get("n", 1024) >= 4 * cuts(found, "UPCAST")["n"]


@pytest.mark.slow
@pytest.mark.parametrize("where", ["avx2", "znver5"])
def test_ragged_steps_are_spelled_out_too(where: str) -> None:
    found = starts(named_kernels.make("matmul", {"m": 901, "n": 1111, "k": 637}, "float32"), targets.named(where))[0]
    assert cuts(found, "UNROLL")["k"] > 1
    found = starts(named_kernels.make("attention", {"b": 1, "h": 8, "s": 777, "d": 64}, "float32"), targets.named(where))[0]
    assert cuts(found, "UNROLL") == {"d@dot": 4, "key@out": 4}


def test_rows_past_the_caches_are_an_owner_s_choice() -> None:
    """Few rows of a large table are added to: clearing it past the caches comes first; many rows: it does not."""
    few, many = ({"v": 50257, "n": 4096, "d": 768}, {"v": 8192, "n": 16384, "d": 1024})
    first = [starts(named_kernels.make("embedding_grad", s, "float32"), targets.named("znver3"))[0] for s in (few, many)]
    assert [has_streams(opts) for opts in first] == [True, False]
    assert all(opts[0].op == "OWN" for opts in first)


def test_a_number_that_several_nests_read_has_one_phase() -> None:
    """A total without axes is needed whole by what has axes, and by nothing in the phase that computes it."""
    kb = KernelBuilder("centred")
    x = kb.input("x", (40, 24), float32)
    j, a, b, c = kb.axis("n", 24), kb.axis("m@total", 40), kb.axis("m@mean", 40), kb.axis("m@square", 40)
    total = kb.sum("total", (), a, x[a, 0] * x[a, 0])
    mean = kb.sum("mean", (j,), b, x[b, 0] * x[b, j])
    centre = kb.value("centre", (j,), mean[j] / total[()])
    square = kb.sum("square", (j,), c, (x[c, j] - centre[j]) * (x[c, j] - centre[j]))
    kb.store("y", float32, (24,), (j,), centre[j])
    kb.store("z", float32, (24,), (j,), square[j] / total[()])
    for where in ("avx2", "x86-64-v4", "neon"):
        found = starts(kb.build(), targets.named(where), 2)
        assert found and any(o.op == "PHASE" for s in found for o in s)
