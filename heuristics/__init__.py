"""What to try first: seed schedules, parameterised templates, and the cost models that rank candidates."""

from .model import GpuEstimate, estimate, gpu_estimates
from .seeds import quick_seeds, seeds
from .templates import Template, templates

__all__ = ["GpuEstimate", "Template", "estimate", "gpu_estimates", "quick_seeds", "seeds", "templates"]
