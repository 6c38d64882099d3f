"""NVIDIA GPUs."""

from __future__ import annotations

from .device import on as on
