"""Options: their data form, legality, `apply`, the action space, seed schedules and the analytic model."""

from .opt import Opt, Opts, dumps, opt, parse, short
from .schedule import Scheduled, apply

__all__ = ["Opt", "Opts", "Scheduled", "apply", "dumps", "opt", "parse", "short"]
