"""Other sizes for the kernels of benchmarks/user_kernels.py."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from tilewright.ir import KernelBuilder, float32
from tilewright.ir.kernel import Kernel

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "benchmarks"))
from parts.drawn_sizes import drawn


def grouped(m: int = 512, n: int = 768, g: int = 32, taps: int = 3) -> Kernel:
    """Rows of groups, which must divide them, with a number a group."""
    kb = KernelBuilder("grouped")
    i, j = kb.axis("m", m), kb.axis("n", n)
    x, scale = kb.input("x", (m, n), float32), kb.input("scale", (m, n // g), float32)
    kb.store("y", float32, (m, n), (i, j), x[i, j] * scale[i, j // g] * taps)
    return kb.build()


@pytest.mark.parametrize("seed", "abcdef")
def test_sizes_are_others_that_the_kernel_takes(seed: str) -> None:
    sizes = {"m": 512, "n": 768, "g": 32, "taps": 3}
    found = drawn(grouped, sizes, seed)
    assert found != sizes and found["taps"] == 3 and found["n"] % found["g"] == 0
    assert found == drawn(grouped, sizes, seed), "the same for everyone"
    grouped(**found)


def test_sizes_that_must_stay_do() -> None:
    def only(m: int) -> None:
        if m != 512:
            raise ValueError("512 or nothing")

    assert drawn(only, {"m": 512}, "a") == {"m": 512}
