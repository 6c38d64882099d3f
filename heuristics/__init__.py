"""What to try first: start schedules, parameterised templates, and the cost models that rank candidates."""

from .counted import counted
from .counted.terms import CpuTerms, cpu_terms
from .model import GpuEstimate, bulk, estimate, gpu_estimates
from .start import quick_starts, ranked_starts, starts
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
    "quick_starts",
    "ranked_starts",
    "starts",
    "templates",
]
