"""The kernels of `benchmarks/user/`: they build, mean what NumPy says, and two of them run by their seed."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tilewright
from tilewright.ir import int32
from tilewright.ir.evaluation.error_bound import Errors, Pair
from tilewright.ir.evaluation.reference import evaluate
from tilewright.measure.checking.verify import check, expectations

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "benchmarks"))
import user_case
import user_kernels

CASES = {name: file for file, name, _ in user_kernels.cases("all")}


def small(name: str) -> tuple[dict[str, Any], dict[str, int]]:
    """The names of a kernel's file, and sizes for a test."""
    names = user_case.load(CASES[name])
    return names, names["CASES"][name][1]


@pytest.mark.many
@pytest.mark.parametrize("name", CASES)
def test_a_kernel_means_what_numpy_says(name: str) -> None:
    names, sizes = small(name)
    assert names["C"][name].count("void kernel(") == 1 and names[name]().outputs
    kernel = names[name](**sizes)
    inputs = user_case.inputs_of(kernel)
    want = names[f"{name}_numpy"](inputs, sizes)
    for output, got in evaluate(kernel, inputs).items():
        near = 1e-6 * float(np.abs(want[output], where=np.isfinite(want[output]), out=np.zeros(want[output].shape)).max())
        np.testing.assert_allclose(got, want[output], rtol=1e-6, atol=near, err_msg=output)


@pytest.mark.many
@pytest.mark.parametrize("name", ["clamped2d", "row_statistics"])
def test_a_seed_gives_numpys_numbers(name: str, tmp_path: Path) -> None:
    names, sizes = small(name)
    kernel = names[name](**sizes)
    inputs, outputs = user_case.inputs_of(kernel), user_case.outputs_of(kernel)
    program = tilewright.best(kernel, threads=1, cache=tmp_path / "none.db", seed="quick")
    program(*inputs.values(), out=outputs if len(outputs) > 1 else outputs[0])
    expects = user_case.expected(kernel, inputs, names[f"{name}_numpy"](inputs, sizes))
    assert user_case.wrong(expects, outputs) == ""
    outputs[0].reshape(-1)[3] += 1.0
    assert check(expects[kernel.outputs[0].name], outputs[0].ctypes.data).error > 1


def test_what_failed_is_counted_and_has_no_ratio() -> None:
    rows = [
        {"kernel": "a", "class": "x", "ratio": 4.0, "seed_ratio": 1.0},
        {"kernel": "b", "class": "x", "ratio": 1.0},
        {"kernel": "c", "class": "y"},
    ]
    lines = {line["summary"]: line for line in user_kernels.summary(rows)}
    assert lines["x"]["ratio"] == 2.0 and lines["x"]["worst_ratio"] == [1.0, "b"] and lines["x"]["seed_ratio"] == 1.0
    assert lines["y"]["failed"] == 1 and "ratio" not in lines["y"] and lines["all"]["cases"] == 3


def test_numpy_is_believed_only_where_the_kernel_agrees() -> None:
    names, sizes = small("clamped2d")
    kernel = names["clamped2d"](**sizes)
    inputs = user_case.inputs_of(kernel)
    assert set(expectations(kernel, inputs, {})) == {"y"}
    other = {"y": names["clamped2d_numpy"](inputs, sizes)["y"] + 1.0}
    with pytest.raises(SystemExit, match="definition differ"):
        user_case.expected(kernel, inputs, other)


def test_integers_with_an_error_have_no_limit_to_overflow() -> None:
    """A large sum of whole numbers comes in parts, with errors of 0; what is computed of it is whole still."""
    whole = Errors(4.0).binary("add", Pair(np.array([7.0]), np.zeros(1)), Pair(np.array([5.0]), None), int32)
    assert whole.value[0] == 12.0 and whole.error is not None and whole.error[0] == 0.0
