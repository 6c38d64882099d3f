"""What comes of a schedule, in Optuna's terms: one value to make small, or two."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..strategy import Measured
from .samplers import SamplerKind, quiet
from .study import FAILURES

if TYPE_CHECKING:
    from .parameters import Layout, Point

VALID = "valid"
"""The one constraint: legal, and right when it ran."""
Values = Callable[[Any], Sequence[float]]
"""A measurement's values of two objectives, as logarithms."""


@dataclass(frozen=True, slots=True)
class KnownTrial:
    """What came of a schedule: its outcome, seconds (infinity unless ok or slow), and the measurement where it was made in this session."""

    outcome: str
    seconds: float
    measured: Measured | None = None


@dataclass(frozen=True, slots=True)
class TrialVerdict:
    """A trial's end in Optuna's terms; no values where it has none."""

    state: str
    values: tuple[float, ...]
    valid: bool


class OptunaTrials:
    """Tells a study how trials ended.

    What a schedule's outcome becomes: ok a completed trial, of value log(seconds), since samplers fit differences and
    we read ratios; slow a pruned one with the value known so far; illegal, without a measurement, and failed ones
    broken constraints or pruned. Where only completed trials teach, slow and invalid ones are completed, the latter at the worst
    values so far and with the constraint broken. Of two objectives Optuna prunes nothing, so slow trials are completed too."""

    def __init__(self, kind: SamplerKind, values: Values | None = None) -> None:
        """`values`: of two objectives; None: the one that the search reads as seconds."""
        self._kind, self._values = kind, values
        self._worst: tuple[float, ...] = ()
        self._prunes = kind.prunes and values is None

    @property
    def directions(self) -> dict[str, Any]:
        """What `optuna.create_study` takes."""
        return {"direction": "minimize"} if self._values is None else {"directions": ["minimize", "minimize"]}

    def verdict(self, known: KnownTrial) -> TrialVerdict:
        """A trial's end."""
        if known.seconds < math.inf:
            values = self._logs(known)
            self._worst = tuple(map(max, values, self._worst or values))
            return TrialVerdict("COMPLETE" if known.outcome == "ok" or not self._prunes else "PRUNED", values, True)
        if self._kind.constrained:
            worst = self._worst or (0.0,) * (1 if self._values is None else 2)
            return TrialVerdict("PRUNED", (), False) if self._kind.prunes else TrialVerdict("COMPLETE", worst, False)
        return TrialVerdict("FAIL" if known.outcome in FAILURES else "PRUNED", (), False)

    def _logs(self, known: KnownTrial) -> tuple[float, ...]:
        if self._values is None:
            return (math.log(known.seconds),)
        return tuple(self._values(known.measured))

    def finish(self, study: Any, trial: Any, known: KnownTrial) -> None:
        """Tell how an asked trial ended."""
        from optuna.trial import TrialState

        v = self.verdict(known)
        with quiet():
            if self._kind.constrained:
                trial.set_constraint(VALID, 0.0 if v.valid else 1.0)
            if v.state == "PRUNED" and v.values:
                trial.report(v.values[0], 0)
            study.tell(trial, list(v.values) if v.state == "COMPLETE" else None, state=TrialState[v.state])

    def add(self, study: Any, layout: Layout, point: Point, known: KnownTrial) -> None:
        """A finished trial of an earlier session, in this sampler's terms."""
        from optuna.trial import TrialState, create_trial

        v = self.verdict(known)
        params, kinds = layout.whole(point)
        with quiet():
            study.add_trial(
                create_trial(
                    state=TrialState[v.state],
                    values=list(v.values) if v.state == "COMPLETE" else None,
                    intermediate_values={0: v.values[0]} if v.state == "PRUNED" and v.values else {},
                    params=params,
                    distributions=kinds,
                    constraints={VALID: 0.0 if v.valid else 1.0} if self._kind.constrained else None,
                )
            )
