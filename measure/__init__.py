"""Measuring candidates: build pool, runner process, verification, statistics."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .. import devices as _devices  # noqa: F401
from .. import ir as _ir  # noqa: F401
from .. import opts as _opts  # noqa: F401
from .. import targets as _targets  # noqa: F401
from .outcome import Duel, DuelError, Measurement, Outcome, Race

if TYPE_CHECKING:
    from .measurer import Measurer
    from .roofline import Roofline, roofline


__all__ = ["Duel", "DuelError", "Measurement", "Measurer", "Outcome", "Race", "Roofline", "roofline"]


def __getattr__(name: str) -> Any:
    # NumPy and the process machinery are imported when something is measured, not before
    from importlib import import_module

    if name == "Measurer":
        return import_module(".measurer", __name__).Measurer
    if name in ("Roofline", "roofline"):
        found = import_module(".roofline", __name__)
        return getattr(found, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
