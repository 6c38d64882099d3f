"""Components that are stored one by one become one store."""

from __future__ import annotations

import pytest
from tilewright.ir import KernelBuilder, bfloat16, float32, where
from tilewright.ir.kernel import Kernel
from tilewright.ir.normal_form import canonical


def apart(step: int = 2, count: int = 2, first: int = 0, dtype: object = float32) -> Kernel:
    kb = KernelBuilder("apart")
    i, j = kb.axis("m", 3), kb.axis("n", 4)
    x = kb.input("x", (3, 8), float32)
    for c in reversed(range(count)):
        kb.store("y", dtype, (3, 4 * step), (i, j), x[i, 2 * j + c % 2] + float(c), (i, step * j + first + c))
    return kb.build()


def together() -> Kernel:
    kb = KernelBuilder("together")
    i, j, c = kb.axis("m", 3), kb.axis("n", 4), kb.axis("part", 2)
    x = kb.input("x", (3, 8), float32)
    kb.store("y", float32, (3, 8), (i, j, c), where(c.eq(0), x[i, 2 * j] + 0.0, x[i, 2 * j + 1] + 1.0), (i, 2 * j + c))
    return kb.build()


def test_both_ways_of_writing_are_one_kernel() -> None:
    made = apart()
    assert [a.arg.name for a in made.stores[0].axes] == ["m", "n", "part"] and len(made.stores) == 1
    assert canonical(made).hash == canonical(together()).hash


def test_what_is_rounded_is_rounded_once() -> None:
    assert apart(dtype=bfloat16).stores[0].expr.src[0].dtype is float32


@pytest.mark.parametrize(("step", "count", "first"), [(3, 2, 0), (17, 17, 0), (4, 2, 1), (4, 2, 2)], ids=str)
def test_parts_that_are_no_whole_groups_stay_apart(step: int, count: int, first: int) -> None:
    assert len(apart(step, count, first).stores) == count
