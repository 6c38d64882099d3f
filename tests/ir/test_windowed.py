"""What windows and shifted places compute again gets a name, over all that they read; the kernel means what it meant."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from tilewright import interp, targets
from tilewright.ir import Kernel, KernelBuilder, Node, exp, float32, log, maximum, minimum, sqrt
from tilewright.ir.evaluation import evaluate
from tilewright.ir.normal_form import normalise
from tilewright.ir.normal_form.named_values import name_windowed
from tilewright.lower import lower
from tilewright.opts import apply, parse

N, M = 11, 14


def summed(stride: int = 1, taps: int = 3) -> Kernel:
    """Sums of logarithms over windows of a picture."""
    kb = KernelBuilder("summed")
    h, w = (N - taps) // stride + 1, (M - taps) // stride + 1
    i, j, p, q = kb.axis("h", h), kb.axis("w", w), kb.axis("p", taps), kb.axis("q", taps)
    x = kb.input("x", (N, M), float32, range=(0.5, 4.0))
    kb.store("y", float32, (h, w), (i, j), kb.sum("s", (i, j), (p, q), log(x[i * stride + p, j * stride + q]))[i, j])
    return kb.build()


def shifted(f: Callable[[Node, Node], Node], clamped: bool = False) -> Kernel:
    """The difference of a function of neighbours, through both sides of a cell."""
    kb = KernelBuilder("shifted")
    i, j = kb.axis("h", N - 2), kb.axis("w", M)
    x = kb.input("x", (N, M), float32, range=(0.5, 4.0))

    def at(k: int) -> Node:
        return x[maximum(minimum(i + k, N - 3), 0), j] if clamped else x[i + k, j]

    kb.store("y", float32, (N - 2, M), (i, j), f(at(2), at(1)) - f(at(1), at(0)))
    return kb.build()


CASES = {
    "windows": (summed(), ["s"]),
    "strided windows": (summed(2, 4), ["s"]),
    "fluxes": (shifted(lambda a, b: (a - b) / (a + b)), []),
    "functions of clamped places": (shifted(lambda a, b: sqrt(a) * log(b), True), []),
    "functions of functions": (shifted(lambda a, b: exp(-sqrt(a)) * sqrt(b)), []),
}


@pytest.mark.parametrize("name", CASES)
def test_what_is_computed_again_is_named_and_means_the_same(name: str) -> None:
    kernel, own = CASES[name]
    found = name_windowed(kernel)
    assert [v for v in found.values if v not in own], "nothing was named"
    x = {"x": np.random.default_rng(0).uniform(0.5, 4.0, (N, M)).astype(np.float32)}
    np.testing.assert_allclose(evaluate(found, x)["y"], evaluate(kernel, x)["y"], rtol=1e-6, atol=1e-6)
    again = normalise(kernel)
    assert normalise(again) is again


@pytest.mark.parametrize("opts", ["Uw2", "PHp0", "PHp0 Uw4", "Hh3 Sp0@h.h", "Uw4 Uh2"])
def test_a_window_may_read_what_a_phase_keeps(opts: str) -> None:
    kernel = normalise(summed())
    assert "p0" in kernel.values
    x = np.random.default_rng(0).uniform(0.5, 4.0, (N, M)).astype(np.float32)
    y = np.zeros((N - 2, M - 2), np.float32)
    interp.run(lower(apply(kernel, parse(opts), targets.named("avx2"))), {"x": x, "y": y})
    views = [np.log(x)[p : p + N - 2, q : q + M - 2] for p in range(3) for q in range(3)]
    np.testing.assert_allclose(y, sum(views), rtol=1e-5)


def test_windows_that_share_nothing_and_cheap_functions_get_no_name() -> None:
    kernel = summed(3)
    assert name_windowed(kernel) is kernel
    kernel = shifted(lambda a, b: a * b + a)
    assert name_windowed(kernel) is kernel


def test_what_depends_on_the_window_itself_gets_no_name() -> None:
    """As in a bilateral filter, whose weights are of two elements that differ from window to window."""
    kb = KernelBuilder("bilateral")
    i, p = kb.axis("n", 30), kb.axis("p", 5)
    x = kb.input("x", (34,), float32)
    kb.store("y", float32, (30,), (i,), kb.sum("s", (i,), p, exp(x[i + 2] - x[i + p]))[i])
    kernel = kb.build()
    assert name_windowed(kernel) is kernel


def test_places_whose_intervals_reach_outside_get_no_name() -> None:
    """Reflected borders stay inside, which is known by trying every place and not by intervals."""
    kb = KernelBuilder("reflected")
    i, p = kb.axis("i", 20), kb.axis("p", 5)
    x = kb.input("x", (20,), float32, range=(0.5, 4.0))
    at = maximum(i + p - 2, 2 - i - p)
    kb.store("y", float32, (20,), (i,), kb.sum("s", (i,), p, log(x[minimum(at, 38 - at)]))[i])
    kernel = kb.build()
    assert list(normalise(kernel).values) == ["s"]
