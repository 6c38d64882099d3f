"""Recording a space of ours: a sample of a kernel's templates and of walks over options, measured in full.

Times are the least of several rounds, one thread: what other work on the machine adds is no property of a schedule."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING, Any

from ...measure import Measurement
from ..space import Space, mutate
from ..strategies.points import ChoicePoint, ChoicePoints
from ..strategies.walks import RandomWalk
from .recording import RecordedEntry, Recording

if TYPE_CHECKING:
    from ...measure import Measurement
    from ..candidate_measurer import CandidateMeasurer
    from ..space import Schedule

BATCH = 12
WALKS = 0.3
"""Share of the schedules that are walks over options, prefixes and all, and changes of what is fast."""


def record_space(
    space: Space, measurer: CandidateMeasurer, trials: int, about: Mapping[str, Any], *, rounds: int = 2, seed: int = 0
) -> Recording:
    """Measure the start schedules, then points of the templates drawn evenly (all of them where they are few), then walks and
    mutations of the fastest, `trials` schedules in all. The fastest fifth is measured `rounds` times, and the least time counts.
    `cost_s` is what building and measuring took, in seconds."""
    points, rng = ChoicePoints(space), Random(f"record {seed}")
    entries: dict[str, RecordedEntry] = {}
    for opts, m, cost in _measured(space, measurer, space.starts(), entries):
        _enter(space, points, entries, opts, m, cost)
    drawn = iter(_drawn(points, rng, int(trials * (1 - WALKS))))
    walks = RandomWalk(space, seed=seed, start=space.starts())
    idle = 0
    while len(entries) < trials and idle < 20:
        asked = [o for _, o in zip(range(BATCH), drawn)] or _walked(space, walks, entries, rng)
        before = len(entries)
        for opts, m, cost in _measured(space, measurer, asked, entries, trials - before):
            _enter(space, points, entries, opts, m, cost)
        idle = 0 if len(entries) > before else idle + 1
    for _ in range(rounds - 1):
        fast = sorted((e for e in entries.values() if e.t_min is not None), key=lambda e: e.t_min or 0.0)
        for at in range(0, max(1, len(fast) // 5), BATCH):
            for opts, m, _ in _measured(space, measurer, [e.opts for e in fast[at : at + BATCH]], {}):
                state = space.state(opts)
                if state is not None and m.t_min is not None and (old := entries[state.hash].t_min) is not None:
                    entries[state.hash] = replace(entries[state.hash], t_min=min(old, m.t_min))
    return Recording(about, tuple(space.starts()), tuple(entries.values()))


def _drawn(points: ChoicePoints, rng: Random, count: int) -> Iterator[Schedule]:
    """Schedules of points, each once: evenly over the families until one has no more."""
    seen: set[str] = set()
    dry = 0
    while points and len(seen) < count and dry < 300:
        point = points.uniform(rng)
        state = None if point is None else points.state(point)
        if state is None or state.hash in seen:
            dry += 1
            continue
        dry = 0
        seen.add(state.hash)
        yield state.opts


def _walked(space: Space, walks: RandomWalk, entries: Mapping[str, RecordedEntry], rng: Random) -> list[Schedule]:
    """A walk with its prefixes, and mutations of some of the fastest."""
    end = walks.walk()
    out = [] if end is None else [end.opts[:i] for i in range(len(end.opts) + 1)]
    fast = sorted((e for e in entries.values() if e.t_min is not None), key=lambda e: e.t_min or 0.0)[:20]
    for e in rng.sample(fast, min(4, len(fast))):
        state = space.state(e.opts)
        moved = None if state is None else mutate(space, state, rng)
        out += [] if moved is None else [moved.opts]
    return out


def _measured(
    space: Space, measurer: CandidateMeasurer, asked: list[Schedule], known: Mapping[str, RecordedEntry], most: int | None = None
) -> Iterator[tuple[Schedule, Measurement, float]]:
    """(schedule, measurement, seconds that it took) of those that are legal and new, at most `most`."""
    import time

    fresh = {s.hash: s.opts for s in map(space.state, asked) if s is not None and s.hash not in known}
    began = time.perf_counter()
    built: list[Any] = []
    failed: list[Measurement] = []
    for _, got in measurer.build(list(fresh.values())[:most]):
        (failed if isinstance(got, Measurement) else built).append(got)
    measured = [*failed, *(measurer.measure(built) if built else [])]
    each = (time.perf_counter() - began) / max(1, len(measured))
    for m in measured:
        yield m.opts, m, each


def _enter(space: Space, points: ChoicePoints, entries: dict[str, RecordedEntry], opts: Schedule, m: Measurement, cost: float) -> None:
    state = space.state(opts)
    assert state is not None
    point = points.of(state)
    entry = RecordedEntry(opts, state.hash, _digits(state.estimate), str(m.outcome.value), m.t_min and _digits(m.t_min), _digits(cost))
    if isinstance(point, ChoicePoint):
        f = points.family(point)
        entry = replace(entry, template=f.template.name, params=f.choices(point))
    entries[state.hash] = entry


def _digits(x: float) -> float:
    return float(f"{x:.4g}")
