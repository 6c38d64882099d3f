"""Integers that are places, or say how far a loop goes, are looked at in every call and by the reference."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tilewright as tw
from tilewright import OutOfRangeError, kernels
from tilewright.ir import Kernel, KernelBuilder, cast, float32, int8, int32, int64, sym, where
from tilewright.ir.checks.operand_ranges import operand_ranges
from tilewright.ir.evaluation import evaluate

N, ROWS = 6, 10


def gathered(stated: bool, dtype: Any = int32) -> Kernel:
    kb = KernelBuilder("gathered")
    i = kb.axis("n", N)
    x = kb.input("x", (ROWS,), float32)
    ids = kb.input("ids", (N,), dtype, range=(0, ROWS - 1) if stated else None)
    kb.store("y", float32, (N,), (i,), x[ids[i]])
    return kb.build()


def padded() -> Kernel:
    """Rows that end where data says."""
    kb = KernelBuilder("padded")
    i, k = kb.axis("n", N), kb.axis("k", ROWS)
    x, many = kb.input("x", (N, ROWS), float32), kb.input("ids", (N,), int32, range=(0, ROWS))
    total = kb.sum("total", (i,), k, where(k < cast(many[i], int64), x[i, k], 0.0))
    kb.store("y", float32, (N,), (i,), total[i])
    return kb.build()


def scattered() -> Kernel:
    kb = KernelBuilder("scattered")
    i = kb.axis("n", N)
    x, ids = kb.input("x", (N,), float32), kb.input("ids", (N,), int64, range=(0, ROWS - 1))
    kb.store("y", float32, (ROWS,), (i,), x[i], indices=(ids[i],), combine="add")
    return kb.build()


CASES: dict[str, tuple[Callable[[], Kernel], int]] = {
    "stated": (lambda: gathered(True), ROWS),
    "implied": (lambda: gathered(False), ROWS),
    "implied int8": (lambda: gathered(False, int8), ROWS),
    "padded": (padded, ROWS + 1),
    "scattered": (scattered, ROWS),
}
"""By name: a kernel that reads places from `ids`, and the first one that is wrong."""


def operands(kernel: Kernel, last: int) -> list[np.ndarray[Any, Any]]:
    out = []
    for b in kernel.inputs:
        a = np.ones(b.shape, b.dtype.np)
        if b.name == "ids":
            a[-1] = last
        out.append(a)
    return out


@pytest.mark.parametrize("name", CASES)
def test_a_wrong_place_is_an_error_in_every_call_and_in_the_reference(name: str) -> None:
    made, wrong = CASES[name]
    kernel = made()
    compiled, good = tw.best(kernel), operands(kernel, wrong - 1)
    out = compiled(*good).copy()
    for _ in range(5):  # arrays that are known have other contents now
        compiled(*good, out=out)
    ids = next(a for a, b in zip(good, kernel.inputs, strict=True) if b.name == "ids")
    for value in (wrong, -1):
        ids[-1] = value
        for call in (lambda: compiled(*good), lambda: compiled(*good, out=out), lambda: compiled.bound(*good, out)):
            with pytest.raises(OutOfRangeError, match=f"ids has the element {value}, outside of 0..{wrong - 1}"):
                call()
        with pytest.raises(OutOfRangeError, match=f"ids has the element {value}"):
            evaluate(kernel, {b.name: a for b, a in zip(kernel.inputs, good, strict=True)})
    ids[-1] = 0
    compiled(*good, out=out)


def test_symbolic_dimensions_are_looked_at_with_their_sizes() -> None:
    n, rows = sym("n", 1, 64), sym("rows", 1, 64)
    kb = KernelBuilder("gathered")
    i = kb.axis("i", n)
    x, ids = kb.input("x", (rows,), float32), kb.input("ids", (n,), int32)
    kb.store("y", float32, (n,), (i,), x[ids[i]])
    compiled = tw.best(kb.build())
    for size in (3, 7, 3):
        x_, at = np.arange(size, dtype=np.float32), np.array([0, size - 1], np.int32)
        for _ in range(3):
            assert compiled(x_, at).tolist() == [0.0, size - 1]
        with pytest.raises(OutOfRangeError, match=f"the element {size}, outside of 0..{size - 1}"):
            compiled(x_, at + 1)


def test_weights_are_no_places() -> None:
    for name in ("matmul_int8", "matmul_w4", "conv2d", "sum_rows"):
        assert operand_ranges(kernels.make(name)) == ()
    for name in ("embedding", "embedding_grad", "cross_entropy"):
        assert [r.name for r in operand_ranges(kernels.make(name))] == ["label" if name == "cross_entropy" else "ids"]


def test_what_is_read_in_part_or_under_a_mask_says_nothing_unstated() -> None:
    kb = KernelBuilder("part")
    i = kb.axis("n", N)
    x, ids, use = kb.input("x", (ROWS,), float32), kb.input("ids", (N + 1,), int32), kb.input("use", (N,), int32)
    kb.store("y", float32, (N,), (i,), x.masked(use[i] > 0, ids[i + 1]) + cast(use[i], float32))
    kernel = kb.build()
    assert operand_ranges(kernel) == ()
    found = tw.best(kernel)(np.ones(ROWS, np.float32), np.array([99, 0, 1, 2, 3, 4, 99], np.int32), np.array([1] * 5 + [0], np.int32))
    assert found.tolist() == [2.0] * 5 + [0.0]


def test_the_check_can_be_turned_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEWRIGHT_INDEX_CHECKS", "0")
    assert operand_ranges(gathered(True)) == ()
