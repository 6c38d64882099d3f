"""Schedules whose code is long are put off: one that takes a good share of the search to build must not come before dozens of others.

What a build takes grows with the code that it writes, which is known without lowering (`heuristics.bulk`); how long one instruction takes
is learned from the builds. What is put off is built when there is nothing else to do. Nothing is put off without a limit on seconds."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..space import Schedule, Space, State
    from .pipeline import Pipeline

SHARE = 1 / 40
"""Of a search's seconds, what one build may take."""
PRIOR_S = 0.25e-3
"""Seconds an instruction, while no build has told."""
GROWTH = 2.0
"""Code of up to so many times the best one's length is built in any case: it may be better for the same reason."""
_LEARNT = 15
"""Builds that tell what an instruction takes."""


class Bulky:
    """What is put off in one search of `seconds` (None: no limit)."""

    def __init__(self, space: Space, seconds: float | None) -> None:
        self._space, self._limit_s = space, None if seconds is None else SHARE * seconds
        self._paces: deque[float] = deque(maxlen=_LEARNT)
        self._later: list[State] = []
        self._lengths: dict[Schedule, float] = {}

    def learn(self, opts: Schedule, built: Any) -> None:
        """What a build took, if it was one (and not an object from the store)."""
        seconds = sum(float(getattr(built, name, 0.0)) for name in ("lower_s", "render_s", "build_s"))
        bulk = self._bulk(opts) if self._limit_s is not None and getattr(built, "build_s", 0.0) > 0.0 else 0.0
        if bulk > 0.0:
            self._paces.append(seconds / bulk)

    def sift(self, fresh: Sequence[State], keep: Collection[Schedule] = (), best: Schedule | None = None) -> list[State]:
        """Those to build now, in order. Those to `keep` are never put off, nor what is not much longer than `best`."""
        if self._limit_s is None:
            return list(fresh)
        most = self._limit_s / self._pace_s
        most = max(most, GROWTH * (self._bulk(best) if best is not None else 0.0))
        now = [s for s in fresh if s.opts in keep or self._bulk(s.opts) <= most]
        self._later += [s for s in fresh if s not in now]
        return now

    @property
    def _pace_s(self) -> float:
        """Seconds an instruction: the upper quartile, since code with borders is written several times, and what has none says nothing of it."""
        return sorted(self._paces)[3 * len(self._paces) // 4] if self._paces else PRIOR_S

    def resume(self, pipe: Pipeline, count: int) -> bool:
        """Hand up to `count` of those that were put off to the builders, the shortest first; False where there are none."""
        self._later.sort(key=lambda s: self._bulk(s.opts))
        back, self._later = self._later[:count], self._later[count:]
        pipe.submit([s.opts for s in back])
        return bool(back)

    def _bulk(self, opts: Schedule) -> float:
        found = self._lengths.get(opts)
        if found is None:
            found = self._lengths[opts] = self._space.bulk(opts)
        return found
