"""The kernels of `benchmarks/user/`: they build, mean what their C says, and some of them run by their start schedule."""

from __future__ import annotations

import re
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import tilewright
from tilewright.ir import int32
from tilewright.ir.evaluation import evaluate
from tilewright.ir.evaluation.error_bound import Errors, Pair
from tilewright.measure.checking.verify import check

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "benchmarks"))
import user_kernels
import vs_c

CASES = vs_c.cases()


@pytest.mark.many
@pytest.mark.parametrize("name", CASES)
@pytest.mark.covering(each=4)
def test_a_kernel_means_what_c_says(name: str) -> None:
    case = CASES[name]
    assert len(re.findall(r"\bkernel\(", case.source.read_text())) >= 1 and case.make(**case.all_sizes()).outputs
    sizes = case.small_sizes()
    kernel = case.make(**sizes)
    inputs = case.inputs(kernel)
    want = case.answer(kernel, inputs, sizes)
    for output, got in evaluate(kernel, inputs).items():
        right = want[output].astype(np.float64)
        near = 1e-6 * float(np.abs(right, where=np.isfinite(right), out=np.zeros(right.shape)).max())
        np.testing.assert_allclose(got, right.reshape(got.shape), rtol=1e-6, atol=near, err_msg=output)


def test_every_file_in_c_belongs_to_a_case() -> None:
    assert {c.source for c in CASES.values()} == {f for f in vs_c.USER.glob("*/*.c")}


@pytest.mark.many
@pytest.mark.parametrize("name", ["clamped2d", "row_statistics", "half_matvec"])
def test_a_start_schedule_gives_the_references_numbers(name: str, tmp_path: Path) -> None:
    case = CASES[name]
    kernel = case.make(**case.small)
    inputs, outputs = case.inputs(kernel), vs_c.outputs_of(kernel)
    program = tilewright.best(kernel, threads=1, cache=tmp_path / "none.db", start="quick")
    program(*inputs.values(), out=outputs if len(outputs) > 1 else outputs[0])
    expects = vs_c.expected(kernel, inputs, case.answer(kernel, inputs, case.small))
    assert vs_c.wrong(expects, outputs) == ""
    outputs[0].reshape(-1)[3] += 1.0
    assert check(expects[kernel.outputs[0].name], outputs[0].ctypes.data).error > 1


def test_sets_part_the_cases() -> None:
    parts = {which: [c.name for c in user_kernels.chosen(which)] for which in ("worked", "held_out", *vs_c.SETS)}
    assert sorted(name for names in parts.values() for name in names) == sorted(CASES)
    assert "clamped2d" in parts["worked"] and "wave_step" in parts["held_out"] and "exp float64" in parts["elementary"]
    assert "butterfly" in parts["worked"], "a change was made for it"


@pytest.mark.slow
def test_a_row_of_a_short_function_has_its_errors() -> None:
    job = {"threads": 1, "march": "native", "budget": "", "rounds": 1, "burst": 1e-3, "drawn": "", "sizes": {"n": 401}}
    row = vs_c.row_of(CASES["exp"], {**job, "opts": '[["UPCAST", "n", 8]]', "all_starts": False, "native": True})
    assert row["sizes"] == {"n": 401, "bits": 32} and row["start_opts"] == [["UPCAST", "n", 8]] and "error" not in row
    assert row["built"]["start"]["lines"] > 10
    assert 0 < row["ulp"]["start"] < 2 and 0 < row["ulp"]["c"] < 5 and row["ratio"] == row["start_ratio"] > 0
    with pytest.raises(SystemExit, match="has no size m"):
        vs_c.sizes_for(CASES["exp"], {"drawn": "", "sizes": {"m": 3}})


def test_a_reference_of_another_function_is_told() -> None:
    case = CASES["exp"]
    sizes = case.small_sizes()
    kernel = case.make(**sizes)
    inputs = case.inputs(kernel)
    other = replace(case, defines={"VALUE": "expm1(x)"})
    assert set(vs_c.expected(kernel, inputs, case.answer(kernel, inputs, sizes))) == {"y"}
    with pytest.raises(SystemExit, match="definition differ"):
        vs_c.expected(kernel, inputs, other.answer(kernel, inputs, sizes))


def test_what_failed_is_counted_and_has_no_ratio() -> None:
    rows = [
        {"kernel": "a", "class": "x", "ratio": 4.0, "start_ratio": 1.0},
        {"kernel": "b", "class": "x", "ratio": 1.0},
        {"kernel": "c", "class": "y"},
    ]
    lines = {line["summary"]: line for line in user_kernels.summary(rows)}
    assert lines["x"]["ratio"] == 2.0 and lines["x"]["worst_ratio"] == [1.0, "b"] and lines["x"]["start_ratio"] == 1.0
    assert lines["y"]["failed"] == 1 and "ratio" not in lines["y"] and lines["all"]["cases"] == 3


def test_integers_with_an_error_have_no_limit_to_overflow() -> None:
    """A large sum of whole numbers comes in parts, with errors of 0; what is computed of it is whole still."""
    whole = Errors(4.0).binary("add", Pair(np.array([7.0]), np.zeros(1)), Pair(np.array([5.0]), None), int32)
    assert whole.value[0] == 12.0 and whole.error is not None and whole.error[0] == 0.0
