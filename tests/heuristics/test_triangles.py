"""What the model knows of sums over pairs in some order."""

from __future__ import annotations

import pytest
from tilewright import heuristics, targets
from tilewright.ir import KernelBuilder, float32, where
from tilewright.ir.kernel import Kernel
from tilewright.opts import apply, parse
from tilewright.opts.analysis import ragged

TARGET = targets.named("avx2")
M, N = 256, 128


def product(holds: str) -> Kernel:
    """A product in which a matrix counts where its indices are in some order, or everywhere."""
    kb = KernelBuilder("product")
    i, j, k = kb.axis("m", M), kb.axis("n", N), kb.axis("k", M)
    a, x = kb.input("a", (M, M), float32), kb.input("x", (M, N), float32)
    cond = {"below": k < i, "above": k > i, "corner": (k < i) & (i < 64)}.get(holds)
    element = a[i, k] * x[k, j] if cond is None else where(cond, a[i, k] * x[k, j], 0.0)
    kb.store("y", float32, (M, N), (i, j), kb.sum("total", (i, j), k, element)[i, j])
    return kb.build()


@pytest.mark.parametrize(("holds", "part"), [("below", 0.5), ("above", 0.5), ("all", 1.0)])
@pytest.mark.parametrize("opts", ["Um4 Un16 Rk4", "Um4 Un24", "Um2 Un8 Tn64 Pn"])
@pytest.mark.covering
def test_half_of_a_square_is_summed(holds: str, part: float, opts: str) -> None:
    s = apply(product(holds), parse(opts), TARGET)
    assert ragged.triangle_share(s, s.nests[0]) == pytest.approx(part, abs=0.05)


def test_a_loop_outside_of_the_rows_goes_through_all_of_them() -> None:
    s = apply(product("below"), parse("Um4 Un16 Mk<m"), TARGET)
    assert ragged.triangle_share(s, s.nests[0]) == 1.0


def test_a_triangle_takes_about_half_of_the_time() -> None:
    whole, half = (heuristics.estimate(apply(product(h), parse("Um4 Un16 Tn16 Pn Rk4 Sx@n"), TARGET), 1) for h in ("all", "below"))
    assert 0.4 < half / whole < 0.75


def test_start_schedules_of_a_triangle_keep_their_steps_short_enough_for_limits() -> None:
    kernel = product("below")
    s = apply(kernel, heuristics.starts(kernel, TARGET, 1)[0], TARGET)
    assert ragged.triangles(s, s.nests[0])
