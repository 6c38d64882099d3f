"""Options: their data form, legality, `apply`, and the actions a search may take."""

from . import options as _options  # noqa: F401  (makes the options known)
from .actions import actions, apply_cached
from .apply_options import apply
from .opt import Opt, Opts, dumps, opt, parse, short
from .schedule import Scheduled
from .schedule_text import ShownSchedule, nest_lines

__all__ = ["Opt", "Opts", "Scheduled", "ShownSchedule", "actions", "apply", "apply_cached", "dumps", "nest_lines", "opt", "parse", "short"]
