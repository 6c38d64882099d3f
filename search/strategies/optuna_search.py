"""Optuna's samplers over parameterised schedules: one strategy, `optuna:SAMPLER`. Read `optuna_samplers` first.

The study that is sampled from lives in memory: our own table is the record. `optuna_study` copies finished trials into a storage where one
is wanted. A point of the templates becomes the parameters of a trial (`Layout`), and an outcome one value to make small, or two
(`OptunaTrials`)."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING, Any, ClassVar

from ...ir.errors import OptError
from ...opts.opt import dumps
from ..strategy import Measured, Strategy, seconds
from .nearest_instance import Fitter, nearest
from .optuna_samplers import SamplerKind, kind, make, quiet
from .optuna_study import FAILURES, TEMPLATE, StudyTrial

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution

    from ..space import Schedule, Space, State, TemplateLike
    from .optuna_study import StudyKeeper


Point = tuple[str, dict[str, Any]]
"""A template's name and its choices."""


class Layout:
    """A parameter for the template's name, and one `template.param` for each choice: the choice's index, an integer
    where the choices are numbers in order, so that the sampler knows which are near, else a category. A flat sampler
    gets all of them in every trial, the others those of the template."""

    def __init__(self, templates: Sequence[TemplateLike], kind: SamplerKind) -> None:
        self.templates = {t.name: t for t in templates}
        self._names, self._kind = list(self.templates), kind

    def suggest(self, trial: Any) -> Point:
        """What a trial chooses."""
        name = (
            self._names[trial.suggest_int(TEMPLATE, 0, len(self._names) - 1)]
            if self._kind.numeric
            else trial.suggest_categorical(TEMPLATE, self._names)
        )
        chosen = {(t.name, k): v[self._suggest(trial, t.name, k, v)] for t in self._of(name) for k, v in t.params.items()}
        return name, {k: chosen[name, k] for k in self.templates[name].params}

    def fixed(self, point: Point) -> dict[str, Any]:
        """The parameters with which a trial is queued."""
        name, params = point
        return {TEMPLATE: self._template(name), **{_label(name, k): self._index(name, k, v) for k, v in params.items()}}

    def whole(self, point: Point) -> tuple[dict[str, Any], dict[str, BaseDistribution]]:
        """Parameters and distributions of a finished trial; where the sampler is flat, other templates' parameters
        have their first choice."""
        from optuna.distributions import CategoricalDistribution, IntDistribution

        name, params = point
        values: dict[str, Any] = {TEMPLATE: self._template(name)}
        kinds: dict[str, BaseDistribution] = {
            TEMPLATE: IntDistribution(0, len(self._names) - 1) if self._kind.numeric else CategoricalDistribution(self._names)
        }
        for t in self._of(name):
            for k, v in t.params.items():
                values[_label(t.name, k)] = self._index(name, k, params[k]) if t.name == name else 0
                kinds[_label(t.name, k)] = (
                    IntDistribution(0, len(v) - 1) if self._number(v) else CategoricalDistribution(list(range(len(v))))
                )
        return values, kinds

    def _of(self, name: str) -> list[TemplateLike]:
        """The templates whose parameters a trial of this one has."""
        return list(self.templates.values()) if self._kind.flat else [self.templates[name]]

    def _template(self, name: str) -> str | int:
        return self._names.index(name) if self._kind.numeric else name

    def _index(self, name: str, param: str, value: Any) -> int:
        return list(self.templates[name].params[param]).index(value)

    def _suggest(self, trial: Any, name: str, param: str, choices: Sequence[Any]) -> int:
        label = _label(name, param)
        return int(
            trial.suggest_int(label, 0, len(choices) - 1)
            if self._number(choices)
            else trial.suggest_categorical(label, list(range(len(choices))))
        )

    def _number(self, choices: Sequence[Any]) -> bool:
        ordered = all(isinstance(c, int) and not isinstance(c, bool) for c in choices) and list(choices) == sorted(choices)
        return ordered or self._kind.numeric


def _label(template: str, param: str) -> str:
    return f"{template}.{param}"


VALID = "valid"
"""The one constraint: legal, and right when it ran."""
Values = Callable[[Any], Sequence[float]]
"""A measurement's values of two objectives, as logarithms."""


@dataclass(frozen=True, slots=True)
class TrialOutcome:
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

    def verdict(self, known: TrialOutcome) -> TrialVerdict:
        """A trial's end."""
        if known.seconds < math.inf:
            values = self._logs(known)
            self._worst = tuple(map(max, values, self._worst or values))
            return TrialVerdict("COMPLETE" if known.outcome == "ok" or not self._prunes else "PRUNED", values, True)
        if self._kind.constrained:
            worst = self._worst or (0.0,) * (1 if self._values is None else 2)
            return TrialVerdict("PRUNED", (), False) if self._kind.prunes else TrialVerdict("COMPLETE", worst, False)
        return TrialVerdict("FAIL" if known.outcome in FAILURES else "PRUNED", (), False)

    def _logs(self, known: TrialOutcome) -> tuple[float, ...]:
        if self._values is None:
            return (math.log(known.seconds),)
        return tuple(self._values(known.measured))

    def finish(self, study: Any, trial: Any, known: TrialOutcome) -> None:
        """Tell how an asked trial ended."""
        from optuna.trial import TrialState

        v = self.verdict(known)
        with quiet():
            if self._kind.constrained:
                trial.set_constraint(VALID, 0.0 if v.valid else 1.0)
            if v.state == "PRUNED" and v.values:
                trial.report(v.values[0], 0)
            study.tell(trial, list(v.values) if v.state == "COMPLETE" else None, state=TrialState[v.state])

    def add(self, study: Any, layout: Layout, point: Point, known: TrialOutcome) -> None:
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


