"""Exact, stale, nearest, seed: which options, and what is said about them."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest
from tilewright import named_kernels
from tilewright.cache import Cache, CacheWarning, bundles
from tilewright.cache.layers import SHIPPED_RUN, Layers, Shipped
from tilewright.devices import Device
from tilewright.heuristics import quick_starts, starts
from tilewright.ir.errors import CacheMiss
from tilewright.ir.kernel import Kernel
from tilewright.ir.normal_form import canonical, normalise
from tilewright.opts import apply, dumps, parse
from tilewright.plan import Artefacts, key_of, render, resolve

MODULE = sys.modules["tilewright.plan.resolve"]
TUNED = '[["UPCAST","n",16],["UPCAST","m",8]]'
QUICK = parse('[["UPCAST","n",8]]')


def shaped(m: int, n: int, k: int) -> Kernel:
    return named_kernels.make("matmul", {"m": m, "n": n, "k": k}, "float32")


def rank(monkeypatch: pytest.MonkeyPatch, *best_first: str) -> None:
    """A model that ranks these option lists first, in this order, and the rest last."""

    def estimate(kernel: Kernel, opts, device: Device, key) -> float:
        apply(kernel, opts, device.target)
        text = dumps(opts)
        return float(best_first.index(text)) if text in best_first else 99.0

    monkeypatch.setattr(MODULE, "_estimate", estimate)


def test_an_empty_cache_gives_the_start_schedule(matmul: Kernel, cpu: Device, rows: Cache) -> None:
    plan = resolve(matmul, cpu, 1, rows)
    assert (plan.origin, plan.row) == ("start", None)
    assert plan.opts == starts(matmul, cpu.target, 1)[0]


def test_a_warm_start_does_not_look_for_the_start_schedule_again(
    matmul: Kernel, cpu: Device, rows: Cache, store: Artefacts, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = [resolve(matmul, cpu, t, rows, store=store).opts for t in (1, 2)]
    monkeypatch.setattr("tilewright.heuristics.starts", None)
    assert [resolve(matmul, cpu, t, rows, store=Artefacts(store.folder)).opts for t in (1, 2)] == first
    with pytest.raises(TypeError):
        resolve(matmul, cpu, 3, rows, store=store)


def test_the_fastest_row_of_the_key_is_exact(matmul: Kernel, cpu: Device, rows: Cache, measured) -> None:
    rows.record([measured(matmul, TUNED), measured(matmul, "[]", t_med=1e-3, t_min=1e-3)])
    plan = resolve(matmul, cpu, 1, rows, exact_only=True)
    assert plan.origin == "exact" and dumps(plan.opts) == TUNED and plan.row == rows.best(key_of(matmul, cpu, 1))
    assert plan.rendered is not None and plan.rendered.sha == plan.row.source_sha


def test_names_are_those_of_the_asking_kernel(cpu: Device, rows: Cache, measured) -> None:
    from tilewright.ir import KernelBuilder, float32

    def product(i: str, j: str, r: str) -> Kernel:
        kb = KernelBuilder("mine")
        x, y, z = kb.axis(i, 8), kb.axis(j, 32), kb.axis(r, 16)
        a, b = kb.input("left", (8, 16), float32), kb.input("right", (16, 32), float32)
        c = kb.sum("dot", (x, y), z, a[x, z] * b[z, y])
        kb.store("res", float32, (8, 32), (x, y), c[x, y])
        return kb.build()

    rows.record(measured(shaped(8, 32, 16), '[["UPCAST","n",16],["STAGE","b",{"at":"n"}]]'))
    plan = resolve(product("rows", "cols", "inner"), cpu, 1, rows)
    assert plan.origin == "exact"
    assert dumps(plan.opts) == '[["UPCAST","cols",16],["STAGE","right",{"at":"cols"}]]'


def test_a_kernel_that_is_not_in_normal_form(cpu: Device, rows: Cache, measured) -> None:
    kernel = named_kernels.make("add", {"m": 4, "n": 16}, "float32")
    (family,) = normalise(kernel).families
    rows.record(measured(kernel, f'[["UPCAST","{family}",16]]'))
    assert resolve(kernel, cpu, 1, rows).origin == "exact"


def test_old_code_with_the_same_source_is_still_exact(matmul: Kernel, cpu: Device, rows: Cache, measured) -> None:
    rows.record(measured(matmul, TUNED, tool_version="of last year"))
    assert resolve(matmul, cpu, 1, rows, exact_only=True).origin == "exact"


def test_old_code_with_another_source_is_stale(matmul: Kernel, cpu: Device, rows: Cache, measured) -> None:
    rows.record(measured(matmul, TUNED, tool_version="of last year", source_sha="0" * 64))
    plan = resolve(matmul, cpu, 1, rows)
    assert plan.origin == "stale" and dumps(plan.opts) == TUNED
    with pytest.raises(CacheMiss, match="no cached schedule for matmul: it was measured with code that has changed since"):
        resolve(matmul, cpu, 1, rows, exact_only=True)


def test_a_miss_lists_the_key(matmul: Kernel, cpu: Device, rows: Cache) -> None:
    key = key_of(matmul, cpu, 3)
    with pytest.raises(CacheMiss, match=r"nothing that was verified is cached for it .*3 threads.*tune cache explain") as e:
        resolve(matmul, cpu, 3, rows, exact_only=True)
    assert key.kernel in str(e.value) and key.target in str(e.value) and key.compiler in str(e.value) and key.policy in str(e.value)


def test_options_that_do_not_apply_any_more_are_ignored_with_a_warning(matmul: Kernel, cpu: Device, rows: Cache, measured) -> None:
    good = measured(matmul, TUNED)
    rows.record([type(good)(**(good.to_dict() | {"opts": '[["UPCAST","a0",64]]', "t_med": 1e-9}))])
    with pytest.warns(CacheWarning, match="a cached schedule of matmul is ignored, its options do not apply any more"):
        assert resolve(matmul, cpu, 1, rows).origin == "start"


@pytest.mark.parametrize("opts", ['[["UPCAST","nowhere",8]]', '[["STAGE","b9",{"at":"a0"}]]', '[["FLY","a0"]]'])
def test_rows_with_strange_options_are_ignored(matmul: Kernel, cpu: Device, rows: Cache, measured, opts: str) -> None:
    good = measured(matmul, TUNED)
    rows.record([type(good)(**(good.to_dict() | {"opts": opts}))])
    with pytest.warns(CacheWarning):
        assert resolve(matmul, cpu, 1, rows).origin == "start"


def test_a_neighbour_that_the_model_ranks_above_the_start_schedule(
    cpu: Device, rows: Cache, measured, monkeypatch: pytest.MonkeyPatch
) -> None:
    rank(monkeypatch, TUNED)
    rows.record(measured(shaped(16, 64, 32), TUNED))
    plan = resolve(shaped(8, 32, 16), cpu, 1, rows)
    assert plan.origin == "nearest" and dumps(plan.opts) == TUNED and plan.row is not None
    with pytest.raises(CacheMiss):
        resolve(shaped(8, 32, 16), cpu, 1, rows, exact_only=True)


@pytest.mark.parametrize(
    "name", ["matmul", "matmul_nt", "matmul_bias_relu", "matvec", "batched_matmul", "softmax", "layernorm", "cross_entropy", "embedding"]
)
def test_a_neighbours_options_name_the_same_things_here(name: str) -> None:
    """Extents must not decide how buffers and axes are numbered, else STAGE(b) would become STAGE(a) at another shape."""
    given = named_kernels.get(name)
    first = canonical(given.kernel({n: 16 * (i + 1) for i, n in enumerate(given.shape_names)}))
    for sizes in ((7, 5, 3, 11), (3, 5, 7, 11), (1024, 8, 64, 2), (2, 64, 8, 1024)):
        other = canonical(given.kernel(dict(zip(given.shape_names, sizes, strict=False))))
        assert other.hash != first.hash and other.names == first.names


def test_a_neighbour_below_the_start_schedule_is_not_taken(cpu: Device, rows: Cache, measured, monkeypatch: pytest.MonkeyPatch) -> None:
    start = dumps(starts(normalise(shaped(8, 32, 16)), cpu.target, 1)[0])
    rank(monkeypatch, start, TUNED)
    rows.record(measured(shaped(16, 64, 32), TUNED))
    assert resolve(shaped(8, 32, 16), cpu, 1, rows).origin == "start"


def test_the_next_neighbour_where_the_first_does_not_apply(cpu: Device, rows: Cache, measured, monkeypatch: pytest.MonkeyPatch) -> None:
    far = '[["UPCAST","n",16]]'
    rank(monkeypatch, far, TUNED)
    kernel, near = shaped(2, 32, 16), shaped(16, 32, 16)
    rows.record([measured(near, TUNED), measured(shaped(64, 128, 256), far)])
    with pytest.raises(Exception, match="UPCAST"):
        apply(normalise(kernel), parse(TUNED), cpu.target)
    plan = resolve(kernel, cpu, 1, rows, shape={"m": 2, "n": 32, "k": 16})
    assert plan.origin == "nearest" and dumps(plan.opts) == far


def test_another_thread_count_is_a_neighbour(matmul: Kernel, cpu: Device, rows: Cache, measured, monkeypatch: pytest.MonkeyPatch) -> None:
    rank(monkeypatch, TUNED)
    rows.record(measured(matmul, TUNED, threads=2))
    plan = resolve(matmul, cpu, 1, rows)
    assert plan.origin == "nearest" and plan.row is not None and plan.row.threads == 2


def test_another_epilogue_is_a_neighbour(cpu: Device, rows: Cache, measured, monkeypatch: pytest.MonkeyPatch) -> None:
    shape = {"m": 8, "n": 32, "k": 16}
    rank(monkeypatch, TUNED)
    rows.record(measured(shaped(8, 32, 16), TUNED))
    plan = resolve(named_kernels.make("matmul_bias_relu", shape, "float32"), cpu, 1, rows)
    assert plan.origin == "nearest" and dumps(plan.opts) == TUNED


def test_the_real_model_decides_without_help(cpu: Device, rows: Cache, measured) -> None:
    """The start schedule's own options, measured at another shape, are ranked equal to the start schedule where they are the start schedule there too."""
    kernel = shaped(8, 32, 16)
    best = dumps(starts(normalise(kernel), cpu.target, 1)[0])
    rows.record(measured(shaped(16, 64, 32), best))
    plan = resolve(kernel, cpu, 1, rows)
    assert plan.origin == "nearest" and dumps(plan.opts) == best


