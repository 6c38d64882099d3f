"""Plans carried out by processes of this machine, and compared with one process."""

from .launcher import Ran, check, kernel_seconds, run_plans
from .run_spec import FAULTS, PlannedRun

__all__ = ["FAULTS", "PlannedRun", "Ran", "check", "kernel_seconds", "run_plans"]
