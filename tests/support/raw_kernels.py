"""Raw kernels for tests, as pulling makes them: no named pointwise values, and axes of its own for every nest."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from tilewright.ir import DType, Node, float32
from tilewright.ir.body import Fold
from tilewright.ir.buffer import Buffer
from tilewright.ir.builder import KernelBuilder
from tilewright.ir.evaluation import evaluate
from tilewright.ir.kernel import Kernel
from tilewright.ir.online import online

Element = Callable[..., Node]
TILES = (None, 1, 7, 16)
M, N, C = 6, 23, 5


class Raw:
    """Collects nests; every one gets new axes."""

    def __init__(self, name: str = "raw") -> None:
        self.kb = KernelBuilder(name)
        self.count = 0

    def input(self, name: str, *shape: int, dtype: DType = float32, range: tuple[int, int] | None = None) -> Buffer:
        """A parameter."""
        return self.kb.input(name, shape, dtype, range=range)

    def axes(self, name: str, shape: Sequence[int]) -> tuple[Node, ...]:
        """New axes."""
        return tuple(self.kb.axis(f"{name}_{d}", n) for d, n in enumerate(shape))

    def reduce(
        self,
        combine: str,
        shape: Sequence[int],
        over: int | Sequence[int],
        element: Element,
        dtype: DType | None = None,
    ) -> Element:
        """`combine` of element(*axes, *reduced axes); the result is called with indices."""
        name = f"r{self.count}"
        self.count += 1
        over = (over,) if isinstance(over, int) else over
        mine, reduced = self.axes(name, shape), self.axes(f"{name}_k", over)
        value = self.kb.reduce(combine, name, mine, reduced, element(*mine, *reduced), dtype)
        return lambda *at: value[at]

    def sum(self, shape: Sequence[int], over: int | Sequence[int], element: Element) -> Element:
        """A sum."""
        return self.reduce("add", shape, over, element)

    def max(self, shape: Sequence[int], over: int | Sequence[int], element: Element) -> Element:
        """A maximum."""
        return self.reduce("max", shape, over, element)

    def store(self, name: str, shape: Sequence[int], element: Element, dtype: DType = float32) -> None:
        """An output."""
        axes = self.axes(f"o_{name}", shape)
        self.kb.store(name, dtype, shape, axes, element(*axes))

    def build(self) -> Kernel:
        """The kernel."""
        return self.kb.build()


def folded(kernel: Kernel, rows: bool = False) -> Kernel:
    """The derived kernel, which must have one fold."""
    found = online(kernel, rows)
    assert isinstance(found, Kernel), found
    assert sum(isinstance(item, Fold) for item in found.body) == 1
    return found


def fold_of(kernel: Kernel) -> Fold:
    """Its fold."""
    return next(item for item in kernel.body if isinstance(item, Fold))


def numbers(kernel: Kernel, seed: int = 0, scale: float = 1.0) -> dict[str, Any]:
    """Normal numbers for floats; whole ones in their declared range, and coin tosses."""
    rng = np.random.default_rng(seed)
    out = {}
    for b in kernel.inputs:
        if b.dtype.is_float:
            out[b.name] = (scale * rng.standard_normal(b.shape)).astype(b.dtype.np)
        elif b.dtype.is_int:
            lo, hi = b.range or (0, 5)
            out[b.name] = rng.integers(lo, hi + 1, b.shape).astype(b.dtype.np)
        else:
            out[b.name] = rng.random(b.shape) < 0.6
    return out


def agrees(kernel: Kernel, inputs: Mapping[str, Any], want: Mapping[str, Any], tolerance: float = 1e-9) -> None:
    """Every output, whole and in tiles of several sizes, is what NumPy has in float64."""
    for tile in TILES:
        got = evaluate(kernel, inputs, tile=tile)
        for name, w in want.items():
            message = f"{name} in tiles of {tile}"
            np.testing.assert_allclose(got[name], w, rtol=tolerance, atol=tolerance, err_msg=message)


def wide(inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Floats as float64."""
    return {n: a.astype(np.float64) if a.dtype.kind == "f" else a for n, a in inputs.items()}


class Logits(Raw):
    """h @ w.T, or rows x in memory, called with (row, column)."""

    def __init__(self, product: bool = True) -> None:
        super().__init__()
        self.rows = not product
        if product:
            h, w = self.input("h", M, C), self.input("w", N, C)
            self.at = self.sum((M, N), C, lambda i, j, e: h[i, e] * w[j, e])
        else:
            x = self.input("x", M, N)
            self.at = lambda i, j: x[i, j]

    def top(self) -> Any:
        """Its maximum."""
        return self.max((M,), N, self.at)

    def finished(self, **want: Any) -> Kernel:
        """The derived kernel, checked: `want` are functions of the logits and of all inputs, in float64."""
        kernel = folded(self.build(), self.rows)
        inputs = numbers(kernel)
        x = wide(inputs)
        s = x["x"] if self.rows else x["h"] @ x["w"].T
        agrees(kernel, inputs, {n: f(s, x) for n, f in want.items()})
        return kernel


def components(kernel: Kernel) -> tuple[str, ...]:
    return fold_of(kernel).components


def softmax(s: Any) -> Any:
    e = np.exp(s - s.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def lse(s: Any) -> Any:
    return np.log(np.exp(s).sum(-1))


both = pytest.mark.parametrize("product", [True, False], ids=["product", "rows"])
