"""A start schedule whose code is too long has fewer copies in registers; what was asked for or measured stays as it is."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
import tilewright as tw
from tilewright.heuristics import code_size
from tilewright.ir import Kernel, KernelBuilder, float32, float64, sin
from tilewright.ir.dtypes import DType
from tilewright.opts import apply
from tilewright.plan import Artefacts, artefacts, find
from tilewright.plan.identity import source_key
from tilewright.plan.resolve import halved
from tilewright.targets import named

resolve = import_module("tilewright.plan.resolve")  # (the package's function of this name hides the module)


def sines(n: int, dtype: DType) -> Kernel:
    kb = KernelBuilder("sines")
    i = kb.axis("n", n)
    x = kb.input("x", (n,), dtype)
    y = x[i]
    for _ in range(6):
        y = sin(y) * 1.5
    kb.store("y", dtype, (n,), (i,), y)
    return kb.build()


@pytest.mark.parametrize("dtype", [float32, float64])
@pytest.mark.parametrize("start", ["quick", "ranked"])
def test_a_long_start_schedule_has_fewer_copies(dtype: DType, start: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    kernel, store = sines(4096, dtype), Artefacts(tmp_path)
    usual = tw.best(kernel, threads=1, start=start, store=store)
    monkeypatch.setattr(find, "MOST_CHARACTERS", len(usual.source) // 2)
    short = tw.best(kernel, threads=1, start=start, store=store)
    assert short.origin == "start"
    assert len(short.source) < len(usual.source)
    x = np.random.default_rng(0).standard_normal(4096).astype(dtype.np)
    assert np.array_equal(short(x), usual(x))
    given = tw.best(kernel, threads=1, opts=usual.schedule, store=store)
    assert given.source == usual.source


def test_copies_go_down_to_one_vector_and_no_further() -> None:
    kernel, target = sines(4096, float32), named("avx2")
    opts = tuple(tw.best(kernel, opts="Un:64 Pn", threads=1).plan.opts)
    amounts = []
    found: tuple[tw.Opt, ...] | None = opts
    while found is not None:
        amounts.append(next(o.arg for o in found if o.op == "UPCAST"))
        found = halved(kernel, found, target)
    assert amounts == [64, 32, 16, 8]


def test_much_code_is_seen_before_it_is_written(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    kernel, target, written = sines(4096, float32), tw.devices.get("cpu").target, []
    usual = tw.best(kernel, threads=1, start="quick", store=Artefacts(tmp_path / "a"))
    monkeypatch.setattr(resolve, "MOST_INSTRUCTIONS", code_size(apply(kernel, usual.plan.opts, target)) / 2)
    monkeypatch.setattr(artefacts, "source_key", lambda kernel, opts, *rest: written.append(opts) or source_key(kernel, opts, *rest))
    short = tw.best(kernel, threads=1, start="quick", store=Artefacts(tmp_path / "b"))
    assert written == [short.plan.opts] and len(short.source) < len(usual.source)
    x = np.random.default_rng(0).standard_normal(4096).astype(np.float32)
    assert np.array_equal(short(x), usual(x))
