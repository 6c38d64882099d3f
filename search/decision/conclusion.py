"""What is said and stored of a search that has ended: its result, the winner's row, how thorough it was."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from ...cache.objectives import TIME
from ...cache.rows import OBJECTIVE, PROVISIONAL
from .. import result as results
from ..budget import SPENT
from ..remembered.effort import Effort

if TYPE_CHECKING:
    from ...ir.errors import TilewrightError
    from ...measure import Measurement
    from ..budget import Meter
    from ..remembered.record import Recorder
    from ..result import Job, Result
    from ..run_state import RunState
    from ..space import Schedule
    from .finals import Decision, Finalist


@dataclass(frozen=True, slots=True)
class Ended:
    """How a search ended: `why` in words, `interrupted`, by a `fault` of the machinery, or `exhausted`: nothing was left to try."""

    why: str = ""
    interrupted: bool = False
    fault: TilewrightError | None = None
    exhausted: bool = False


def snapshot(job: Job, so_far: RunState, m: Measurement, seconds: float) -> Result:
    """The best so far, `m`, after `seconds`."""
    seed = so_far.seed()
    return results.make(
        job,
        opts=m.opts,
        t_min=m.t_min,
        t_med=m.t_med,
        n=m.n,
        seed_opts=None if seed is None else seed.measurement.opts,
        seed_s=None if seed is None else seed.measurement.t_min,
        counts=dict(so_far.counts),
        seconds=seconds,
        verified=True,
        energy=None if m.energy is None else m.energy.json,
        scratch=m.scratch,
    )


def effort(so_far: RunState, meter: Meter, earlier: Effort, ended: Ended) -> Effort:
    """How thorough all searches of this key were, this one included."""
    budget, spent = meter.budget, meter.elapsed
    if ended.why.startswith(SPENT) and budget.seconds is not None:
        spent = max(spent, budget.seconds)
    gave_up = budget.patience if ended.why.startswith("no gain") and budget.patience else 0
    cut = ended.interrupted or ended.fault is not None
    return earlier.then(Effort(spent, sum(so_far.counts.values()), ended.exhausted, gave_up, cut))


def provisional(job: Job, so_far: RunState, meter: Meter, recorder: Recorder, earlier: Effort, decision: Decision) -> None:
    """Record the answer so far of a search that goes on: were it killed now, this would be its answer."""
    won = decision.winner
    assert won is not None
    seed_opts, seed_s = _seed(so_far, decision)
    final = _final(won, so_far, decision, effort(so_far, meter, earlier, Ended(interrupted=True)))
    _recorded(so_far, _OnTheWay(recorder), (seed_opts, seed_s), decision, final)


class _Winners(Protocol):
    """The part of a Recorder that takes answers."""

    def winner(self, measurement: Measurement, seed_opts: Schedule | None, seed_s: float | None, final: Mapping[str, Any]) -> None: ...


@dataclass(frozen=True, slots=True)
class _OnTheWay:
    """A recorder whose winners are the answers so far."""

    recorder: Recorder

    def winner(self, measurement: Measurement, seed_opts: Schedule | None, seed_s: float | None, final: Mapping[str, Any]) -> None:
        self.recorder.winner(measurement, seed_opts, seed_s, {**final, PROVISIONAL: True})


def _seed(so_far: RunState, decision: Decision) -> tuple[Schedule | None, float | None]:
    """The seed that was to be beaten, and its seconds. Where one seed beat another, the winner is the best of them."""
    won = decision.winner
    seed = so_far.seed(None if won is None else won.measurement.opts)
    if seed is not None and (won is None or seed.measurement.opts != won.measurement.opts):
        seed = decision.seed or seed
    return (None, None) if seed is None else (seed.measurement.opts, seed.measurement.t_min)


def _final(won: Finalist, so_far: RunState, decision: Decision, effort: Effort) -> dict[str, Any]:
    """What a winner's row says beside its measurement."""
    is_seed = _seed(so_far, decision)[0] == won.measurement.opts
    gain = 1.0 if is_seed else None if decision.ratio is None else 1 / decision.ratio
    checks = {"confirmed": decision.confirmed, "checks": list(decision.checks or won.measurement.checks)}
    return {"gain": gain, "paired": decision.paired, **checks, "effort": effort.json}


def conclude(job: Job, so_far: RunState, meter: Meter, recorder: Recorder, earlier: Effort, decision: Decision, ended: Ended) -> Result:
    """Record what the finals found, the winner last, and make the result."""
    for m in decision.failed:
        so_far.count(m)
        recorder.add(m, "confirm")
    won = decision.winner
    seed_opts, seed_s = _seed(so_far, decision)
    code = results.INTERRUPTED if ended.interrupted else results.FOUND if won is not None else results.NOTHING_VALID
    said = [str(ended.fault) if ended.fault else "", ended.why, decision.message]
    if code == results.NOTHING_VALID and not so_far.counts:
        code = results.NOTHING_MEASURED
        said = [ended.why, "no candidate was finished in that time, so nothing is known of any: give it more"]
    common: dict[str, Any] = {
        "seed_opts": seed_opts,
        "seed_s": seed_s,
        "plain_s": so_far.plain_s,
        "counts": dict(so_far.counts),
        "repeated": so_far.repeated,
        "history": tuple(so_far.history),
        "message": "; ".join(filter(None, [*said, *so_far.notes])),
        "failures": dict(so_far.failures),
        "earlier": earlier.candidates,
        "exit_code": code,
    }
    if won is None:
        return results.make(job, seconds=meter.elapsed, **common)
    m = won.measurement
    final = _final(won, so_far, decision, effort(so_far, meter, earlier, ended))
    told = _recorded(so_far, recorder, (seed_opts, seed_s), decision, final)
    return results.make(
        job,
        opts=m.opts,
        t_min=m.t_min,
        t_med=m.t_med,
        n=m.n,
        seconds=meter.elapsed,
        verified=True,
        confirmed=decision.confirmed,
        significant=decision.significant and m.opts != seed_opts,
        gain=final["gain"],
        source_sha=m.sha,
        **told,
        **common,
    )


def _recorded(
    so_far: RunState,
    recorder: _Winners,
    seed: tuple[Schedule | None, float | None],
    decision: Decision,
    final: dict[str, Any],
) -> dict[str, Any]:
    """Write the winner's row, last, before it those of a front's other members; what a result says beside its times."""
    assert decision.winner is not None
    aim, m = so_far.aim, decision.winner.measurement
    seeded = so_far.seed(seed[0])
    known = seeded is not None and not aim.front and aim.text != TIME and aim.able(seeded.measurement)
    value = aim.value(seeded.measurement, aim.first) if known and seeded is not None else None
    if value is not None:
        final = {**final, "seed_value": value}
    for member in reversed(decision.front):
        checked = {"confirmed": member.confirmed, "checks": list(member.checks or member.measurement.checks)}
        recorder.winner(member.measurement, *seed, {**final, **checked})
    if aim.front and aim.first == TIME:
        # duels found it the fastest, so it answers who asks for that; half of the search was for it
        spent = {k: v / 2 if k == "seconds" else v // 2 if k == "candidates" else v for k, v in final["effort"].items()}
        recorder.winner(m, *seed, {**final, OBJECTIVE: TIME, "effort": {**spent, "complete": False}})
    elif not aim.front:
        recorder.winner(m, *seed, final)
    return {
        "energy": None if m.energy is None else m.energy.json,
        "scratch": m.scratch,
        "seed_value": value,
        "front": tuple(results.member(f.measurement, f.confirmed) for f in sorted(decision.front, key=lambda f: aim.values(f.measurement))),
    }
