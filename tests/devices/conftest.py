from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # for `import device_kernels`

from tilewright import devices
from tilewright.devices import Device


@pytest.fixture
def cpu() -> Device:
    return devices.get("cpu")
