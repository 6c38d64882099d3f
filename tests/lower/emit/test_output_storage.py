"""Values kept in the output that is written last from them: where that happens, where it must not, and that nothing else is written."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from checks import check_compiled, check_floats, check_twin
from tilewright import named_kernels, targets
from tilewright.ir import KernelBuilder, exp, float32, sym
from tilewright.ir.kernel import Kernel
from tilewright.lower import Program, lower
from tilewright.opts import apply, parse
from tilewright.program.program import Instr, statements
from tilewright.targets import named

AVX512 = targets.named("znver5")
KEEP = [["UPCAST", "n", 32], ["PARALLEL", "m"], ["STAGE", "e", {"at": "m"}]]


def softmax(m: Any = 5, n: Any = 128, dtype: str = "float32") -> Kernel:
    return named_kernels.make("softmax", {"m": m, "n": n}, dtype)


def program(kernel: Kernel, opts: Sequence[Any]) -> Program:
    return lower(apply(kernel, parse(list(opts)), AVX512))


def in_output(p: Program) -> bool:
    """Whether an output is read back."""
    outputs = {i for i, b in enumerate(p.params) if b.role == "out"}
    found = [s.attr for phase in p.phases for s in statements(phase.body) if isinstance(s, Instr) and s.op == "load"]
    return any(m.space == "param" and m.base in outputs for m in found)


def right(kernel: Kernel, opts: Sequence[Any], vars: dict[str, int] | None = None) -> None:
    check_twin(kernel, parse(list(opts)), AVX512, vars)
    check_floats(kernel, parse(list(opts)), AVX512, vars)


@pytest.mark.parametrize("n", [128, 103, 31])
def test_a_kept_row_lives_in_the_output_it_ends_up_in(n: int) -> None:
    p = program(softmax(n=n), KEEP)
    assert in_output(p) and p.scratch == 0
    right(softmax(n=n), KEEP)


def test_rows_of_symbolic_extent_too() -> None:
    kernel = softmax(sym("m", 1, 9), sym("n", 1, 200))
    assert in_output(program(kernel, KEEP))
    right(kernel, KEEP, {"m": 4, "n": 77})


def test_values_that_take_no_time_stay_in_scratch() -> None:
    """The quotient in x - total / n is one a row."""
    kernel = named_kernels.make("layernorm", {"m": 4, "n": 90})
    opts = [["UPCAST", "n", 32], ["PARALLEL", "m"], ["STAGE", "dev", {"at": "m"}]]
    p = program(kernel, opts)
    assert not in_output(p) and p.scratch > 0
    right(kernel, opts)


@pytest.mark.parametrize(
    ("dtype", "more"),
    [
        ("float16", []),  # the output would round it
        ("float32", [["CACHE", "y", {"policy": "stream"}]]),  # what is written past the caches is not read back
    ],
)
def test_elsewhere_it_stays_in_scratch(dtype: str, more: list[Any]) -> None:
    opts = [["UPCAST", "n", 32], ["PARALLEL", "m"], *more, ["STAGE", "e", {"at": "m"}]]
    p = program(softmax(dtype=dtype), opts)
    assert not in_output(p) and p.scratch > 0
    right(softmax(dtype=dtype), opts)


def kept(store: str) -> Kernel:
    """e = exp(x), its sums, and a last output of e over them: at its place, at the mirrored one, or before another output of e."""
    kb = KernelBuilder("kept")
    x = kb.input("x", (6, 64), float32)
    m = kb.axis("m", 6)
    n, n2, n3, n4 = (kb.axis(f"n@{i}", 64) for i in range(4))
    e = kb.value("e", (m, n), exp(x[m, n]))
    total = kb.sum("total", (m,), (n2,), e[m, n2])
    at = 63 - n3 if store == "mirrored" else n3
    kb.store("y", float32, (6, 64), (m, n3), e[m, at] / total[m])
    if store == "twice":
        kb.store("z", float32, (6, 64), (m, n4), e[m, 63 - n4] + total[m])
    return kb.build()


@pytest.mark.parametrize(("store", "lent"), [("own", True), ("mirrored", False), ("twice", False)])
def test_no_element_is_written_before_it_is_read_for_the_last_time(store: str, lent: bool) -> None:
    opts = [["PARALLEL", "m"], ["STAGE", "e", {"at": "m"}]]
    assert in_output(program(kept(store), opts)) is lent
    right(kept(store), opts)


@pytest.mark.parametrize("opts", ["Uc16 Mn@sum<c Mn@out<c Se@c", "Uc8 Tc16 Pc Mn@sum<c.t Mn@out<c.t Se@c", "Uc16 Se@c"])
def test_the_output_may_have_the_axes_in_another_order(opts: str) -> None:
    """Down the columns: the value is over (column, row), the output over (row, column)."""
    kb = KernelBuilder("columns")
    x = kb.input("x", (6, 32), float32)
    c, (n, n2, n3) = kb.axis("c", 32), (kb.axis(f"n@{i}", 6) for i in ("e", "sum", "out"))
    e = kb.value("e", (c, n), exp(x[n, c]))
    total = kb.sum("total", (c,), (n2,), e[c, n2])
    kb.store("y", float32, (6, 32), (n3, c), e[c, n3] / total[c])
    kernel = kb.build()
    found = lower(apply(kernel, parse(opts), AVX512))
    assert in_output(found)
    right(kernel, [o.json for o in parse(opts)])


# A value that its first reader computes and keeps, where what it is made of is loaded under a mask.


def kept_of_filled_values(rows: int) -> Kernel:
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
@pytest.mark.covering
def test_copies_past_the_last_row_are_kept_as_numbers(rows: int, opts: str, target: str) -> None:
    kernel = kept_of_filled_values(rows)
    check_twin(kernel, parse(opts), named(target))
    check_floats(kernel, parse(opts), named(target))


def test_compiled() -> None:
    check_compiled(kept_of_filled_values(13), parse("Ud8 Ui4 Pi Sp@i"))
