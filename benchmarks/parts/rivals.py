"""The environment that rivals run in: `tilewright.measure.rival.environment`, under the name that benchmarks use."""

from __future__ import annotations

from tilewright.measure.rival.environment import LEVELS, NATIVE, NUMPY, SLOWING, environment, settings

__all__ = ["LEVELS", "NATIVE", "NUMPY", "SLOWING", "environment", "settings"]
