"""The answer of a search, recorded: so far while it goes on, and at its end.

At the end: its result, the winner's row, how thorough it was. While it goes on, `Checkpoints` record the answer so far, so that a search
that is killed, or loses its cache, leaves one all the same. The start schedule answers as soon as it was found right. Then it is checked a
second time, when the inputs for that were prepared in the background, and so is the best so far at each quarter of the budget and every
half minute where it has changed. It has to beat the start schedule as the winner has to. What passed is not checked again at the end, and
what did not is out at once. The rows say that they are provisional, and answer only until their search has ended (`cache.ranking`)."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

from ..cache.objective_types import TIME
from ..cache.rows import OBJECTIVE, PROVISIONAL
from ..ir.errors import MeasureError
from ..log import logger
from ..opts.opt import short
from . import result as results
from .budget import SPENT, second_check
from .finals import GRACE_S, RACE_S, RACING, ROUNDS, Decision, Finalist, FrontMember, SecondChecks, cost, decide, entrants, race_s
from .interrupts import Deadline
from .warm_start import SearchEffort

if TYPE_CHECKING:
    from ..ir.errors import TilewrightError
    from ..measure import Measurement
    from .budget import Meter
    from .cache_recorder import Recorder
    from .candidate_measurer import CandidateMeasurer
    from .result import Job, Result
    from .run_state import RunState
    from .space import Schedule


@dataclass(frozen=True, slots=True)
class Ended:
    """How a search ended: `why` in words, `interrupted`, by a `fault` of the machinery, or `exhausted`: nothing was left to try."""

    why: str = ""
    interrupted: bool = False
    fault: TilewrightError | None = None
    exhausted: bool = False


def snapshot(job: Job, so_far: RunState, m: Measurement, seconds: float) -> Result:
    """The best so far, `m`, after `seconds`."""
    start = so_far.start()
    return results.make(
        job,
        opts=m.opts,
        t_min=m.t_min,
        t_med=m.t_med,
        n=m.n,
        start_opts=None if start is None else start.measurement.opts,
        start_s=None if start is None else start.measurement.t_min,
        counts=dict(so_far.counts),
        seconds=seconds,
        verified=True,
        energy=None if m.energy is None else m.energy.json,
        scratch=m.scratch,
        value=so_far.aim.value(m, so_far.aim.first) if so_far.aim.own is not None else None,
    )


def effort(so_far: RunState, meter: Meter, earlier: SearchEffort, ended: Ended) -> SearchEffort:
    """How thorough all searches of this key were, this one included."""
    budget, spent = meter.budget, meter.elapsed
    if ended.why.startswith(SPENT) and budget.seconds is not None:
        spent = max(spent, budget.seconds)
    gave_up = budget.patience if ended.why.startswith("no gain") and budget.patience else 0
    cut = ended.interrupted or ended.fault is not None
    return earlier.then(SearchEffort(spent, sum(so_far.counts.values()), ended.exhausted, gave_up, cut, _minute(meter)))


def _minute(meter: Meter) -> float:
    return 1.0 if meter.minute is None else meter.minute


def provisional(job: Job, so_far: RunState, meter: Meter, recorder: Recorder, earlier: SearchEffort, decision: Decision) -> None:
    """Record the answer so far of a search that goes on: were it killed now, this would be its answer."""
    won = decision.winner
    assert won is not None
    start_opts, start_s = _start(so_far, decision)
    final = _final(won, so_far, decision, effort(so_far, meter, earlier, Ended(interrupted=True)))
    _recorded(so_far, _OnTheWay(recorder), (start_opts, start_s), decision, final)


class _Winners(Protocol):
    """The part of a Recorder that takes answers."""

    def winner(self, measurement: Measurement, start_opts: Schedule | None, start_s: float | None, final: Mapping[str, Any]) -> None: ...


@dataclass(frozen=True, slots=True)
class _OnTheWay:
    """A recorder whose winners are the answers so far."""

    recorder: Recorder

    def winner(self, measurement: Measurement, start_opts: Schedule | None, start_s: float | None, final: Mapping[str, Any]) -> None:
        self.recorder.winner(measurement, start_opts, start_s, {**final, PROVISIONAL: True})


def _start(so_far: RunState, decision: Decision) -> tuple[Schedule | None, float | None]:
    """The start schedule that was to be beaten, and its seconds. Where one start schedule beat another, the winner is the best of them."""
    won = decision.winner
    start = so_far.start(None if won is None else won.measurement.opts)
    if start is not None and (won is None or start.measurement.opts != won.measurement.opts):
        start = decision.start or start
    return (None, None) if start is None else (start.measurement.opts, start.measurement.t_min)


def _final(won: Finalist, so_far: RunState, decision: Decision, effort: SearchEffort) -> dict[str, Any]:
    """What a winner's row says beside its measurement."""
    is_start = _start(so_far, decision)[0] == won.measurement.opts
    gain = 1.0 if is_start else None if decision.ratio is None else 1 / decision.ratio
    checks = {"confirmed": decision.confirmed, "checks": list(decision.checks or won.measurement.checks)}
    near: dict[str, Any] = {"ties": [t.json for t in decision.ties]} if decision.ties else {}
    near |= {"places": [round(x, 4) for x in decision.places]} if decision.places else {}
    return {"gain": gain, "paired": decision.paired, **checks, "effort": effort.json, **near}


