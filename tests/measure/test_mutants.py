"""A verifier that lets a planted fault pass is broken: every mutant must be refused, every right candidate accepted."""

import pytest
from mutants import GROUPS
from tilewright.measure import Measurer, Outcome

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
