"""Loops whose end is read from memory: it must lie within the loop, and calls look at it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tilewright as tw
from tilewright import OutOfRangeError, tile
from tilewright.ir import KernelError
from tilewright.ir.evaluation import evaluate
from tilewright.tile.interpret import run

WIDTH = 256


def rows(extent: int, stated: tuple[int, int] | None = None, clipped: bool = False, of: Any = "int32") -> Any:
    """Sums of rows up to where `end` says, in a loop over `extent` places."""

    @tile.kernel
    def summed(t: Any, m: int = 4) -> None:
        x, end, y = t.input("x", (m, WIDTH)), t.input("end", (m,), of, range=stated), t.output("y", (m,))
        i = t.grid(m)
        total, upto = t.zeros(1), end[i]
        for ks in t.loop("k", extent, 8, upto=tile.minimum(upto, extent) if clipped else upto):
            total += t.sum(x[i, ks])
        y[i] = t.sum(total)

    return summed


@pytest.mark.parametrize("stated", [None, (0, 65), (-3, 200)])
@pytest.mark.parametrize("of", ["int8", "int32", "int64", "uint8"])
def test_an_end_that_may_pass_the_loop_is_refused(stated: tuple[int, int] | None, of: str) -> None:
    if of == "uint8" and stated and stated[0] < 0:
        stated = (0, 255)
    if of == "int8" and stated and stated[1] > 127:
        stated = (0, 127)
    with pytest.raises(KernelError, match=r"the loop over k: its end is read from memory, and may be up to .*range="):
        rows(64, stated, of=of)()


def test_an_end_of_a_type_that_cannot_pass_the_loop_is_fine() -> None:
    kernel = rows(128, of="int8")()
    x = np.ones((4, WIDTH), np.float32)
    assert tw.best(kernel)(x, np.array([0, 127, -5, 8], np.int8)).tolist() == [0.0, 127.0, 0.0, 8.0]


def test_a_stated_range_is_looked_at_in_every_call_and_by_each_reference() -> None:
    made = rows(64, (0, 64))
    made.check()
    kernel = made()
    compiled, x = tw.best(kernel), np.ones((4, WIDTH), np.float32)
    assert compiled(x, np.array([0, 64, 7, 8], np.int32)).tolist() == [0.0, 64.0, 7.0, 8.0]
    for wrong in (200, 65, -1):
        end = np.array([0, wrong, 7, 8], np.int32)
        for call in (
            lambda end=end: compiled(x, end),
            lambda end=end: evaluate(kernel, {"x": x, "end": end}),
            lambda end=end: run(made.traced().trace, {"x": x, "end": end}),
        ):
            with pytest.raises(OutOfRangeError, match=f"end has the element {wrong}, outside of 0..64"):
                call()


def test_an_end_that_is_kept_inside_leaves_the_rest_out() -> None:
    kernel = rows(64, clipped=True)()
    assert tw.best(kernel)(np.ones((4, WIDTH), np.float32), np.array([0, 200, 7, -8], np.int32)).tolist() == [0.0, 64.0, 7.0, 0.0]


def test_an_end_that_is_computed_of_places_may_pass_the_loop() -> None:
    @tile.kernel
    def triangle(t: Any, m: int = 21) -> None:
        x, y = t.input("x", (m, m)), t.output("y", (m,))
        at = t.grid(m=(m, 8))
        total = t.zeros(at.size)
        for ks in t.loop("k", m, 4, upto=at.start + 8):
            total += t.sum(tile.where(ks[None, :] <= at[:, None], x[at, ks], 0.0), axis=1)
        y[at] = total

    found = tw.best(triangle())(np.ones((21, 21), np.float32))
    assert found.tolist() == [i + 1.0 for i in range(21)]
