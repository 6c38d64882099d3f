"""Intervals of floats have all values that expressions take, and places computed of floats go by way of int32 where they fit."""

from __future__ import annotations

from collections.abc import Callable
from math import inf

import numpy as np
import pytest
from checks import check_compiled, check_floats
from tilewright import targets
from tilewright.ir import Kernel, KernelBuilder, Node, absolute, clip, dtype, floor, maximum, minimum, where
from tilewright.ir.evaluation import evaluate
from tilewright.ir.integer_ranges import float_range
from tilewright.ir.operators import cast
from tilewright.lower import lower
from tilewright.opts import apply, parse
from tilewright.program.program import Instr, statements

RANGES: dict[str, tuple[Callable[[Node, Node], Node], tuple[float, float]]] = {
    "read": (lambda x, i: x, (-2.5, 4.0)),
    "clipped": (lambda x, i: clip(x * x * x, 0.0, 9.5), (0.0, 9.5)),
    "one side": (lambda x, i: maximum(x / 3.0, -1.0), (-1.0, inf)),
    "rounded": (lambda x, i: floor(x), (-3.0, 4.0)),
    "sum": (lambda x, i: x + 1.5, (-1.0, 5.5)),
    "difference": (lambda x, i: x - x, (-6.5, 6.5)),
    "product": (lambda x, i: x * -2.0, (-8.0, 5.0)),
    "size": (lambda x, i: absolute(x), (0.0, 4.0)),
    "choice": (lambda x, i: where(x > 0.0, minimum(x, 2.0), -7.0), (-7.0, 2.0)),
    "places": (lambda x, i: cast(i, "float32") * 0.5, (0.0, 31.5)),
    "unknown": (lambda x, i: x / x, (-inf, inf)),
}


def computed(f: Callable[[Node, Node], Node]) -> Kernel:
    kb = KernelBuilder("computed")
    i = kb.axis("n", 64)
    x = kb.input("x", (64,), dtype("float32"), range=(-2.5, 4.0))
    kb.store("y", dtype("float32"), (64,), (i,), f(x[i], i))
    return kb.build()


@pytest.mark.parametrize("name", RANGES)
def test_intervals(name: str) -> None:
    f, wanted = RANGES[name]
    kernel = computed(f)
    low, high = float_range(kernel.stores[0].expr)
    assert (low, high) == wanted
    x = np.linspace(-2.5, 4.0, 64).astype(np.float32)
    y = evaluate(kernel, {"x": x})["y"]
    y = y[np.isfinite(y)]
    assert (low <= y).all() and (y <= high).all()


def interpolated(limited: bool) -> Kernel:
    """A table of 20 numbers read between its elements, at places that floats say."""
    kb = KernelBuilder("interpolated")
    i = kb.axis("n", 37)
    t, at = kb.input("t", (20,), dtype("float32")), kb.input("at", (37,), dtype("float32"), range=(-4.0, 30.0))
    place = clip(at[i], 0.0, 18.0) if limited else at[i] / 2.0 + 2.0
    low = floor(place)
    p = cast(low, "int64") if limited else minimum(maximum(cast(low, "int64"), 0), 18)
    kb.store("y", dtype("float32"), (37,), (i,), t[p] + (t[p + 1] - t[p]) * (place - low))
    return kb.build()


@pytest.mark.parametrize(("limited", "through"), [(True, True), (False, False)])
def test_places_go_by_way_of_int32_where_they_are_known_to_fit(limited: bool, through: bool) -> None:
    kernel, opts, target = interpolated(limited), parse("Un8"), targets.named("haswell")
    found = [s for p in lower(apply(kernel, opts, target)).phases for s in statements(p.body) if isinstance(s, Instr) and s.op == "cast"]
    turned = {str(s.out.dtype) for s in found if s.out is not None and s.out.lanes > 1 and s.args[0].dtype.is_float}
    assert turned == ({"int32"} if through else {"int64"})
    check_floats(kernel, opts, target)
    check_compiled(kernel, opts)
