"""Options: their data form, legality, `apply`, and the actions a search may take."""

from .actions import actions, apply_cached
from .opt import Opt, Opts, dumps, opt, parse, short
from .schedule import Scheduled, apply

__all__ = ["Opt", "Opts", "Scheduled", "actions", "apply", "apply_cached", "dumps", "opt", "parse", "short"]
