"""The LLVM text of small Programs, kept as files: a change of the renderer shows up as a readable difference.

To accept a change run `TILEWRIGHT_GOLDEN=write python -m pytest tests/renderers/test_llvm_golden.py` and review what git shows."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hand_built import exp_half, masked_sum, matmul
from tilewright import targets
from tilewright.renderers import render

GOLDEN = Path(__file__).parents[1] / "golden"


CASES = {
    "matmul-avx2": (lambda: matmul(12, 32, 20, 6, 2, 8), "avx2"),
    "masked_sum-cascadelake": (masked_sum, "cascadelake"),
    "exp-half-neon": (exp_half, "neon"),
}


@pytest.mark.parametrize("case", CASES)
def test_text_is_as_recorded(case: str) -> None:
    make, name = CASES[case]
    text = render(make(), targets.named(name)).text
    path = GOLDEN / f"{case}.ll"
    if os.environ.get("TILEWRIGHT_GOLDEN") == "write":
        path.write_text(text)
    assert text == path.read_text(), f"{path.name} differs; see this file's head"
