"""NVIDIA GPUs."""

from __future__ import annotations

from .device import CudaDevice as CudaDevice
from .device import on as on
