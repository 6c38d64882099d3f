"""A study in Optuna's own storage, for its dashboard and for the next session.

The search samples from a study in memory and copies every finished trial here whole, in one transaction: asking and
telling through SQLite takes a third of a second a trial, a copy a tenth of that. So a kept trial is for people and
for resuming: its value is seconds, its parameters are the choices themselves. The sampler's own state is not kept,
some of it being pickles, which must not be read from a database."""

from __future__ import annotations

import contextlib
import hashlib
import sqlite3
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ...ir.errors import UsageError
from .explained import explained, file_of, shown_url
from .opening import WAIT_S, opened, silenced, together
from .parameters import TEMPLATE
from .samplers import quiet

if TYPE_CHECKING:
    from ..space import TemplateLike

FAILURES = ("wrong", "build", "timeout", "crash")
OUTCOMES = ("ok", "slow", "illegal", *FAILURES)
AGAIN_S = 0.5
"""Seconds until a storage that failed is tried again."""
LAST_S = 60.0
"""Seconds that the last of it may take at the end; a search with a budget in seconds sets fewer (`StudyKeeper.last_s`)."""
EACH_S = 0.1
"""Seconds that writing may take at a time while a search runs; the rest waits."""


@dataclass(frozen=True, slots=True)
class Kept:
    """One finished trial: a template with choices, what came of it, and its time in seconds (None unless ok or slow).
    `attrs` are for people."""

    template: str
    params: Mapping[str, Any]
    outcome: str
    seconds: float | None = None
    attrs: Mapping[str, Any] = field(default_factory=dict)


class StudyKeeper:
    """One study of a storage, by name. A failure while a search runs is a warning: every measurement is in the cache as well."""

    def __init__(
        self, url: str, name: str, templates: Sequence[TemplateLike], about: Mapping[str, Any], clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Opens or makes it. `url`: an SQLAlchemy URL (sqlite:///study.db, postgresql://…), redis://…, or the path of
        a journal file. `name` gets a digest of what the templates leave open, since Optuna refuses a parameter with
        other choices. `about`: JSON-able, shown with the study; `about["flops"]` gives each trial's GFLOP/s. Raises
        UsageError, with what to do."""
        self.place = shown_url(url)
        self._templates = {t.name: t for t in templates}
        spaces = {t.name: [[k, [str(c) for c in v]] for k, v in t.params.items()] for t in templates}
        self.name = f"{name[:400]} {hashlib.sha256(repr(sorted(spaces.items())).encode()).hexdigest()[:6]}"
        self.flops = int(about.get("flops", 0))
        self._clock = clock
        self._measured: list[Kept] = []
        self._illegal: list[Kept] = []
        self._retry_at = 0.0
        self._error = ""
        self._file = file_of(url)
        self.last_s = LAST_S
        silenced()
        with quiet(), explained(f"cannot open the study {self.place}"):
            self._storage, self._study = together(lambda: opened(url, self.name, about))

    def load(self) -> list[Kept]:
        """The trials of earlier sessions, oldest first. What is not one of ours, or makes no sense, is left out."""
        with quiet(), explained(f"cannot read the study {self.place}"):
            trials = self._study.get_trials(deepcopy=False)
        return [kept for t in trials if (kept := self._read(t)) is not None]

    def add(self, kept: Kept) -> None:
        """One more finished trial, written when there is time (`flush`, `close`); those that were measured first."""
        (self._illegal if kept.outcome == "illegal" else self._measured).append(kept)

    def flush(self, limit_s: float = EACH_S) -> None:
        """Write what is waiting, for about `limit_s` seconds, unless the storage is held by another process."""
        end = self._clock() + limit_s
        while (self._measured or self._illegal) and self._clock() < end and self._clock() >= self._retry_at:
            queue = self._measured or self._illegal
            try:
                # Optuna tries five times, with pauses, which a running search has no time for: ask first
                if self._held():
                    raise UsageError("database is locked")
                with quiet(), explained("the trial was not written"):
                    self._study.add_trial(self._trial(queue[0]))
            except UsageError as e:
                self._error, self._retry_at = str(e), self._clock() + AGAIN_S
                return
            queue.pop(0)

    def close(self) -> None:
        """Write the rest and let go. Warns about what could not be written."""
        began = self._clock()
        end, held = began + self.last_s, began + min(WAIT_S, self.last_s)
        self._retry_at = 0.0
        self.flush(self.last_s)
        while (self._measured or self._illegal) and self._clock() < held:
            time.sleep(0.05)
            self.flush(end - self._clock())
        left = len(self._measured) + len(self._illegal)
        if left:
            warnings.warn(
                f"{left} trials are missing in the study {self.place}: {self._error or 'writing them takes too long'}. Their measurements are in the cache",
                stacklevel=2,
            )
        self._measured, self._illegal = [], []
        engine = getattr(self._storage, "engine", None)
        if engine is not None:
            self._storage.remove_session()
            engine.dispose()

    def _held(self) -> bool:
        """Whether an SQLite storage cannot be written at the moment."""
        if self._file is None:
            return False
        try:
            with contextlib.closing(sqlite3.connect(self._file, timeout=0, isolation_level=None)) as c:
                c.execute("BEGIN IMMEDIATE")
                c.execute("ROLLBACK")
        except sqlite3.OperationalError as e:
            return "locked" in str(e)
        return False

    # one trial ------------------------------------------------------------------------------------------------------
    def _trial(self, kept: Kept) -> Any:
        from optuna.distributions import BaseDistribution, CategoricalDistribution
        from optuna.trial import TrialState, create_trial

        open_params = self._templates[kept.template].params
        params = {TEMPLATE: kept.template, **{f"{kept.template}.{k}": v for k, v in kept.params.items()}}
        kinds: dict[str, BaseDistribution] = {TEMPLATE: CategoricalDistribution(list(self._templates))}
        kinds |= {f"{kept.template}.{k}": CategoricalDistribution(list(open_params[k])) for k in kept.params}
        state = TrialState.COMPLETE if kept.outcome == "ok" else TrialState.FAIL if kept.outcome in FAILURES else TrialState.PRUNED
        rate = {"gflops": self.flops / kept.seconds * 1e-9} if kept.seconds and self.flops else {}
        return create_trial(
            state=state,
            value=kept.seconds if kept.outcome == "ok" else None,
            intermediate_values={0: kept.seconds} if kept.outcome == "slow" and kept.seconds else {},
            params=params,
            distributions=kinds,
            constraints={"legal": 1.0 if kept.outcome == "illegal" else 0.0},
            user_attrs={"outcome": kept.outcome, **rate, **kept.attrs},
        )

    def _read(self, trial: Any) -> Kept | None:
        outcome, name = trial.user_attrs.get("outcome"), trial.params.get(TEMPLATE)
        template = self._templates.get(name) if isinstance(name, str) else None
        if template is None or outcome not in OUTCOMES:
            return None
        params = {k: trial.params.get(f"{name}.{k}") for k in template.params}
        if any(v not in template.params[k] for k, v in params.items()):
            return None
        t = trial.value if outcome == "ok" else trial.intermediate_values.get(0) if outcome == "slow" else None
        if outcome in ("ok", "slow") and not (isinstance(t, float) and 0 < t < float("inf")):
            return None
        return Kept(template.name, params, outcome, t, dict(trial.user_attrs))
