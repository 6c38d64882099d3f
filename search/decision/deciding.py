"""The end of a search: the best are timed once more side by side, duels decide, and of two objectives a front is drawn."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from ..builds.pipeline import again_on
from .finals import GRACE_S, Decision, Finalist, FrontMember, decide

if TYPE_CHECKING:
    from ...measure import Measurement
    from ..budget import Meter
    from ..builds.pipeline import MeasurerLike
    from ..remembered.record import Recorder
    from ..run_state import RunState
    from ..space import Schedule
    from .second_checks import SecondChecks

LONGEST_S = 20.0
"""Seconds that deciding may take where there is no limit."""


class Deciding:
    """One end of one search; `cost_s`: what a candidate costs, in seconds; `checks`: the second checks."""

    def __init__(
        self,
        measurer: MeasurerLike,
        so_far: RunState,
        recorder: Recorder,
        meter: Meter,
        cost_s: float,
        checks: SecondChecks,
    ) -> None:
        self.checks = checks
        self.measurer, self.so_far, self.recorder, self.meter, self.cost_s = measurer, so_far, recorder, meter, cost_s
        # what searching took of it does not leave a winner unconfirmed
        self.grace_s = min(GRACE_S + meter.share, meter.grace)

    def decide(self, quick: bool) -> Decision:
        """The winner; `quick` trusts single measurements and starts no process."""
        left = (lambda: -1e9) if quick else (lambda: min(self.meter.left, LONGEST_S))
        if not quick:
            self._time_again()
        decision = self._between(left)
        return self._front(decision, left) if self.so_far.aim.front else decision

    def on_the_way(self, left: Callable[[], float]) -> Decision:
        """Who would win now; `left()`: how many seconds remain for duels. Second checks are made however long they take."""
        self.grace_s = math.inf
        decision = self._between(left)
        return self._front(decision, left) if self.so_far.aim.front else decision

    def _time_again(self) -> None:
        """Time the best candidates and seeds once more, side by side: seeds were measured at the start, and the machine may have been
        busier then."""
        again = self.so_far.contenders()
        if not again or 2 * self.cost_s * len(again) > 0.3 * self.meter.left:
            return
        measured = map(self.so_far.aim.scored, again_on(self.measurer)([f.built for f in again]))
        fresh = [self.so_far.finalist(f.built, m) for f, m in zip(again, measured)]
        for f in fresh:
            if f.measurement.outcome not in ("ok", "slow"):
                self.so_far.count(f.measurement)
                self.recorder.add(f.measurement, "again")
        self.so_far.settle(fresh)

    def _between(self, left: Callable[[], float]) -> Decision:
        """Who wins. Where the finalists differ in scratch memory, the fewest bytes win, and a duel is only among equals."""
        so_far, aim = self.so_far, self.so_far.aim
        finalists, seed, untuned = so_far.finalists(), so_far.seed(), so_far.untuned()
        failed: list[Measurement] = []
        while True:
            level = aim.rivals([*finalists, *([seed] if seed is not None else [])])
            here = [f for f in finalists if f in level]
            rival = seed if seed in level else None
            decision = decide(
                self.measurer,
                here,
                rival,
                left,
                check_s=self.meter.check_s,
                grace_s=self.grace_s,
                untuned=untuned if rival is not None and untuned in level else None,
                checks=self.checks,
            )
            failed += decision.failed
            rest = [f for f in finalists if f not in level]
            if decision.winner is not None or not (rest or (seed is not None and rival is None)):
                break
            finalists = rest
            if rival is not None:
                seed = None  # it failed as well
        decision = replace(decision, failed=tuple(failed))
        if rival is None and seed is not None and decision.winner is not None:
            said = f"it needs {decision.winner.measurement.scratch} bytes beside its arguments, the best seed {seed.measurement.scratch}"
            decision = replace(decision, seed=seed, message=said)
        return decision

    def _front(self, decision: Decision, left: Callable[[], float]) -> Decision:
        """With the members of the front, the winner first, each checked a second time where there is time; and with who failed that."""
        won, aim = decision.winner, self.so_far.aim
        if won is None:
            return decision
        out = {m.opts for m in decision.failed}
        second = aim.names[1]
        members: list[FrontMember] = [FrontMember(won.measurement, decision.confirmed, decision.checks)]
        failed: list[Measurement] = []
        for f in self._below(won, second, out):
            if any(aim.value(m.measurement, second) <= aim.value(f.measurement, second) for m in members):
                continue  # (another took the place of one that failed)
            checked = self.checks.of(f.built, left() > -self.grace_s)
            if checked is not None and checked.outcome != "ok":
                failed.append(checked)
                continue
            checks = (*f.measurement.checks, *(checked.checks if checked is not None else ()))
            members.append(FrontMember(f.measurement, checked is not None, tuple(dict.fromkeys(checks))))
        return replace(decision, front=tuple(members), failed=(*decision.failed, *failed))

    def _below(self, won: Finalist, second: str, failed: Collection[Schedule]) -> Sequence[Finalist]:
        """Who is better than the winner in the second objective: the front, and then all others, for the places of those that fail."""
        aim = self.so_far.aim
        better = [
            f
            for f in self.so_far.everybody()
            if f.measurement.opts not in failed and aim.clearly(f.measurement, won.measurement, second) and f is not won
        ]
        members = aim.members(better)
        return [*members, *(f for f in aim.ranked(better) if f not in members)]
