"""Made-up spaces are what they say: restricted, with failures, the same for the same seed, different for another."""

from __future__ import annotations

import math

import pytest
from tilewright.search.bench.families import FAMILIES
from tilewright.search.bench.families_more import MORE
from tilewright.search.bench.made_up import made_up
from tilewright.search.strategy import seconds


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


def test_families_have_different_names() -> None:
    assert len({**FAMILIES, **MORE}) == len(FAMILIES) + len(MORE) == 7
