"""The rule factor of REWRITE: results do not depend on it, only what depends on the axis is in the inner sum, and what it refuses."""

from __future__ import annotations

from typing import Any

import pytest
from checks import check_compiled, check_floats, check_twin
from einsums import einsum
from tilewright.heuristics.contraction_order import best_orders, order_opts, reordered
from tilewright.heuristics.start import starts
from tilewright.ir import KernelBuilder, OptError
from tilewright.ir.dtypes import float32
from tilewright.ir.normal_form import canonical, normalise
from tilewright.opts import apply, opt, parse
from tilewright.opts.actions import proposals
from tilewright.opts.rewrites.factor import factored
from tilewright.opts.syntax import SYNTAX
from tilewright.targets import named

CHAIN = einsum("ij,jk,kl->il", i=5, j=7, k=8, l=16)
CASES: list[tuple[Any, list[Any]]] = [
    (CHAIN, [["REWRITE", "j", {"rule": "factor"}], ["UPCAST", "k.f1", 4], ["PARALLEL", "i.f1"], ["UPCAST", "l", 8], ["PARALLEL", "i"]]),
    (
        CHAIN,
        [
            ["REWRITE", "k", {"rule": "factor"}],
            ["UPCAST", "l.f1", 16],
            ["TILE", "k.f1", 4],
            ["STAGE", "acc.f1.kept", {"at": "i"}],
            ["PARALLEL", "i"],
        ],
    ),
    (
        einsum("bi,ijk,bj->bk", b=3, i=5, j=4, k=8),
        [["REWRITE", "i", {"rule": "factor"}], ["PARALLEL", "j.f1"], ["SPLIT", "i.f1", 2], ["UPCAST", "k", 8]],
    ),
    (
        einsum("pqr,ip,jq,kr->ijk", p=2, q=3, r=2, i=4, j=3, k=5),
        [["REWRITE", "p", {"rule": "factor"}], ["REWRITE", "q", {"rule": "factor"}], ["PARALLEL", "i"]],
    ),
]


@pytest.mark.many
@pytest.mark.parametrize(("kernel", "listed"), CASES)
def test_results_do_not_depend_on_it(kernel: Any, listed: list[Any]) -> None:
    opts = parse(listed)
    check_twin(kernel, opts, named("avx2"))
    check_floats(kernel, opts, named("cascadelake"))
    check_compiled(kernel, opts, threads=2)


def test_only_what_depends_on_the_axis_is_in_the_sum() -> None:
    inner = factored(CHAIN, "j").values["acc.f1"]
    assert [a.arg.name for a in inner.axes] == ["i.f1", "k.f1"] and repr(inner.body) == "(a0[i.f1, j.f1] * b0[j.f1, k.f1])"


def test_an_axis_that_only_an_inner_sum_has_joins_it() -> None:
    kernel = einsum("ijk,jkl,lm->im", i=2, j=3, k=4, l=5, m=6)
    twice = factored(factored(kernel, "j", 1), "k", 2)
    assert [[a.arg.name for a in v.reduce_axes] for v in twice.values.values()] == [["j.f1", "k.f1"], ["l"]]


@pytest.mark.parametrize(
    ("text", "axis", "why"),
    [
        ("ij,jk->ik", "j", "no other axis"),
        ("ijk,jk->i", "j", "every factor of acc depends on j"),
        ("ij,jk,kl->il", "i", "name an axis of a sum over several \\(j, k\\)"),
    ],
)
def test_refusals(text: str, axis: str, why: str) -> None:
    with pytest.raises(OptError, match=why):
        apply(einsum(text, i=2, j=3, k=4, l=5), (opt("REWRITE", axis, rule="factor"),), named("avx2"))


def test_an_axis_that_no_factor_has_is_refused() -> None:
    kb = KernelBuilder("times")
    i, j, k = kb.axis("i", 4), kb.axis("j", 6), kb.axis("k", 8)
    a, b = kb.input("a", (4, 8), float32), kb.input("b", (8,), float32)
    kb.store("y", float32, (4,), (i,), kb.sum("acc", (i,), (j, k), a[i, k] * b[k])[i])
    kernel = kb.build()
    with pytest.raises(OptError, match="no factor of acc depends on j"):
        apply(kernel, (opt("REWRITE", "j", rule="factor"),), named("avx2"))
    assert opt("REWRITE", "j", rule="factor") not in order_opts(kernel)
    assert opt("REWRITE", "j", rule="factor") not in {o for step in proposals(apply(kernel, (), named("avx2"))) for o in step}
    check_compiled(kernel, starts(kernel, named("avx2"))[0], named("avx2"))


def test_the_order_is_the_cheapest() -> None:
    assert best_orders(einsum("ij,jk,kl->il", i=2, j=64, k=64, l=64))[0].axes == ("j",)
    assert best_orders(einsum("ij,jk,kl->il", i=64, j=64, k=64, l=2))[0].axes == ("k",)
    assert not best_orders(einsum("ij,jk->ik", i=64, j=64, k=64))
    assert not best_orders(einsum("ir,jr,kr->ijk", i=64, j=64, k=64, r=64))
    found = best_orders(einsum("ijk,jkl,lm->im", i=64, j=64, k=64, l=64, m=64))[0]
    assert found.axes == ("j", "k") and found.operations == 2 * 64**4 + 2 * 64**3
    assert [len(v.reduce_axes) for v in reordered(einsum("ij,jk,kl,lm->im", i=9, j=99, k=99, l=99, m=99)).values.values()] == [1, 1, 1]


def test_a_search_sees_each_phase() -> None:
    near = proposals(apply(CHAIN, parse([["REWRITE", "j", {"rule": "factor"}]]), named("avx2")))
    assert {("UPCAST", "k.f1"), ("UPCAST", "l"), ("STAGE", "b0"), ("STAGE", "acc.f1.kept")} <= {
        (str(o.fields.get("rule", o.op)), o.on) for more in near for o in more
    }
    assert ("factor", "k") in {(str(o.fields.get("rule", o.op)), o.on) for more in proposals(apply(CHAIN, (), named("avx2"))) for o in more}


def test_other_names_have_the_same_options() -> None:
    kernel = normalise(CHAIN)
    names = canonical(kernel)
    listed = [o.json for o in parse([["REWRITE", "k", {"rule": "factor"}], ["UPCAST", "l.f1", 8], ["STAGE", "acc.f1.kept", {"at": "i"}]])]
    there = names.to_canonical(listed, SYNTAX)
    assert "acc" not in repr(there) and names.from_canonical(there, SYNTAX) == listed


def test_numbers_and_what_no_axis_has_make_no_order() -> None:
    """Such a factor could leave the sum, but then no axis would be left to sum over: no option says that."""
    kb = KernelBuilder("windows")
    i, j, p, q = kb.axis("h", 40), kb.axis("w", 60), kb.axis("p", 5), kb.axis("q", 5)
    x = kb.input("x", (46, 66), float32)
    slope = (x[i + p, j + q + 1] - x[i + p, j + q]) * 0.5
    total = kb.sum("total", (i, j), (p, q), slope * (x[i + p + 1, j + q] - x[i + p, j + q]))
    kb.store("y", float32, (40, 60), (i, j), total[i, j])
    kernel = kb.build()
    for opts in (order_opts(kernel), starts(kernel, named("cascadelake"))[0]):
        apply(kernel, opts, named("cascadelake"))
