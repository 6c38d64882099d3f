"""Start schedules of scatters of short rows."""

from __future__ import annotations

import pytest
from checks import check_compiled
from tilewright import targets
from tilewright.heuristics import starts
from tilewright.ir import Kernel, KernelBuilder, float32, int32
from tilewright.opts import opt


def rows_by_label(n: int, d: int, v: int) -> Kernel:
    """Rows that are added up by label."""
    kb = KernelBuilder("rows_by_label")
    i, j = kb.axis("n", n), kb.axis("d", d)
    x, at = kb.input("x", (n, d), float32), kb.input("at", (n,), int32, range=(0, v - 1))
    kb.store("y", float32, (v, d), (i, j), x[i, j], indices=(at[i], j), combine="add")
    return kb.build()


@pytest.mark.parametrize("level", ["haswell", "cascadelake"])
@pytest.mark.parametrize("d", [4, 8, 16])
def test_several_points_of_short_rows_are_spelled_out(level: str, d: int) -> None:
    assert {opt("UPCAST", "d", d), opt("UPCAST", "n", 4)} <= set(starts(rows_by_label(200_000, d, 256), targets.named(level), 1)[0])


@pytest.mark.parametrize("n", [1, 4, 63, 402])
def test_the_first_start_schedule_adds_every_point_once(n: int) -> None:
    kernel = rows_by_label(n, 8, 5)
    check_compiled(kernel, starts(kernel, targets.host(), 1)[0])
