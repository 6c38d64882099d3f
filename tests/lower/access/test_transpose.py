"""Blocks turned in registers: what lies across the lanes is read along its rows, and the results are those of gathers."""

from __future__ import annotations

import numpy as np
import pytest
from checks import check_compiled, check_floats, check_twin
from tilewright import Tensor, jit, named_kernels, targets
from tilewright.interp import run
from tilewright.ir.dtypes import float32, float64
from tilewright.ir.node import const
from tilewright.ir.normal_form import normalise
from tilewright.lower import lower
from tilewright.lower.access.transpose import transposed
from tilewright.opts import apply, opt
from tilewright.program.builder import Builder
from tilewright.program.program import Mem, Param, Program
from tilewright.renderers import render

TARGET = targets.named("cascadelake")


@pytest.mark.parametrize("dtype", [float32, float64])
@pytest.mark.parametrize(("rows", "columns"), [(4, 4), (8, 4), (8, 8), (16, 4), (16, 8), (16, 16)])
@pytest.mark.covering
def test_columns(dtype, rows, columns):
    b = Builder()
    with b.phase(const(1), ()) as phase:
        x = [b.load(Mem("param", 0, dtype, i * columns, dtype.size), b.const(0), columns) for i in range(rows)]
        for i, v in enumerate(transposed(b, x)):
            b.store(Mem("param", 1, dtype, i * rows, dtype.size), b.const(0), v)
    n = rows * columns
    program = Program("turn", (Param("x", dtype, (n,), "in"), Param("y", dtype, (n,), "out")), (), [phase])
    x, y = np.arange(n).astype(dtype.np), np.zeros(n, dtype.np)
    run(program, [x, y])
    np.testing.assert_array_equal(y.reshape(columns, rows), x.reshape(rows, columns).T)


CASES = {
    # both are register copies: the store's lanes lie across the rows that are read
    "copies": ("transpose", {"m": 32, "n": 48}, (opt("UPCAST", "m", 16), opt("UPCAST", "n", 8))),
    "copies past both ends": ("transpose", {"m": 27, "n": 45}, (opt("UPCAST", "m", 16), opt("UPCAST", "n", 16))),
    "copies past one end": ("transpose", {"m": 32, "n": 45}, (opt("UPCAST", "m", 16), opt("UPCAST", "n", 16))),
    "copies past the lanes' end": ("transpose", {"m": 27, "n": 48}, (opt("UPCAST", "m", 16), opt("UPCAST", "n", 8))),
    # a panel whose lanes lie across rows, in blocks of the loops inside it
    "panel": ("matmul_nt", {"m": 6, "n": 32, "k": 40}, (opt("UPCAST", "m", 3), opt("UPCAST", "n", 32), opt("STAGE", "b", at="m"))),
    "steps": ("matmul_nt", {"m": 6, "n": 32, "k": 48}, (opt("UPCAST", "n", 32), opt("TILE", "k", 24), opt("UNROLL", "k", 3), opt("STAGE", "b", at="k"))),
    # rows that are reduced, in one step and in several
    "rows": ("argmax", {"m": 32, "n": 16}, (opt("UPCAST", "m", 16), opt("UNROLL", "n", 16))),
    "steps of rows": ("argmax", {"m": 48, "n": 24}, (opt("UPCAST", "m", 16), opt("UNROLL", "n", 8))),
    # three loops that are one run in the buffer
    "window": (
        "conv2d", {"n": 1, "c": 4, "h": 6, "w": 6, "oc": 16, "kh": 3, "kw": 3, "stride": 1, "pad": 1, "groups": 1},
        (opt("UPCAST", "oc", 16), opt("UPCAST", "ow", 3), opt("STAGE", "weight", at="oh")),
    ),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_no_gather_is_left_and_results_are_the_same(case):
    name, shape, opts = CASES[case]
    kernel = normalise(named_kernels.make(name, shape, "float32"))
    text = render(lower(apply(kernel, opts, TARGET)), TARGET).text
    assert "shufflevector" in text and "gather" not in text
    check_twin(kernel, opts, TARGET)
    check_floats(kernel, opts, TARGET)
    check_compiled(kernel, opts, targets.host())


@pytest.mark.parametrize("name", ["v3", "cascadelake"])
def test_results_are_turned_and_stored_by_rows(name):
    """Lanes along the rows of a result of which 13 columns are registers: its rows are stored as vectors, the last of which overlap."""
    target = targets.named(name)
    kernel = normalise(named_kernels.make("matmul", {"m": 2 * target.vector_bytes // 4, "n": 25, "k": 3}, "float32"))
    opts = (opt("UPCAST", "m", target.vector_bytes // 4), opt("UPCAST", "n", 13), opt("STAGE", "a", at="m"))
    text = render(lower(apply(kernel, opts, target)), target).text
    assert "store float " not in text and "scatter" not in text
    check_twin(kernel, opts, target)
    check_compiled(kernel, opts, targets.host())


def test_narrow_results_are_not_turned():
    """Rows of 16-bit results that are as long as a register tile are stored as before: four of them are no 16 bytes."""
    outer = jit(lambda x, y, z: (x * y + z).relu(), device="cpu", tune="list")
    outer(*(Tensor(np.ones(shape, np.float16)) for shape in ((64, 1), (1, 9), (64, 1))))
    kernel = normalise(outer.programs[0].kernels[0].kernel)
    lower(apply(kernel, (opt("UPCAST", "d0", 32), opt("UPCAST", "d1", 9)), TARGET))


def test_rows_past_the_end_are_not_read():
    """A masked axis keeps its bounds: nothing is read along it that a gather would not have read."""
    kernel = normalise(named_kernels.make("matmul_nt", {"m": 3, "n": 27, "k": 37}, "float32"))
    for opts in (
        (opt("UPCAST", "n", 16), opt("STAGE", "b", at="m")),
        (opt("UPCAST", "n", 16), opt("UNROLL", "k", 4), opt("STAGE", "b", at="m")),
    ):
        check_twin(kernel, opts, TARGET)
        check_compiled(kernel, opts, targets.host())


def test_rows_that_are_reduced_end_where_they_end():
    kernel = normalise(named_kernels.make("argmax", {"m": 27, "n": 22}, "float32"))
    for opts in ((opt("UPCAST", "m", 8), opt("UNROLL", "n", 4)), (opt("UPCAST", "m", 16), opt("UNROLL", "n", 8))):
        check_twin(kernel, opts, TARGET)
        check_compiled(kernel, opts, targets.host())


def test_copies_beside_one_whose_bounds_are_known_are_not_read_with_it():
    """Seven of eight copies are inside for certain; a block of the last four would read past the last row."""
    kernel = normalise(named_kernels.make("matmul_bias_relu:constant=a,b,bias", {"m": 4, "n": 37, "k": 31}, "float64"))
    opts = (opt("UPCAST", "m", 4), opt("STAGE", "a", {"at": "once"}), opt("UNROLL", "k", 8))
    check_twin(kernel, opts, TARGET, {}, 0)
