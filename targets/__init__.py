"""Targets: what code may use (instruction flags) and the sizes that schedules are chosen by."""

from .. import ir as _ir  # noqa: F401
from .named import affinity, command_prefix, host, lowered, machine, named, usable_cores
from .table import NAMES
from .target import Target

__all__ = ["NAMES", "Target", "affinity", "command_prefix", "host", "lowered", "machine", "named", "usable_cores"]
