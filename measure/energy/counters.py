"""What counts joules: anything with a reading that only grows."""

from __future__ import annotations

from abc import ABC, abstractmethod

HOW = "docs/energy.md says what each machine needs"


class EnergyCounter(ABC):
    """An energy counter, open in this process."""

    name: str = ""
    """What it is and what it covers: 'RAPL: package-0, dram-0'."""

    @abstractmethod
    def joules(self) -> float:
        """Energy since it was opened, in joules; it never falls. Raises DeviceError where it cannot be read any more."""

    def close(self) -> None:  # noqa: B027  (files that are opened for each reading have nothing to close)
        """Let go of what it holds."""
