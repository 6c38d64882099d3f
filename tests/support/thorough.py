"""How much of a test `make test` takes: fewer random examples than `make test-thorough`, and fewer cases of tests that have many.

`@pytest.mark.covering` keeps a covering set of a test's cases (each value of each parameter, or with `pairs=True` each
pair of values of two; with `each=n` every n-th of them, where other tests look at the same in another way). That finds what one value, or two
together, break: most faults of software that has parameters (Kuhn, Wallace and Gallo, Software Fault Interactions and Implications for Software Testing, 2004).

Of a test whose cases together take more than ENOUGH_S of a core, `make test` takes some that lie evenly among them: so many
that n times the time becomes √n times. costs.json has the seconds of a core that a case takes (`python
benchmarks/durations.py --write`); a test that is not there is taken whole."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Hashable, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

ENOUGH_S = 0.1
COSTS_FILE = Path(__file__).with_name("costs.json")
COSTS: dict[str, float] = json.loads(COSTS_FILE.read_text())

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
        new = [len(w & missing) for w in wanted]
        most = max(new)
        at = min((i for i, n in enumerate(new) if n == most), key=lambda i: (sum(used[x] for x in cases[i]), i))
        missing -= wanted[at]
        used.update(cases[at])
        kept.append(at)
    return sorted(kept)


def values(item: pytest.Item) -> Values:
    """The parameters of a case; what has no value of its own to compare is itself."""
    params = item.callspec.params if hasattr(item, "callspec") else {}
    return [(name, v if isinstance(v, str | int | float | bool | type(None)) else id(v)) for name, v in params.items()]


def spread(count: int, cost_s: float) -> list[int]:
    """Positions of as many of `count` cases, each of which takes `cost_s`, as `make test` takes: at least one."""
    kept = math.ceil(count * math.sqrt(ENOUGH_S / max(count * cost_s, ENOUGH_S)))
    return [(2 * k + 1) * count // (2 * kept) for k in range(kept)]


def left_out(items: Sequence[pytest.Item]) -> list[pytest.Item]:
    """The cases that `make test` leaves out."""
    tests: dict[str, list[pytest.Item]] = {}
    for item in items:
        tests.setdefault(item.nodeid.partition("[")[0], []).append(item)
    out: list[pytest.Item] = []
    for name, cases in tests.items():
        kept = range(len(cases))
        if mark := cases[0].get_closest_marker("covering"):
            kept = covering([values(c) for c in cases], mark.kwargs.get("pairs", False))[:: mark.kwargs.get("each", 1)]
        kept = {kept[i] for i in spread(len(kept), COSTS.get(name, 0.0))}
        out += [c for i, c in enumerate(cases) if i not in kept]
    return out
