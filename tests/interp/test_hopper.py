"""Hopper's units in the interpreter: right Programs give right numbers, and each planted fault is found."""

from __future__ import annotations

import numpy as np
import pytest
from hopper_mutants import ACROSS, CLUSTER, COPIED, FRAGMENTS, LIMIT, MUTANTS, PLAIN, STAGED, TOGETHER, checked
from hopper_programs import Gemm, gemm, operands, worst
from tilewright.interp import run
from tilewright.ir.evaluation import twin
from tilewright.program.verify import verify

pytestmark = pytest.mark.many

RIGHT = {
    "plain": PLAIN,
    "ragged": Gemm(72, 136, 136),
    "across": ACROSS,
    "staged": STAGED,
    "cluster": CLUSTER,
    "cluster across": Gemm(200, 128, 128, columns=128, cluster=2, b_along="n"),
    "fragments": FRAGMENTS,
    "together": TOGETHER,
    "two consumers": Gemm(128, 64, 192, consumers=2, slots=2),
    "copies": COPIED,
    "f16": Gemm(64, 64, 128, "float16"),
    "tf32": Gemm(64, 64, 64, "float32"),
    "s8": Gemm(64, 64, 256, "int8"),
    "fp8": Gemm(64, 64, 256, "float8_e4m3"),
}
LIMITS = {"tf32": 2e-3, "fp8": 2e-3}
"""tf32 cuts operands to 10 bits of fraction; fp8 keeps 13 bits of a sum."""


@pytest.mark.parametrize("name", RIGHT)
def test_a_product_is_right_in_both_orders(name: str) -> None:
    g = RIGHT[name]
    program = gemm(g)
    verify(program)
    a, b, c = operands(g)
    first, second = c.copy(), c.copy()
    run(program, [a, b, first])
    run(program, [a, b, second], items=lambda n: range(n - 1, -1, -1))
    assert (first.view(np.uint32) == second.view(np.uint32)).all()
    assert worst(g, a, b, first) < LIMITS.get(name, LIMIT)


@pytest.mark.parametrize("name", ["ragged", "cluster across", "staged", "fragments"])
def test_the_integer_twin_is_exact(name: str) -> None:
    g = RIGHT[name]
    program = gemm(g)
    a, b, c = (twin.draw(p.shape, i) for i, p in enumerate(program.params))
    run(program, [a, b, c], twin=True)
    assert (c == a @ (b.T if g.b_along == "k" else b)).all()


@pytest.mark.parametrize("name", MUTANTS)
def test_a_planted_fault_is_found(name: str) -> None:
    g, fault, says = MUTANTS[name]
    program = gemm(g)
    fault(program)
    said = checked(g, program)
    assert said and says in said
