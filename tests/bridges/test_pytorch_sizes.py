"""Symbolic sizes of PyTorch's graphs that are computed with numbers."""

from __future__ import annotations

import math

import pytest

torch = pytest.importorskip("torch")

from tilewright import Var  # noqa: E402
from tilewright.bridges import pytorch as bridge  # noqa: E402
from tilewright.bridges.pytorch import sizes  # noqa: E402
from tilewright.ir.node import Node  # noqa: E402
from torch.utils._sympy.functions import Max, ToFloat, TruncToInt  # noqa: E402  # needs torch

S = torch.utils._sympy.functions.sympy.Symbol("s", integer=True, nonnegative=True)


def node(factor: float) -> object:
    return TruncToInt(factor * ToFloat(S))


@pytest.mark.parametrize("factor", [1.5, 0.75, 1.3, 2.9, 1 / 3, math.pi, 3.0])
def test_whole_parts_of_sizes_are_those_of_floats_at_every_size(factor: float) -> None:
    n = Var("n", 2, 3000)
    found = sizes.KnownSymbols({S: n})._converted(node(factor))
    symbol: Node = n.node  # type: ignore[attr-defined]
    assert all(sizes.concrete((found,), {symbol: k}) == (math.floor(k * factor),) for k in range(2, 3001))


@pytest.mark.parametrize("factor", [0.7, -1.5, 1e7])
def test_whole_parts_that_no_fraction_gives_are_not_guessed(factor: float) -> None:
    """10 times 0.7 is 7.0, and 90 times 0.7 less than 63."""
    with pytest.raises(NotImplementedError, match="whole part"):
        sizes.KnownSymbols({S: Var("n", 2, 1 << 19)})._converted(node(factor))


def test_the_larger_of_two_sizes_is_one_that_always_is() -> None:
    n = Var("n", 2, 30)
    known = sizes.KnownSymbols({S: n})
    assert known._converted(Max(1, S - 1)) == n - 1
    with pytest.raises(NotImplementedError, match="a size that is Max"):
        known._converted(Max(5, S))


@pytest.mark.slow
def test_series_of_any_length_are_enlarged_by_one_program() -> None:
    """By a number that is not whole, whose whole part decides how long the result is."""
    torch._dynamo.reset()
    bridge.reset()

    def f(x: object) -> object:
        return torch.nn.functional.interpolate(x, scale_factor=1.3)

    ours = torch.compile(f, backend=bridge.backend, dynamic=True)
    for n in (6, 9, 20):
        x = torch.randn(1, 2, n)
        torch.testing.assert_close(ours(x), f(x))
    assert bridge.report().count("graph") == 1 and not bridge.fallbacks()
