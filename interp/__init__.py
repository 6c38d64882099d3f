"""Runs Programs on NumPy arrays: the meaning of a Program, with every access checked."""

from .. import ir as _ir  # noqa: F401
from .. import targets as _targets  # noqa: F401
from .interpreter import Interpreter, run

__all__ = ["Interpreter", "run"]
