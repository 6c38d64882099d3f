"""`tune explain` on a GPU says what the machine code of each phase holds."""

from __future__ import annotations

import json
from importlib import import_module
from types import SimpleNamespace
from typing import Any

import pytest
from cuda_build import needs_nvdisasm, needs_nvrtc
from fake_gpu import SPEC
from tilewright.devices.cuda import machine_code as sass
from tilewright.ir import DeviceError
from tilewright.opts import Opt
from tilewright.search.explain import Explanation

from .conftest import Tune

OPTS = (Opt("LOCAL", "n", 8), Opt("SPLIT", "k", 2))


@pytest.fixture
def explained(tune: Tune, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The command, with a cache that has the schedule and nothing measured."""
    monkeypatch.setattr(
        import_module("tilewright.plan.resolve"),
        "resolve",
        lambda *args, **more: SimpleNamespace(origin="exact", opts=OPTS),
    )
    monkeypatch.setattr(
        import_module("tilewright.search.explain"),
        "explain",
        lambda *args, **more: Explanation(OPTS, 1e-3, None, (), 1, True),
    )
    return lambda *args: tune("explain", "--kernel", "matmul", "--shape", "m=16,n=16,k=16", "--device", SPEC, *args)


@pytest.mark.slow
@needs_nvrtc
@needs_nvdisasm
def test_instructions_of_each_phase(explained: Any) -> None:
    done = explained()
    assert done.code == 0, done.err
    for line in (
        "matmul_p0: 8 threads of ",
        "matmul_p1: ",
        "  arithmetic: ",
        "  global memory: ",
        "groups a multiprocessor (",
    ):
        assert line in done.out
    data = json.loads(explained("--format", "json").out)
    assert [k["name"] for k in data["kernels"]] == ["matmul_p0", "matmul_p1"]
    assert data["kernels"][0]["instructions"]["FFMA"] > 0 and data["kernels"][0]["occupancy"]["groups"] > 0


@needs_nvrtc
def test_without_nvdisasm_it_says_what_to_install(explained: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(cubin: bytes) -> str:
        raise DeviceError(f"nvdisasm is not installed; {sass.INSTALL}")

    monkeypatch.setattr(sass, "disassemble", missing)
    done = explained()
    assert "phase 0 expects " in done.out and "  waiting: " in done.out and " keep its memory busy" in done.out
    assert done.code == 0 and "matmul_p0: 8 threads of " in done.out and "its operations at the measured peak take" in done.out
    assert "its operations at the peak of tensor cores take" in explained("--dtype", "bfloat16").out
    assert done.out.count("instructions are not counted: nvdisasm is not installed; pip install 'tilewright[sass]'") == 1
