"""FOLD: attention that is written as a chain of reductions runs in tiles of the keys; results are the same."""

from __future__ import annotations

from typing import Any

import pytest
from checks import check_compiled, check_floats, check_twin
from einsums import einsum
from tilewright import named_kernels
from tilewright.heuristics import quick_starts, starts
from tilewright.ir import KernelBuilder, OptError, exp, float32, where
from tilewright.ir.body import Fold, Reduce
from tilewright.ir.kernel import Kernel
from tilewright.ir.node import FUNCTIONS, walk
from tilewright.ir.normal_form import canonical, normalise
from tilewright.opts import apply, opt, parse
from tilewright.opts.actions import proposals
from tilewright.opts.options.fold import foldable, folded
from tilewright.opts.syntax import SYNTAX
from tilewright.targets import named
from written_attention import attention, capped, causal, normed_keys, padded, plain, sloped, window

WHOLE: list[Any] = [["FOLD", "k"]]
TILES: list[Any] = [*WHOLE, ["TILE", "k.o", 4], ["UPCAST", "s", 8], ["PARALLEL", "h"], ["STAGE", "top.o1", {"at": "k.o"}]]
FORMS: dict[str, Kernel] = {
    "plain": attention(plain),
    "causal": attention(causal),
    "window": attention(window),
    "capped": attention(capped),
    "sloped": attention(sloped),
    "padded": attention(padded),
    "grouped": attention(causal, h=4, shared=2),
    "late": attention(plain, late=True),
}


@pytest.mark.many
@pytest.mark.parametrize("listed", [WHOLE, TILES], ids=["whole", "tiles"])
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.covering
def test_results_do_not_depend_on_it(form: str, listed: list[Any]) -> None:
    kernel, opts = FORMS[form], parse(listed)
    check_floats(kernel, opts, named("cascadelake"))
    check_compiled(kernel, opts, threads=2)


@pytest.mark.parametrize("form", ["plain", "capped"])
def test_indices_are_right(form: str) -> None:
    """(The twin has no −∞, so that a mask is a number there.)"""
    check_twin(FORMS[form], parse(TILES), named("avx2"))


@pytest.mark.parametrize("form", FORMS)
def test_weights_are_computed_once(form: str) -> None:
    """The sum of weights and the weighted sum read one value that holds the exponential."""
    new = folded(FORMS[form], "k")
    fold = next(item for item in new.body if isinstance(item, Fold))
    sums = [v for v in fold.block if isinstance(v.expr, Reduce) and v.expr.combine == "add"]
    assert len(sums) == 3 and not any(n.op in FUNCTIONS for v in sums for n in walk(v.body))


def test_names_are_those_of_the_kernel() -> None:
    new = folded(FORMS["causal"], "k")
    assert {"h", "s"} <= set(new.families) and {f for f in new.families if f.startswith("k")} == {"k.o"}
    assert {a.arg.name for a in new.families["k.o"]} >= {"k.o", "k.o1", "k.o2"}
    assert {"dot", "top", "total", "mix"} <= set(new.values)
    assert all(n in ("dot", "top", "total", "mix") or n.startswith("top.o") for n in new.values)


def test_a_schedule_is_translated_to_a_kernel_with_other_names() -> None:
    one, other = normalise(attention(causal)), normalise(attention(causal, names="abcx"))
    kept = canonical(one).to_canonical([o.json for o in parse(TILES)], SYNTAX)
    there = canonical(other).from_canonical(kept, SYNTAX)
    assert there[0] == ["FOLD", "c"] and there[1] == ["TILE", "c.o", 4]
    assert [p.hash for p in apply(other, there, named("avx2")).phases]


@pytest.mark.parametrize(
    ("kernel", "axis", "why"),
    [
        (FORMS["plain"], "z", "no reduction over z"),
        (FORMS["plain"], "d@dot", "no reduction reads a product"),
        (einsum("mk,kn->mn", m=4, k=5, n=6), "k", "no reduction reads a product"),
        (named_kernels.make("attention", {"b": 1, "h": 1, "s": 8, "d": 4}), "key", "a fold already"),
    ],
)
def test_refusals(kernel: Kernel, axis: str, why: str) -> None:
    with pytest.raises(OptError, match=why):
        apply(kernel, (opt("FOLD", axis),), named("avx2"))


