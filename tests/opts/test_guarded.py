"""Chunks that reach past an axis whose elements say where others are read."""

from __future__ import annotations

import pytest
from checks import check_twin
from tilewright import targets
from tilewright.ir import KernelBuilder, float32, int32, uint8
from tilewright.ir.kernel import Kernel
from tilewright.opts import parse

TARGET = targets.named("avx2")


def gathered() -> Kernel:
    """Rows of a sparse matrix: columns decide what is read, and a code what it is multiplied by."""
    kb = KernelBuilder("gathered")
    i, k = kb.axis("m", 5), kb.axis("k", 7)
    x, table = kb.input("x", (11,), float32), kb.input("table", (4,), float32)
    column, code = kb.input("column", (5, 7), int32, range=(0, 10)), kb.input("code", (5, 7), uint8, range=(0, 3))
    s = kb.sum("s", (i,), k, x[column[i, k]] * table[code[i, k]])
    kb.store("y", float32, (5,), (i,), s[i])
    return kb.build()


def scattered() -> Kernel:
    """The same of a list of places."""
    kb = KernelBuilder("scattered")
    i = kb.axis("n", 301)
    x, column = kb.input("x", (11,), float32), kb.input("column", (301,), int32, range=(0, 10))
    kb.store("y", float32, (6,), (i,), x[column[i]], (kb.input("row", (301,), int32, range=(0, 5))[i],), combine="add")
    return kb.build()


@pytest.mark.parametrize(
    ("kernel", "opts"),
    [
        (gathered(), [["SPLIT", "k", 2]]),
        (gathered(), [["SPLIT", "k", 3], ["UPCAST", "m", 5]]),
        (scattered(), [["SPLIT", "y", {"n": 4, "copies": 2}]]),
    ],
    ids=("a sum", "a sum in copies", "a scatter"),
)
def test_ragged_chunks_of_gathers(kernel: Kernel, opts: list[list[object]]) -> None:
    check_twin(kernel, parse(opts), TARGET)


def test_a_staged_copy_whose_mask_is_read_stays_inside() -> None:
    """Copies past a ragged extent ask no mask for what does not exist."""
    kb = KernelBuilder("masked")
    i, j, q = kb.axis("m", 2), kb.axis("n", 19), kb.axis("q", 3)
    x, reach = kb.input("x", (2, 19), float32), kb.input("reach", (2, 19), int32, range=(0, 1))
    inside = (q <= reach[i, j].cast("int64") + 1) & (j + q >= 1) & (j + q <= 19)
    total = kb.sum("total", (i, j), q, x.masked(inside, i, j + q - 1))
    kb.store("y", float32, (2, 19), (i, j), total[i, j])
    check_twin(kb.build(), parse([["UPCAST", "n", 4], ["UPCAST", "q", 3], ["STAGE", "x", {"at": "n"}]]), TARGET)
