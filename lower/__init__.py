"""Scheduled kernels become Programs: emission, then named passes."""

from .. import ir as _ir  # noqa: F401
from .. import opts as _opts  # noqa: F401
from .. import targets as _targets  # noqa: F401
from ..program.program import Mem, Param, Program, Signature
from .pipeline import lower, lower_ahead, lower_once

__all__ = ["Mem", "Param", "Program", "Signature", "lower", "lower_ahead", "lower_once"]
