"""Search: strategies behind ask and tell, budgets, the tuning run, simulated searches. Read `tuning_run.py` first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .. import cache as _cache  # noqa: F401
from .. import devices as _devices  # noqa: F401
from .. import ir as _ir  # noqa: F401
from .. import measure as _measure  # noqa: F401
from .. import opts as _opts  # noqa: F401
from .. import plan as _plan  # noqa: F401
from .. import targets as _targets  # noqa: F401
from ..cache.objective_types import Objective, register_objective
from .budget import Budget, parse_seconds
from .progress import Progress, Silent
from .result import Job, Result
from .space import Engine, Space, State
from .strategy import DEFAULT, Strategy, create, names, register, seconds

if TYPE_CHECKING:
    from .api import Interrupted, tune
    from .bench.scores import Recording
    from .run_state import Start
    from .tuning_run import TuningRun

__all__ = [
    "Budget",
    "DEFAULT",
    "Engine",
    "Interrupted",
    "Job",
    "Objective",
    "Progress",
    "Recording",
    "Result",
    "Silent",
    "Space",
    "Start",
    "State",
    "Strategy",
    "TuningRun",
    "create",
    "names",
    "parse_seconds",
    "register",
    "register_objective",
    "seconds",
    "tune",
]

_LAZY = {"Interrupted": "api", "tune": "api", "Recording": "bench.recording", "Start": "run_state", "TuningRun": "tuning_run"}


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        from importlib import import_module

        return getattr(import_module(f".{_LAZY[name]}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
