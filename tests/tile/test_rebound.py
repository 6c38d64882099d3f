"""Names of Python's in the bodies of loops: those that each step makes for itself may be bound as often as it likes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tilewright import tile
from tilewright.ir.errors import KernelError


def test_names_of_a_step_are_its_own() -> None:
    """Made in each step, by loops of Python's too, with names that another loop had before."""

    def powers(inputs: Any) -> Any:
        x = inputs["x"].astype(float)
        return 4 * (x + x**2 + x**3) + 5 * 2 * x

    @tile.kernel(reference=powers)
    def sums(t: Any, n: int = 37) -> None:
        x, y = t.input("x", (n,)), t.output("y", (n,))
        rows = t.grid(n=(n, 8))
        total = t.zeros(8)
        for _ in t.loop("i", 4):
            v, each = x[rows], x[rows]
            for _ in range(2):
                v = v * x[rows]
                each = each + v
            total += each
        for _ in t.loop("j", 5):
            v = x[rows]
            v *= 2.0
            total += v
        y[rows] = total

    sums.check()


def test_an_accumulator_stays_one_whatever_it_holds() -> None:
    def doubled(inputs: Any) -> Any:
        return 16.0 * inputs["x"].astype(float)

    @tile.kernel(reference=doubled)
    def twice(t: Any, n: int = 21) -> None:
        x, y = t.input("x", (n,)), t.output("y", (n,))
        rows = t.grid(n=(n, 8))
        v = t.accumulator(x[rows])
        for _ in t.loop("i", 4):
            v *= 2.0
        y[rows] = v

    twice.check()


def test_closures_and_globals_are_seen() -> None:
    def kernel(t: Any, n: int = 16) -> None:
        x, y = t.input("x", (n,)), t.output("y", (n,))
        rows = t.grid(n=(n, 8))
        v = x[rows]

        def seen() -> Any:
            return v

        for _ in t.loop("i", 4):
            v = v + x[rows]
        y[rows] = seen()

    with pytest.raises(KernelError, match="v is bound anew"):
        tile.kernel(kernel)()


def test_an_output_of_one_element_is_checked() -> None:
    @tile.kernel(reference=lambda inputs: np.array((inputs["x"].astype(float) ** 2).sum()))
    def total(t: Any, n: int = 77) -> None:
        x, y = t.input("x", (n,)), t.output("y", ())
        s = t.zeros(())
        for b in t.loop("n", n, 16):
            s += t.sum(x[b] * x[b])
        y[()] = s

    total.check()
