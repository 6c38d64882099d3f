"""Made-up spaces are what they say: restricted, with failures, the same for the same seed, different for another."""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import Any

import pytest
from tilewright.search.bench.space_files import packaged
from tilewright.search.strategy import seconds

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "benchmarks"))
from parts.made_up_spaces import FAMILIES, MORE, PACKAGED, RUGGED, UNSEEN, WHOLE, WHOLE_SPACES, Columns, made_up, thinned, together


@pytest.mark.slow
@pytest.mark.parametrize("family", ["filtering", "bodies"])
def test_a_space(family: str) -> None:
    one, again, other = made_up(family, 3), made_up(family, 3), made_up(family, 4)
    assert one == again
    assert [e.t_min for e in one.entries] != [e.t_min for e in other.entries]
    (template,) = one.templates()
    assert len(one.entries) < math.prod(len(v) for v in template.params.values()), "restrictions"
    times = sorted(seconds(e) for e in one.entries)
    assert times[-1] == math.inf, "failures"
    assert times[len(times) // 2] > 1.1 * times[0], "worth a search"
    assert all(e.cost_s > 0 for e in one.entries)


@pytest.mark.slow
@pytest.mark.parametrize("family", RUGGED)
def test_a_rugged_space(family: str) -> None:
    space = made_up(family, 3)
    valid = sorted(t for e in space.entries if (t := seconds(e)) < math.inf)
    assert len(valid) < len(space.entries), "failures"
    assert valid[len(valid) // 2] > 1.1 * valid[0], "worth a search"


def test_families_have_different_names() -> None:
    every = (FAMILIES, MORE, RUGGED, WHOLE_SPACES, UNSEEN)
    assert len({name for some in every for name in some}) == sum(map(len, every)) == 17


@pytest.mark.slow
@pytest.mark.parametrize("family", ["convolving", "shifting", *UNSEEN])
def test_a_whole_space_has_what_the_restrictions_leave(family: str) -> None:
    space = made_up(family, 3)
    (template,) = space.templates()
    assert 3_000 < len(space.entries) <= WHOLE
    valid = sorted(t for e in space.entries if (t := seconds(e)) < math.inf)
    assert valid[len(valid) // 2] > 1.1 * valid[0], "worth a search"
    of = {tuple(e.params[k] for k in template.params): seconds(e) for e in space.entries}
    lowest = 0
    some = [k for k, t in of.items() if t < math.inf][::50]
    for at in some:
        beside = [(*at[:i], v, *at[i + 1 :]) for i, vs in enumerate(template.params.values()) for v in vs if v != at[i]]
        there = [of[b] for b in beside if b in of]
        assert len(there) > 3, "its neighbours are in the space"
        lowest += of[at] <= min(there)
    assert lowest < 0.1 * len(some), "there are few valleys"


def test_what_parameters_do_together_has_the_size_that_was_asked_for() -> None:
    import numpy as np

    a, b, d = (v.ravel() for v in np.meshgrid(np.arange(20.0), np.arange(5.0), np.arange(2.0)))
    c = {"a": a, "b": b, "d": d, "one": np.ones(200)}
    log = together(c, np.random.default_rng(1), 0.1)
    assert log.std() == pytest.approx(0.1) and abs(log.mean()) < 1e-9
    assert (log == together(c, np.random.default_rng(1), 0.1)).all()


def test_a_thinned_space_has_every_neighbour() -> None:
    import numpy as np

    def keep(c: Columns) -> Any:
        return c["a"] + c["b"] <= 25

    values = {"a": range(30), "b": range(30), "c": range(30), "d": range(4)}
    found = thinned(values, keep, np.random.default_rng(0))
    points = set(zip(*(found[k].tolist() for k in values)))
    assert WHOLE / 4 < len(points) <= WHOLE
    left = [sorted(set(found[k])) for k in values]
    assert points == {(a, b, c, d) for a in left[0] for b in left[1] for c in left[2] for d in left[3] if a + b <= 25}


@pytest.mark.slow
def test_the_packaged_spaces_are_those_that_are_made_up() -> None:
    there = packaged()
    assert set(there) == {f"{family}-{seed}" for family, seeds in PACKAGED.items() for seed in seeds}
    made = made_up("filtering", 101)
    assert there["filtering-101"].about == made.about
    for ours, theirs in zip(there["filtering-101"].entries, made.entries, strict=True):
        assert (ours.opts, ours.params, ours.outcome) == (theirs.opts, theirs.params, theirs.outcome)
        assert (ours.t_min or 0.0) == pytest.approx(theirs.t_min or 0.0, rel=1e-6) and ours.cost_s == pytest.approx(theirs.cost_s, rel=1e-6)
