"""Expressions of thousands of operators one inside the other, and sums of many inputs: no stage recurses as deep as they are."""

from __future__ import annotations

import numpy as np
import pytest
from checks import twin_of
from tilewright import targets
from tilewright.ir import Kernel, KernelBuilder, Node, exp, float32
from tilewright.ir.cost import cost
from tilewright.ir.evaluation import evaluate, evaluate_error
from tilewright.ir.kernel_text import kernel_text
from tilewright.ir.node import axes_of, const
from tilewright.ir.normal_form import canonical, loose
from tilewright.ir.operators import depth, substitute
from tilewright.lower import lower
from tilewright.opts import apply, parse
from tilewright.renderers import render

N = 64


def chain(length: int, inner: str = "x") -> Kernel:
    k = KernelBuilder("chain")
    i = k.axis("i", N)
    value: Node = k.input(inner, (N,), float32)[i]
    for at in range(length):
        value = [value + 0.25, value * 1.0625, exp(value - 4.0)][at % 3]
    k.store("y", float32, (N,), (i,), value)
    return k.build()


def total(inputs: list[str]) -> Kernel:
    k = KernelBuilder("total")
    i = k.axis("i", N)
    first, *rest = [k.input(name, (N,), float32)[i] for name in inputs]
    for x in rest:
        first = x + first
    k.store("y", float32, (N,), (i,), first)
    return k.build()


@pytest.mark.slow
def test_a_chain_of_1500() -> None:
    kernel = chain(1500)
    assert canonical(kernel).hash == canonical(chain(1500, "other")).hash != canonical(chain(1499)).hash
    assert set(loose(kernel)) == {"extents", "epilogue"}
    assert len(kernel_text(kernel)) > 1500 and cost(kernel).elementary == N * 500
    x = np.linspace(-1, 1, N, dtype=np.float32)
    want = evaluate(kernel, {"x": x})["y"]
    assert np.isfinite(want).all() and evaluate_error(kernel, {"x": x}) is not None
    target = targets.named("avx2")
    scheduled = apply(kernel, parse([["UPCAST", "i", 8]]), target)
    assert render(lower(scheduled), target).text.count("llvm.fma") > 500
    twin_of(lower(scheduled, expand=False), kernel, {})


def test_a_deep_expression_is_walked_without_recursion() -> None:
    kernel = chain(3000)
    (root,) = (s.expr for s in kernel.stores)
    (i,) = axes_of(root)
    assert depth(root) > 3000
    moved = substitute(root, {i: const(3)})
    assert axes_of(moved) == set() and depth(moved) == depth(root)
    assert repr(moved).count("exp(") == 1000


def test_lowering_in_parts_keeps_one_instruction_an_operator() -> None:
    """What is evaluated early is not evaluated again, and additions still fuse with products."""
    target = targets.named("avx2")
    text = render(lower(apply(total([f"x{n}" for n in range(200)]), (), target)), target).text
    assert text.count("fadd") == 199


def test_a_sum_of_many_inputs_has_one_name_in_any_order_of_parameters() -> None:
    names = [f"x{n}" for n in range(64)]
    assert canonical(total(names)).hash == canonical(total(names[::-1])).hash


def test_equal_operands_are_both_written() -> None:
    k = KernelBuilder("twice")
    i = k.axis("i", N)
    x = k.input("x", (N,), float32)[i]
    k.store("y", float32, (N,), (i,), x + x)
    assert "add float32 n1 n1" in canonical(k.build()).text
