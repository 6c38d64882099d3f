"""What to try first: seed schedules, parameterised templates, and the cost models that rank candidates."""

from .counted import counted
from .model import GpuEstimate, estimate, gpu_estimates
from .seeds import quick_seeds, ranked_seeds, seeds
from .templates import Template, templates

__all__ = ["GpuEstimate", "Template", "counted", "estimate", "gpu_estimates", "quick_seeds", "ranked_seeds", "seeds", "templates"]
