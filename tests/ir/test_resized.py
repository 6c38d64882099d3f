"""Kernels whose symbolic size gets a narrower range, or a value."""

import pytest
from tilewright import kernels
from tilewright.ir import KernelError, sym
from tilewright.ir.normal_form import canonical, normalise
from tilewright.ir.rewriter import resized


@pytest.mark.parametrize("name, symbol, rest", [("matmul", "m", {"n": 8, "k": 5}), ("softmax", "n", {"m": 6}), ("cumsum", "n", {"m": 3})])
def test_a_resized_kernel_is_the_kernel_of_that_size(name: str, symbol: str, rest: dict[str, int]) -> None:
    """So what is tuned for a part of a range is found by whoever asks for it."""
    whole = kernels.make(name, {symbol: sym(symbol, 1, 100), **rest}, "float32")
    part = kernels.make(name, {symbol: sym(symbol, 10, 20), **rest}, "float32")
    one = kernels.make(name, {symbol: 7, **rest}, "float32")
    assert canonical(normalise(resized(whole, {symbol: (10, 20)}))).hash == canonical(normalise(part)).hash
    assert canonical(normalise(resized(whole, {symbol: (7, 7)}))).hash == canonical(normalise(one)).hash
    assert canonical(normalise(whole)).hash != canonical(normalise(part)).hash


def test_what_is_no_part_is_refused() -> None:
    whole = kernels.make("matmul", {"m": sym("m", 4, 100), "n": 8, "k": 5}, "float32")
    with pytest.raises(KernelError, match="no part of"):
        resized(whole, {"m": (1, 50)})
    with pytest.raises(KernelError, match="no symbol"):
        resized(whole, {"n": (1, 5)})
