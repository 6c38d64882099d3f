"""A schedule that somebody chose by hand becomes the cache's answer for one kernel, shape, device and thread count.

It is verified first as a search's winner is: on its whole output, and a second time with other inputs. It is timed
beside the start schedule, so that a report can say what it is worth. Nothing is written before all of that was passed,
so a schedule that does not fit, or is wrong, leaves the cache as it was."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from ..cache.rows import PINNED
from ..ir.errors import CacheError, MeasureError, VerifyError
from ..measure import Measurement
from .budget import Budget
from .task import Task, TuneRequest

if TYPE_CHECKING:
    from ..cache import Cache, Key, Row
    from ..measure import Built, Measurement
    from ..opts.opt import Opt
    from .candidate_measurer import CandidateMeasurer

STRATEGY = "pin"
"""What rows say of the strategy that found them."""
ROUNDS = 7
"""Paired rounds with the start schedule."""


class PinnedTask(Task, Protocol):
    """What may be pinned."""

    def fit(self, opts: Sequence[Opt]) -> None:
        """Raise OptError for a schedule that does not apply."""
        ...


@dataclass(frozen=True)
class PinnedSchedule:
    """What was pinned: its measurement, the start schedule's time in seconds (None where the start schedule failed), how many times
    faster than the start schedule it is by paired rounds (None where there were none), and the schedule that it replaced."""

    opts: tuple[Opt, ...]
    measured: Measurement
    start_s: float | None = None
    gain: float | None = None
    replaced: Row | None = None


def pin(task: PinnedTask, cache: Cache, opts: Sequence[Opt], random_seed: int = 0) -> PinnedSchedule:
    """Verify a schedule and make it the answer. Raises OptError where it does not apply or has effects that are not
    allowed, VerifyError where it is not right (or does not build, or return), CacheError where the cache cannot be
    written; then nothing has changed."""
    cache.will_write = True
    opts = tuple(opts)
    task.fit(opts)
    request = TuneRequest(Budget(None, 2), random_seed=random_seed)
    space = task.space()
    untuned = next(iter(space.starts()), ())
    with task.measurer(request) as m:
        cache.ensure_writable()
        code = dict(m.build([opts, untuned]))
        measured = _checked(m, code[0])
        gain, start_s = _compared(m, code)
        recorder = task.recorder(cache, space, task.job(STRATEGY, request))
        before = pinned(cache, task.key)
        final = {PINNED: True, "confirmed": True, "checks": list(measured.checks), "gain": gain, "paired": gain is not None}
        recorder.winner(measured, untuned, start_s, final)
        said = recorder.close()
        if said:
            raise CacheError(f"the schedule is right, and could not be pinned: {said}")
        unpin(cache, task.key, but=recorder.run_id)
    return PinnedSchedule(opts, measured, start_s, gain, before)


def _checked(m: CandidateMeasurer, code: Built | Measurement) -> Measurement:
    """The measurement of a schedule that passed both checks. Raises VerifyError."""
    from dataclasses import replace

    found = code if isinstance(code, Measurement) else m.measure([code])[0]
    again = found if isinstance(code, Measurement) or not found.ok else m.confirm(code)
    for got in (found, again):
        if not got.ok:
            raise VerifyError(f"this schedule is not pinned: {got.outcome.value}: {got.detail}")
    return replace(found, checks=tuple(dict.fromkeys((*found.checks, *again.checks))))


def _compared(m: CandidateMeasurer, code: dict[int, Any]) -> tuple[float | None, float | None]:
    """(how many times faster than the start schedule, the start schedule's seconds) of the first schedule; None where that is not known."""
    if isinstance(code[1], Measurement):
        return None, None
    if code[0].sha == code[1].sha:
        return 1.0, m.measure([code[1]])[0].t_min
    first = m.measure([code[1]])[0]
    if not first.ok:
        return None, None
    try:
        return 1 / m.duel(code[0], code[1], rounds=ROUNDS).ratio, first.t_min
    except MeasureError:
        return None, first.t_min


def pinned(cache: Cache, key: Key) -> Row | None:
    """The pinned schedule of a key, the newest measurement of it; None where there is none."""
    found = [r for r in _rows(cache, key) if r.pinned]
    return found[-1] if found else None


def unpin(cache: Cache, key: Key, but: str = "") -> list[Row]:
    """Let go of what was pinned for a key (`but`: by any run but this); its measurements stay, as those of any
    candidate. The rows that were pinned. Raises CacheError."""
    found = [r for r in _rows(cache, key) if r.pinned and r.run_id != but]
    if found:
        # first written, then deleted: whatever happens between, nothing is lost
        cache.record([r.unpinned(uuid.uuid4().hex[:16]) for r in found])
        for run in dict.fromkeys(r.run_id for r in found):
            cache.clear(kernel=key.kernel, target=key.target, threads=key.threads, compiler=key.compiler, policy=key.policy, run_id=run)
    return found


def _rows(cache: Cache, key: Key) -> list[Row]:
    return cache.rows(kernel=key.kernel, target=key.target, threads=key.threads, compiler=key.compiler, policy=key.policy)
