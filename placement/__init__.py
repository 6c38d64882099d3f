"""Plans over devices: what goes where, in which order, and what it costs. The simulator is pure: it needs no device."""

from .errors import PlanError
from .handcrafted import SCHEDULES, generate
from .pipeline_costs import Link, PartCosts, PipelineCosts, equal_parts
from .pipeline_schedule import PipelineSchedule
from .schedule_search import FoundSchedule, search_schedule
from .simulator import Timeline, simulate

__all__ = [
    "SCHEDULES",
    "FoundSchedule",
    "Link",
    "PartCosts",
    "PipelineCosts",
    "PipelineSchedule",
    "PlanError",
    "Timeline",
    "equal_parts",
    "generate",
    "search_schedule",
    "simulate",
]