STARTS = 4
"""Start schedules that are looked for among the templates' instances."""


class OptunaSearch(Strategy):
    """One study over all templates: the template's name is a parameter, and its choices are conditional on it where
    the sampler can take that. What becomes of outcomes: see `OptunaTrials`. The study starts with the start schedules (those of the rules, cached winners),
    or the instances nearest to them, and, for guided samplers, what the model likes best of a random sample."""

    sampler: ClassVar[str]

    def __init__(
        self,
        space: Space,
        *,
        seed: int = 0,
        start: Sequence[Schedule] = (),
        study: StudyKeeper | None = None,
        sample: int = 32,
        startup: int = 8,
        tries: int = 4,
        values: Values | None = None,
    ) -> None:
        """`values`: a measurement's values of two objectives, where a front is searched for. `study`: where finished trials are kept; those of earlier sessions are told, not asked again, except the
        best, whose time must be taken anew to be this search's answer."""
        super().__init__(space, seed=seed, start=start)
        self._kind = kind(self.sampler)
        self._trials = OptunaTrials(self._kind, values)
        self._layout = Layout(space.templates(), self._kind)
        self._templates = self._layout.templates
        self._rng = Random(f"tpe {seed}")
        self._keeper = study
        self._sample, self._startup, self._tries = sample, startup, tries
        self._study: Any = None
        self._waiting: dict[str, list[Any]] = {}
        self._points: dict[str, Point] = {}
        self._known: dict[str, TrialOutcome] = {}
        self._kept: set[str] = set()
        self._queue: deque[Point] = deque()
        self._first: list[Schedule] = []
        self._dry = 0

    def ask(self, n: int) -> list[Schedule]:
        if not self._templates:
            return []
        if self._study is None:
            self._begin()
        out, self._first = self._first[:n], self._first[n:]
        for _ in range(2 * n + self._tries):
            if len(out) >= n:
                break
            sampled = not self._queue
            trial, point = self._draw()
            state = self._state(point)
            again = False
            if state is None:
                self._trials.finish(self._study, trial, TrialOutcome("illegal", math.inf))
            elif state.hash in self._known:
                self._trials.finish(self._study, trial, self._known[state.hash])
                self._keep(state)
                again = True
            elif state.hash in self._waiting:
                self._waiting[state.hash].append(trial)
            else:
                self._waiting[state.hash] = [trial]
                out.append(state.opts)
            if sampled and (self._kind.guided or (again and not self._kind.baseline)):
                self._perturb(point)
        self._dry = 0 if out else self._dry + 1
        if self._keeper is not None:
            self._keeper.flush()
        return out

    def tell(self, opts: Schedule, measurement: Measured) -> None:
        state = self.space.state(opts)
        if state is None:
            return
        known = self._known[state.hash] = TrialOutcome(str(measurement.outcome), seconds(measurement), measurement)
        for trial in self._waiting.pop(state.hash, []):
            self._trials.finish(self._study, trial, known)
        self._keep(state)

    @property
    def done(self) -> bool:
        """No templates, or nothing but repetitions in eight batches."""
        return not self._templates or self._dry >= 8

    def close(self) -> None:
        if self._keeper is not None:
            self._keeper.close()

    # the beginning --------------------------------------------------------------------------------------------------
    def _begin(self) -> None:
        import optuna

        loaded = self._keeper.load() if self._keeper is not None else []
        # with the same seed, another session's draws would only be repeated
        sampler = make(self._kind, self.seed + len(loaded), self._startup)
        self._study = optuna.create_study(sampler=sampler, **self._trials.directions)
        self._queue.extend(self._resume(loaded))
        self._queue.extend(self._starts())
        if self._kind.guided:
            self._queue.extend(self._favourites())

    def _resume(self, loaded: Sequence[StudyTrial]) -> list[Point]:
        """Tell the trials of earlier sessions; returns those to be drawn again for samplers that learn only from trials of their own."""
        right: dict[str, tuple[float, Point, Schedule]] = {}
        for kept in sorted(loaded, key=lambda k: k.outcome == "illegal"):
            point = (kept.template, dict(kept.params))
            state = self._state(point, keep=False)
            if state is None or kept.outcome == "illegal":
                # what is legal may have changed since; then it is not known, and is asked for where the sampler wants it
                if state is None:
                    self._kept.add(repr(point))
                    self._trials.add(self._study, self._layout, point, TrialOutcome("illegal", math.inf))
                continue
            known = TrialOutcome(kept.outcome, math.inf if kept.seconds is None else kept.seconds)
            self._kept.add(state.hash)
            self._known.setdefault(state.hash, known)
            self._trials.add(self._study, self._layout, point, known)
            if known.outcome == "ok" and known.seconds < right.get(state.hash, (math.inf,))[0]:
                right[state.hash] = known.seconds, point, state.opts
        best = sorted(right.items(), key=lambda r: r[1][0])
        started = {s.hash for s in map(self.space.state, self.start) if s is not None}
        self._first = [opts for h, (_, _, opts) in best[:1] if h not in started]
        return [point for _, (_, point, _) in best[: self._kind.injects]]

    def _starts(self) -> list[Point]:
        """Where the start schedules are in the templates' spaces: exactly, or the nearest legal instances."""
        fitters = [Fitter(t) for t in self._templates.values()]
        exact: dict[str, Point] = {}
        near: dict[str, Point] = {}
        for opts in [s for s in self.start if s][:STARTS]:
            found = nearest(fitters, opts)
            start, state = self.space.state(opts), None if found is None else self._state(found, keep=False)
            if found is not None and state is not None:
                (exact if start is not None and start.hash == state.hash else near)[state.hash] = found
        for h in exact:
            self._waiting.setdefault(h, [])  # it is measured in any case: wait for that, do not ask
        return [*exact.values(), *(p for h, p in near.items() if h not in exact)]

    def _favourites(self) -> list[Point]:
        """What the model likes best of a random sample."""
        names = list(self._templates)
        drawn: dict[str, tuple[float, Point]] = {}
        for i in range(self._sample):
            name = names[i % len(names)]
            point = (name, {k: self._rng.choice(v) for k, v in self._templates[name].params.items()})
            state = self._state(point)
            if state is not None:
                drawn.setdefault(state.hash, (state.estimate, point))
        return [point for _, point in sorted(drawn.values(), key=lambda d: d[0])[: self._startup]]

    # one trial ------------------------------------------------------------------------------------------------------
    def _draw(self) -> tuple[Any, Point]:
        """The next trial and what it chooses."""
        with quiet():
            if self._queue:
                self._study.enqueue_trial(self._layout.fixed(self._queue.popleft()))
            trial = self._study.ask()
            return trial, self._layout.suggest(trial)

    def _perturb(self, point: Point) -> None:
        """Queue a new schedule near a suggestion: in a discrete space the same is suggested again and again, and a
        suggestion is dear (TPE's 20 ms)."""
        name, params = point
        for _ in range(6 if params else 0):
            k = self._rng.choice(list(params))
            params = {**params, k: self._rng.choice(self._templates[name].params[k])}
            state = self._state((name, params))
            if state is not None and state.hash not in self._known and state.hash not in self._waiting:
                self._queue.append((name, params))
                return

    def _state(self, point: Point, keep: bool = True) -> State | None:
        """The legal schedule of a point; None, kept as illegal the first time, for one that is not."""
        name, params = point
        opts: Schedule | None = None
        try:
            opts = tuple(self._templates[name].make(params))
            state = self.space.state(opts)
            why = "" if state is not None else self.space.reason(opts)
        except OptError as e:
            state, why = None, str(e)
        if state is not None:
            self._points.setdefault(state.hash, point)
        elif keep and self._keeper is not None and repr(point) not in self._kept:
            self._kept.add(repr(point))
            self._keeper.add(
                StudyTrial(name, params, "illegal", None, {"why": why[:500], **({"opts": _json(opts)} if opts is not None else {})})
            )
        return state

    def _keep(self, state: State) -> None:
        """Hand a measured point to the keeper, once."""
        known, point = self._known[state.hash], self._points.get(state.hash)
        if self._keeper is None or point is None or known.measured is None or state.hash in self._kept:
            return
        self._kept.add(state.hash)
        attrs = {"opts": _json(state.opts), "hash": state.hash}
        for ours, theirs in (("outputs", "outputs"), ("source", "sha"), ("why", "detail")):
            value = getattr(known.measured, theirs, None)  # a recorded measurement has fewer fields
            if value:
                attrs[ours] = str(value)[:500]
        self._keeper.add(StudyTrial(*point, known.outcome, known.seconds if known.seconds < math.inf else None, attrs))
        self._keeper.flush()


def _json(opts: Schedule) -> str:
    return dumps(opts)


class Tpe(OptunaSearch):
    """Tree-structured Parzen estimators."""

    name, sampler = "optuna:tpe", "tpe"


class Gp(OptunaSearch):
    """Gaussian process."""

    name, sampler = "optuna:gp", "gp"


class CmaEs(OptunaSearch):
    """Covariance matrix adaptation."""

    name, sampler = "optuna:cmaes", "cmaes"


class Nsga2(OptunaSearch):
    """Genetic algorithm."""

    name, sampler = "optuna:nsga2", "nsga2"


class Qmc(OptunaSearch):
    """Quasi-random sequence."""

    name, sampler = "optuna:qmc", "qmc"


class Uniform(OptunaSearch):
    """Uniform choices: the baseline of the templates' spaces."""

    name, sampler = "optuna:random", "random"
