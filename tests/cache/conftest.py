"""Rows to record."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tilewright import cache
from tilewright.cache import Cache, Key, Row

MakeRow = Callable[..., Row]


@pytest.fixture
def make_row() -> MakeRow:
    """A verified ok row; every call gives another measurement (run_id) of the same key unless fields say otherwise."""
    count = itertools.count()

    def make(**fields: Any) -> Row:
        given: dict[str, Any] = {
            "kernel": "k" * 8, "target": "llvm:x86_64:znver5:avx2", "threads": 2, "compiler": "llvmlite-0.50", "loose_extents": "le", "loose_epilogue": "lp",
            "name": "matmul", "shape": {"m": 64, "n": 64, "k": 64}, "dtype": "float32", "device": "cpu", "opts": [["UPCAST", "a1", 8]],
            "opts_display": [["UPCAST", "n", 8]], "t_min": 9e-5, "t_med": 1e-4, "n": 30, "start_s": 2e-4, "flops": 2 * 64**3, "bytes": 3 * 4 * 64 * 64,
            "roofline_s": 5e-5, "strategy": "beam", "effects": "REASSOC", "verified": True, "source_sha": "ab" * 32, "tool_version": "00" * 8,
            "provenance": {"host": "test", "cores": 2}, "run_id": f"run{next(count)}",
        }  # fmt: skip
        return Row(**(given | fields))

    return make


@pytest.fixture
def key(make_row: MakeRow) -> Key:
    return make_row().key


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "cache.db"


@pytest.fixture
def store(path: Path) -> Iterator[Cache]:
    with cache.open(path) as opened:
        yield opened
