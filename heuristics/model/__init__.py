"""The analytic model: how long a schedule takes, from its structure and the target alone."""

from .cpu import estimate
from .gpu import GpuEstimate
from .gpu import estimates as gpu_estimates

__all__ = ["GpuEstimate", "estimate", "gpu_estimates"]
