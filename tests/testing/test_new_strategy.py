"""The page docs/new-strategy.md does what it says, and the conformance suite finds strategies that do not."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from tilewright.search import Space, Strategy
from tilewright.search import strategy as registry
from tilewright.testing.strategies import StrategyTestCase

DOC = Path(__file__).resolve().parents[2] / "docs" / "new-strategy.md"


@pytest.fixture(scope="module")
def page() -> dict[str, Any]:
    blocks = re.findall(r"^```python\n(.*?)^```$", DOC.read_text(), re.S | re.M)
    assert len(blocks) == 3
    names: dict[str, Any] = {"__name__": "new_strategy_page"}
    exec(compile("\n".join(blocks), str(DOC), "exec"), names)
    registry._registered.pop("neighbours")
    return names


def promises() -> list[str]:
    return [n for n in dir(StrategyTestCase) if n.startswith("test_")]


@pytest.mark.slow
@pytest.mark.parametrize("promise", [n for n in promises() if "expected" not in n])
def test_the_pages_strategy_keeps_every_promise(page: dict[str, Any], promise: str) -> None:
    case = page["TestNeighbours"]()
    args = [] if "one_schedule" in promise else [StrategyTestCase.space.__wrapped__(case)]
    getattr(case, promise)(*args)


class Broken(Strategy):
    """Asks for the start schedules again and again, and in an order of its own."""

    name = "broken"

    def ask(self, n: int) -> list[Any]:
        self.space.starts()
        return [*self.space.starts(), *self.space.starts()][: n + 1]

    def tell(self, opts: Any, measurement: Any) -> None:
        if measurement.t_min is None:
            raise ValueError("it wants times")


class TestBrokenPromises:
    @pytest.mark.slow
    @pytest.mark.parametrize(
        "promise", ["asks_for_legal_schedules_and_for_none_twice", "failures_only_teach", "in_a_space_of_one_schedule_it_ends"]
    )
    def test_are_found(self, promise: str) -> None:
        class Case(StrategyTestCase):
            def strategy(self, space: Space, *, seed: int = 0, start: Any = ()) -> Strategy:
                return Broken(space, seed=seed, start=start)

        case = Case()
        name = next(n for n in promises() if n.endswith(promise))
        with pytest.raises((AssertionError, ValueError)):
            getattr(case, name)(*([] if "one_schedule" in name else [StrategyTestCase.space.__wrapped__(case)]))
