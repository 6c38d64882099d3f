"""Options: their data form, legality, `apply`, the action space, seed schedules and the analytic model."""

from .actions import actions, apply_cached
from .model import estimate
from .opt import Opt, Opts, dumps, opt, parse, short
from .schedule import Scheduled, apply
from .seeds import seeds
from .templates import Template, templates

__all__ = ["Opt", "Opts", "Scheduled", "Template", "actions", "apply", "apply_cached", "dumps", "estimate", "opt", "parse", "seeds", "short", "templates"]
