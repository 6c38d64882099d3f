"""What only OpenCL's GPUs need: shuffles in subgroups, and a clock whose ticks are long beside a call. No GPU is needed for these."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from tilewright import named_kernels, targets
from tilewright.devices.opencl.device import ClExecutable, _spans
from tilewright.lower import lower
from tilewright.opts import Opt, apply
from tilewright.renderers import render
from tilewright.targets import Target

PLAIN = targets.named("opencl-gpu")
KHRONOS = replace(PLAIN, warp=32, features=PLAIN.features | {"subgroups"})
INTEL = replace(PLAIN, warp=16, features=PLAIN.features | {"subgroups", "intel_subgroups"})
CLANG = next((c for c in ("clang-19", "clang") if shutil.which(c)), "")


def text(target: Target, name: str = "softmax", dtype: str = "float32") -> str:
    kernel = named_kernels.make(name, {"m": 8, "n": 256}, dtype)
    return render(lower(apply(kernel, (Opt("GROUP", "n", 64),), target)), target).text


def test_shuffles_by_the_names_of_the_device() -> None:
    assert "shuffle" not in text(PLAIN)
    assert " sub_group_shuffle_xor(" in text(KHRONOS) and "cl_khr_subgroup_shuffle : enable" in text(KHRONOS)
    made = text(INTEL)
    assert " intel_sub_group_shuffle_xor(" in made and "intel_reqd_sub_group_size(16)" in made
    # no further than the subgroup goes
    assert ", 8)" in made and ", 16)" not in made and ", 16)" in text(KHRONOS)


@pytest.mark.slow
@pytest.mark.skipif(not CLANG, reason="no clang is installed")
@pytest.mark.parametrize(("name", "dtype"), [("softmax", "float32"), ("argmax", "float16"), ("sum_rows", "int8"), ("sum_rows", "float64")])
@pytest.mark.parametrize("target", [PLAIN, KHRONOS, INTEL], ids=["plain", "khronos", "intel"])
@pytest.mark.covering
def test_clang_knows_the_functions(target: Target, name: str, dtype: str, tmp_path: Path) -> None:
    """Khronos's functions are OpenCL C 2.0's; Intel's are declared in clang's own header, where the extension is said to be there."""
    (tmp_path / "k.cl").write_text(text(target, name, dtype))
    command = [CLANG, "-x", "cl", f"-cl-std=CL{'2.0' if target is KHRONOS else '1.2'}", "-target", "spir64", "-fsyntax-only", "-Werror"]
    command += ["-Wno-unused", "-Wno-unknown-attributes", "-Wno-unknown-pragmas", "-Wno-pragmas", "-Xclang", "-finclude-default-header"]
    command += ["-cl-no-stdinc", "-Dcl_intel_subgroups=1"] if target is INTEL else []
    done = subprocess.run([*command, "k.cl"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert not done.returncode, done.stderr[:2000]


@dataclass
class Event:
    start: int
    end: int

    @property
    def profile(self) -> Event:
        return self


def test_short_calls_share_a_span() -> None:
    calls = [[Event(1000 * i, 1000 * i + 400), Event(1000 * i + 500, 1000 * i + 900)] for i in range(6)]
    assert _spans(calls, 1) == pytest.approx([900e-9] * 6)
    assert _spans(calls, 4) == pytest.approx([3900e-9 / 4] * 4 + [1900e-9 / 2] * 2)
    assert _spans([[], []], 2) == [0.0, 0.0]


@pytest.mark.parametrize(("kind", "tick", "seconds", "calls"), [("gpu", 1000, 5e-6, 21), ("gpu", 52, 5e-6, 2), ("gpu", 1, 5e-6, 1), ("cpu", 1000, 5e-6, 1), ("gpu", 1000, 1e-3, 1)])  # fmt: skip
def test_how_many_calls_are_timed_as_one(kind: str, tick: int, seconds: float, calls: int) -> None:
    """So many that a tick is no hundredth of them."""
    made = SimpleNamespace(_s=SimpleNamespace(about={"tick_ns": tick}), _target=SimpleNamespace(kind=kind))
    assert ClExecutable._together(made, seconds) == calls  # type: ignore[arg-type]
