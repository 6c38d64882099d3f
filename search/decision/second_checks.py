"""Second checks of schedules, each made once: what passed while a search went on is not checked again at its end."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ...measure import Measurement


class SecondChecks:
    """Those of one search, by source. `last_s`: seconds that the last one took."""

    def __init__(self, confirm: Callable[[Any], Measurement], clock: Callable[[], float] = time.monotonic) -> None:
        """`confirm` makes one (`measure.Measurer.confirm`)."""
        self._confirm, self._clock = confirm, clock
        self._made: dict[str, Measurement] = {}
        self.last_s = 0.0

    def __bool__(self) -> bool:
        """Whether any was made."""
        return bool(self._made)

    def knows(self, sha: str | None) -> bool:
        """Whether the one of this source was made."""
        return sha in self._made

    def of(self, built: Any, in_time: bool = True) -> Measurement | None:
        """What came of it, before or now; None where it was not made and there is no time."""
        found = self._made.get(built.sha)
        if found is None and in_time:
            began = self._clock()
            found = self._made[built.sha] = self._confirm(built)
            self.last_s = self._clock() - began
        return found
