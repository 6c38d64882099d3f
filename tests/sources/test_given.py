"""Arguments given as NumPy arrays: their types, shapes and values are those of the call, and identify it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from tilewright.ir.errors import UsageError
from tilewright.sources import tune_source
from tilewright.sources.reading import spec_of
from tilewright.sources.source_spec import SourceSpec, make

X = np.linspace(-1, 1, 24, dtype=np.float32).reshape(4, 6)


def spec(saxpy: Path, *args: dict[str, Any]) -> SourceSpec:
    return spec_of(saxpy / "saxpy.c", "saxpy", args=list(args), params={"TILE": [8]})


@pytest.mark.parametrize("array", [X, X.T, X[::2, ::3], X.astype(np.int8), X.astype(ml_dtypes.bfloat16), np.array([3], np.uint16), X > 0])
def test_an_array_is_its_values_type_and_shape(saxpy: Path, array: Any) -> None:
    (a,) = spec(saxpy, {"name": "x", "array": array}).arguments
    found = make(a, 0, {}, seed=7)
    assert found.dtype == array.dtype and found.shape == array.shape and (found == array).all() and a.role == "in"


def test_other_values_are_another_source_and_equal_ones_are_not(saxpy: Path) -> None:
    one, same, other = (spec(saxpy, {"name": "x", "array": x}).identity() for x in (X, X.copy(), X + 1))
    assert one == same != other
    out = spec(saxpy, {"name": "y", "array": X, "role": "out"}).arguments[0]
    assert out.how == "normal" and not out.path and out.extents({}) == (4, 6)  # what it holds before is nobody's
    a = spec(saxpy, {"name": "a", "value": np.float32(0.5)}).arguments[0]
    assert a.dtype.name == "float32" and a.value is not None and a.value({}) == 0.5


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"array": [1.0, 2.0]}, "a NumPy array, not list"),
        ({"array": X, "shape": [24]}, "says what shape would"),
        ({"array": X, "dtype": "float64"}, "the array is float32, and dtype says float64"),
        ({"array": X[:0]}, "is empty"),
        ({"array": X.astype(">f4")}, "unknown dtype"),
        ({"array": np.array(["a"])}, "unknown dtype"),
        ({"array": X, "role": "through"}, "role is one of"),
    ],
)
def test_what_does_not_fit_is_said(saxpy: Path, given: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        spec(saxpy, {"name": "x", **given})


@pytest.mark.slow
def test_a_search_runs_on_the_arrays(saxpy: Path) -> None:
    x, y = np.arange(3001, dtype=np.float32), np.full(3001, 2, np.float32)
    args = [
        {"name": "n", "value": np.int32(3001)},
        {"name": "a", "value": np.float32(0.5)},
        {"name": "x", "array": x},
        {"name": "y", "array": y, "role": "inout"},
    ]
    more: dict[str, Any] = {"params": {"TILE": [8, 16]}, "check": f"{saxpy / 'ref.py'}:saxpy", "cache": saxpy / "c.db"}
    found = tune_source(saxpy / "saxpy.c", "saxpy", args=args, trials=2, **more)
    assert found.found and found.confirmed and found.counts["ok"] + found.counts.get("slow", 0) == 2
    assert tune_source(saxpy / "saxpy.c", "saxpy", args=args, trials=2, **more).origin == "cached"
    assert (x == np.arange(3001)).all() and (y == 2).all()
