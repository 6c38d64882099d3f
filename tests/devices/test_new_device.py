"""The tutorial docs/new-device.md does what it says."""

from __future__ import annotations

import re
import sys
import types
from collections.abc import Iterator
from pathlib import Path

import pytest
from tilewright import devices
from tilewright.devices import registry

DOC = Path(__file__).resolve().parents[2] / "docs" / "new-device.md"
MODULE = "new_device_tutorial"


@pytest.fixture
def module() -> Iterator[types.ModuleType]:
    made = types.ModuleType(MODULE)
    sys.modules[MODULE] = made  # dataclasses look their module up
    yield made
    del sys.modules[MODULE]
    registry._FACTORIES.pop("echo", None)
    registry._MADE.pop("echo", None)


def test_the_tutorial_runs_from_top_to_bottom(module: types.ModuleType) -> None:
    blocks = re.findall(r"^```python\n(.*?)^```$", DOC.read_text(), re.S | re.M)
    assert len(blocks) == 4
    exec(compile("\n".join(blocks), str(DOC), "exec"), module.__dict__)
    assert (module.a == 2).all()
    assert devices.get("echo") is module.device
