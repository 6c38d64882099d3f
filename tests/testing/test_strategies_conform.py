"""Every strategy of ours keeps what `testing.strategies` says that strategies promise."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from tilewright.search import Space, Strategy, create, names
from tilewright.search.strategies.optuna_samplers import KINDS
from tilewright.testing.strategies import StrategyTestCase

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "search"))
from synthetic import Matmulish

MISSING = {f"optuna:{k.name}" for k in KINDS.values() if any(find_spec(p) is None for p in k.needs)}


class Synthetic(StrategyTestCase):
    """On a made-up kernel, which takes no time."""

    name: str

    def strategy(self, space: Space, *, seed: int = 0, start: Sequence[Any] = ()) -> Strategy:
        return create(self.name, space, seed=seed, start=start)

    @pytest.fixture
    def space(self) -> Space:
        return Space(Matmulish(True, True))


OURS = names()
for _name in OURS:
    if _name not in MISSING:
        _title = "Test" + "".join(part.title() for part in _name.replace(":", " ").split())
        globals()[_title] = type(_title, (Synthetic,), {"name": _name, "__module__": __name__})


@pytest.mark.slow
class TestOnAKernel(StrategyTestCase):
    """The suite's own space."""

    def strategy(self, space: Space, *, seed: int = 0, start: Sequence[Any] = ()) -> Strategy:
        return create("evolve", space, seed=seed, start=start)


def test_all_of_ours_are_here() -> None:
    here = {c.name for n, c in globals().items() if n.startswith("Test") and issubclass(c, Synthetic)}
    assert here == set(OURS) - MISSING and {"portfolio", "beam", "choices"} <= here
