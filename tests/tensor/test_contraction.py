"""One value has one rounding: arithmetic of kernels is NumPy's bit for bit, so what cancels there cancels here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tilewright import jit, xp
from tilewright.ir import float32
from tilewright.ir.kernel import Kernel
from tilewright.ir.node import placeholder
from tilewright.lower import lower
from tilewright.lower.expr import terms
from tilewright.opts import apply
from tilewright.program.program import Instr, statements
from tilewright.targets import named
from tilewright.tensor import Tensor
from tilewright.tensor.fusion.call_list import KernelCall, call_list

Function = Callable[..., Any]

CANCELS: dict[str, Function] = {
    "difference of squares": lambda m, x, y: m.sqrt(x * x - y * y),
    "difference of products": lambda m, x, y: m.sqrt(x * y - y * x),
    "negated": lambda m, x, y: m.sqrt(x * y + (-x) * y),
    "the square of a modulus": lambda m, x, y: m.sqrt((x * x + y * y) - (x * x - y * (-y))),
    "imaginary part of z times its conjugate": lambda m, x, y: m.sqrt(x * (-y) + y * x),
    "discriminant": lambda m, x, y: m.sqrt((2 * x) * (2 * y) - 4 * (x * y)),
    "determinant": lambda m, x, y: m.sqrt(x * (3 * y) - (3 * y) * x),
    "a product that is used twice": lambda m, x, y: m.sqrt((x * y + 1) - x * y - 1 + 0 * x),
    "twice in one sum": lambda m, x, y: m.sqrt(x * y - (x * y)),
    "a product that is an argument as well": lambda m, x, y, p: m.sqrt(x * y - p) + m.sqrt(p - x * y),
    "three products": lambda m, x, y: m.sqrt(0.3 * x + 0.4 * (x - y) + 0.3 * (-y)),
    "polynomial": lambda m, x, y: ((0.3 * x - 1.7) * x + 2.1) * x - 0.7,
    "taps": lambda m, x, y: 0.11 * x[:-2] - 0.37 * x[1:-1] + 0.11 * x[2:],
}


@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("name", CANCELS)
def test_arithmetic_is_numpys(name: str, kind: type[np.floating[Any]]) -> None:
    f = CANCELS[name]
    x = np.random.default_rng(0).standard_normal(20_003).astype(kind)
    given = [x, x.copy(), x * x][: f.__code__.co_argcount - 1]
    with np.errstate(all="ignore"):
        want = f(np, *given)
    tensors = [Tensor(a) for a in given]
    for got in (f(xp, *tensors).numpy(), jit(lambda *a: f(xp, *a))(*tensors).numpy()):
        np.testing.assert_array_equal(got, want)


def test_the_largest_product_is_taken_from_itself() -> None:
    """A row's maximum in one kernel, or in another one: the product is rounded in both."""
    x = np.random.default_rng(1).standard_normal((64, 300)).astype(np.float32)
    s = np.random.default_rng(2).standard_normal(300).astype(np.float32)

    def f(x: Any, s: Any) -> Any:
        p = x * s
        top = p.max(-1, keepdims=True)
        return xp.sqrt(top - p), top + 1

    got, _ = jit(f)(Tensor(x), Tensor(s))
    p = x * s
    np.testing.assert_array_equal(got.numpy(), np.sqrt(p.max(-1, keepdims=True) - p))


@pytest.mark.parametrize("n", [1, 2, 8, 64])
def test_a_variance_of_equal_elements_is_zero(n: int) -> None:
    """E[x²] − E[x]² of rows of one number: where the sums are exact, nothing is left."""
    x = np.repeat(np.random.default_rng(3).standard_normal((40, 1)).astype(np.float32), n, 1)
    x = np.asarray(x.view(np.uint32) & np.uint32(0xFFFFF000)).view(np.float32)  # squares that float32 holds
    got = jit(lambda x: xp.sqrt((x * x).mean(-1) - x.mean(-1) * x.mean(-1)))(Tensor(x)).numpy()
    np.testing.assert_array_equal(got, np.zeros(40, np.float32))


def kernels_of(*outs: Tensor) -> list[Kernel]:
    return [c.kernel for c in call_list([o.node for o in outs]).calls if isinstance(c, KernelCall)]


def fused(kernel: Kernel) -> int:
    """Joint multiplications and additions of a Program."""
    program = lower(apply(kernel, (), named("haswell")))
    return sum(isinstance(s, Instr) and s.op == "fma" for p in program.phases for s in statements(p.body))


def test_only_what_a_sum_accumulates_is_joined() -> None:
    x, y = (Tensor(np.zeros((32, 32), np.float32)) for _ in range(2))
    assert all(fused(k) == 0 for k in kernels_of(x * y + x, x * x + y * y - 1, (x * y - x * x).sum(1)))
    assert all(fused(k) > 0 for k in kernels_of(x @ y, (x * y).sum(1)))


def test_the_rule_of_a_scan_accumulates() -> None:
    """h = a·h + b is joined; a product that the rule reads twice, or takes from another, is not."""
    a, b, x, y = (placeholder(n, float32) for n in "abxy")
    assert terms([a * x, a * y + b]) == {a * y}
    assert not terms([a * y, a * y + b]) and not terms([a * x + b * y, a * x - b])
