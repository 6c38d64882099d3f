"""Every statistic, read by every two readers; and the metamorphic rules."""

from __future__ import annotations

from dataclasses import replace

import pytest
from thorough import amount

from .check import check
from .pairs import SHAPES, STATISTICS, programs
from .rules import cases
from .rules import check as holds


@pytest.mark.many
@pytest.mark.parametrize("way", ["jit", "grad"])
@pytest.mark.parametrize("statistic", list(STATISTICS))
@pytest.mark.covering
def test_two_readers_of_a_statistic(request: pytest.FixtureRequest, statistic: str, way: str) -> None:
    """In the quick run each pair in one way and with every third statistic, and so every pair in some."""
    shapes = SHAPES[: amount(request, 1, len(SHAPES))]
    every = amount(request, 2, 1)
    found = [(name, p) for name, p in programs(shapes) if name.startswith(f"{statistic}:")]
    kept = found[list(STATISTICS).index(statistic) % every :: every]
    wrong = [f"{name}: {message}" for name, p in kept if (message := check(replace(p, how=(("way", way),))))]
    assert not wrong, f"{len(wrong)} of {len(kept)}: " + "\n".join(wrong[:10])


@pytest.mark.many
@pytest.mark.parametrize(("rule", "name"), cases())
@pytest.mark.covering(each=2)
def test_rules_hold(rule: str, name: str) -> None:
    for shape in ((7, 12), (16, 33), (1, 5)):
        for dtype in ("float32", "float64", "bfloat16"):
            assert not holds(rule, name, shape, dtype), (shape, dtype)


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for rule, name in cases() if rule == "scaled by 4"])
def test_powers_of_two_pass_through_exactly(name: str) -> None:
    assert not holds("scaled by 4", name, (16, 33), "float32", "native")
