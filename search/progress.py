"""What a search says while it runs. The calls come from the main thread, between measurements, never while something is being timed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from ..measure import Measurement
    from .result import Result


class Progress(Protocol):
    """Implement it to show or log a search."""

    def phase(self, name: str) -> None:
        """The search enters another phase: "preparing", "seeds", "searching", "deciding"."""

    def candidate(self, measurement: Measurement) -> None:
        """One candidate has an outcome."""

    def best(self, best: Result) -> None:
        """There is a new best; the fields of the decision (gain, confirmed) are not settled yet."""

    def done(self, result: Result) -> None:
        """The search has ended."""


class Silent:
    """Says nothing."""

    def phase(self, name: str) -> None:
        """Nothing."""

    def candidate(self, measurement: Measurement) -> None:
        """Nothing."""

    def best(self, best: Result) -> None:
        """Nothing."""

    def done(self, result: Result) -> None:
        """Nothing."""
