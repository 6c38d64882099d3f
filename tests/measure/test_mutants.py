"""A verifier that lets a planted fault pass is broken: every mutant must be refused, by the first check or the second; right ones pass."""

from __future__ import annotations

import pytest
from fake_worker import BesideOthers
from measure_fakes import built, double, text
from mutants import GROUPS, INTERMITTENT, SECOND_GROUPS
from tilewright.ir import KernelBuilder, float32
from tilewright.measure import DuelError, Measurer, Outcome
from tilewright.opts import parse

REFUSED = {Outcome.wrong, Outcome.crash}


@pytest.mark.slow
@pytest.mark.parametrize("group", GROUPS)
def test_every_mutant_is_refused(group):
    kernel, right, mutants = GROUPS[group]()
    with Measurer(kernel, "cpu", 2 if "parallel" in group else 1, builders=1, deadline_s=5.0) as m:
        got = dict(zip(["right", *mutants, "right again"], m.measure([right, *mutants.values(), right]), strict=True))
        # twice: the first candidate is checked by NumPy, later ones by the compare kernel
        first = m.measure([*mutants.values()])
    # (of two equal calls the second may be called slow on a busy machine; it is verified all the same)
    assert got["right"].ok and got["right again"].outcome in (Outcome.ok, Outcome.slow), (got["right"], got["right again"])
    if kernel.outputs[0].dtype.size > 2:  # rounding to 16 bits alone may reach the bound of half an ulp
        assert got["right"].error <= 0.5, "the bound leaves a right candidate too little room"
    passed = [name for name in mutants if got[name].outcome not in REFUSED]
    assert not passed, f"verified although wrong: {passed}"
    assert [r.outcome for r in first] == [got[name].outcome for name in mutants]
    for name in mutants:
        assert got[name].t_min is None and got[name].detail, got[name]


@pytest.mark.slow
@pytest.mark.parametrize("group", ["matmul", "handwritten"])
def test_a_mutant_that_comes_first_is_refused_too(group):
    kernel, right, mutants = GROUPS[group]()
    with Measurer(kernel, "cpu", 1, builders=1, deadline_s=5.0) as m:
        name, mutant = next(iter(mutants.items()))
        bad, good = m.measure([mutant, right])
    assert bad.outcome in REFUSED, name
    assert good.ok


@pytest.mark.slow
@pytest.mark.parametrize("group", SECOND_GROUPS)
def test_every_mutant_is_refused_by_the_second_check(group):
    kernel, right, mutants = SECOND_GROUPS[group]()
    with Measurer(kernel, "cpu", 1, builders=1, deadline_s=5.0) as m:
        first = dict(zip(mutants, m.measure([*mutants.values()]), strict=True))
        second = {name: m.confirm(b) for name, b in mutants.items()}
        good = m.confirm(right)
    assert good.ok and {"whole", "special", "fresh", "aligned"} <= set(good.checks), good
    for name, r in first.items():
        assert r.outcome not in REFUSED, (name, r)  # else the mutant belongs to the others
    for name, r in second.items():
        assert r.outcome in REFUSED, (name, r)


@pytest.mark.slow
@pytest.mark.parametrize("name", INTERMITTENT)
def test_what_is_wrong_now_and_then_is_refused(name):
    with Measurer(double(), "cpu", 1, builders=1, deadline_s=5.0) as m:
        bad = INTERMITTENT[name]()
        # the search's check may or may not see it; the second one does
        assert m.measure([bad])[0].outcome in (Outcome.ok, Outcome.slow, Outcome.wrong)
        r = m.confirm(bad)
    assert r.outcome is Outcome.wrong, r


@pytest.mark.slow
def test_a_wrong_result_with_nothing_beside_it_is_wrong_though_it_is_right_again():
    # wrong in its first call only, which is made again in every new process
    with Measurer(double(), "cpu", 1, builders=1) as m:
        (r,) = m.measure([INTERMITTENT["every 2"]()])
    assert r.outcome is Outcome.wrong and not r.cleared


@pytest.mark.slow
def test_what_was_right_alone_after_it_failed_beside_others_is_cleared():
    good = built(text(), "good")
    with Measurer(double(), BesideOthers(), 1, builders=1) as m:
        first, second = m.measure([good, good])
    assert first.ok and not first.cleared
    assert (
        second.outcome in (Outcome.ok, Outcome.slow)
        and second.cleared
        and second.detail.startswith("wrong once beside others, then right in ")
    )
    assert any(c.startswith("repeat") for c in second.checks)


@pytest.mark.slow
def test_a_duel_says_who_was_wrong_in_it():
    bad = INTERMITTENT["every 8"]()
    with Measurer(double(), "cpu", 1, builders=1) as m:
        good = built(text(), "good")
        with pytest.raises(DuelError, match="the second candidate is wrong: after") as e:
            m.duel(good, bad, rounds=9)
        assert e.value.culprit == 1
        with pytest.raises(DuelError, match="the first candidate is wrong: after") as e:
            m.duel(bad, good, rounds=9)
        assert e.value.culprit == 0


def three_products(m: int, k: int, l: int, n: int):
    kb = KernelBuilder("three_products")
    i, p, q, j = kb.axis("m", m), kb.axis("k", k), kb.axis("l", l), kb.axis("n", n)
    a, b, c = kb.input("a", (m, k), float32), kb.input("b", (k, l), float32), kb.input("c", (l, n), float32)
    total = kb.sum("total", (i, j), (p, q), a[i, p] * b[p, q] * c[q, j])
    kb.store("y", float32, (m, n), (i, j), total[i, j])
    return kb.build()


@pytest.mark.slow
@pytest.mark.parametrize("axis", ["k", "l"])
def test_factors_may_meet_in_any_order_that_was_asked_for(axis):
    """Where the largest numbers are among them, they overflow in one order and not in another."""
    kernel = three_products(48, 40, 56, 64)
    with Measurer(kernel, "cpu", 1, builders=1) as m:
        (right,) = dict(m.build([parse(f"W{axis}/factor")])).values()
        r = m.confirm(right)
    assert r.ok and "special" in r.checks, r
