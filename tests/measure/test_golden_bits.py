"""Fixed bits through every instruction of tensor cores: what is predicted, what is found to differ, and what GPUs have said."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest
from cuda_build import needs_cxx, needs_nvrtc
from tilewright import targets
from tilewright.devices.cuda import nvrtc
from tilewright.interp import run
from tilewright.ir import UsageError
from tilewright.program.verify import verify
from tilewright.renderers import render
from tilewright.targets.tensor_rows import available

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "benchmarks"))
from parts import golden_bits  # noqa: E402

RECORDED = sorted((ROOT / "results").glob("*/golden*.json"))


@pytest.mark.many
@pytest.mark.parametrize("name", ["sm_80", "sm_89", "sm_90a"])
def test_the_interpreter_gives_what_is_predicted(name: str) -> None:
    target = targets.named(name)
    found = golden_bits.cases(target)
    assert {c.name for c in found} >= {r.name for r in available(target)} | {"ldmatrix_x4", "ldmatrix_x2_t"}
    p = golden_bits.program(found, target)
    verify(p)
    observed = golden_bits.observe(target, lambda _, arrays: run(p, [arrays[x.name] for x in p.params]))
    assert all(entry["different"] == 0 for entry in golden_bits.differences(target, observed))


def test_a_difference_is_named() -> None:
    target = targets.named("sm_90a")
    found = {c.name: c.want.copy() for c in golden_bits.cases(target)}
    found["mma.m16n8k16.bf16"].view(np.uint32)[41, 2] ^= 1
    wrong = [e for e in golden_bits.differences(target, found) if e["different"]]
    assert len(wrong) == 1 and wrong[0]["case"] == "mma.m16n8k16.bf16" and wrong[0]["by_kind"]["near"] == 1
    assert (wrong[0]["first"]["tile"], wrong[0]["first"]["lane"], wrong[0]["first"]["element"]) == (1, 9, 2)
    assert any("A in registers" in c for c in found) and any("B across k" in c for c in found)


def test_inputs_are_the_same_each_time() -> None:
    first, second = (golden_bits.cases(targets.named("sm_80")) for _ in range(2))
    assert all([x.tobytes() for x in a.inputs] == [x.tobytes() for x in b.inputs] for a, b in zip(first, second, strict=True))


def test_a_target_without_tensor_cores_is_refused() -> None:
    with pytest.raises(UsageError, match="no tensor cores"):
        golden_bits.cases(targets.named("avx2"))


@pytest.mark.slow
@needs_cxx
def test_the_command_runs_the_models_and_prints_their_bits(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert golden_bits.main(["--host", "sm_80"]) == 0
    file = tmp_path / "golden.json"
    lines = capsys.readouterr().out
    rows = [json.loads(x) for x in lines.splitlines()]
    assert len(rows) > 8 and any(r["case"] == "mma.m16n8k8.tf32" for r in rows) and not any(r["different"] or "bits" in r for r in rows)
    for text in (lines, json.dumps({"rows": rows}, indent=1)):
        file.write_text(text)
        assert golden_bits.changed(file) == []
    rows[2]["sha256"] = rows[1]["sha256"]
    file.write_text(json.dumps({"rows": rows}, indent=1))
    assert golden_bits.changed(file) == [rows[2]["case"]]


def test_without_a_gpu_the_command_says_why(capsys: pytest.CaptureFixture[str]) -> None:
    assert golden_bits.main(["--host", "avx2"]) == 2 and "no tensor cores" in capsys.readouterr().err


@pytest.mark.slow
@needs_nvrtc
def test_every_case_builds() -> None:
    target = targets.named("sm_90a")
    source = render(golden_bits.program(golden_bits.cases(target), target), target)
    assert nvrtc.compile(source.text, "sm_90a")[0]


@pytest.mark.parametrize("file", RECORDED, ids=lambda f: f"{f.parent.name}-{f.stem}")
def test_the_table_says_what_a_gpu_said(file: Path) -> None:
    """Bits that a GPU gave are what the table gives today."""
    assert golden_bits.changed(file) == []
