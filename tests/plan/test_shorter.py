"""A start schedule whose code is too long has fewer copies in registers; what was asked for or measured stays as it is."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import tilewright as tw
from tilewright.ir import Kernel, KernelBuilder, float32, float64, sin
from tilewright.ir.dtypes import DType
from tilewright.plan import Artefacts, find
from tilewright.plan.find import halved
from tilewright.targets import named


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
