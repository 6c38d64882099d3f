"""Plans over devices: what goes where, in which order, and what it costs. The simulator is pure: it needs no device."""

from .collectives import MeshAxis
from .decided import StatePlacement, zero_stage
from .errors import PlanError
from .handcrafted import SCHEDULES, generate
from .kernel_prices import KernelPrices
from .model_graphs import TransformerSize, perceptron, transformer
from .pipeline_schedule import Link, PartCosts, PipelineCosts, PipelineSchedule, equal_parts
from .planner import DevicePlan, Model, plan
from .schedule_search import FoundSchedule, search_schedule
from .shard_graph import ShardArray, ShardGraph, ShardOp
from .shard_search import ShardPlan, search_shardings
from .simulator import Timeline, simulate

__all__ = [
    "SCHEDULES",
    "DevicePlan",
    "FoundSchedule",
    "KernelPrices",
    "Link",
    "MeshAxis",
    "Model",
    "PartCosts",
    "PipelineCosts",
    "PipelineSchedule",
    "PlanError",
    "ShardArray",
    "ShardGraph",
    "ShardOp",
    "ShardPlan",
    "StatePlacement",
    "Timeline",
    "TransformerSize",
    "equal_parts",
    "generate",
    "perceptron",
    "plan",
    "search_schedule",
    "search_shardings",
    "simulate",
    "transformer",
    "zero_stage",
]
