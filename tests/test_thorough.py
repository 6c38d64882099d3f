"""Which cases of a test with many of them `make test` takes."""

from __future__ import annotations

import re
from itertools import combinations, product
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from thorough import COSTS, ENOUGH_S, amount, covering, spread

SIZES = {"a": 5, "b": 3, "c": 4}
CASES = [[("a", a), ("b", b), ("c", c)] for a, b, c in product(*map(range, SIZES.values()))]


def test_every_value_is_in_as_few_cases_as_can_be() -> None:
    kept = covering(CASES)
    assert {x for i in kept for x in CASES[i]} == {x for case in CASES for x in case} and len(kept) == 5
    assert kept == covering(CASES) and covering([]) == [] and covering([[]]) == []


def test_values_are_taken_about_equally_often() -> None:
    cases = [[("name", n), ("target", t)] for n in range(40) for t in range(4)]
    targets = [dict(cases[i])["target"] for i in covering(cases)]
    assert len(targets) == 40 and {targets.count(t) for t in range(4)} == {10}


def test_every_pair_is_in_some_case() -> None:
    kept = covering(CASES, pairs=True)
    found = {p for i in kept for p in combinations(CASES[i], 2)}
    assert found == {p for case in CASES for p in combinations(case, 2)} and 20 <= len(kept) < 30


def test_of_n_times_the_time_the_root_of_n_is_taken() -> None:
    assert spread(5, ENOUGH_S / 5) == [0, 1, 2, 3, 4] and spread(1, 100.0) == [0]
    assert spread(64, ENOUGH_S / 4) == [2, 6, *range(10, 64, 4)] and spread(7, 100.0) == [3]


def test_a_cost_is_of_a_test_that_is_there() -> None:
    root = Path(__file__).parents[1]
    text = {file: (root / file).read_text() for file in {name.partition("::")[0] for name in COSTS}}
    assert [n for n in COSTS if not re.search(rf"\b{n.split('::')[1]}\b", text[n.partition("::")[0]])] == []


@pytest.mark.parametrize(("asked", "thorough", "want"), [(0, False, 2), (0, True, 6), (9, False, 9), (9, True, 9)])
def test_how_many_examples(asked: int, thorough: bool, want: int) -> None:
    options: dict[str, Any] = {"--examples": asked, "--thorough": thorough}
    request: Any = SimpleNamespace(config=SimpleNamespace(getoption=options.__getitem__))
    assert amount(request, 2, 6) == want
