"""A device for benchmarks/fleet.py: the tests' fake device, whose scripted times pass. As with a GPU, the processor waits meanwhile."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
from fake_device import FakeDevice, FakeExecutable
from tilewright.program.program import Signature


class WaitingExecutable(FakeExecutable):
    """Takes as long as it says."""

    def time(
        self, pointer_sets: Sequence[Sequence[int]], vars: Sequence[int] = (), repeats: int = 1, limit_s: float = float("inf")
    ) -> list[float]:
        """Scripted seconds of each call, once they have passed."""
        said = super().time(pointer_sets, vars, repeats, limit_s)
        time.sleep(sum(said))
        return said


class WaitingDevice(FakeDevice):
    """See the module's text."""

    name = "waiting"

    def load(self, obj: bytes, signature: Signature, threads: int) -> WaitingExecutable:
        """As the fake device's."""
        found = super().load(obj, signature, threads)
        assert isinstance(found, FakeExecutable)
        return WaitingExecutable(found._real, found._action, found._seconds)
