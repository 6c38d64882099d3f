"""Start schedules for long filters over groups of neighbours: lanes over the results, components in one loop."""

from __future__ import annotations

import pytest
from tilewright import targets
from tilewright.heuristics import quick_starts, starts
from tilewright.ir import KernelBuilder, float32, int16
from tilewright.ir.kernel import Kernel
from tilewright.ir.operators import cast
from tilewright.opts import apply


def complex_filter(n: int, k: int) -> Kernel:
    """Real parts of a complex filter of interleaved samples, and imaginary ones."""
    kb = KernelBuilder("complex_filter")
    i, a, b = kb.axis("n", n), kb.axis("k@re", k), kb.axis("k@im", k)
    x, tap = kb.input("x", (n + k, 2), int16), kb.input("tap", (k, 2), float32)
    re = kb.sum("re", (i,), a, cast(x[i + a, 0], float32) * tap[a, 0] - cast(x[i + a, 1], float32) * tap[a, 1])
    im = kb.sum("im", (i,), b, cast(x[i + b, 0], float32) * tap[b, 1] + cast(x[i + b, 1], float32) * tap[b, 0])
    for c, value in enumerate((re, im)):
        kb.store("y", float32, (n, 2), (i,), value[i], (i, c))
    return kb.build()


@pytest.mark.parametrize("target", ["x86-64-v2", "avx2", "x86-64-v4"])
def test_lanes_are_over_results(target: str) -> None:
    kernel, at = complex_filter(4096, 32), targets.named(target)
    for found in (starts(kernel, at), quick_starts(kernel, at)):
        s = apply(kernel, found[0], at)
        lanes = {str(s.lanes(n).lane.axis.arg.name) for n in s.nests if n.kind == "reduce" and s.lanes(n).lane is not None}
        assert lanes == {"n"} and s.siblings == (("re", "im"),)
