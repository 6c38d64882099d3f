"""A whole GPU without one, for whatever runs a search on a cuda device: `fake_cuda.FakeCudaDevice` (its kernels run
as C++ on the processor) with limits that need no measuring, which would take the processor minutes."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))  # another process knows this file by its path alone

from fake_cuda import FakeCudaDevice
from tilewright.devices import Limits, Rates

SPEC = f"{Path(__file__).resolve()}:FakeGpu"


class FakeGpu(FakeCudaDevice):
    """See the module's text. Rates are a millionth of a real card's, as its times are."""

    def limits(self, probe: bool = False) -> Limits:
        return Limits("2026-01-01T00:00:00+00:00", {1: Rates(6e7, 3e7, 4e6, 4e6, 4e6, 4e6, 4e6)})
