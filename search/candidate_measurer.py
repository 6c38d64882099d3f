"""The seam between a search and what builds, verifies and times its candidates.

`measure.Measurer` does it on this machine, `fleet.batches.fleet_measurer.FleetMeasurer` on several devices, and a test's by a formula. A
class that derives from `CandidateMeasurer` writes `build`, `measure`, `confirm` and `duel`, and inherits the rest as a machine has it that times
alone, one candidate after the other, and prepares nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from ..measure import Duel, Measurement, Race
    from .space import Schedule


class CandidateBuilds(Protocol):
    """The builds of one call of `CandidateMeasurer.build`: pairs of a schedule's index and what was built of it, or the Measurement that says why not.
    They come as they finish, in any order. As an iterator it waits for each."""

    def __iter__(self) -> Iterator[tuple[int, Any]]: ...

    def __next__(self) -> tuple[int, Any]: ...

    def __len__(self) -> int:
        """Schedules that were not taken yet."""
        ...

    def finished(self, wait_s: float) -> list[tuple[int, Any]]:
        """All that is finished and was not taken yet; where nothing is, what finishes within `wait_s` seconds."""
        ...

    def wait(self, wait_s: float) -> None:
        """Return when some build may have finished, after `wait_s` seconds at the latest."""
        ...

    def close(self) -> None:
        """Drop what is not built yet."""
        ...


class CandidateMeasurer(Protocol):
    """Builds, verifies and times candidates of one kernel. A search calls it from one thread."""

    def build(self, schedules: Sequence[Schedule]) -> CandidateBuilds:
        """Begin to build schedules, and return at once. The search calls it ahead of `measure`, with several calls under way."""
        ...

    def measure(self, built: Sequence[Any], incumbent_s: float | None = None) -> list[Measurement]:
        """Verify and time what `build` made; one Measurement for each, in order. `incumbent_s`: seconds a call of the best so far. What is
        clearly slower need not be timed to the end (outcome `slow`). Raises MeasureError where nothing can be measured any more."""
        ...

    def confirm(self, built: Any) -> Measurement:
        """A second check of a winner, on other inputs than `measure` used."""
        ...

    def duel(self, a: Any, b: Any, rounds: int = 8, energy: bool = False) -> Duel:
        """Time two builds in turns. `energy`: compare joules, not seconds (asked only of what measures energy). Raises MeasureError, whose
        `culprit` is 0 or 1 where one of the two is not right."""
        ...

    # inherited ------------------------------------------------------------------------------------------------------
    @property
    def width(self) -> int:
        """Devices that `measure` times on at once; it may change in the course of a search."""
        return 1

    def again(self, built: Sequence[Any]) -> list[Measurement]:
        """As `measure`, all on one device and to the end, so that times may be compared. The finals begin with it."""
        return self.measure(built)

    def race(self, built: Sequence[Any], rounds: int, limit_s: float) -> Race | None:
        """Time several builds in common rounds, for about so many seconds; None where only two can be compared at a time. The finals ask once. Raises as
        `duel` does."""
        return None

    @property
    def races(self) -> bool:
        """Whether `race` compares more than two."""
        return False

    def listen(self, told: Callable[[Measurement], None]) -> bool:
        """Call `told` with each result of `measure` as it arrives, from now on; False where all results arrive together. A search calls it
        once, before anything else, and records what it is told at once."""
        return False

    def meanwhile(self, todo: Callable[[], None]) -> None:
        """Call `todo` once while the next `measure` times, if a core is free. A search lets its strategy think there."""
        return

    def expect_confirm(self) -> None:
        """There is a candidate that may win: inputs and references of `confirm` may be prepared in the background."""
        return

    @property
    def prepared_s(self) -> tuple[float, float] | None:
        """Processor seconds that inputs and references took, and copies of operands; None where that is not known."""
        return None

    def second_left_s(self, estimate_s: float) -> float:
        """Seconds until the inputs of `confirm` are ready, where making all of them takes `estimate_s`."""
        return estimate_s

    def exclusive(self) -> AbstractContextManager[None]:
        """Inside, none of its processes uses the machine: the machine's limits are measured there."""
        return nullcontext()