def test_a_policy_without_reassociation_gets_no_such_schedule(cpu: Device, rows: Cache, measured) -> None:
    kernel = normalise(named_kernels.make("sum_all", {"n": 4096}, "float32"))
    assert "REASSOC" in render(kernel, starts(kernel, cpu.target, 1)[0], cpu).effects, "else this shows nothing"
    plan = resolve(kernel, cpu, 1, rows, policy="")
    assert plan.origin == "start" and not apply(kernel, plan.opts, cpu.target).effects


def test_a_quick_start(matmul: Kernel, cpu: Device, rows: Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tilewright.heuristics.starts", None)  # nothing is ranked
    plan = resolve(matmul, cpu, 1, rows, start="quick")
    assert (plan.origin, plan.opts) == ("start", quick_starts(matmul, cpu.target, 1)[0])


def test_quick_starts_that_will_not_do_leave_it_to_the_ranked_ones(matmul: Kernel, cpu: Device, rows: Cache) -> None:
    quick = quick_starts(matmul, cpu.target, 1)
    plan = resolve(matmul, cpu, 1, rows, start="quick", excluded=quick)
    assert plan.opts == next(o for o in starts(matmul, cpu.target, 1) if o not in quick)


def test_the_store_keeps_quick_starts_apart_and_prefers_ranked_ones(
    matmul: Kernel, cpu: Device, rows: Cache, store: Artefacts, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tilewright.heuristics.quick_starts", lambda *_: [QUICK, ()])
    assert resolve(matmul, cpu, 1, rows, store=store, start="quick").opts == QUICK
    monkeypatch.setattr("tilewright.heuristics.quick_starts", None)
    assert resolve(matmul, cpu, 1, rows, store=store, start="quick").opts == QUICK  # from the store
    ranked = resolve(matmul, cpu, 1, rows, store=store).opts
    assert ranked == starts(matmul, cpu.target, 1)[0] != QUICK
    assert resolve(matmul, cpu, 1, rows, store=store, start="quick").opts == ranked


def test_what_ships_for_another_processor_where_the_model_agrees(
    matmul: Kernel, cpu: Device, tmp_path: Path, measured, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = cpu.target.key.replace(cpu.target.key.split(":")[2], "znver1")
    bundles.write([replace(measured(matmul, TUNED), target=other)], tmp_path / "znver1.jsonl")
    start = dumps(starts(matmul, cpu.target, 1)[0])
    with Cache(Layers(str(tmp_path / "cache.db"), (Shipped(tmp_path),))) as c:
        rank(monkeypatch, TUNED, start)
        plan = resolve(matmul, cpu, 1, c)
        assert (plan.origin, dumps(plan.opts), plan.row.target) == ("nearest", TUNED, other)
        rank(monkeypatch, start, TUNED)
        assert resolve(matmul, cpu, 1, c).origin == "start"


@pytest.mark.parametrize(
    "seconds, version, origin", [(1.5, "", "start"), (1.1, "", "exact"), (1.5, None, "exact")], ids=["clearly behind", "near", "of today"]
)
def test_what_ships_is_left_where_a_newer_start_schedule_is_clearly_ahead(
    matmul: Kernel, cpu: Device, tmp_path: Path, measured, monkeypatch: pytest.MonkeyPatch, seconds: float, version: str | None, origin: str
) -> None:
    row = measured(matmul, TUNED, run_id=SHIPPED_RUN)
    bundles.write([row if version is None else replace(row, tool_version=version)], tmp_path / "kind.jsonl")
    monkeypatch.setattr(MODULE, "_estimate", lambda kernel, opts, device, key: seconds if dumps(opts) == TUNED else 1.0)
    with Cache(Layers(str(tmp_path / "cache.db"), (Shipped(tmp_path),))) as c:
        assert resolve(matmul, cpu, 1, c).origin == origin
