"""A check that lets a planted fault of the partition, the gradients or the capture pass is no check: each must be found."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import graph_probes as probes
import pytest
from graph_mutants import FAULTS, forget, plant
from tilewright.ir.errors import TilewrightError
from tilewright.plan import Artefacts

pytestmark = pytest.mark.many

WRONG = (AssertionError, TilewrightError, LookupError, ValueError)
"""How a fault shows: a wrong result, or an error of ours. (An AttributeError says that the fault itself was written wrong.)"""


@pytest.fixture(autouse=True)
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Nothing is remembered of a fault, in memory or on disk, and every array is a kernel's."""
    monkeypatch.setenv("TILEWRIGHT_SMALL", "0")
    monkeypatch.setattr(Artefacts, "default", classmethod(lambda cls: cls(tmp_path / "artefacts")))
    forget()
    yield
    forget()


def found(names: tuple[str, ...]) -> bool:
    """Whether some probe says that something is wrong."""
    for name in names:
        try:
            probes.run(name)
        except WRONG:
            return True
    return False


def test_probes_hold() -> None:
    for name in dict.fromkeys(p for f in FAULTS.values() for p in f.probes):
        probes.run(name)


@pytest.mark.parametrize("fault", FAULTS)
def test_every_fault_is_found(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(FAULTS[fault], monkeypatch)
    assert found(FAULTS[fault].probes), f"nothing found: {fault}"
