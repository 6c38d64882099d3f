"""SPLIT of scans: in chunks, of plain values and tuples, along every axis, under other options, and what it refuses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from checks import check_compiled, check_floats, check_twin
from tilewright import named_kernels, targets
from tilewright.ir import KernelBuilder, KernelError, OptError, float32, int32, sym
from tilewright.ir.functions import where
from tilewright.ir.kernel import Kernel
from tilewright.opts import apply, parse
from tilewright.opts.actions import actions
from tilewright.opts.rewrites import split_axis

AVX2, SM80 = targets.named("avx2"), targets.named("sm_80")


def several() -> Kernel:
    """A sum and a maximum along one axis of a scan along another, and an element of a table at a place that data says."""
    kb = KernelBuilder("several")
    i, j = kb.axis("m", 9), kb.axis("n", 22)
    x, at, table = kb.input("x", (9, 22), float32), kb.input("at", (22,), int32, range=(0, 4)), kb.input("table", (5,), float32)
    row = kb.scan("add", "row", (i, j), i, x[i, j])
    total = kb.scan("add", "total", (i, j), j, row[i, j] + table[at[j]])
    top = kb.scan("max", "top", (i, j), j, row[i, j])
    kb.store("y", float32, (9, 22), (i, j), total[i, j] - top[i, j], mask=j > 1)
    kb.store("z", float32, (9, 22), (i, j), top[i, j])
    return kb.build()


def recurrence() -> Kernel:
    """h[t] = a[t] · h[t − 1] + x[t] of a few series, and the largest so far."""
    kb = KernelBuilder("recurrence")
    i, j = kb.axis("b", 3), kb.axis("t", 41)
    a, x = kb.input("a", (3, 41), float32, range=(0, 1)), kb.input("x", (3, 41), float32)
    rule = lambda f, g: (f[0] * g[0], f[1] * g[0] + g[1])  # noqa: E731
    _, h = kb.associative_scan(("p", "h"), (i, j), j, (a[i, j], x[i, j]), (1.0, 0.0), rule)
    top = kb.scan("max", "top", (i, j), j, x[i, j])
    kb.store("y", float32, (3, 41), (i, j), h[i, j] * 2.0 + top[i, j])
    return kb.build()


def beside_a_sum() -> Kernel:
    """A sum so far, beside a sum along another axis of the family."""
    kb = KernelBuilder("beside_a_sum")
    i, j, k = kb.axis("m", 5), kb.axis("n", 22), kb.axis("n@all", 22)
    x = kb.input("x", (5, 22), float32)
    kb.store("y", float32, (5, 22), (i, j), kb.scan("add", "sofar", (i, j), j, x[i, j])[i, j])
    kb.store("z", float32, (5,), (i,), kb.sum("total", (i,), k, x[i, k])[i])
    return kb.build()


def cumsum() -> Kernel:
    return named_kernels.make("cumsum", {"m": 3, "n": 70})


def beside_its_family() -> Kernel:
    """A scan of sums along another axis of its family, which stays whole."""
    kb = KernelBuilder("beside_its_family")
    j, k = kb.axis("n", 22), kb.axis("n@all", 22)
    x = kb.input("x", (22, 22), float32)
    total = kb.sum("total", (j,), k, x[j, k])
    row = kb.scan("add", "row", (j,), j, total[j])
    kb.store("y", float32, (22,), (j,), row[j])
    return kb.build()


GOOD: list[tuple[Callable[[], Kernel], list[Any], list[Any]]] = [
    (cumsum, ["SPLIT", "n", 2], [["UPCAST", "n", 8]]),
    (cumsum, ["SPLIT", "n", 7], [["PARALLEL", "m"], ["CACHE", "y", {"policy": "stream"}]]),
    (cumsum, ["SPLIT", "n", 4], [["UPCAST", "n.s", 4], ["TILE", "n", 6]]),
    (beside_its_family, ["SPLIT", "n", 4], [["UPCAST", "n@all", 2], ["UPCAST", "n", 3]]),
    (several, ["SPLIT", "n", 3], [["UPCAST", "n", 4], ["UPCAST", "m", 3]]),
    (several, ["SPLIT", "m", 4], [["UPCAST", "m", 3]]),
    (recurrence, ["SPLIT", "t", 5], [["PARALLEL", "b"]]),
    (recurrence, ["SPLIT", "t", 5], [["PADTO", "t", 12], ["UPCAST", "t", 4], ["UPCAST", "b", 3]]),
]


@pytest.mark.many
@pytest.mark.parametrize(("make", "split", "opts"), GOOD, ids=lambda x: x.__name__ if callable(x) else None)
def test_chunks_equal_the_reference(make: Callable[[], Kernel], split: list[Any], opts: list[Any]) -> None:
    kernel, found = make(), parse([split, *opts])
    if kernel.name == "recurrence":  # (multiplications of whole numbers that wrap are no recurrence whose parts merge in every bit)
        check_floats(kernel, found, AVX2)
    else:
        check_twin(kernel, found, AVX2)
    if len(opts) > 1:
        check_compiled(kernel, found, threads=2)


def test_a_gpu_scans_in_chunks() -> None:
    check_twin(cumsum(), parse([["SPLIT", "n", 5]]), SM80)


def test_what_is_refused_says_what_to_do() -> None:
    for opts, why in (
        ([["SPLIT", "m", 2]], r"no reduction, scan or scatter along m \(n\)"),
        ([["SPLIT", "n", 71]], "cut it into 2 to 70 chunks"),
        ([["SPLIT", "n", 2], ["UPCAST", "k", 2]], "no phase has what it names"),
        ([["SPLIT", "n", 2], ["SPLIT", "n", 2]], "only one axis"),
    ):
        with pytest.raises(OptError, match=why):
            apply(cumsum(), parse(opts), AVX2)
    with pytest.raises(OptError, match="symbolic extents"):
        apply(named_kernels.make("cumsum", {"m": sym("m", 1, 9), "n": 70}), parse([["SPLIT", "n", 2]]), AVX2)


def test_a_sum_beside_a_scan_is_refused_and_ends_no_search() -> None:
    kernel = beside_a_sum()
    with pytest.raises(OptError, match="total does not run over it"):
        apply(kernel, parse([["SPLIT", "n", 4]]), AVX2)
    assert actions(apply(kernel, (), AVX2))


def test_what_is_no_kernel_is_the_options_refusal(monkeypatch: pytest.MonkeyPatch) -> None:
    """A search takes an option that makes no kernel as one more that is illegal here."""

    def nonsense(*_: object) -> None:
        raise KernelError("axes of family n have different extents")

    monkeypatch.setattr(split_axis, "in_chunks", nonsense)
    with pytest.raises(OptError, match=r"SPLIT\(n, 2\): what it makes of cumsum is no kernel: axes of family n"):
        apply(cumsum(), parse([["SPLIT", "n", 2]]), AVX2)


def test_scans_of_scans_and_other_places_need_a_phase() -> None:
    kb = KernelBuilder("again")
    i = kb.axis("n", 32)
    x = kb.input("x", (32,), float32)
    one = kb.scan("add", "one", (i,), i, x[i])
    two = kb.scan("add", "two", (i,), i, one[i])
    kb.store("y", float32, (32,), i, two[i] - one[31 - i])
    with pytest.raises(OptError, match="two needs the scan one along n first; give that a PHASE"):
        apply(kb.build(), parse([["SPLIT", "n", 2]]), AVX2)
    check_twin(kb.build(), parse([["PHASE", "one"], ["SPLIT", "n", 2]]), AVX2)
    kb = KernelBuilder("turned")
    i = kb.axis("n", 32)
    one = kb.scan("add", "one", (i,), i, kb.input("x", (32,), float32)[i])
    kb.store("y", float32, (32,), i, one[31 - i])
    with pytest.raises(OptError, match="one is read at another place along n"):
        apply(kb.build(), parse([["SPLIT", "n", 2]]), AVX2)


def test_sums_of_floats_are_reordered_and_maxima_are_not() -> None:
    def effects(combine: str) -> frozenset[str]:
        kb = KernelBuilder("scan")
        i = kb.axis("n", 32)
        v = kb.scan(combine, "v", (i,), i, kb.input("x", (32,), float32)[i])
        kb.store("y", float32, (32,), i, v[i])
        return apply(kb.build(), parse([["SPLIT", "n", 2]]), AVX2).effects

    assert effects("add") == {"REASSOC"} and effects("max") == frozenset()
    kb = KernelBuilder("last")
    i = kb.axis("n", 32)
    x, at = kb.input("x", (32,), float32), kb.input("at", (32,), int32)
    rule = lambda f, g: (f[0] + g[0], where(f[0] + g[0] > 0.0, g[1], f[1]))  # noqa: E731
    _, last = kb.associative_scan(("total", "last"), (i,), i, (x[i], at[i]), (0.0, 0), rule)
    kb.store("y", int32, (32,), (i,), last[i])
    found = apply(kb.build(), parse([["SPLIT", "n", 2]]), AVX2).effects
    assert found == {"REASSOC"}, "a whole number that sums of floats decide"
