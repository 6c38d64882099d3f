"""The environment that rivals run in: `tilewright.measure.rival.versus`, under the name that benchmarks use."""

from __future__ import annotations

from tilewright.measure.rival.versus import LEVELS, NATIVE, NUMPY, SLOWING, environment, settings

__all__ = ["LEVELS", "NATIVE", "NUMPY", "SLOWING", "environment", "settings"]
