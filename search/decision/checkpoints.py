"""The answer so far, recorded while a search goes on: a search that is killed, or loses its cache, leaves one all the same.

The start schedule answers as soon as it was found right. Then it is checked a second time, when what that needs was prepared beside the
search, and so is the best so far at each quarter of the budget and every half minute where it has changed. It has to beat the
start schedule as the winner has to. What passed is not checked again at the end, and what did not is out at once. The rows say that they are
provisional, and answer only until their search has ended (`cache.choice`)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ...ir.errors import MeasureError
from ...log import logger
from ...opts.opt import short
from ..budget import second_check
from ..deadline import Deadline
from .conclusion import provisional
from .deciding import Deciding
from .finals import Decision, FrontMember
from .second_checks import SecondChecks

if TYPE_CHECKING:
    from collections.abc import Callable

    from ...measure import Measurement
    from ..budget import Meter
    from ..builds.pipeline import MeasurerLike
    from ..remembered.effort import Effort
    from ..remembered.record import Recorder
    from ..result import Job
    from ..run_state import RunState
    from ..space import Schedule
    from .finals import Finalist

log = logger("search")

PARTS = 4
"""The best so far is looked at when each of so many parts of the budget is spent."""
LONGEST_S = 30.0
"""Seconds after which it is looked at in any case."""
SHARE = 0.1
"""Of the budget, at most, is spent on this; but half a minute after the last look it is made in any case."""
_DUELS_S, _DUELS = 0.6, 0.01
"""Seconds that duels with the start schedule may take each time, and the share of the budget."""


class Checkpoints:
    """Those of one search. `checks`: its second checks, which the end of the search needs too."""

    def __init__(self, measurer: MeasurerLike, so_far: RunState, recorder: Recorder, meter: Meter, job: Job, earlier: Effort) -> None:
        self._measurer, self._so_far, self._recorder, self._meter = measurer, so_far, recorder, meter
        self._job, self._earlier = job, earlier
        self.checks = SecondChecks(measurer.confirm, meter.clock)
        self._begun = False
        self._off = False
        self._mark, self._looked_s, self._spent_s = 0, 0.0, 0.0
        self._said: tuple[Schedule, bool] | None = None
        """The last answer that was recorded, and whether it was checked twice."""

    def check_s(self, waited_s: float, cost_s: float) -> float:
        """Seconds that the second check of the best so far will still take; none where it was made."""
        best = self._so_far.best
        if best is not None and self.checks.knows(best.sha):
            return 0.0
        return second_check(self._measurer, waited_s, cost_s, self._so_far.fastest_s)

    def look(self, cost_s: float, fell: Callable[[Measurement], None]) -> None:
        """Record the answer so far if that is due. `cost_s`: what a candidate costs; `fell` is told of those that do not pass."""
        if self._off or self._so_far.best is None or self._so_far.first_is_coming:
            return
        if not self._begun:
            self._begin()
        if self._due():
            self._take(cost_s, fell)

    def _begin(self) -> None:
        """The start schedule was found right: it answers from now on, unless an earlier search's answer does."""
        self._begun, self._looked_s = True, self._meter.elapsed
        start = self._so_far.untuned() or self._so_far.seed() or next(iter(self._so_far.finalists()), None)
        if start is not None and start.measurement.outcome == "ok" and not self._recorder.earlier:
            self._note(Decision(start, seed=start))

    def _due(self) -> bool:
        budget = self._meter.budget
        parts = [self._meter.elapsed / budget.seconds] if budget.seconds is not None else []
        parts += [self._meter.measured / budget.trials] if budget.trials is not None else []
        mark = int(PARTS * max(parts, default=0.0))
        waited = self._meter.elapsed - self._looked_s
        due = mark > self._mark or waited >= LONGEST_S or (self._said is not None and not self.checks and self._prepared())
        if mark >= PARTS or not due:
            return False
        allowed = SHARE * (budget.seconds if budget.seconds is not None else self._meter.elapsed)
        expected = self.checks.last_s or (0.0 if self._prepared() else self._meter.check_s)
        if self._spent_s + expected > allowed and waited < LONGEST_S:
            return False
        self._mark = max(mark, self._mark)
        return True

    def _prepared(self) -> bool:
        """Whether the inputs and references of second checks were made beside the search."""
        left = getattr(self._measurer, "second_left_s", None)
        return left is not None and left(1.0) <= 0.0

    def _take(self, cost_s: float, fell: Callable[[Measurement], None]) -> None:
        Deadline.doing = "the best so far was being checked a second time"
        began, self._looked_s = self._meter.clock(), self._meter.elapsed
        deciding = Deciding(self._measurer, self._so_far, self._recorder, self._meter, cost_s, self.checks)
        duels_s = min(_DUELS_S, _DUELS * (self._meter.budget.seconds or LONGEST_S))
        try:
            if not self.checks and (start := self._so_far.untuned()) is not None:
                decision = self._of_the_start(start)
            else:
                decision = deciding.on_the_way(lambda: began + duels_s - self._meter.clock())
        except MeasureError as e:  # the end of the search will meet it again, and say so
            log.info("the answer so far could not be checked: %s", e)
            self._off = True
            return
        for m in decision.failed:
            log.info("%s did not pass its second check: %s", short(m.opts), m.detail or m.outcome)
            self._so_far.drop(m.opts)
            fell(m)
        self._note(decision)
        self._spent_s += self._meter.clock() - began
        self._looked_s = self._meter.elapsed

    def _of_the_start(self, start: Finalist) -> Decision:
        """The start schedule, checked: whatever else is found has to beat it."""
        checked = self.checks.of(start.built)
        assert checked is not None
        if checked.outcome != "ok":
            return Decision(None, failed=(checked,))
        checks = tuple(dict.fromkeys((*start.measurement.checks, *checked.checks)))
        return Decision(start, confirmed=True, checks=checks, seed=start)

    def _note(self, decision: Decision) -> None:
        """Record an answer that is new."""
        won = decision.winner
        if won is None or (won.measurement.opts, decision.confirmed) == self._said:
            return
        if not decision.confirmed and self._said is not None:
            return  # (it would not answer before one that was checked twice)
        self._said = won.measurement.opts, decision.confirmed
        if self._so_far.aim.front and not decision.front:
            decision = replace(decision, front=(FrontMember(won.measurement, decision.confirmed, decision.checks),))
        provisional(self._job, self._so_far, self._meter, self._recorder, self._earlier, decision)
