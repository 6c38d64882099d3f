"""Benchmarks under TILEWRIGHT_TARGET: the rivals are lowered too, and results of their own are written."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from tilewright import targets
from tilewright.ir import DeviceError

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "benchmarks"))
import record
from parts import rivals

SAYS = """
import ctypes, glob, json, os
import numpy as np
from numpy._core._multiarray_umath import __cpu_features__ as f
blas = glob.glob(os.path.join(os.path.dirname(np.__file__), "..", "numpy.libs", "libscipy_openblas*"))
core = ""
if blas:
    name = ctypes.CDLL(blas[0]).scipy_openblas_get_corename64_
    name.restype = ctypes.c_char_p
    core = name().decode()
print(json.dumps({"core": core, "features": [k for k in f if f[k]]}))
"""


def lower(to: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEWRIGHT_TARGET", to)
    try:
        if not targets.lowered():
            pytest.skip(f"this machine is {to}")
    except DeviceError as e:
        pytest.skip(str(e))


@pytest.mark.parametrize(
    ("level", "core", "without"),
    [("v2", "Nehalem", ("AVX2", "X86_V3", "FMA3", "AVX512F", "X86_V4")), ("v3", "Haswell", ("AVX512F", "X86_V4", "AVX512_ICL"))],
)
def test_numpy_and_openblas_do_as_they_are_told(level: str, core: str, without: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    lower(level, monkeypatch)
    monkeypatch.setenv("OPENBLAS_CORETYPE", "Prescott")
    env = rivals.environment(2)
    assert env["OPENBLAS_CORETYPE"] == core and env["OPENBLAS_NUM_THREADS"] == env["OMP_NUM_THREADS"] == "2"
    said = json.loads(subprocess.run([sys.executable, "-c", SAYS], env=env, check=True, capture_output=True, text=True).stdout)
    dispatched = {f for f in without if f in env.get("NPY_DISABLE_CPU_FEATURES", "").split()}
    assert said["core"] in (core, "") and not dispatched & set(said["features"]) and dispatched


def test_without_it_nothing_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TILEWRIGHT_TARGET", raising=False)
    monkeypatch.setenv("OPENBLAS_CORETYPE", "Prescott")
    assert rivals.settings() == {} and "OPENBLAS_CORETYPE" not in rivals.environment(1)


def test_results_of_a_lowered_machine_are_others(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    lower("v2", monkeypatch)
    monkeypatch.setattr(record, "ROOT", tmp_path)
    record.keep("some", "python benchmarks/some.py", [{"threads": 1}])
    (file,) = (tmp_path / "results").iterdir()
    kept = json.loads(file.read_text())
    assert file.name == "some-v2.json" and kept["command"] == "TILEWRIGHT_TARGET=v2 python benchmarks/some.py"
    assert (
        kept["device"]["lowered"] == "TILEWRIGHT_TARGET=v2"
        and kept["rivals"] == rivals.settings()
        and kept["rivals"]["ATEN_CPU_CAPABILITY"] == "default"
    )
