"""What to try first: seed schedules, parameterised templates, and the cost models that rank candidates."""

from .counted import counted
from .counted.terms import CpuTerms, cpu_terms
from .model import GpuEstimate, bulk, estimate, gpu_estimates
from .seeds import quick_seeds, ranked_seeds, seeds
from .templates import Template, templates

__all__ = [
    "CpuTerms",
    "GpuEstimate",
    "Template",
    "bulk",
    "counted",
    "cpu_terms",
    "estimate",
    "gpu_estimates",
    "quick_seeds",
    "ranked_seeds",
    "seeds",
    "templates",
]
