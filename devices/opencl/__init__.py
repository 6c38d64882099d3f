"""OpenCL devices of any vendor."""

from __future__ import annotations

from .device import OpenClDevice as OpenClDevice
from .device import device_of as device_of
from .device import on as on
