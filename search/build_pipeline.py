"""What is built when: builds run ahead while the main thread times what is ready, and long code is put off.

The measurer's builders are processes that work on while it times something; it decides itself when they may use the cores. The
`Pipeline` is only the queue: what is handed to the builders, what has come back, and how long to wait for it. Everything happens in the
main thread, which is where Ctrl-C arrives.

The time of a build grows with the code that it writes, which is known without lowering; how long one instruction takes is learned from the
builds. A schedule that takes a good share of the search to build must not come before dozens of others, so it is built when there is
nothing else to do. Nothing is put off without a limit on seconds."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..measure import Measurement
    from .candidate_measurer import CandidateBuilds, CandidateMeasurer
    from .space import Schedule, Space, State


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