def conclude(
    job: Job, so_far: RunState, meter: Meter, recorder: Recorder, earlier: SearchEffort, decision: Decision, ended: Ended
) -> Result:
    """Record what the finals found, the winner last, and make the result."""
    for m in decision.failed:
        so_far.count(m, "ok")
        recorder.add(m, "confirm")
    won = decision.winner
    start_opts, start_s = _start(so_far, decision)
    code = results.INTERRUPTED if ended.interrupted else results.FOUND if won is not None else results.NOTHING_VALID
    said = [str(ended.fault) if ended.fault else "", ended.why, decision.message]
    if code == results.NOTHING_VALID and not so_far.counts:
        code = results.NOTHING_MEASURED
        said = [ended.why, "no candidate was finished in that time, so nothing is known of any: give it more"]
    common: dict[str, Any] = {
        "start_opts": start_opts,
        "start_s": start_s,
        "plain_s": so_far.plain_s,
        "counts": dict(so_far.counts),
        "repeated": so_far.repeated,
        "history": tuple(so_far.history),
        "message": "; ".join(filter(None, [*said, *so_far.notes])),
        "failures": dict(so_far.failures),
        "earlier": earlier.candidates,
        "minute": None if ended.exhausted else _minute(meter),
        "exit_code": code,
    }
    if won is None:
        return results.make(job, seconds=meter.elapsed, **common)
    m = won.measurement
    final = _final(won, so_far, decision, effort(so_far, meter, earlier, ended))
    told = _recorded(so_far, recorder, (start_opts, start_s), decision, final)
    return results.make(
        job,
        opts=m.opts,
        t_min=m.t_min,
        t_med=m.t_med,
        n=m.n,
        seconds=meter.elapsed,
        verified=True,
        confirmed=decision.confirmed,
        significant=decision.significant and m.opts != start_opts,
        gain=final["gain"],
        ties=tuple(final.get("ties", ())),
        places=tuple(final.get("places", ())),
        source_sha=m.sha,
        **told,
        **common,
    )


