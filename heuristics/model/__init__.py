"""The analytic model: how long a schedule takes, from its structure and the target alone."""

from .code_length import code_size
from .cpu import estimate
from .gpu.gpu_estimate import GpuEstimate
from .gpu.gpu_estimate import estimates as gpu_estimates

__all__ = ["GpuEstimate", "code_size", "estimate", "gpu_estimates"]
