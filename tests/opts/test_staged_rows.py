"""Tiles of order `row`: whole vectors are copied, as wide as the narrowest type of the kernel allows, and rows have room for them."""

from __future__ import annotations

import pytest
from checks import check_compiled, check_twin
from tilewright.ir import KernelBuilder
from tilewright.ir.kernel import Kernel
from tilewright.ir.operators import cast
from tilewright.opts import parse
from tilewright.targets import named


def greatest(place: str) -> Kernel:
    """The greatest byte of each group, whose number is read."""
    kb = KernelBuilder("greatest")
    i = kb.axis("n", 13)
    x, at = kb.input("x", (13,), "int8"), kb.input("at", (13,), place, range=(0, 2))
    kb.store("y", "int8", (3,), (i,), x[i], (cast(at[i], "int64"),), combine="max")
    return kb.build()


def doubled(dtype: str) -> Kernel:
    """Rows that are no whole vectors, doubled."""
    kb = KernelBuilder("doubled")
    i, j = kb.axis("m", 3), kb.axis("n", 21)
    x = kb.input("x", (3, 21), dtype)
    kb.store("y", dtype, (3, 21), (i, j), x[i, j] + x[i, j])
    return kb.build()


CASES = [
    (greatest("int64"), [["UPCAST", "n", 8], ["STAGE", "at", {"at": "n", "order": "row"}]]),
    (greatest("int64"), [["STAGE", "at", {"at": "n", "order": "row", "pad": 3}]]),
    (doubled("int8"), [["STAGE", "x", {"at": "m", "order": "row"}]]),
    (doubled("uint16"), [["STAGE", "x", {"at": "m", "order": "row"}]]),
    (doubled("float32"), [["STAGE", "x", {"at": "m", "order": "row"}]]),
]


@pytest.mark.parametrize("target", ["avx2", "znver5"])
@pytest.mark.parametrize("case", range(len(CASES)))
@pytest.mark.covering
def test_copies_stay_inside_their_tile(case: int, target: str) -> None:
    kernel, listed = CASES[case]
    check_twin(kernel, parse(listed), named(target))
    check_compiled(kernel, parse(listed))
