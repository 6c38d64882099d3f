"""Runs the command in this process, on a cache of its own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from tilewright import cache
from tilewright.cache import Row
from tilewright.cli import main


class Done(NamedTuple):
    code: int
    out: str
    err: str


Tune = Callable[..., Done]


@pytest.fixture
def cache_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache that the command uses by default."""
    path = tmp_path / "cache.db"
    monkeypatch.setenv("TILEWRIGHT_CACHE", str(path))
    return path


@pytest.fixture
def tune(cache_file: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Tune:
    """`tune("run", "--kernel", ...)` -> (exit code, standard output, standard error)."""
    monkeypatch.setenv("COLUMNS", "200")

    def call(*args: str) -> Done:
        capsys.readouterr()
        code = main(args)
        said = capsys.readouterr()
        return Done(code, said.out, said.err)

    return call


def row(**fields: Any) -> Row:
    """A usable measurement of matmul 64x48x32, with some fields changed."""
    given: dict[str, Any] = {
        "kernel": "k" * 64,
        "target": "llvm:x86_64:znver5:avx2",
        "threads": 2,
        "compiler": "llvmlite-0.50.0",
        "name": "matmul",
        "shape": {"m": 64, "n": 48, "k": 32},
        "dtype": "float32",
        "device": "cpu",
        "opts": [["UPCAST", "a0", 8]],
        "opts_display": [["UPCAST", "m", 8]],
        "t_min": 9e-6,
        "t_med": 10e-6,
        "n": 40,
        "start_s": 25e-6,
        "flops": 2 * 64 * 48 * 32,
        "bytes": 4 * (64 * 32 + 32 * 48 + 64 * 48),
        "roofline_s": 5e-6,
        "strategy": "beam",
        "verified": True,
        "source_sha": "5" * 64,
        "when": "2026-01-31T08:00:00.000000+00:00",
    }
    return Row(**(given | fields))


@pytest.fixture
def filled(cache_file: Path) -> Path:
    """The cache with a matmul measured twice, one failure, and a softmax."""
    with cache.open() as store:
        store.record(
            [
                row(),
                row(opts=[["UPCAST", "a0", 4]], opts_display=[["UPCAST", "m", 4]], t_med=20e-6, t_min=19e-6),
                row(
                    opts=[["UPCAST", "a0", 64]], opts_display=[["UPCAST", "m", 64]], outcome="wrong", t_med=None, t_min=None, verified=False
                ),
                row(
                    kernel="s" * 64,
                    name="softmax",
                    shape={"m": 4096, "n": 4096},
                    threads=1,
                    t_med=0.02,
                    t_min=0.02,
                    opts="[]",
                    opts_display="[]",
                ),
            ]
        )
    return cache_file


@pytest.fixture(autouse=True)
def quiet_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """What other tests use is not said."""
    monkeypatch.setattr("tilewright.measure.timing.BUSY", float("inf"))
