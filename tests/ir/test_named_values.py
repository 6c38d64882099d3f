"""What several nests compute again gets a name, where it takes long and varies from point to point; nothing else does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tilewright import interp, targets
from tilewright.ir import Kernel, KernelBuilder, Node, exp, float32, log, maximum, minimum, sqrt, where
from tilewright.ir.evaluation import evaluate
from tilewright.ir.normal_form import canonical, normalise
from tilewright.ir.normal_form.named_values import name_repeated, name_windowed
from tilewright.lower import lower
from tilewright.opts import apply, parse


def softmax(named: bool, m: int = 5, n: int = 21, least: float = 0.0) -> Kernel:
    """Softmax of rows, its exponential named or written out; without what is below `least`."""
    kb = KernelBuilder("softmax")
    i = kb.axis("m", m)
    a, b, c, d = (kb.axis(f"n@{site}", n) for site in ("top", "e", "sum", "out"))
    x = kb.input("x", (m, n), float32)
    top = kb.max("top", (i,), a, x[i, a])
    e = kb.value("e", (i, b), exp(x[i, b] - top[i])) if named else None

    def size(at: Any) -> Any:
        found = exp(x[i, at] - top[i]) if e is None else e[i, at]
        return where(found < least, 0.0, found) if least else found

    total = kb.sum("total", (i,), c, size(c))
    kb.store("y", float32, (m, n), (i, d), size(d) / total[i])
    return kb.build()


def test_a_softmax_that_is_written_out_is_the_one_with_a_name() -> None:
    mine = normalise(softmax(False))
    assert list(mine.values) == ["top", "p0", "total"] and normalise(mine) is mine
    assert canonical(mine).text == canonical(normalise(softmax(True))).text


def test_the_largest_expression_is_named_and_may_be_kept() -> None:
    kernel = normalise(softmax(False, least=0.25))
    assert list(kernel.values) == ["top", "p0", "total"] and kernel.values["p0"].body.op == "where"
    x, y = np.random.default_rng(0).standard_normal((5, 21)).astype(np.float32), np.zeros((5, 21), np.float32)
    interp.run(lower(apply(kernel, parse("Un8 Pm Sp0@m"), targets.named("avx2"))), {"x": x, "y": y})
    e = np.exp(x - x.max(axis=1, keepdims=True))
    e[e < 0.25] = 0
    np.testing.assert_allclose(y, e / e.sum(axis=1, keepdims=True), rtol=1e-5)


def test_axes_of_one_family_stay_apart() -> None:
    """exp(x[i] - x[j]) and exp(x[j] - x[i]) are two expressions, though both are over the same dimension."""
    kb = KernelBuilder("pairs")
    i, j, k = kb.axis("n@i", 9), kb.axis("n@j", 9), kb.axis("n@k", 9)
    x = kb.input("x", (9,), float32)
    one = kb.sum("one", (i,), j, exp(x[i] - x[j]))
    two = kb.sum("two", (i,), k, exp(x[k] - x[i]))
    kb.store("y", float32, (9,), (i,), one[i] + two[i])
    kernel = kb.build()
    assert name_repeated(kernel) is kernel


def test_a_value_over_two_axes_of_one_family_has_two() -> None:
    """Also where the kernel has axes by the names that it would have taken."""
    kb = KernelBuilder("pairs")
    i, j, k, l = (kb.axis(f"n@{site}", 9) for site in ("i", "j", "p0", "out"))
    x = kb.input("x", (9,), float32)
    one = kb.sum("one", (i,), j, exp(x[i] * 0.5 - x[j]))
    kb.store("z", float32, (9, 9), (k, l), exp(x[k] * 0.5 - x[l]) / one[k])
    kernel = normalise(kb.build())
    names = [a.arg.name for a in kernel.values["p0"].axes]
    assert len(set(names)) == 2 and not set(names) & {"n@i", "n@j", "n@p0", "n@out"}
    data = np.random.default_rng(0).standard_normal(9).astype(np.float32)
    z = np.zeros((9, 9), np.float32)
    interp.run(lower(apply(kernel, (), targets.named("avx2"))), {"x": data, "z": z})
    each = np.exp(data[:, None] * 0.5 - data[None, :])
    np.testing.assert_allclose(z, each / each.sum(axis=1, keepdims=True), rtol=1e-5)


@pytest.mark.parametrize("of_rows", [True, False])
def test_what_leaves_the_loop_by_itself_has_no_name(of_rows: bool) -> None:
    kb = KernelBuilder("scaled")
    i, j = kb.axis("m", 5), kb.axis("n", 21)
    x, s = kb.input("x", (5, 21), float32), kb.input("s", (5,), float32)
    scale = 1.0 / sqrt(s[i] + 1.0) if of_rows else 1.0 / sqrt(x[i, j] * x[i, j] + 1.0)
    kb.store("y", float32, (5, 21), (i, j), x[i, j] * scale)
    kb.store("z", float32, (5, 21), (i, j), (x[i, j] + 1.0) * scale)
    kernel = kb.build()
    assert (name_repeated(kernel) is kernel) == of_rows


def scaled(n: int = 9, m: int = 13) -> Kernel:
    """A matrix scaled by the roots of its columns' and rows' sizes, and sums down its columns that are scaled by those of its rows."""
    kb = KernelBuilder("scaled")
    i, j, a, b, c = kb.axis("n", n), kb.axis("m", m), kb.axis("m@a", m), kb.axis("n@b", n), kb.axis("n@c", n)
    x = kb.input("x", (n, m), float32)
    row = kb.sum("row", (i,), a, x[i, a] * x[i, a] + 1.0)
    column = kb.sum("column", (j,), b, x[b, j] * x[b, j] + 1.0)
    down = kb.sum("down", (j,), c, x[c, j] / sqrt(row[c]))
    kb.store("y", float32, (n, m), (i, j), x[i, j] / sqrt(row[i]) / sqrt(column[j]))
    kb.store("z", float32, (m,), (j,), down[j])
    return kb.build()


def test_what_each_row_computes_of_a_columns_sum_is_named_once_for_all_that_read_it() -> None:
    kernel = normalise(scaled())
    named = [v.body for v in kernel.values.values() if v.name.startswith("p")]
    assert [n.src[0].arg for n in named if n.op == "sqrt"] == ["column"]  # (x over the root of a row is one value as a whole)
    assert normalise(kernel) is kernel


@pytest.mark.parametrize("opts", ["Um4", "PHp0", "PHp0! Um8", "PHrow! PHp0! Um4", "PHp0! PHdown! Um4"])
def test_functions_of_sums_may_have_a_phase(opts: str) -> None:
    kernel = normalise(scaled())
    x = np.random.default_rng(1).standard_normal((9, 13)).astype(np.float32)
    y, z = np.zeros((9, 13), np.float32), np.zeros(13, np.float32)
    interp.run(lower(apply(kernel, parse(opts), targets.named("avx2"))), {"x": x, "y": y, "z": z})
    row, column = np.sqrt((x**2 + 1).sum(axis=1)), np.sqrt((x**2 + 1).sum(axis=0))
    np.testing.assert_allclose(y, x / row[:, None] / column, rtol=1e-5)
    np.testing.assert_allclose(z, (x / row[:, None]).sum(axis=0), rtol=1e-4, atol=1e-5)


def test_what_varies_with_the_outermost_axis_leaves_its_loop_by_itself() -> None:
    kb = KernelBuilder("rows")
    i, j, a = kb.axis("n", 9), kb.axis("m", 13), kb.axis("m@a", 13)
    x = kb.input("x", (9, 13), float32)
    row = kb.sum("row", (i,), a, x[i, a])
    kb.store("y", float32, (9, 13), (i, j), x[i, j] * exp(row[i]))
    assert list(normalise(kb.build()).values) == ["row"]


# What windows and shifted places compute again gets a name, over all that they read; the kernel means what it m


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
