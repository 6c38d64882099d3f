"""Fixtures of the tensor's tests."""

from __future__ import annotations

from typing import Any

import pytest

from tests.tensor.agree import Agree


@pytest.fixture
def agree(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Compares what the test gave it, with kernels."""
    monkeypatch.setenv("TILEWRIGHT_SMALL", "0")
    rows = Agree()
    yield rows
    rows.compare(kernels=True)


@pytest.fixture
def agree_small() -> Any:
    """Compares what the test gave it, without kernels."""
    rows = Agree()
    yield rows
    rows.compare(kernels=False)


@pytest.fixture
def graphs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small operations become graphs and kernels too."""
    monkeypatch.setenv("TILEWRIGHT_SMALL", "0")
