"""What every strategy promises, as tests that its author inherits.

    class TestMine(StrategyTestCase):
        def strategy(self, space, *, seed=0, start=()):
            return Mine(space, seed=seed, start=start)

`strategy.Strategy` says what is asked when; `docs/new-strategy.md` shows a whole one."""

from __future__ import annotations

import functools
import hashlib
import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from ..search.space import Schedule, Space
    from ..search.strategy import Strategy

FAILURES = ("wrong", "crash", "timeout", "build", "illegal")
SIZES = {"m": 64, "n": 64, "k": 64}


@dataclass(frozen=True, slots=True)
class ToldResult:
    """A measurement as a strategy is told it: `t_min` in seconds, None of a failure."""

    outcome: str
    t_min: float | None


class StrategyTestCase:
    """Derive a class whose name begins with Test, and give it `strategy`. `least`: schedules that it asks for at least in a search of 60
    measurements."""

    least: int = 20

    @abstractmethod
    def strategy(self, space: Space, *, seed: int = 0, start: Sequence[Schedule] = ()) -> Strategy:
        """A fresh strategy, as `search.strategy.create` makes it."""

    @pytest.fixture
    def space(self) -> Space:
        """What is searched: by default a product of matrices on a processor that need not be here, with options and templates."""
        from ..named_kernels import make
        from ..search.space import OptEngine, Space
        from ..targets import named

        return Space(OptEngine(make("matmul", SIZES, "float32"), named("x86-64-v3"), 1))

    def seconds(self, space: Space, opts: Schedule) -> float:
        """What a schedule takes: the model's guess, up to a fifth off, always the same for the same schedule."""
        state = space.state(opts)
        assert state is not None, f"{opts} is not legal: {space.reason(opts)}"
        odd = hashlib.sha256(state.hash.encode()).digest()[0] / 255
        return float(state.estimate) * (0.8 + 0.4 * odd)

    # driving it -----------------------------------------------------------------------------------------------------
    def searched(self, space: Space, trials: int, seed: int = 0, batch: int = 6) -> list[tuple[Schedule, float]]:
        """(schedule, seconds) of all that a search of `trials` measurements makes, the start schedules first."""
        s = self.begun(space, seed)
        s.expect(trials)
        found = [(opts, self.seconds(space, opts)) for opts in s.start]
        while len(found) < trials and not s.done:
            asked = s.ask(min(batch, trials - len(found)))
            if not asked:
                break
            for opts in asked:
                found.append((opts, self.seconds(space, opts)))
                s.tell(opts, ToldResult("ok", found[-1][1]))
        s.close()
        return found

    def begun(self, space: Space, seed: int = 0) -> Strategy:
        """A strategy that was told of the start schedules."""
        start = space.starts()[:4]
        s = self.strategy(space, seed=seed, start=start)
        for opts in start:
            s.tell(opts, ToldResult("ok", self.seconds(space, opts)))
        return s

    # the promises ---------------------------------------------------------------------------------------------------
    def test_it_asks_for_legal_schedules_and_for_none_twice(self, space: Space) -> None:
        s, seen = self.begun(space, 3), set[str]()
        for _ in range(10):
            asked = s.ask(6)
            assert len(asked) <= 6, "ask(n) gives n schedules at most"
            for opts in asked:
                state = space.state(opts)
                assert state is not None, f"{opts} is not legal: {space.reason(opts)}"
                assert state.hash not in seen, f"{opts} was asked for before"
                seen.add(state.hash)
                s.tell(opts, ToldResult("ok", self.seconds(space, opts)))
        assert len(seen) >= self.least

    def test_the_same_seed_and_tells_give_the_same_asks(self, space: Space) -> None:
        assert self.searched(space, 30, seed=5) == self.searched(space, 30, seed=5)

    def test_it_may_be_asked_again_before_it_is_told(self, space: Space) -> None:
        """The next batch is built while the present one is timed."""
        s, waiting, asked = self.begun(space, 1), list[tuple[object, ...]](), 0
        for _ in range(6):
            ahead = s.ask(4)
            asked += len(ahead)
            for opts in waiting:
                s.tell(opts, ToldResult("ok", self.seconds(space, opts)))  # type: ignore[arg-type]
            waiting = list(ahead)
        assert asked >= self.least // 2

    def test_failures_only_teach(self, space: Space) -> None:
        """Every third candidate fails in some way, and the search goes on."""
        s, count = self.begun(space, 2), 0
        for _ in range(10):
            for opts in s.ask(6):
                count += 1
                failed = count % 3 == 0
                s.tell(opts, ToldResult(FAILURES[count % 5], None) if failed else ToldResult("ok", self.seconds(space, opts)))
        assert count >= self.least

    def test_it_hears_of_schedules_that_it_did_not_ask_for(self, space: Space) -> None:
        """Those of other strategies in a portfolio, of earlier searches, and illegal ones."""
        from ..opts.opt import opt

        s = self.begun(space)
        for start in space.starts()[4:8]:
            s.tell(start, ToldResult("slow", self.seconds(space, start)))
        s.tell((opt("UPCAST", "no such axis", 4),), ToldResult("illegal", None))
        s.tell((), ToldResult("timeout", None))
        assert isinstance(s.ask(3), list)

    def test_without_start_schedules_and_when_all_fails_it_ends_or_goes_on(self, space: Space) -> None:
        s = self.strategy(space)
        for _ in range(5):
            for opts in s.ask(4):
                s.tell(opts, ToldResult("crash", None))
        assert s.done in (True, False)

    def test_in_a_space_of_one_schedule_it_ends(self) -> None:
        space = _one_schedule_space()
        s = self.strategy(space)
        for _ in range(40):
            for opts in s.ask(4):
                assert opts == ()
                s.tell(opts, ToldResult("ok", 1e-3))
        assert not s.ask(4)

    @pytest.mark.parametrize("trials", [0.0, 1.0, 7.5, math.inf])
    def test_any_number_of_trials_may_be_expected(self, space: Space, trials: float) -> None:
        s = self.begun(space)
        s.expect(trials)
        assert len(s.ask(1)) <= 1
        s.expect(2 * trials)
        s.close()

    def test_it_learns_something(self, space: Space) -> None:
        """The best of a search is better than half of what it looked at."""
        times = sorted(t for _, t in self.searched(space, 60))
        assert times[0] < times[len(times) // 2]


@functools.cache
def _one_schedule_space() -> Space:
    from ..search.bench.recording import RecordedEntry, Recording
    from ..search.space import Space

    return Space(Recording({}, ((),), (RecordedEntry((), "alone", 1e-3, "ok", 1e-3),)))
