"""A value that its first reader computes and keeps, where what it is made of is loaded under a mask."""

import pytest
from checks import check_compiled, check_floats, check_twin
from tilewright.ir import KernelBuilder, float32
from tilewright.ir.kernel import Kernel
from tilewright.opts import parse
from tilewright.targets import named


def kept(rows: int) -> Kernel:
    """p has no axis of the lanes, and reads a number a row: of copies past the last row, under a mask."""
    kb = KernelBuilder("kept")
    i, k, d = kb.axis("i", rows), kb.axis("k", 6), kb.axis("d", 8)
    a, m, v = kb.input("a", (rows, 6), float32), kb.input("m", (rows,), float32), kb.input("v", (6, 8), float32)
    p = kb.value("p", (i, k), (a[i, k] - m[i]) * m[i])
    s = kb.sum("s", (i, d), k, p[i, k] * v[k, d])
    kb.store("y", float32, (rows, 8), (i, d), s[i, d])
    return kb.build()


@pytest.mark.parametrize("target", ["x86-64-v2", "avx2", "x86-64-v4"])
@pytest.mark.parametrize("opts", ["Ud8 Ui4 Sp@i", "Ud8 Ui4 Pi Sp@i", "Ud4 Ui2 Sp@i"])
@pytest.mark.parametrize("rows", [13, 16])
def test_copies_past_the_last_row_are_kept_as_numbers(rows: int, opts: str, target: str) -> None:
    kernel = kept(rows)
    check_twin(kernel, parse(opts), named(target))
    check_floats(kernel, parse(opts), named(target))


def test_compiled() -> None:
    check_compiled(kept(13), parse("Ud8 Ui4 Pi Sp@i"))
