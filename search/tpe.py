"""Optuna's TPE over parameterised schedules.

The study lives in memory: our own table is the record, and Optuna's SQLite storage costs 90 to 180 ms a trial. Illegal choices are told as
pruned trials, which TPE ranks below every finished one, so it learns to avoid them.
"""

from __future__ import annotations

import math
import warnings
from collections import deque
from random import Random
from typing import TYPE_CHECKING, Any, ClassVar

from .strategy import Measured, Strategy, seconds

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .space import Schedule, Space, State, TemplateLike


class Tpe(Strategy):
    """One study over all templates: the template's name is a parameter, its own parameters are conditional on it. The first trials are the choices
    that the model likes best out of a random sample; after them TPE (Bergstra et al., "Algorithms for Hyper-Parameter Optimization", NeurIPS 2011)."""

    name: ClassVar[str] = "optuna"

    def __init__(
        self, space: Space, *, seed: int = 0, start: Sequence[Schedule] = (), sampler: Any = None, sample: int = 48, startup: int = 8, tries: int = 4
    ) -> None:
        super().__init__(space, seed=seed, start=start)
        self._templates: dict[str, TemplateLike] = {t.name: t for t in space.templates()}
        self._rng = Random(f"tpe {seed}")
        self._sampler, self._sample, self._startup, self._tries = sampler, sample, startup, tries
        self._study: Any = None
        self._waiting: dict[str, list[Any]] = {}
        self._known: dict[str, float] = {}
        self._queue: deque[tuple[str, dict[str, Any]]] = deque()
        self._dry = 0

    def ask(self, n: int) -> list[Schedule]:
        if not self._templates:
            return []
        if self._study is None:
            self._begin()
        out: list[Schedule] = []
        for _ in range(2 * n + self._tries):
            if len(out) == n:
                break
            sampled = not self._queue
            trial, name, params = self._draw()
            state = self._state(name, params)
            if state is None:
                self._finish(trial, None)
            elif state.hash in self._known:
                self._finish(trial, self._known[state.hash])
            elif state.hash in self._waiting:
                self._waiting[state.hash].append(trial)
            else:
                self._waiting[state.hash] = [trial]
                out.append(state.opts)
            if sampled:
                self._perturb(name, params)
        self._dry = 0 if out else self._dry + 1
        return out

    def tell(self, opts: Schedule, measurement: Measured) -> None:
        state = self.space.state(opts)
        if state is None:
            return
        self._known[state.hash] = t = seconds(measurement)
        for trial in self._waiting.pop(state.hash, []):
            self._finish(trial, t)

    @property
    def done(self) -> bool:
        """No templates, or nothing but repetitions in eight batches."""
        return not self._templates or self._dry >= 8

    def _begin(self) -> None:
        import optuna

        optuna.logging.set_verbosity(optuna.logging.ERROR)
        sampler = self._sampler
        if sampler is None:
            with warnings.catch_warnings():
                # multivariate, group and constant_liar are marked experimental; their keyword names are all we rely on
                warnings.simplefilter("ignore")
                sampler = optuna.samplers.TPESampler(seed=self.seed, multivariate=True, group=True, constant_liar=True, n_startup_trials=self._startup)
        self._study = optuna.create_study(sampler=sampler, direction="minimize")
        names = list(self._templates)
        drawn: dict[str, tuple[float, str, dict[str, Any]]] = {}
        for i in range(self._sample):
            name = names[i % len(names)]
            params = {k: self._rng.choice(v) for k, v in self._templates[name].params.items()}
            state = self._state(name, params)
            if state is not None:
                drawn.setdefault(state.hash, (state.estimate, name, params))
        for _, name, params in sorted(drawn.values(), key=lambda d: d[0])[: self._startup]:
            self._queue.append((name, params))

    def _draw(self) -> tuple[Any, str, dict[str, Any]]:
        """The next trial, its template and choices."""
        if self._queue:
            name, params = self._queue.popleft()
            self._study.enqueue_trial({"template": name, **{self._label(name, k): self._encode(name, k, v) for k, v in params.items()}})
        trial = self._study.ask()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            name = trial.suggest_categorical("template", list(self._templates))
            chosen = {k: self._suggest(trial, name, k, v) for k, v in self._templates[name].params.items()}
        return trial, name, chosen

    def _perturb(self, name: str, params: dict[str, Any]) -> None:
        """Queue a new schedule near a suggestion: TPE in a discrete space suggests the same again and again, and each suggestion costs it 20 ms."""
        for _ in range(6 if params else 0):
            k = self._rng.choice(list(params))
            params = {**params, k: self._rng.choice(self._templates[name].params[k])}
            state = self._state(name, params)
            if state is not None and state.hash not in self._known and state.hash not in self._waiting:
                self._queue.append((name, params))
                return

    def _state(self, name: str, params: dict[str, Any]) -> State | None:
        opts = self.space.instance(self._templates[name], params)
        return None if opts is None else self.space.state(opts)

    @staticmethod
    def _label(template: str, param: str) -> str:
        return f"{template}.{param}"

    def _encode(self, template: str, param: str, value: Any) -> int:
        return list(self._templates[template].params[param]).index(value)

    def _suggest(self, trial: Any, template: str, param: str, choices: Sequence[Any]) -> Any:
        """Numbers in order are an integer parameter (their index), so that TPE knows which are near; anything else is categorical."""
        ordered = all(isinstance(c, int) and not isinstance(c, bool) for c in choices) and list(choices) == sorted(choices)
        label = self._label(template, param)
        if ordered:
            return choices[trial.suggest_int(label, 0, len(choices) - 1)]
        return choices[trial.suggest_categorical(label, list(range(len(choices))))]

    def _finish(self, trial: Any, t: float | None) -> None:
        import optuna

        if t is None or not t < math.inf:
            self._study.tell(trial, state=optuna.trial.TrialState.PRUNED)
        else:
            # the logarithm: TPE splits by rank, but its weights and our reading of values want ratios
            self._study.tell(trial, math.log(t))
