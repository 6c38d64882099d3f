"""Plans carried out by processes of this machine, and compared with one process."""

from .launcher import Ran, check, kernel_seconds, run, run_plans
from .run_spec import FAULTS, PlannedRun, RunSpec, drawn

__all__ = ["FAULTS", "PlannedRun", "Ran", "RunSpec", "check", "drawn", "kernel_seconds", "run", "run_plans"]
