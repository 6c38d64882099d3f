"""How long a search may go on: seconds, measurements, a share of the roofline, no gain for some generations, or none that is expected."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from decimal import Decimal
from numbers import Real
from typing import TYPE_CHECKING

from ..ir import argument_checks
from ..ir.errors import UsageError
from .interrupts import late_s
from .outlook import PLATEAU, Outlook

if TYPE_CHECKING:
    from .candidate_measurer import CandidateMeasurer

_UNITS = {"": 1.0, "ms": 1e-3, "s": 1.0, "sec": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}
DEFAULT_SECONDS = 30.0
SPENT = "the time budget is spent"
LEAST = 0.15
"""Share of the seconds that a search gets once something was measured."""
_CALLS = 8
"""Calls that measuring a candidate takes, about."""


def parse_seconds(text: str | float) -> float:
    """Seconds from "30s", "5m", "1.5h", "1h30m", "500ms" or a plain number; UsageError for anything else or nothing positive."""
    if isinstance(text, Real) and not isinstance(text, bool):
        try:
            total = float(text)
        except OverflowError:
            total = float("inf")
    else:
        clean = str(text).strip().lower().replace(" ", "")
        parts = re.findall(r"(\d+(?:\.\d*)?|\.\d+)(ms|sec|s|min|m|h|)", clean)
        if not parts or "".join(n + u for n, u in parts) != clean or (len(parts) > 1 and any(not u for _, u in parts)):
            raise UsageError(f"budget {text!r} is not a time; write it like 30s, 5m, 1h30m or a number of seconds")
        total = sum(float(n) * _UNITS[u] for n, u in parts)
    if not 0 < total < float("inf"):
        shown = repr(text) if isinstance(text, str) else f"{total:g}"
        raise UsageError(f"budget {shown} must be more than nothing, and a number of seconds that there is")
    return total


def written(seconds: float) -> str:
    """A time as `parse_seconds` reads it: 30s, 0.5s, 1080000s."""
    return f"{Decimal(repr(seconds)):f}".removesuffix(".0") + "s"


def second_inputs(prepared: tuple[float, float] | None, waited: float) -> float:
    """Seconds that the inputs and references of a second check take: of three kinds (special values take twice as long and more, but of
    heavy kernels a part alone), and copies once. `prepared`: processor seconds of those of the search, and of their copies; where nobody said, the search `waited` so long for
    both."""
    if prepared is None:
        return 4 * max(0.0, waited)
    made, copied = prepared
    return 2 * made + min(2.5 * made, 1.0 + 0.5 * made) + copied


def second_check(measurer: CandidateMeasurer, waited_s: float, cost_s: float, fastest_s: float) -> float:
    """Seconds that a second check will still take where candidates cost `cost_s` each and a call `fastest_s` (infinite: not known); less what the measurer has
    prepared beside the search. `waited_s`: as `second_inputs` takes it."""
    from ..measure.checking.repeated_runs import expected_s

    made = second_inputs(measurer.prepared_s, waited_s)
    return measurer.second_left_s(made) + 4 * cost_s + expected_s(fastest_s if fastest_s < float("inf") else 0.0)


@dataclass(frozen=True, slots=True)
class Budget:
    """Limits of a search, None where there is none. `seconds` counts from the start of the command, decision included; `trials` counts
    measurements; `stop_at` is a fraction of the roofline (0.95); `patience` a number of generations (batches) without a gain over 1 %."""

    seconds: float | None = DEFAULT_SECONDS
    trials: int | None = None
    stop_at: float | None = None
    patience: int | None = None
    plateau: float | None = None
    """Stop where another minute is expected to gain less than this share."""
    wish: bool = True
    """Whether a cached answer must have had as much; else these are only limits."""

    @classmethod
    def make(
        cls,
        budget: str | float | Budget | None = None,
        trials: int | None = None,
        stop_at: float | None = None,
        patience: int | None = None,
    ) -> Budget:
        """From the arguments of `tune`. With neither seconds nor trials the default is 30 s; trials alone set no time
        limit. Raises UsageError."""
        if isinstance(budget, Budget):
            return budget
        argument_checks.check("tune", budget=budget, trials=trials, patience=patience, stop_at=stop_at)
        if stop_at is not None and not 0 < stop_at <= 1:
            raise UsageError(f"stop_at is a fraction of the roofline in (0, 1], not {stop_at}")
        seconds = parse_seconds(budget) if budget is not None else (None if trials is not None else DEFAULT_SECONDS)
        trials, patience = (None if n is None else int(n) for n in (trials, patience))  # NumPy's are numbers too
        return cls(seconds, trials, stop_at, patience)

    @classmethod
    def until(cls, text: str, budget: str | None = None, trials: int | None = None) -> Budget:
        """What "plateau", "0.95-roofline" or a time such as "5m" ends, `budget` and `trials` being limits beside it. UsageError for another
        text, or for two times."""
        share = re.fullmatch(r"(\d*\.?\d+)-roofline", text.strip())
        given = cls.make(budget, trials)
        limits = given if budget is not None or trials is not None else replace(given, seconds=None)
        if text.strip() == "plateau":
            return replace(limits, plateau=PLATEAU)
        if share is not None:
            if not 0 < float(share[1]) <= 1:
                raise UsageError(f"{text!r}: the share of the roofline is more than 0 and at most 1, such as 0.95-roofline")
            return replace(given, stop_at=float(share[1]))
        try:
            seconds = parse_seconds(text)
        except UsageError:
            raise UsageError(f"{text!r} is no end of a search: write plateau, 0.95-roofline or a time such as 5m") from None
        if budget is not None:
            raise UsageError(f"--until {text} and --budget {budget} are both times; give one of them")
        return replace(limits, seconds=seconds)

    def __str__(self) -> str:
        parts = [written(self.seconds)] if self.seconds is not None else []
        parts += [f"{self.trials} trials"] if self.trials is not None else []
        return ", ".join(parts) or "no limit"


GLANCE = Budget(seconds=10.0, trials=20)
"""What a search must have had, one or the other, to answer whoever names no budget."""


class Meter:
    """A budget being spent."""

    def __init__(self, budget: Budget, started: float | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        """`started`: the moment on `clock` from which the budget counts (now, when None)."""
        self.budget = budget
        self.clock = clock
        self.started = clock() if started is None else started
        self.measured = 0
        self.outlook = Outlook()
        self.check_s = 0.0
        """What the second check of a winner is expected to take, in seconds."""
        self._best = float("inf")
        self._stale = 0
        self._first: float | None = None

    @property
    def elapsed(self) -> float:
        """Seconds since the start."""
        return self.clock() - self.started

    @property
    def left(self) -> float:
        """Seconds until the end, infinity without a limit; negative when over."""
        return float("inf") if self.budget.seconds is None else self.budget.seconds - self.elapsed

    @property
    def reserve(self) -> float:
        """Seconds kept back for deciding between the finalists: what a hundred bursts of twenty calls with their
        rests take at the best time so far, at most six and a fifth of the budget, at least a third of a second; and
        the second check. Together at most half the budget."""
        if self.budget.seconds is None:
            return 0.0
        duels = max(0.35, min(6.0, 0.2 * self.budget.seconds, 0.5 + 100 * (20 * self._best + 0.015)))
        return min(duels + self.check_s, 0.5 * self.budget.seconds)

    @property
    def search_left(self) -> float:
        """Seconds left for searching. Where preparing took what deciding leaves, a share of the budget from the first
        measurement on all the same, if a few candidates fit in it: the first costs seconds of inputs and reference,
        those after it next to nothing, and one alone is no search."""
        rest = self.left - self.reserve
        if self._first is None or self.budget.seconds is None:
            return rest
        if 3 * _CALLS * self._best >= self.share:
            return rest
        return max(rest, min(self.left, self.share - (self.elapsed - self._first)))

    @property
    def grace(self) -> float:
        """Seconds past the budget in which a first answer may still come, infinity without a limit."""
        return late_s(self.budget.seconds)

    @property
    def share(self) -> float:
        """Seconds that searching may take past what deciding leaves."""
        return LEAST * (self.budget.seconds or 0.0)

    @property
    def trials_left(self) -> float:
        """Measurements left, infinity without a limit."""
        return float("inf") if self.budget.trials is None else self.budget.trials - self.measured

    def generation(self, measured: int, best_s: float) -> None:
        """One batch was measured; `best_s` is the best time so far in seconds."""
        self.measured += measured
        if self._first is None and best_s < float("inf"):
            self._first = self.elapsed
        self._stale = 0 if best_s < 0.99 * self._best else self._stale + 1
        self._best = min(self._best, best_s)

    @property
    def minute(self) -> float | None:
        """The share that another minute is expected to gain; None while too little is known."""
        return None if self._first is None else self.outlook.gain_in(60.0, self.elapsed - self._first)

    def why_stop(self, roofline_s: float | None = None) -> str | None:
        """The limit that was reached, in words; None while the search may go on."""
        b = self.budget
        if self.search_left <= 0:
            return SPENT
        if self.trials_left <= 0:
            return f"{b.trials} measurements were made"
        if b.stop_at is not None and roofline_s is not None and self._best <= roofline_s / b.stop_at:
            return f"{100 * b.stop_at:g} % of the roofline was reached"
        if b.patience is not None and self._stale >= b.patience:
            return f"no gain in {b.patience} generations"
        if b.plateau is not None and (expected := self.minute) is not None and expected < b.plateau:
            return f"a plateau: another minute is expected to gain {100 * expected:.2g} %"
        return None
