"""What a search is asked for (`TuneRequest`) and what it is about (`Task`), whether that is a kernel or a source of a user's."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol, get_args

from ..ir.errors import OptError, UsageError
from ..opts.opt import parse
from . import strategy as strategies
from .budget import GLANCE, Budget
from .progress import Progress, Silent
from .warm_start import SearchEffort

if TYPE_CHECKING:
    from ..cache import Cache, Key, Row
    from ..devices import Device
    from ..ir.normal_form import Canonical
    from ..measure.measurement_policy import MeasurementPolicy
    from ..measure.roofline import Roofline
    from .cache_recorder import CacheRecorder
    from .candidate_measurer import CandidateMeasurer
    from .result import Job, Result
    from .run_state import Start
    from .space import Space

Mode = Literal["use", "require", "record", "tune", "refresh"]
MODES: tuple[str, ...] = get_args(Mode)
OnInterrupt = Literal["raise", "return"]
Measuring = Callable[[Any, "TuneRequest", bool], AbstractContextManager["CandidateMeasurer"]]
"""What makes a measurer of (task, request, whether outputs are hashed)."""


@dataclass(frozen=True, slots=True)
class TuneRequest:
    """How a search is to be made, as `tune` and `tune_source` take it by name. `strategy`: a full name, '' for the task's own choice.
    `wanted`: what the search behind a cached answer must have had, for the answer to do (None: nothing). `again`: the cache's answer does
    not do. `started`: the moment on `time.monotonic` from which the budget counts. `measuring`: what makes the measurer, where that is not
    the task's own. `command`: the command that repeats the search, where the task's own words do not. `policy`: where operands lie while they are timed, where
    that was asked for."""

    budget: Budget = field(default_factory=Budget)
    wanted: Budget | None = None
    strategy: str = ""
    start: str = "auto"
    random_seed: int = 0
    mode: Mode = "use"
    again: bool = False
    study: str | None = None
    started: float = field(default_factory=time.monotonic)
    progress: Progress = field(default_factory=Silent)
    measuring: Measuring | None = None
    command: str = ""
    policy: MeasurementPolicy | None = None

    @classmethod
    def make(
        cls,
        budget: str | float | Budget | None = None,
        trials: int | None = None,
        stop_at: float | None = None,
        patience: int | None = None,
        *,
        strategy: str | None = None,
        mode: Mode = "use",
        retune: bool = False,
        start: str = "auto",
        study: str | None = None,
        **more: Any,
    ) -> TuneRequest:
        """From the arguments of `tune`; `more` are fields. Raises UsageError where they contradict each other, or a name is not there."""
        limit = Budget.make(budget, trials, stop_at, patience)
        if start not in ("auto", "none"):
            try:
                parse(start)  # whether it applies is told when the kernel is known
            except OptError as e:
                raise UsageError(f"start must be auto, none or a schedule: {e}") from e
        if mode == "require" and retune:
            raise UsageError("require answers from the cache and retune searches again: use one of them")
        name = "" if strategy is None and not study else strategies.check("optuna:tpe" if strategy is None else strategy)
        if study and not name.startswith("optuna:"):
            raise UsageError(f"a study is kept for Optuna's strategies (optuna:tpe and others), not for {name!r}")
        wanted = None if not limit.wish else limit if budget is not None or trials is not None else GLANCE
        again = retune or mode == "refresh"
        return cls(limit, wanted, name, start, mode=mode, again=again, study=study, **more)

    @property
    def seconds(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self.started

    @property
    def deadline_s(self) -> float:
        """Seconds that a call of a candidate may take: one endless loop must not cost the whole budget."""
        return 10.0 if self.budget.seconds is None else min(10.0, max(2.0, self.budget.seconds / 6))

    @property
    def build_deadline_s(self) -> float:
        """Seconds that a build may take: a third of the budget, within 5 s and what the largest kernels need."""
        return BUILD_S if self.budget.seconds is None else min(BUILD_S, max(5.0, self.budget.seconds / 3))


BUILD_S = 30.0
"""Seconds that a build may take where there is no limit on all."""


@dataclass(frozen=True, slots=True)
class CachedAnswer:
    """The cache's answer to a task. `usable`: as an answer, and not only to go on from. `checked`: it was verified on this machine, twice;
    else it is checked and timed here before it answers. `result` makes the result from a job and the seconds that the look-up took."""

    row: Row
    result: Callable[[Job, float], Result]
    usable: bool = True
    checked: bool = True

    @property
    def effort(self) -> SearchEffort | None:
        """How thorough the search behind it was, where it says so."""
        return SearchEffort.of(self.row)

    def covers(self, wanted: Budget | None) -> bool:
        """Whether that search was as thorough as is `wanted`. One that says nothing of it counts as thorough."""
        return self.usable and (self.effort is None or self.effort.covers(wanted))


class Task(Protocol):
    """What can be tuned on a device. `search.api.tuned` calls each of these once, in this order, and only as far as it gets."""

    @property
    def device(self) -> Device: ...

    @property
    def threads(self) -> int: ...

    @property
    def name(self) -> str:
        """The name that people use."""
        ...

    @property
    def key(self) -> Key:
        """What identifies it in the cache."""
        ...

    @property
    def canonical(self) -> Canonical:
        """The translation between its own names and those in the cache's option lists."""
        ...

    def strategy(self, request: TuneRequest) -> str:
        """The full name of the strategy. Raises UsageError for one that cannot search this."""
        ...

    def job(self, strategy: str, request: TuneRequest) -> Job:
        """The description that a result carries."""
        ...

    def look(self, cache: Cache, required: bool = False) -> CachedAnswer | None:
        """The cache's answer; None where it has none. `required`: then CacheMiss is raised, also for one that is not usable."""
        ...

    def check(self, request: TuneRequest) -> None:
        """Raise what would be raised when it is measured, as far as that is known before anything takes time."""
        ...

    def roofline(self) -> Roofline | None:
        """What bounds it here; None where that, or the machine's limits, are not known."""
        ...

    def space(self) -> Space:
        """What is searched."""
        ...

    def measurer(self, request: TuneRequest, hashed: bool = False) -> AbstractContextManager[CandidateMeasurer]:
        """What measures its candidates, here. `hashed`: outputs are hashed, for a study."""
        ...

    def recorder(self, cache: Cache, space: Space, job: Job) -> CacheRecorder:
        """What writes its measurements into a cache."""
        ...

    def starts(self, cache: Cache, space: Space, job: Job) -> Sequence[Start]:
        """What is measured first: what it is without tuning, then what the cache remembers."""
        ...

    def searcher(self, strategy: str) -> Mapping[str, Any] | None:
        """What `strategies.create` is told beyond the space; None where there is nothing to search."""
        ...

    def study_of(self, job: Job) -> tuple[str, Mapping[str, Any]]:
        """A study's name, and what is shown with it."""
        ...

    def worded(self, result: Result) -> Result:
        """The result in the words for such a task."""
        ...
