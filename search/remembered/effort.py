"""How thorough the searches behind a cached answer were: what decides whether the answer will do, or the search goes on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Any

from ..budget import Budget

if TYPE_CHECKING:
    from ...cache import Row

GLANCE = Budget(seconds=10.0, trials=20)
"""What a search must have had, one or the other, to answer whoever names no budget."""
_ENOUGH = 0.95
"""A search that had this share of the seconds asked for had them: it ends a little before its budget."""


@dataclass(frozen=True, slots=True)
class Effort:
    """All searches of one key with one version of the tool together: `seconds` of search and `candidates` that were
    tried. `complete`: there was nothing left to try. `patience`: generations without a gain after which the last one
    gave up, 0 where it did not. `interrupted`: the last one was."""

    seconds: float = 0.0
    candidates: int = 0
    complete: bool = False
    patience: int = 0
    interrupted: bool = False

    @classmethod
    def of(cls, row: Row) -> Effort | None:
        """What a row says of it; None where it says nothing (it was written before rows did, or by hand)."""
        said = row.facts.get("effort")
        if not isinstance(said, Mapping):
            return None
        made = {f.name: said.get(f.name, f.default) for f in fields(cls)}
        right = all(isinstance(v, (int, float)) and v >= 0 for v in made.values())
        return (
            cls(float(made["seconds"]), int(made["candidates"]), bool(made["complete"]), int(made["patience"]), bool(made["interrupted"]))
            if right
            else None
        )

    @property
    def json(self) -> dict[str, Any]:
        """Plain data."""
        return {**asdict(self), "seconds": round(self.seconds, 3)}

    def then(self, more: Effort) -> Effort:
        """This one, and `more` after it."""
        return Effort(
            self.seconds + more.seconds,
            self.candidates + more.candidates,
            self.complete or more.complete,
            max(self.patience, more.patience),
            more.interrupted,
        )

    def covers(self, budget: Budget | None) -> bool:
        """Whether a search with `budget` would have come no further. A search ends at the first limit it meets, so
        one of them is enough. None: no more is asked than that no search was cut short."""
        if self.complete:
            return True
        if budget is None:
            return not self.interrupted
        if budget.patience is not None and self.patience >= budget.patience:
            return True
        asked = [self.candidates >= budget.trials] if budget.trials is not None else []
        asked += [self.seconds >= _ENOUGH * budget.seconds] if budget.seconds is not None else []
        return any(asked)

    def __str__(self) -> str:
        end = ", all there is" if self.complete else ", interrupted" if self.interrupted else ""
        return f"{self.candidates} candidate{'s' * (self.candidates != 1)} in {self.seconds:.3g} s of search{end}"