def test_it_is_proposed_once_where_it_is_legal() -> None:
    first = apply(FORMS["plain"], (), named("avx2"))
    assert opt("FOLD", "k") in [o for step in proposals(first) for o in step]
    assert "FOLD" not in {o.op for step in proposals(apply(FORMS["plain"], parse(WHOLE), named("avx2"))) for o in step}
    assert not foldable(einsum("mk,kn->mn", m=4, k=5, n=6))


def test_a_component_may_reduce_other_axes_too() -> None:
    """The fold is along the axis that the product spans, whichever of the component's axes comes first."""
    kb = KernelBuilder("several")
    m, k, n, j = (kb.axis(*a) for a in (("m", 8), ("k", 5), ("n", 6), ("m@2", 8)))
    a, b, c = kb.input("a", (8, 5), float32), kb.input("b", (5,), float32), kb.input("c", (6,), float32)
    dot = kb.sum("dot", (m,), k, a[m, k] * b[k])
    kb.store("y", float32, (), (), kb.sum("total", (), (n, j), exp(dot[j]) * c[n])[()])
    kernel = kb.build()
    assert foldable(kernel) == "m"
    for opts in ((opt("FOLD", "m"),), starts(kernel, named("avx2"), 1)[0]):
        check_floats(kernel, opts, named("avx2"))


@pytest.mark.parametrize("form", FORMS)
def test_start_schedules_fold(form: str) -> None:
    kernel, target = FORMS[form], named("znver5")
    for found in (starts(kernel, target, 1)[0], quick_starts(kernel, target, 1)[0]):
        assert found[0].op == "FOLD" and any(o.op == "STAGE" and o.on.startswith("top.o") for o in found)


def test_start_schedules_do_not_compute_norms_of_keys_for_every_query() -> None:
    kernel, target = normed_keys(), named("znver5")
    assert foldable(kernel) == "k"
    for found in (starts(kernel, target, 1)[0], quick_starts(kernel, target, 1)[0]):
        assert "FOLD" not in {o.op for o in found}


def test_start_schedules_fold_a_single_weighted_sum() -> None:
    """Weights that need no sum, such as those of a sigmoid: the fold has one component, with an axis that scores lack."""
    kb = KernelBuilder("sigmoid")
    i, o, e, jd, jo = (kb.axis(n, 64) for n in ("i", "o", "e", "jd", "jo"))
    q, k, v = (kb.input(x, (64, 64), float32) for x in "qkv")
    dot = kb.sum("dot", (i, jd), e, q[i, e] * k[jd, e])
    mix = kb.sum("mix", (i, o), jo, 1.0 / (1.0 + exp(-dot[i, jo])) * v[jo, o])
    kb.store("y", float32, (64, 64), (i, o), mix[i, o])
    assert starts(kb.build(), named("znver5"), 1)[0][0].op == "FOLD"


def test_sites_of_one_family_that_the_fold_parts_have_names() -> None:
    """Products of all pairs of picked vectors: the squares' own axis has nothing to do with the fold's any more."""
    kb = KernelBuilder("pairs")
    i, a, b, e, k = kb.axis("n", 19), kb.axis("f", 5), kb.axis("f@square", 5), kb.axis("d", 7), kb.axis("d@square", 7)
    x = kb.input("x", (19, 5, 7), float32)
    s = kb.sum("s", (i, e), a, x[i, a, e])
    sq = kb.sum("sq", (i,), e, s[i, e] ** 2)
    own = kb.sum("own", (i,), (b, k), x[i, b, k] ** 2)
    kb.store("y", float32, (19,), (i,), sq[i] - own[i])
    kernel = normalise(kb.build())
    assert foldable(kernel) == "d"
    assert {"d@square", "d.o"} < set(folded(kernel, "d").families)
    check_floats(kernel, [opt("FOLD", "d")], named("avx2"))
    assert starts(kernel, named("avx2"))


def test_bits_of_long_integers_are_folded_as_bits():
    kb = KernelBuilder("bits")
    i, c, d = kb.axis("i", 6), kb.axis("c@odd", 5), kb.axis("c", 5)
    x = kb.input("x", (6, 5), float32)
    odd = kb.reduce("xor", "odd", (i,), c, where(x[i, c] > 0.0, 1, 0))
    some = kb.reduce("or", "some", (i,), d, where(odd[i] > 0, -1, 0) * where(x[i, d] > 0.0, 1, 0))
    kb.store("y", "int64", (6,), (i,), some[i])
    kernel = normalise(kb.build())
    assert proposals(apply(kernel, (), named("avx2"))) and starts(kernel, named("avx2"), 1)
