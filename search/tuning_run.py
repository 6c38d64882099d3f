"""The tuning run: ask, apply, drop what is known, rank, build, drop what is known by source, measure, tell, record, report.

Start schedules go first, so that there is an answer early; nothing a candidate does ends the run, and neither does Ctrl-C lose its best."""

from __future__ import annotations

import dataclasses
import math
import time
from collections import deque
from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, Any

from ..ir.errors import MeasureError, TilewrightError
from ..ir.units import duration
from ..log import logger
from ..measure.outcome import Measurement, Outcome
from ..opts.opt import short
from .cache_recorder import NoRecord
from .conclusion import Checkpoints, Deciding, Ended, conclude, snapshot
from .finals import Decision
from .interrupts import Deadline, OutOfTime, hold
from .objective import SearchObjective
from .run_state import Asked, RunState, Start
from .strategy import BUSY, Strategy, ask, asker, seconds
from .warm_start import NOTHING, EarlierMeasurements, SearchEffort

if TYPE_CHECKING:
    from ..measure import Measurement
    from .budget import Meter
    from .cache_recorder import Recorder
    from .candidate_measurer import CandidateBuilds, CandidateMeasurer
    from .machine_limits import RemeasuredLimits
    from .progress import Progress
    from .result import Job, Result
    from .space import Schedule, Space, State


# build pipeline -------------------------------------------------------------------------------------------------------
#
# What is built when: builds run ahead while the main thread times what is ready, and long code is put off.
#
# The measurer's builders are processes that work on while it times something; it decides itself when they may use the
# cores. The `Pipeline` is only the queue: what is handed to the builders, what has come back, and how long to wait
# for it. Everything happens in the main thread, which is where Ctrl-C arrives.
#
# The time of a build grows with the code that it writes, which is known without lowering; how long one instruction
# takes is learned from the builds. A schedule that takes a good share of the search to build must not come before
# dozens of others, so it is built when there is nothing else to do. Nothing is put off without a limit on seconds.


_LOOK_S = 0.05
"""Seconds after which all batches are looked at again, where no builder says anything."""


class Pipeline:
    """Schedules in, builds (or failed measurements) out, as they finish. One that takes long holds up no others."""

    def __init__(self, measurer: CandidateMeasurer, clock: Callable[[], float] = time.monotonic) -> None:
        self._measurer, self._clock = measurer, clock
        self._batches: deque[tuple[list[Schedule], CandidateBuilds]] = deque()
        self._ready: deque[tuple[Schedule, Any]] = deque()
        self.pending = 0
        """Schedules submitted and not taken yet."""

    def submit(self, schedules: Sequence[Schedule]) -> None:
        """Hand schedules to the builders."""
        if schedules:
            batch = list(schedules)
            self.pending += len(batch)
            self._batches.append((batch, self._measurer.build(batch)))

    def take(self, least: int, most: int, wait_s: float, limit_s: float = math.inf) -> list[tuple[Schedule, Any]]:
        """At least one finished build where any is pending and finished within `limit_s` seconds: as many as are there, and `least` if
        they come within `wait_s` seconds, at most `most`."""
        began = self._clock()
        while True:
            self._gather()
            spent = self._clock() - began
            if len(self._ready) >= min(least, most) or not self._batches or spent > (wait_s if self._ready else limit_s):
                break
            self._batches[0][1].wait(min(_LOOK_S, max(wait_s, 0.001)))
        out = [self._ready.popleft() for _ in range(min(most, len(self._ready)))]
        self.pending -= len(out)
        return out

    def _gather(self) -> None:
        """What is finished of all batches."""
        for batch, builds in self._batches:
            self._ready += [(batch[i], made) for i, made in builds.finished(0.0)]
        self._batches = deque((batch, builds) for batch, builds in self._batches if len(builds))

    def close(self) -> None:
        """Drop what is pending."""
        for _, builds in self._batches:
            builds.close()
        self._batches.clear()
        self._ready.clear()
        self.pending = 0


