"""EARLY_EXIT: leaving a reduction early makes no difference to results; which reductions may be left, and where."""

from __future__ import annotations

from typing import Any

import pytest
from checks import check_compiled, check_floats
from tilewright.heuristics import starts
from tilewright.ir import KernelBuilder, OptError, const, float32, int32, uint8, where
from tilewright.ir.kernel import Kernel
from tilewright.ir.normal_form import normalise
from tilewright.ir.operators import cast
from tilewright.opts import apply, parse
from tilewright.opts.options.early_exit import early_exits
from tilewright.targets import named


def first(m: int = 7, n: int = 83, above: float = 1.5) -> Kernel:
    """Where a row is first above a limit, and whether it is anywhere below another, or all of it above a third."""
    kb = KernelBuilder("first")
    i, j, a, b = kb.axis("m", m), kb.axis("n", n), kb.axis("n@any", n), kb.axis("n@all", n)
    x = kb.input("x", (m, n), float32)
    at = kb.min("at", (i,), j, where(x[i, j] > above, cast(j, int32), n))
    some = kb.max("some", (i,), a, cast(x[i, a] < -1.5, int32))
    every = kb.min("every", (i,), b, where(x[i, b] > -2.5, cast(const(1), uint8), cast(const(0), uint8)))
    for name, v, kind in (("y", at, int32), ("s", some, int32), ("e", every, uint8)):
        kb.store(name, kind, (m,), (i,), v[i])
    return normalise(kb.build())


CASES: list[tuple[Kernel, list[Any]]] = [
    (first(), [["EARLY_EXIT", "at"]]),
    (first(), [["EARLY_EXIT", "at"], ["UPCAST", "n", 16], ["EARLY_EXIT", "some"], ["EARLY_EXIT", "every"]]),
    (first(), [["EARLY_EXIT", "at"], ["UPCAST", "n", 32], ["UPCAST", "m", 2], ["PARALLEL", "m"]]),
    (first(33), [["EARLY_EXIT", "at"], ["UPCAST", "m", 8], ["EARLY_EXIT", "some"], ["UPCAST", "n@any", 2]]),
    (first(33), [["EARLY_EXIT", "at"], ["UPCAST", "m", 8], ["UNROLL", "n", 4], ["EARLY_EXIT", "every"]]),
    (first(5, 1000, 2.5), [["EARLY_EXIT", "at"], ["TILE", "n", 96], ["UPCAST", "n", 16]]),
    (first(5, 200, 9.0), [["EARLY_EXIT", "at"], ["UPCAST", "n", 40]]),
]


@pytest.mark.many
@pytest.mark.parametrize(("kernel", "listed"), CASES)
def test_results_do_not_depend_on_it(kernel: Kernel, listed: list[Any]) -> None:
    opts = parse(listed)
    for target in ("x86-64-v2", "avx2", "cascadelake"):
        check_floats(kernel, opts, named(target))
    check_compiled(kernel, opts, threads=2)


def test_what_may_be_left() -> None:
    assert early_exits(first()) == ["at", "some", "every"]
    kb = KernelBuilder("others")
    i, j = kb.axis("m", 5), kb.axis("n", 300)
    x = kb.input("x", (5, 300), float32)
    kb.store("y0", int32, (5,), (i,), kb.max("last", (i,), j, where(x[i, j] > 1.0, cast(j, int32), -1))[i])
    kb.store("y1", uint8, (5,), (i,), kb.min("wraps", (i,), j, where(x[i, j] > 1.0, cast(j, uint8), cast(const(255), uint8)))[i])
    kb.store("y2", int32, (5,), (i,), kb.sum("many", (i,), j, cast(x[i, j] > 1.0, int32))[i])
    kb.store("y3", int32, (5,), (i,), kb.min("low", (i,), j, where(x[i, j] > 1.0, cast(j, int32), 7))[i])
    assert not early_exits(normalise(kb.build()))


@pytest.mark.parametrize(
    ("listed", "said"),
    [
        ([["EARLY_EXIT", "y"]], "first place"),
        ([["EARLY_EXIT", "at"], ["FUSE", "n"]], "FUSE"),
        ([["EARLY_EXIT", "at"], ["PADTO", "n", 96], ["UPCAST", "n", 96]], "no loop"),
    ],
)
def test_refusals(listed: list[Any], said: str) -> None:
    with pytest.raises(OptError, match=said):
        apply(first(), parse(listed), named("avx2"))
    with pytest.raises(OptError, match="processors"):
        apply(first(), parse([["EARLY_EXIT", "at"]]), named("sm_90a"))


def test_what_others_read_of_a_row_is_kept_whole() -> None:
    kb = KernelBuilder("twins")
    i, j, k = kb.axis("m", 13), kb.axis("m@other", 13), kb.axis("m@first", 13)
    x = kb.input("x", (13,), uint8, range=(0, 1))
    d = kb.value("d", (i, j), cast(x[i].ne(x[j]), int32))
    at = kb.min("at", (i,), k, where(d[i, k] <= 0, cast(k, int32), 13))
    kb.store("y", int32, (13,), (i,), at[i])
    kb.store("z", int32, (13, 13), (i, j), d[i, j])
    kernel = normalise(kb.build())
    with pytest.raises(OptError, match="keeps d on its way"):
        apply(kernel, parse([["STAGE", "d", {"at": "m"}], ["EARLY_EXIT", "at"]]), named("avx2"))
    for opts in starts(kernel, named("avx2"))[:6]:
        check_floats(kernel, opts, named("avx2"))


def test_start_schedules_leave_long_rows() -> None:
    assert any(o.op == "EARLY_EXIT" for o in starts(first(500, 4000), named("avx2"))[0])