def _recorded(
    so_far: RunState,
    recorder: _Winners,
    start: tuple[Schedule | None, float | None],
    decision: Decision,
    final: dict[str, Any],
) -> dict[str, Any]:
    """Write the winner's row, last, before it those of a front's other members; what a result says beside its times."""
    assert decision.winner is not None
    aim, m = so_far.aim, decision.winner.measurement
    untuned = so_far.start(start[0])
    known = untuned is not None and not aim.front and aim.text != TIME and aim.able(untuned.measurement)
    value = aim.value(untuned.measurement, aim.first) if known and untuned is not None else None
    if value is not None:
        final = {**final, "start_value": value}
    for member in reversed(decision.front):
        checked = {"confirmed": member.confirmed, "checks": list(member.checks or member.measurement.checks)}
        recorder.winner(member.measurement, *start, {**final, **checked})
    if aim.front and aim.first == TIME:
        # duels found it the fastest, so it answers who asks for that; half of the search was for it
        spent = {k: v / 2 if k == "seconds" else v // 2 if k == "candidates" else v for k, v in final["effort"].items()}
        recorder.winner(m, *start, {**final, OBJECTIVE: TIME, "effort": {**spent, "complete": False}})
    elif not aim.front:
        recorder.winner(m, *start, final)
    return {
        "energy": None if m.energy is None else m.energy.json,
        "scratch": m.scratch,
        "value": aim.value(m, aim.first) if aim.own is not None else None,
        "start_value": value,
        "front": tuple(results.member(f.measurement, f.confirmed) for f in sorted(decision.front, key=lambda f: aim.values(f.measurement))),
    }


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

    def __init__(
        self, measurer: CandidateMeasurer, so_far: RunState, recorder: Recorder, meter: Meter, job: Job, earlier: SearchEffort
    ) -> None:
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
        start = self._so_far.untuned() or self._so_far.start() or next(iter(self._so_far.finalists()), None)
        if start is not None and start.measurement.outcome == "ok" and not self._recorder.earlier:
            self._note(Decision(start, start=start))

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
        expected = self.checks.last_s or self._meter.check_s
        if self._spent_s + expected > allowed and waited < LONGEST_S:
            return False
        self._mark = max(mark, self._mark)
        return True

    def _prepared(self) -> bool:
        """Whether the inputs and references of second checks were made in the background."""
        return self._measurer.second_left_s(1.0) <= 0.0

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
        return Decision(start, confirmed=True, checks=checks, start=start)

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


DECIDING_S = 20.0
"""Seconds that deciding may take where there is no limit, at most."""
DECIDING = 1 / 3
"""Share of what the search took, which is enough for it then (one that has a limit leaves a fifth of it, `Meter.reserve`)."""


class Deciding:
    """One end of one search; `cost_s`: what a candidate costs, in seconds; `checks`: the second checks."""

    def __init__(
        self,
        measurer: CandidateMeasurer,
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
        """The winner; `quick` takes the comparisons that were made and starts no process."""
        most_s = -1e9 if quick else self._most(self.meter.elapsed)
        if not quick:
            self._time_again(min(self.meter.left, most_s))

        def left() -> float:
            return min(self.meter.left, most_s)

        decision = self._between(left)
        return self._front(decision, left) if self.so_far.aim.front else decision

    @property
    def _races(self) -> bool:
        """Whether all finalists are compared in common rounds."""
        return self.measurer.races and all(f.instead is None for f in self.so_far.finalists())

    def _most(self, spent_s: float) -> float:
        """Seconds that deciding may take after a search of `spent_s`."""
        best, start = next(iter(self.so_far.finalists()), None), self.so_far.start()
        if self.meter.budget.seconds is not None or best is None or start is None:
            return DECIDING_S
        race = min(RACE_S, race_s(entrants([start], self.so_far.finalists()))) / RACING if self._races else 0.0
        return min(DECIDING_S, max(DECIDING * spent_s, ROUNDS * cost(best, start), race) + self.meter.check_s)

    def on_the_way(self, left: Callable[[], float]) -> Decision:
        """Who would win now; `left()`: how many seconds remain for duels. Second checks are made however long they take."""
        self.grace_s = math.inf
        decision = self._between(left)
        return self._front(decision, left) if self.so_far.aim.front else decision

    def _time_again(self, left_s: float) -> None:
        """Time the best candidates and start schedules once more, side by side: start schedules were measured at the start, and the machine may have been
        busier then. Where there is time for few of them, a race of more says more. `left_s`: seconds until the end of all."""
        sizes = (False,) if self._races else (False, True)
        fitting = (c for few in sizes if 2 * self.cost_s * len(c := self.so_far.contenders(few)) < 0.3 * left_s)
        again = next(fitting, self.so_far.contenders(few=True) if self.meter.budget.seconds is None and not self._races else [])
        if not again:
            return
        measured = map(self.so_far.aim.scored, self.measurer.again([f.built for f in again]))
        fresh = [self.so_far.finalist(f.built, m) for f, m in zip(again, measured)]
        for f in fresh:
            if f.measurement.outcome not in ("ok", "slow"):
                self.so_far.count(f.measurement, "ok")
                self.recorder.add(f.measurement, "again")
        self.so_far.settle(fresh)

    def _between(self, left: Callable[[], float]) -> Decision:
        """Who wins. Where the finalists differ in what is not compared in pairs, such as scratch memory, the least wins, and a duel is only among
        equals."""
        so_far, aim = self.so_far, self.so_far.aim
        finalists, start, untuned = so_far.finalists(), so_far.start(), so_far.untuned()
        failed: list[Measurement] = []
        while True:
            level = aim.rivals([*finalists, *([start] if start is not None else [])])
            here = [f for f in finalists if f in level]
            rival = start if start in level else None
            decision = decide(
                self.measurer,
                here,
                rival,
                left,
                check_s=self.meter.check_s,
                grace_s=self.grace_s,
                untuned=untuned if rival is not None and untuned in level else None,
                checks=self.checks,
                quick=so_far.quick_start(),
                length=so_far.length,
            )
            failed += decision.failed
            rest = [f for f in finalists if f not in level]
            if decision.winner is not None or not (rest or (start is not None and rival is None)):
                break
            finalists = rest
            if rival is not None:
                start = None  # it failed as well
        decision = replace(decision, failed=tuple(failed))
        if rival is None and start is not None and decision.winner is not None:
            least, other = (aim.value(f.measurement, aim.first) for f in (decision.winner, start))
            said = f"its {aim.first} is {aim.said(least)}, the best start schedule's {aim.said(other)}"
            decision = replace(decision, start=start, message=said)
        if aim.own is not None and decision.winner is not None and start is not None:
            least, other = (aim.value(f.measurement, aim.first) for f in (decision.winner, start))
            decision = replace(decision, ratio=least / other if 0 < other < math.inf else None, paired=False)
        return decision

    def _front(self, decision: Decision, left: Callable[[], float]) -> Decision:
        """The result with the members of the front, the winner first, each checked again where there is time; and with who failed that."""
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
