"""The analytic model: how long a schedule takes, from its structure and the target alone."""

from .bulk import bulk
from .cpu import estimate
from .gpu.estimate import GpuEstimate
from .gpu.estimate import estimates as gpu_estimates

__all__ = ["GpuEstimate", "bulk", "estimate", "gpu_estimates"]
