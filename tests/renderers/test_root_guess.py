"""root_guess: as near as it says by every way of running it, the same bits from LLVM and C, and one instruction a register."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import run_text
from hand_built import compile_for, elementwise, run
from tilewright import interp, targets
from tilewright.ir import BuildError
from tilewright.program.program import Program
from tilewright.renderers import render

X86 = targets.host().arch == "x86_64"


def program(lanes: int, items: int, name: str = "float32") -> Program:
    return elementwise([name], name, lanes, lanes * items, lambda b, x: b.op("root_guess", x))


@pytest.mark.parametrize("lanes", [1, 3, 8, 24])
def test_a_part_in_2700(lanes: int) -> None:
    """Of normal numbers of every magnitude."""
    n = lanes * 40
    x = np.ldexp(np.linspace(1.0, 4.0, n), np.arange(n) % 250 - 126).astype(np.float32)
    found = []
    for way in (interp, run, run_text.c) if X86 else (interp,):
        y = np.zeros_like(x)
        if way is interp:
            interp.run(program(lanes, 40), {"x0": x, "y": y})
        else:
            way(program(lanes, 40), [x, y])
        assert (np.abs(y * np.sqrt(x.astype(np.float64)) - 1.0) <= 1.5 / 4096).all()
        found.append(y)
    assert len(found) < 3 or found[1].tobytes() == found[2].tobytes()


@pytest.mark.parametrize(("target", "lanes"), [("cascadelake", 16), ("haswell", 8), ("x86-64-v2", 4)])
def test_a_register_takes_one_instruction(target: str, lanes: int) -> None:
    at = targets.named(target)
    for registers in (1, 3):
        text, _ = compile_for(at, render(program(registers * lanes, 4), at))
        assert text.count("rsqrt") == registers


@pytest.mark.parametrize(("target", "lang"), [("neon", "llvm"), ("neon", "c"), ("opencl-cpu", "opencl"), ("sm_90a", "cuda")])
def test_what_lacks_it_says_so(target: str, lang: str) -> None:
    with pytest.raises(BuildError, match="has no root_guess"):
        render(program(4, 4), replace(targets.named(target), lang=lang))


def test_only_float32_has_it() -> None:
    for lang in ("llvm", "c"):
        at: Any = replace(targets.named("haswell"), lang=lang)
        with pytest.raises(BuildError, match="no root_guess of"):
            render(program(4, 4, "float64"), at)
