"""Reads of short rows that were kept a moment ago, at other places."""

from __future__ import annotations

import pytest
from tilewright import targets
from tilewright.heuristics import estimate, starts
from tilewright.heuristics.machine import DEFAULT
from tilewright.heuristics.model.arithmetic import stalled
from tilewright.ir import Kernel, KernelBuilder, float32
from tilewright.opts import apply, parse

TARGET = targets.named("cascadelake")


def rings(n: int, k: int, by: int) -> Kernel:
    """Twice the difference of each element of a ring to another one, `by` further on."""
    kb = KernelBuilder("rings")
    i, m, j = kb.axis("n", n), kb.axis("k@mid", k), kb.axis("k", k)
    x = kb.input("x", (n, k), float32)
    mid = kb.value("mid", (i, m), x[i, (m + 1) % k] - x[i, m])
    kb.store("y", float32, (n, k), (i, j), mid[i, (j + by) % k] + 2.0 * mid[i, j])
    return kb.build()


@pytest.mark.parametrize(("k", "by", "waits"), [(48, 1, 1), (1024, 1, 0)])
def test_a_short_row_that_is_read_shifted_is_waited_for(k: int, by: int, waits: int) -> None:
    s = apply(rings(1000, k, by), parse("Uk16 Pn Smid@n"), TARGET)
    assert [stalled(s, n, DEFAULT.core) for n in s.nests] == [0.0, waits * 1000 * DEFAULT.core.stalled]


def test_what_is_computed_again_does_not_wait() -> None:
    kernel = rings(16384, 48, 1)
    s = apply(kernel, starts(kernel, TARGET, 1)[0], TARGET)
    assert all(stalled(s, n, DEFAULT.core) == 0.0 for n in s.nests)
    kept, again = (estimate(apply(kernel, parse(o), TARGET)) for o in ("Uk16 Pn Smid@n", "Uk16 Pn"))
    assert again < kept
