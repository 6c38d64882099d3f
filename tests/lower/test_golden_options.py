"""Small kernels for each option, declared in its file: their Programs and the LLVM IR for an AVX-512 and an AVX2
machine, against the texts kept in tests/golden.

To accept a change run `TILEWRIGHT_GOLDEN=write python -m pytest tests/lower/test_golden_options.py` and review what git shows."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tilewright import named_kernels, targets
from tilewright.lower import lower
from tilewright.opts import apply, parse
from tilewright.opts.registry import OPTIONS, Golden
from tilewright.program.listing import show
from tilewright.renderers import render

GOLDEN = Path(__file__).resolve().parents[1] / "golden"
CASES = {"none": Golden("matmul", {"m": 8, "n": 32, "k": 16}, [])} | {
    name: case for option in OPTIONS.values() for name, case in option.golden.items()
}


@pytest.mark.parametrize("name", CASES)
def test_program_and_source_are_as_kept(name: str) -> None:
    case = CASES[name]
    scheduled = {
        t: apply(named_kernels.make(case.kernel, dict(case.shape), "float32"), parse(case.opts), targets.named(t))
        for t in ("znver5", "avx2")
    }
    texts = [show(lower(scheduled["znver5"]))] + [f"; ---- {t}\n{render(lower(s), targets.named(t)).text}" for t, s in scheduled.items()]
    text = "\n".join(texts)
    path = GOLDEN / f"option-{name}.txt"
    if os.environ.get("TILEWRIGHT_GOLDEN") == "write":
        path.write_text(text)
    assert path.exists(), f"{path.name} is missing: write it with TILEWRIGHT_GOLDEN=write"
    assert text == path.read_text(), f"{path.name} differs; if that is meant, write it with TILEWRIGHT_GOLDEN=write and review the change"


def test_every_kept_file_has_its_case() -> None:
    assert {p.stem.removeprefix("option-") for p in GOLDEN.glob("option-*.txt")} == set(CASES)
    assert len(CASES) == 1 + sum(len(option.golden) for option in OPTIONS.values())
