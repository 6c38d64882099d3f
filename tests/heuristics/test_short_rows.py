"""Seeds of kernels with many short rows, short sums, two sums with computed operands, and much arithmetic."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from tilewright import targets
from tilewright.heuristics import seeds
from tilewright.opts import short

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))
from user_case import load

USER = Path(__file__).resolve().parents[2] / "benchmarks" / "user"
TARGET = targets.named("avx2")


@pytest.mark.many
@pytest.mark.parametrize(
    ("file", "name", "begins"),
    [
        ("quantised_and_training", "expert_gates", "Un16 Ue16"),  # lanes over the rows, all of a row in registers
        ("codecs", "dct_quantise", "Uv8 Ul8 Uk8"),
        ("sparse_and_banks", "tones", "Ore|k PHre.n! Oim|k PHim.n!"),  # both tables of waves before both sums
        ("light_and_noise", "gradient_noise", "Uw64"),  # scattered reads, but much arithmetic
    ],
)
def test_the_first_seed(file: str, name: str, begins: str) -> None:
    kernel = load(USER / f"{file}.py")[name]()
    assert short(seeds(kernel, TARGET)[0]).startswith(begins)