BUILD_SHARE = 1 / 40
"""Of a search's seconds, what one build may take."""
PRIOR_S = 0.25e-3
"""Seconds an instruction, while no build has told."""
GROWTH = 2.0
"""Code of up to so many times the best one's length is built in any case: it may be better for the same reason."""
_LEARNT = 15
"""Builds that tell what an instruction takes."""


class DeferredBuilds:
    """What is put off in one search of `seconds` (None: no limit)."""

    def __init__(self, space: Space, seconds: float | None) -> None:
        self._space, self._limit_s = space, None if seconds is None else BUILD_SHARE * seconds
        self._paces: deque[float] = deque(maxlen=_LEARNT)
        self._later: list[State] = []
        self._lengths: dict[Schedule, float] = {}

    def learn(self, opts: Schedule, built: Any) -> None:
        """What a build took, if it was one (and not an object from the store)."""
        seconds = sum(float(getattr(built, name, 0.0)) for name in ("lower_s", "render_s", "build_s"))
        size = self._code_size(opts) if self._limit_s is not None and getattr(built, "build_s", 0.0) > 0.0 else 0.0
        if size > 0.0:
            self._paces.append(seconds / size)

    def sift(self, fresh: Sequence[State], keep: Collection[Schedule] = (), best: Schedule | None = None) -> list[State]:
        """Those to build now, in order. Those to `keep` are never put off, nor what is not much longer than `best`."""
        if self._limit_s is None:
            return list(fresh)
        most = self._limit_s / self._pace_s
        most = max(most, GROWTH * (self._code_size(best) if best is not None else 0.0))
        now = [s for s in fresh if s.opts in keep or self._code_size(s.opts) <= most]
        self._later += [s for s in fresh if s not in now]
        return now

    @property
    def _pace_s(self) -> float:
        """Seconds an instruction: the upper quartile, since code with borders is written several times, and what has none says nothing of it."""
        return sorted(self._paces)[3 * len(self._paces) // 4] if self._paces else PRIOR_S

    def resume(self, pipe: Pipeline, count: int) -> bool:
        """Hand up to `count` of those that were put off to the builders, the shortest first; False where there are none."""
        self._later.sort(key=lambda s: self._code_size(s.opts))
        back, self._later = self._later[:count], self._later[count:]
        pipe.submit([s.opts for s in back])
        return bool(back)

    def _code_size(self, opts: Schedule) -> float:
        found = self._lengths.get(opts)
        if found is None:
            found = self._lengths[opts] = self._space.code_size(opts)
        return found


class CandidateCost:
    """`each_s`: seconds that measuring a candidate takes, of late."""

    def __init__(self) -> None:
        self.each_s = 0.15
        self._first: tuple[float, int] | None = None

    def learn(self, seconds: float, measured: Sequence[Measurement]) -> None:
        """A batch took `seconds`. The first also waited for inputs and reference."""
        if self._first is None:
            running = sum((m.n + 2) * m.t_med for m in measured if m.t_med)  # run once to verify, once to warm up
            self._first = (seconds - running, len(measured))
        else:
            self.each_s = 0.7 * self.each_s + 0.3 * max(1e-3, seconds / len(measured))

    @property
    def waited_s(self) -> float:
        """Seconds that the first batch waited for inputs and reference, about."""
        return 0.0 if self._first is None else self._first[0] - self._first[1] * self.each_s


# tuning run -----------------------------------------------------------------------------------------------------------

log = logger("search")

BATCH = 12
"""Candidates that a device times in one go; so many share the cost of one runner child."""
BATCH_S = 1.0
"""Seconds a batch should take at most: what a kill loses."""
AHEAD = 24
"""Schedules being built or waiting to be timed, for each device."""
_MEASURING = "candidates were being measured"
_FIRST = "the inputs, the reference and the first candidate were being made and measured"
EXHAUSTED = "there is nothing left to try"


class TuningRun:
    """One search. `run()` once; the pieces are given, so that a fake measurer and a synthetic space exercise all of it."""

    def __init__(
        self,
        space: Space,
        measurer: CandidateMeasurer,
        strategy: Strategy | None,
        starts: Sequence[Start],
        job: Job,
        meter: Meter,
        progress: Progress,
        recorder: Recorder | None = None,
        *,
        known: EarlierMeasurements = NOTHING,
        earlier: SearchEffort | None = None,
        remeasured: RemeasuredLimits | None = None,
    ) -> None:
        """`strategy` None: only the start schedules are measured. `known`: what earlier searches of this key
        measured; `earlier`: how thorough they were. `remeasured`: measures the machine's limits again."""
        self.space, self.measurer, self.strategy, self.starts = space, measurer, strategy, list(starts)
        self.job, self.meter, self.progress = job, meter, progress
        self.recorder: Recorder = recorder if recorder is not None else NoRecord()
        self.known, self.earlier, self.remeasured = known, earlier or SearchEffort(), remeasured
        self.aim = SearchObjective(job.objective)
        self.so_far = RunState(self.aim)
        self.so_far.length = space.code_size
        self.so_far.quick = next((x.opts for x in self.starts if x.quick), None)
        self.so_far.first = next((x.opts for x in self.starts[:1] if x.origin == "start"), None)
        self._recalled = False
        self._deferred = DeferredBuilds(space, meter.budget.seconds)
        self._asked: dict[Schedule, Asked] = {}
        self._cost = CandidateCost()
        self._early: dict[Schedule, Measurement] = {}
        self._checkpoints = Checkpoints(measurer, self.so_far, self.recorder, meter, job, self.earlier)
        self._early_told = measurer.listen(self._arrived)

    def run(self) -> Result:
        """Search until the budget or the space ends, decide, record. Raises the measurer's error only where nothing
        valid was found before it."""
        by = self.strategy.name if self.strategy is not None else "start schedules only"
        log.info(
            "%s on %s, %d threads, by %s: %d start schedules", self.job.kernel, self.job.device, self.job.threads, by, len(self.starts)
        )
        why, pipe = "", Pipeline(self.measurer)
        cut: BaseException | None = None
        try:
            why = self._search(pipe)
            log.info("searching ended after %.3g s: %s", self.meter.elapsed, why)
        except (KeyboardInterrupt, TilewrightError) as e:
            cut = e
        finally:
            pipe.close()
        try:
            decision = self._decide(quick=cut is not None)
        except (KeyboardInterrupt, MeasureError) as e:
            cut = e
            decision = self._decide(quick=True)
        fault = cut if isinstance(cut, TilewrightError) else None
        if fault is not None and decision.winner is None:
            self.recorder.close()
            raise fault
        hold()
        late, exhausted = isinstance(cut, OutOfTime), self.strategy is not None and why == EXHAUSTED
        ended = Ended(str(cut) if late else why, cut is not None and not (late or fault), fault, exhausted)
        result = conclude(self.job, self.so_far, self.meter, self.recorder, self.earlier, decision, ended)
        if said := self.recorder.close():
            result = dataclasses.replace(result, message="; ".join(filter(None, (result.message, said))))
        self.progress.done(result)
        return result

    # searching ------------------------------------------------------------------------------------------------------
    def _search(self, pipe: Pipeline) -> str:
        """Returns why it ended."""
        self.progress.phase("start schedules")
        origins, waiting = {s.opts: s.origin for s in self.starts}, deque(s.opts for s in self.starts)
        searching, idle = False, 0
        while True:
            while (room := min(len(waiting), self.meter.trials_left - pipe.pending)) > 0:  # more builds than trials would be for nothing
                self._submit(pipe, [waiting.popleft() for _ in range(int(room))], origins)
            stop = self.meter.why_stop(self.job.roofline_s)
            answered = self.so_far.best is not None and not (self.so_far.first_is_coming and self.meter.trials_left > 0)
            if stop is not None and (answered or not pipe.pending or self.meter.left < -self.meter.grace):
                return stop
            # with a start schedule on its way, think after it was measured
            if self.strategy is not None and stop is None and not (self.so_far.best is None and pipe.pending):
                Deadline.doing = "the strategy was choosing"
                new, asked = self._fill(pipe)
                idle = 0 if new else idle + (asked or BATCH)
            if not pipe.pending:
                over = self.strategy is None or self.strategy.done or idle > 2 * BATCH  # else it may have a shorter idea
                if not over or not self._deferred.resume(pipe, BUSY * self.measurer.width):
                    if self.strategy is None:
                        return "the start schedules are measured"
                    if self.strategy.done or idle > 20 * BATCH:
                        return EXHAUSTED
                    continue
                idle = min(idle, 2 * BATCH + 1)  # there was something left to try
            left = max(0.0, self.meter.search_left) if self.so_far.best is not None else max(0.0, self.meter.left)
            width = self.measurer.width
            most = max(1, int(min(BATCH * width, min(left, BATCH_S) / self._cost.each_s, self.meter.trials_left)))
            if self.so_far.best is None:
                most = 1  # the first start schedule alone, for an early answer
            # then as many as share a runner child well, unless builds are slow
            Deadline.doing = "something was being built"
            taken = pipe.take(min(4 * width, most), most, max(0.02, min(left, 0.25)), max(0.02, left) if answered else float("inf"))
            if not searching and self.so_far.best is not None:
                searching = True
                self.progress.phase("searching")
                self.measurer.expect_confirm()
            self._measure(taken, pipe)
            self._checkpoints.look(self._cost.each_s, lambda m: self._conclude(m, "confirm"))

    def _think(self, pipe: Pipeline, under_way: int) -> None:
        """Ask for more while `under_way` candidates are being timed, on a core that nobody else needs."""
        if self.strategy is not None and not self.meter.why_stop(self.job.roofline_s):
            self._fill(pipe, under_way)

    def _fill(self, pipe: Pipeline, under_way: int = 0) -> tuple[int, int]:
        """Ask for more, so that builders never wait; how many schedules were new, of how many."""
        assert self.strategy is not None
        width, trials = self.measurer.width, self.meter.trials_left - under_way
        room = min(AHEAD * width, trials, max(1.0, self.meter.search_left / self._cost.each_s)) - pipe.pending
        if room < 1 or (pipe.pending and room < 4 and room != trials - pipe.pending):
            return 1, 1
        self._recall()
        self.strategy.expect(self.meter.measured + min(self.meter.trials_left, max(0.0, self.meter.search_left) / self._cost.each_s))
        asked = ask(self.strategy, int(min(room, BATCH * width)), BUSY * width - pipe.pending)
        return self._submit(pipe, asked, {}), len(asked)

    def _recall(self) -> None:
        """Once, when the start schedules were measured: tell the strategy what earlier searches found."""
        if self._recalled or self.strategy is None:
            return
        self._recalled = True
        fresh = {m.opts: m for m in self.so_far.by_hash.values() if m is not None}
        for m in self.known.today(fresh):
            if self.space.state(m.opts) is not None:
                self.strategy.tell(m.opts, m)
                self.meter.outlook.recall(seconds(m))

    def _submit(self, pipe: Pipeline, schedules: Sequence[Schedule], origins: dict[Schedule, str]) -> int:
        """Legal, unknown schedules go to the builders, best estimate first unless they are start schedules; the others are told at once."""
        fresh: list[State] = []
        for opts in schedules:
            by = origins.get(opts) or asker(self.strategy, opts)
            settled = None if opts in origins else self.known.settled(opts)
            if settled is not None:
                self.so_far.repeated += 1
                if self.strategy is not None:
                    self.strategy.tell(opts, settled)
                continue
            state = self.space.state(opts)
            if state is None:
                self._conclude(Measurement(opts, Outcome.illegal, detail=self.space.reason(opts)), by)
            elif state.hash in self.so_far.by_hash:
                self.so_far.repeated += 1
                known = self.so_far.by_hash[state.hash]
                if known is not None and self.strategy is not None:
                    self.strategy.tell(opts, known)
            else:
                self.so_far.by_hash[state.hash] = None
                self._asked[opts] = Asked(state, by)
                self.so_far.first_hash = state.hash if opts == self.so_far.first else self.so_far.first_hash
                fresh.append(state)
        given = {
            o for o, by in origins.items() if by == "stored" or o in (self.so_far.first, self.so_far.quick)
        }  # what is known to be good, whatever it takes
        now = self._deferred.sift(fresh, given, None if self.so_far.best is None else self.so_far.best.opts)
        if not origins:
            now.sort(key=lambda s: s.estimate)
        counts = len(now), len(fresh) - len(now), len(schedules) - len(fresh)
        log.debug("%d schedules: %d to be built, %d put off, %d known or not legal", len(schedules), *counts)
        pipe.submit([s.opts for s in now])
        return len(now)

    def _measure(self, taken: Sequence[tuple[Schedule, Any]], pipe: Pipeline) -> None:
        """Time what was built, except sources that were timed before."""
        batch: list[Any] = []
        twins: list[tuple[Schedule, str]] = []
        for opts, built in taken:
            self._deferred.learn(opts, built)
            if isinstance(built, Measurement):
                self._conclude(built, self._asked[opts].by)
                self.meter.generation(1, self.so_far.best_s)
            elif built.sha in self.so_far.by_sha or any(built.sha == b.sha for b in batch):
                twins.append((opts, built.sha))
            else:
                batch.append(built)
        if batch:
            began = self.meter.clock()
            Deadline.doing = _MEASURING if self.so_far.best is not None else _FIRST
            fastest = self.so_far.fastest_s if self.so_far.best is not None else None
            if fastest:
                self.measurer.meanwhile(lambda: self._think(pipe, len(batch)))
            measured = [self.aim.scored(m) for m in self.measurer.measure(batch, fastest)]
            self._cost.learn(self.meter.clock() - began, measured)
            self.meter.check_s = self._checkpoints.check_s(self._cost.waited_s, self._cost.each_s)
            for built, m in zip(batch, measured):
                self.so_far.by_sha[built.sha] = m
                self.so_far.keep(built, m, start=self._asked[built.opts].by == "start")
                self._conclude(m, self._asked[built.opts].by)
            self.meter.generation(len(batch), self.so_far.best_s)
            if self._early_told:  # the next result may be long in coming
                self.recorder.flush()
        for opts, sha in twins:
            self.so_far.repeated += 1
            self.so_far.by_hash[self._asked[opts].state.hash] = self.so_far.by_sha[sha]
            if self.strategy is not None:
                self.strategy.tell(opts, self.so_far.by_sha[sha])

    def _arrived(self, m: Measurement) -> None:
        """Record a result before those beside it are there: whoever kills this process loses few. (A measurer of this machine does not tell
        of results before all are there, as writing would disturb the next timing.)"""
        self._early[m.opts] = m = self.aim.scored(m)
        self.recorder.add(m, self._asked[m.opts].by)

    def _conclude(self, m: Measurement, by: str) -> None:
        """Count, tell, record and report one outcome."""
        self.so_far.count(m, "ok" if by == "confirm" else "")
        if m.outcome != "illegal":
            self.meter.outlook.tell(seconds(m))
        if log.listens():
            time = f", {duration(m.t_min)}" if m.t_min else ""
            log.debug("%s: %s%s, by %s%s", short(m.opts), m.outcome, time, by, f" ({m.detail})" if m.detail else "")
        asked = self._asked.get(m.opts)
        if asked is not None:
            self.so_far.by_hash[asked.state.hash] = m
        if self.strategy is not None:
            self.strategy.tell(m.opts, m)
        if self._early.pop(m.opts, None) != m:
            self.recorder.add(m, by)
        self.progress.candidate(m)
        if self.so_far.improves(m, by, self.meter.elapsed):
            log.info("best so far: %.6g us, %s", 1e6 * (m.t_min or 0.0), short(m.opts))
            self.job = self.job if self.remeasured is None else self.remeasured.looked_at(m, self.job, self.so_far)
            self.progress.best(snapshot(self.job, self.so_far, m, self.meter.elapsed))

    # deciding -------------------------------------------------------------------------------------------------------
    def _decide(self, quick: bool) -> Decision:
        """The winner; `quick` takes the comparisons that were made and starts no process."""
        if not quick:
            self.progress.phase("deciding")
            Deadline.doing = "the best were being compared and checked a second time"
        return Deciding(self.measurer, self.so_far, self.recorder, self.meter, self._cost.each_s, self._checkpoints.checks).decide(quick)
