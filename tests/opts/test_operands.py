"""The rule operands of REWRITE: the factors of a sum in two groups; where an operand is computed makes no difference to results, only to their time."""

from __future__ import annotations

from typing import Any

import pytest
from checks import check_compiled, check_floats, check_twin
from einsums import decoded, distances, einsum, normed
from tilewright.heuristics import quick_starts, starts
from tilewright.ir import KernelBuilder, OptError, float32, sqrt
from tilewright.ir.kernel import Kernel
from tilewright.ir.node import walk
from tilewright.ir.normal_form import normalise
from tilewright.opts import apply, opt, parse
from tilewright.opts.actions import proposals
from tilewright.opts.analysis.contractions import all_contractions
from tilewright.opts.rewrites.operands import operands
from tilewright.targets import named

PAIR = ["REWRITE", "acc", {"rule": "operands", "along": "n"}]
TILE: list[Any] = [["UPCAST", "m", 3], ["UPCAST", "n", 8], ["PARALLEL", "n"]]
CASES: list[tuple[Kernel, list[Any]]] = [
    (decoded(6, 24, 16, 4), [PAIR, *TILE, ["STAGE", "acc.n", {"at": "n"}]]),
    (decoded(6, 24, 16, 4), [PAIR, *TILE, ["TILE", "k", 8], ["MOVE", "k", {"before": "m"}], ["STAGE", "acc.n", {"at": "k"}]]),
    (decoded(6, 24, 16, 4), [PAIR, ["PHASE", "acc.n", {"apart": 1}], ["UPCAST", "n.p1", 8], ["PARALLEL", "k.p1"], *TILE]),
    (decoded(6, 24, 16, 4), [PAIR, ["UPCAST", "n", 8], ["PARALLEL", "m"], ["STAGE", "acc.n", {"at": "n"}]]),  # every item its own
    (normed(6, 24, 8), [PAIR, ["PHASE", "acc.m", {"apart": 1}], ["PARALLEL", "m.p1"], ["UPCAST", "k.p1", 8], *TILE]),
    (einsum("mr,jr,nr->mjn", m=6, j=3, n=8, r=4), [PAIR, *TILE]),
    (distances(16, 8, 4), [["PHASE", "norm", {"apart": 1}], ["PARALLEL", "n@norm.p1"], ["UPCAST", "m", 8], ["PARALLEL", "m"]]),
]


@pytest.mark.many
@pytest.mark.parametrize(("kernel", "listed"), CASES)
def test_results_do_not_depend_on_it(kernel: Kernel, listed: list[Any]) -> None:
    opts = parse(listed)
    check_twin(kernel, opts, named("avx2"))
    check_floats(kernel, opts, named("cascadelake"))
    check_compiled(kernel, opts, threads=2)


def test_factors_are_grouped_by_the_lane_axis() -> None:
    kernel = einsum("bi,ijk,bj->bk", b=2, i=3, j=4, k=5)
    made = operands(kernel, "acc", "k")
    assert [a.arg.name for a in made.values["acc.m"].axes] == ["b", "i", "j"] and "acc.n" not in made.values
    assert {n.arg[0].name for n in walk(made.values["acc.m"].body) if n.op == "load"} == {"a0", "c0"}


@pytest.mark.parametrize(
    ("name", "lane", "why"), [("y", "n", "name a sum of products"), ("acc", "k", "no axis of acc"), ("acc", "b", "every factor")]
)
def test_refusals(name: str, lane: str, why: str) -> None:
    kernel = einsum("bmk,bkn->bmn", b=2, m=3, k=4, n=5)
    with pytest.raises(OptError, match=why):
        apply(kernel, (opt("REWRITE", name, rule="operands", along=lane),), named("avx2"))


def test_start_schedules_compute_operands_once() -> None:
    target = named("znver5")
    for found in (starts(decoded(256, 512, 256, 64), target, 1)[0], quick_starts(decoded(256, 512, 256, 64), target, 1)[0]):
        assert {("operands", "acc"), ("STAGE", "acc.n")} <= {(str(o.fields.get("rule", o.op)), o.on) for o in found}
    assert ("PHASE", "acc.m") in {(str(o.fields.get("rule", o.op)), o.on) for o in quick_starts(normed(256, 128, 256), target, 1)[0]}
    assert {("PHASE", "norm"), ("PARALLEL", "m")} <= {
        (str(o.fields.get("rule", o.op)), o.on) for o in quick_starts(distances(8192, 256, 64), target, 2)[0]
    }


def test_contractions_are_seen_through_what_is_computed() -> None:
    assert [c.lane.arg.name for c in all_contractions(decoded(6, 24, 16, 4))] == ["n"]
    assert [c.rows[0].arg.name for c in all_contractions(distances(9, 8, 4))] == ["n"]
    assert ("operands", "acc") in {
        (str(o.fields.get("rule", o.op)), o.on) for more in proposals(apply(decoded(6, 24, 16, 4), (), named("avx2"))) for o in more
    }


def correlation(n: int = 21, d: int = 9) -> Kernel:
    """Products of centred columns, divided by roots of variances: sums that need each other, in phases of their own."""
    kb = KernelBuilder("correlation")
    i, j, k, l, a, m, b = (kb.axis(x, y) for x, y in (("i", d), ("j", d), ("k", n), ("l", n), ("a", n), ("m", d), ("b", d)))
    x = kb.input("x", (n, d), float32)
    mean = kb.sum("mean", (m,), k, x[k, m] * (1.0 / n))
    var = kb.sum("var", (b,), a, (x[a, b] - mean[b]) * (x[a, b] - mean[b]))
    total = kb.sum("total", (i, j), l, (x[l, i] - mean[i]) * (x[l, j] - mean[j]))
    kb.store("y", float32, (d, d), (i, j), total[i, j] / sqrt(var[i] * var[j]))
    return normalise(kb.build())


@pytest.mark.slow
def test_a_sum_has_two_operands_once_in_all_of_its_phases() -> None:
    kernel = correlation(2048, 96)
    assert starts(kernel, named("avx2"), 1) and quick_starts(kernel, named("avx2"), 1)
    small = correlation()
    for listed in starts(small, named("avx2"), 1)[:2]:
        check_compiled(small, listed)
    new = operands(small, "total", "j")
    with pytest.raises(OptError, match="has two operands already"):
        operands(new, "total", "j")
    assert not any(
        o.fields.get("rule") == "operands" and o.on == "total" for group in proposals(apply(new, (), named("avx2"))) for o in group
    )
