"""What to try first: start schedules, parameterised templates, and the cost models that rank candidates."""

from .. import ir as _ir  # noqa: F401
from .. import opts as _opts  # noqa: F401
from .. import targets as _targets  # noqa: F401
from .contraction_order import necessary
from .counted import counted
from .counted.counted_terms import CpuTerms, cpu_terms
from .model import GpuEstimate, code_size, estimate, gpu_estimates
from .start import Proposal, StartRule, Template, proposals, quick_starts, starts, templates

__all__ = [
    "CpuTerms",
    "GpuEstimate",
    "Proposal",
    "StartRule",
    "Template",
    "code_size",
    "counted",
    "cpu_terms",
    "estimate",
    "gpu_estimates",
    "necessary",
    "proposals",
    "quick_starts",
    "starts",
    "templates",
]
