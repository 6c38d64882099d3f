"""The pytest plugin: the fixture `tilewright`. pytest loads this file in every run where Tilewright is installed, so it imports
nothing that takes time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from .recorded_speed import RecordedSpeed

LEAST = 0.9
"""The share of its recorded speed that a kernel must have."""
TRIES = 3
"""Measurements before a kernel is called slow: a single one may be disturbed."""
LOOK_S = 0.3
"""Seconds of looking whether other programs use the machine."""


class SpeedChecks:
    """What the fixture `tilewright` is."""

    def holds(self, kernel: Any, shape: Any = None, dtype: Any = None, *, least: float = LEAST, **settings: Any) -> RecordedSpeed:
        """The test fails unless the tuned kernel is right and has at least `least` (a share, 0.9 by default) of its recorded
        speed; the arguments are those of `best` (kernel, shape, dtype, device, threads, cache, allow). Returns what was
        measured.

        A wrong kernel fails on any machine. Speed is not judged, and the test is skipped, where the time was recorded on
        another machine, and where other programs use this one. Raises CacheMiss where nothing was recorded."""
        from ..ir.errors import VerifyError
        from . import recorded_speed

        __tracebackhide__ = True
        if not 0 < least <= 1:
            raise ValueError(f"least is a share of the recorded speed, above 0 and at most 1, not {least}")
        for i in range(TRIES):
            busy = _busy()
            try:
                found = recorded_speed.remeasure(kernel, shape, dtype, **settings)
            except VerifyError as e:
                pytest.fail(f"not right: {e}", pytrace=False)
            if found.elsewhere:
                pytest.skip(f"right, but its time was recorded on another machine: {found}")
            if found.share >= least:
                return found
            if busy or _busy():
                pytest.skip(f"right, but this machine is busy ({busy or 'a moment later'}), which says nothing of its speed: {found}")
            if i + 1 == TRIES:
                pytest.fail(f"{found}; at least {least:g} is asked for", pytrace=False)
        raise AssertionError("unreachable")


def _busy() -> str:
    """How many cores other programs use, where it is worth a word; '' where it is not or the system does not say."""
    from ..measure import timing as busy

    cores = busy.used_by_others(LOOK_S)
    return "" if cores is None or cores <= busy.BUSY else f"other programs use {cores:.1f} cores"


@pytest.fixture(scope="session")
def tilewright() -> SpeedChecks:
    """Checks that a tuned kernel is still right and fast: `tilewright.holds("matmul", {"m": 512})`."""
    return SpeedChecks()
