"""Targets: what code may use (instruction flags) and the sizes that schedules are chosen by."""

from .detect import host, usable_cores
from .named import NAMES, named
from .target import Target

__all__ = ["NAMES", "Target", "host", "named", "usable_cores"]
