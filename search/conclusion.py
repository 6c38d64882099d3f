"""What is said and stored of a search that has ended: its result, the winner's row, how thorough it was."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from . import result as results
from .budget import SPENT
from .effort import Effort

if TYPE_CHECKING:
    from ..ir.errors import TilewrightError
    from ..measure import Measurement
    from .budget import Meter
    from .finals import Decision
    from .record import Recorder
    from .result import Job, Result
    from .run_state import RunState


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
        seed_s=None if seed is None else seed.t,
        counts=dict(so_far.counts),
        seconds=seconds,
        verified=True,
    )


def effort(so_far: RunState, meter: Meter, earlier: Effort, ended: Ended) -> Effort:
    """How thorough all searches of this key were, this one included."""
    budget, spent = meter.budget, meter.elapsed
    if ended.why == SPENT and budget.seconds is not None:
        spent = max(spent, budget.seconds)
    gave_up = budget.patience if ended.why.startswith("no gain") and budget.patience else 0
    cut = ended.interrupted or ended.fault is not None
    return earlier.then(Effort(spent, sum(so_far.counts.values()), ended.exhausted, gave_up, cut))


def conclude(job: Job, so_far: RunState, meter: Meter, recorder: Recorder, earlier: Effort, decision: Decision, ended: Ended) -> Result:
    """Record what the finals found, the winner last, and make the result."""
    for m in decision.failed:
        so_far.count(m)
        recorder.add(m, "confirm")
    won = decision.winner
    # where one seed beat another, the winner is the best of them
    seed = so_far.seed(None if won is None else won.measurement.opts)
    if seed is not None and (won is None or seed.measurement.opts != won.measurement.opts):
        seed = decision.seed or seed
    seed_opts, seed_s = (None, None) if seed is None else (seed.measurement.opts, seed.t)
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
    gain = 1.0 if won is seed else None if decision.ratio is None else 1 / decision.ratio
    checks = {"confirmed": decision.confirmed, "checks": list(decision.checks or m.checks)}
    final = {"gain": gain, "paired": decision.paired, **checks, "effort": effort(so_far, meter, earlier, ended).json}
    recorder.winner(m, seed_opts, seed_s, final)
    return results.make(
        job,
        opts=m.opts,
        t_min=m.t_min,
        t_med=m.t_med,
        n=m.n,
        seconds=meter.elapsed,
        verified=True,
        confirmed=decision.confirmed,
        significant=decision.significant and won is not seed,
        gain=gain,
        source_sha=m.sha,
        **common,
    )
