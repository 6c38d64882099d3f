"""One small kernel for each option: its Program and the LLVM IR for an AVX-512 and an AVX2 machine, against the texts kept in tests/golden.

To accept a change run `TILEWRIGHT_GOLDEN=write python -m pytest tests/lower/test_golden_options.py` and review what git shows."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from tilewright import kernels, targets
from tilewright.lower import lower
from tilewright.opts import apply, parse
from tilewright.program.text import show
from tilewright.renderers import render

GOLDEN = Path(__file__).resolve().parents[1] / "golden"
MATMUL = ("matmul", {"m": 8, "n": 32, "k": 16})

CASES: dict[str, tuple[str, dict[str, int], list[Any]]] = {
    "none": (*MATMUL, []),
    "tile": (*MATMUL, [["TILE", "n", 12]]),
    "move": (*MATMUL, [["TILE", "k", 8], ["MOVE", "k", {"before": "m"}], ["UPCAST", "n", 16]]),
    "upcast": (*MATMUL, [["UPCAST", "m", 4], ["UPCAST", "n", 32]]),
    "upcast_masked": ("matmul", {"m": 7, "n": 27, "k": 16}, [["UPCAST", "m", 4], ["UPCAST", "n", 16]]),
    "upcast_partial": ("sum_rows", {"m": 4, "n": 96}, [["UPCAST", "n", 32]]),
    "unroll": (*MATMUL, [["UPCAST", "n", 16], ["UNROLL", "k", 4]]),
    "parallel": (*MATMUL, [["PARALLEL", "m"], ["PARALLEL", "n"]]),
    "splitk": ("sum_all", {"n": 256}, [["SPLITK", "n", 4], ["UPCAST", "n", 16]]),
    "stage_panel": (*MATMUL, [["UPCAST", "n", 16], ["PARALLEL", "n"], ["STAGE", "b", {"at": "n"}]]),
    "stage_once": ("matmul:constant=b", MATMUL[1], [["UPCAST", "n", 16], ["PARALLEL", "n"], ["STAGE", "b", {"at": "once"}]]),
    "stage_row": (*MATMUL, [["UPCAST", "n", 16], ["STAGE", "a", {"at": "m", "order": "row", "pad": 16}]]),
    "stage_value": ("softmax", {"m": 4, "n": 32}, [["UPCAST", "n", 16], ["PARALLEL", "m"], ["STAGE", "e", {"at": "m"}]]),
    "stage_output": ("transpose", {"m": 16, "n": 16}, [["UPCAST", "m", 8], ["UPCAST", "n", 8], ["PARALLEL", "n"], ["STAGE", "y", {"at": "n"}]]),
    "padto": ("matmul", {"m": 3, "n": 32, "k": 16}, [["PADTO", "m", 4], ["UPCAST", "m", 4], ["UPCAST", "n", 16]]),
    "fetch": ("log_softmax", {"m": 4, "n": 32}, [["UPCAST", "n", 32], ["FETCH", "y"]]),
    "own": ("embedding_grad", {"v": 40, "n": 8, "d": 32}, [["OWN", "dtable", 16], ["UPCAST", "d", 32]]),
    "nt": ("add", {"m": 8, "n": 32}, [["UPCAST", "n", 32], ["NT", "y"]]),
    "fold_tile": ("argmax", {"m": 2, "n": 40}, [["TILE", "n", 16], ["UPCAST", "n", 8]]),
}


@pytest.mark.parametrize("name", CASES)
def test_program_and_source_are_as_kept(name: str) -> None:
    kernel, shape, opts = CASES[name]
    scheduled = {t: apply(kernels.make(kernel, shape, "float32"), parse(opts), targets.named(t)) for t in ("znver5", "avx2")}
    texts = [show(lower(scheduled["znver5"]))] + [f"; ---- {t}\n{render(lower(s), targets.named(t)).text}" for t, s in scheduled.items()]
    text = "\n".join(texts)
    path = GOLDEN / f"option-{name}.txt"
    if os.environ.get("TILEWRIGHT_GOLDEN") == "write":
        path.write_text(text)
    assert path.exists(), f"{path.name} is missing: write it with TILEWRIGHT_GOLDEN=write"
    assert text == path.read_text(), f"{path.name} differs; if that is meant, write it with TILEWRIGHT_GOLDEN=write and review the change"
