"""How much of a test `make test` takes: fewer random examples than `make test-thorough`, and of tests with many cases
those that have every value of every parameter once.

`@pytest.mark.covering` keeps a covering set of a test's cases (each value of each parameter, or with `pairs=True` each
pair of values of two; with `each=n` every n-th of them, where other tests look at the same in another way). That finds what one value, or two together, break: most faults of software that has parameters
(Kuhn, Wallace and Gallo, Software Fault Interactions and Implications for Software Testing, 2004)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from itertools import combinations
from typing import Any

import pytest

Values = Sequence[tuple[str, Hashable]]


def amount(request: pytest.FixtureRequest, few: int, many: int) -> int:
    """Random examples of a test: as many as `--examples` says, else `many` with `--thorough`, else `few`."""
    config = request.config
    return int(config.getoption("--examples")) or (many if config.getoption("--thorough") else few)


def covering(cases: Sequence[Values], pairs: bool = False) -> list[int]:
    """Positions of cases that together have every value (or every pair of values of two parameters) that any case has:
    greedily, the one with most that is new, and of those the one whose values were taken least. Always the same ones."""
    wanted = [{*combinations(sorted(v, key=lambda x: x[0]), 2)} if pairs and len(v) > 1 else {*v} for v in cases]
    missing: set[Any] = set().union(*wanted)
    used: Counter[Hashable] = Counter()
    kept: list[int] = []
    while missing:
        at = max(range(len(cases)), key=lambda i: (len(wanted[i] & missing), -sum(used[x] for x in cases[i]), -i))
        missing -= wanted[at]
        used.update(cases[at])
        kept.append(at)
    return sorted(kept)


def values(item: pytest.Item) -> Values:
    """The parameters of a case; what has no value of its own to compare is itself."""
    params = item.callspec.params if hasattr(item, "callspec") else {}
    return [(name, v if isinstance(v, str | int | float | bool | type(None)) else id(v)) for name, v in params.items()]


def left_out(items: Sequence[pytest.Item]) -> list[pytest.Item]:
    """Cases beyond the covering set of tests that are marked so."""
    tests: dict[tuple[str, str], list[pytest.Item]] = {}
    for item in items:
        if item.get_closest_marker("covering"):
            tests.setdefault((str(item.path), getattr(item, "originalname", item.name)), []).append(item)
    out: list[pytest.Item] = []
    for cases in tests.values():
        mark = cases[0].get_closest_marker("covering")
        how = mark.kwargs if mark else {}
        kept = {*covering([values(c) for c in cases], how.get("pairs", False))[:: how.get("each", 1)]}
        out += [c for i, c in enumerate(cases) if i not in kept]
    return out
