"""Small kernels, a cache and an artefact store of their own."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tilewright import cache, named_kernels
from tilewright.cache import Cache, Row, tool_version
from tilewright.devices import Device, get
from tilewright.ir.kernel import Kernel
from tilewright.ir.normal_form import loose, normalise
from tilewright.opts import dumps, parse
from tilewright.plan import Artefacts, key_of, opts_text, render


@pytest.fixture(scope="session")
def cpu() -> Device:
    return get("cpu")


@pytest.fixture
def matmul() -> Kernel:
    return normalise(named_kernels.make("matmul", {"m": 8, "n": 32, "k": 16}, "float32"))


@pytest.fixture
def store(tmp_path: Path) -> Artefacts:
    return Artefacts(tmp_path / "artefacts")


@pytest.fixture
def rows(tmp_path: Path) -> Iterator[Cache]:
    with cache.open(tmp_path / "cache.db") as opened:
        yield opened


@pytest.fixture
def measured(cpu: Device) -> Callable[..., Row]:
    """The row that a search would record for options (JSON) of a kernel."""

    def make(kernel: Kernel, opts: str, threads: int = 1, **fields: Any) -> Row:
        kernel = normalise(kernel)
        key, near, parsed = key_of(kernel, cpu, threads), loose(kernel), parse(opts)
        given: dict[str, Any] = {f: getattr(key, f) for f in ("kernel", "target", "threads", "compiler", "policy")}
        given |= {
            "loose_extents": near["extents"],
            "loose_epilogue": near["epilogue"],
            "opts": opts_text(kernel, parsed),
            "opts_display": json.loads(dumps(parsed)),
        }
        given |= {"t_min": 1e-5, "t_med": 1e-5, "n": 10, "verified": True, "name": kernel.name, "tool_version": tool_version()}
        if "source_sha" not in fields:
            given["source_sha"] = render(kernel, parsed, cpu).sha
        return Row(**(given | fields))

    return make
