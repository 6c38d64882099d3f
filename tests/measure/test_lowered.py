"""Under TILEWRIGHT_TARGET whoever builds, runs and compares is another process; each is lowered as its parent is."""

from __future__ import annotations

import pytest
from tilewright import devices, named_kernels, targets
from tilewright.ir import DeviceError
from tilewright.measure import Measurer
from tilewright.opts import parse
from tilewright.plan import compile as built


@pytest.mark.slow
def test_helpers_are_lowered_too(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = named_kernels.make("matmul", {"m": 8, "n": 32, "k": 8}, "float32")
    monkeypatch.delenv("TILEWRIGHT_TARGET", raising=False)
    if "avx2" not in targets.host().features:
        pytest.skip("nothing to take away")
    opts = parse('[["UPCAST","n",16]]')
    whole = built(kernel, opts, devices.get("cpu"))
    monkeypatch.setenv("TILEWRIGHT_TARGET", "v2")
    lowered = built(kernel, opts, devices.get("cpu"))
    assert whole.source.target != lowered.source.target and whole.source.text != lowered.source.text
    with Measurer(kernel, "cpu", 1, builders=1) as m:
        ((_, by_builder),) = m.build([opts])
        got, refused = m.measure([lowered, whole])
    assert by_builder.source.target == lowered.source.target and by_builder.obj == lowered.obj
    assert got.ok and not refused.ok and "TILEWRIGHT_TARGET=v2 lowers: it may not use" in refused.detail


def test_a_target_that_is_none_is_said_before_anything_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEWRIGHT_TARGET", "v22")
    with pytest.raises(DeviceError, match="unknown target 'v22': did you mean 'v2'"):
        Measurer(named_kernels.make("add", {"n": 64}, "float32"), "cpu", 1)
