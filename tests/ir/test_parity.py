"""An axis whose points are told apart by parity becomes groups and places; what cannot be split stays."""

from __future__ import annotations

import numpy as np
import pytest
from tilewright import targets
from tilewright.heuristics import starts
from tilewright.ir import Kernel, KernelBuilder, dtype, where
from tilewright.ir.evaluation import evaluate
from tilewright.ir.normal_form import normalise
from tilewright.lower import lower
from tilewright.opts import apply
from tilewright.program.program import Instr, statements

F = dtype("float32")


def interleaved(n: int = 96, size: int = 2, rows: int = 3) -> Kernel:
    """The elements of `size` arrays by turns."""
    kb = KernelBuilder("interleaved")
    r, i = kb.axis("m", rows), kb.axis("n", n)
    x = [kb.input(f"x{c}", (rows, -(-n // size) + 1), F) for c in range(size)]
    out = x[-1][r, i // size + 1]
    for c in range(size - 1):
        out = where((i % size).eq(c), x[c][r, i // size] / 3.0, out)
    kb.store("y", F, (rows, n), (r, i), out)
    return kb.build()


@pytest.mark.parametrize("size", [2, 3, 4])
def test_it_is_split_and_equal(size: int) -> None:
    kernel = interleaved(size=size)
    found = normalise(kernel)
    assert [a.arg.extent for a in found.stores[0].axes] == [3, 96 // size, size]
    assert normalise(found) is found
    x = {f"x{c}": np.random.default_rng(c).standard_normal((3, 96 // size + 1)).astype(np.float32) for c in range(size)}
    np.testing.assert_array_equal(evaluate(found, x)["y"], evaluate(kernel, x)["y"])


def test_a_start_schedule_joins_it() -> None:
    kernel, target = normalise(interleaved()), targets.named("cascadelake")
    program = lower(apply(kernel, starts(kernel, target)[0], target))
    ops = [s.op for p in program.phases for s in statements(p.body) if isinstance(s, Instr)]
    assert "shuffle" in ops and {"gather", "scatter", "select"}.isdisjoint(ops)


def test_what_is_not_split() -> None:
    assert len(normalise(interleaved(n=97)).stores[0].axes) == 2  # a last group is not whole
    kb = KernelBuilder("two")
    i = kb.axis("n", 96)
    x = kb.input("x", (96,), F)
    kb.store("y", F, (96,), (i,), where((i % 2).eq(0), x[i], where((i % 3).eq(0), x[i] * 2.0, 1.0)))
    assert len(normalise(kb.build()).stores[0].axes) == 1
