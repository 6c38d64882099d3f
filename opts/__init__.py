"""Options: their data form, legality, `apply`, and the actions a search may take."""

from .. import ir as _ir  # noqa: F401
from .. import targets as _targets  # noqa: F401
from . import options as _options  # noqa: F401  (makes the options known)
from .actions import actions, apply_cached
from .apply_options import apply
from .fitted import fits
from .opt import Opt, Opts, dumps, opt, parse, short
from .registry import OPTIONS
from .schedule import Scheduled
from .schedule_text import ShownSchedule, nest_lines
from .syntax import SYNTAX

__all__ = [
    "OPTIONS",
    "SYNTAX",
    "Opt",
    "Opts",
    "Scheduled",
    "ShownSchedule",
    "actions",
    "apply",
    "apply_cached",
    "dumps",
    "fits",
    "nest_lines",
    "opt",
    "parse",
    "short",
]
