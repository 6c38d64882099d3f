"""Lanes along an axis that no rule speaks for, where both models say that they are far better."""

from __future__ import annotations

import pytest
from tilewright import heuristics, targets
from tilewright.ir import Kernel, KernelBuilder, exp, float32

TARGETS = [targets.named(name) for name in ("x86-64-v2", "avx2", "znver4")]


def memberships(n: int = 2000, k: int = 12, d: int = 6) -> Kernel:
    """How near points of few coordinates are to few centres."""
    kb = KernelBuilder("memberships")
    i, j, l = kb.axis("n", n), kb.axis("k", k), kb.axis("d", d)
    x, c, s = kb.input("x", (n, d), float32), kb.input("c", (k, d), float32), kb.input("s", (k, d), float32)
    far = kb.sum("far", (i, j), l, (x[i, l] - c[j, l]) ** 2 * s[j, l])
    kb.store("y", float32, (n, k), (i, j), exp(-far[i, j]))
    return kb.build()


@pytest.mark.parametrize("target", TARGETS, ids=lambda t: t.name)
def test_few_coordinates_are_spelled_out(target: targets.Target) -> None:
    found = {(o.op, o.on): o.arg for o in heuristics.starts(memberships(), target, 1)[0]}
    assert found["UNROLL", "d"] == 6
