"""Reductions, scans and scatters of conditions: their meaning, types and errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tilewright.ir import DType, KernelBuilder, KernelError, bool_, cast, float32, int8, int32, int64, uint8
from tilewright.ir.body import Value
from tilewright.ir.evaluation import evaluate

Reduce = Callable[[KernelBuilder, Any, Any, Any], Value]
RNG = np.random.default_rng(0)


def reduced(write: Reduce, x: Any, of: DType, out: DType = uint8) -> Any:
    """What `write(kb, i, j, condition)` gives for each row of x > 0, stored as `out`."""
    m, n = x.shape
    kb = KernelBuilder("k")
    i, j, a = kb.axis("m", m), kb.axis("n", n), kb.input("x", (m, n), of)
    found = write(kb, i, j, a[i, j] > 0)
    kb.store("y", out, (m,), (i,), found[i])
    return evaluate(kb.build(), {"x": x})["y"]


CASES: dict[str, tuple[Reduce, Callable[[Any], Any]]] = {
    "max": (lambda kb, i, j, c: kb.max("r", (i,), j, c), lambda c: c.any(axis=1)),
    "or": (lambda kb, i, j, c: kb.reduce("or", "r", (i,), j, c), lambda c: c.any(axis=1)),
    "min": (lambda kb, i, j, c: kb.min("r", (i,), j, c), lambda c: c.all(axis=1)),
    "and": (lambda kb, i, j, c: kb.reduce("and", "r", (i,), j, c), lambda c: c.all(axis=1)),
    "xor": (lambda kb, i, j, c: kb.reduce("xor", "r", (i,), j, c), lambda c: np.bitwise_xor.reduce(c, axis=1)),
    "sum": (lambda kb, i, j, c: kb.sum("r", (i,), j, c), lambda c: c.sum(axis=1)),
    "product": (lambda kb, i, j, c: kb.reduce("mul", "r", (i,), j, c), lambda c: c.prod(axis=1)),
    "max as int64": (lambda kb, i, j, c: kb.reduce("max", "r", (i,), j, c, int64), lambda c: c.any(axis=1)),
}


@pytest.mark.parametrize("of", ["float32", "float64", "float16", "int8", "uint8", "int64"])
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("n", [0, 1, 7, 300])
@pytest.mark.covering(pairs=True)
def test_rows_are_reduced_as_by_numpy(name: str, of: Any, n: int) -> None:
    write, numpys = CASES[name]
    x = np.concatenate([RNG.integers(-3, 4, (5, n)), np.ones((1, n)), np.zeros((1, n))]).astype(of)
    with np.errstate(over="ignore"):
        x = abs(x) if of == "uint8" else x
    np.testing.assert_array_equal(reduced(write, x, np.dtype(of).name, int32), numpys(x > 0))  # type: ignore[arg-type]


def test_conditions_stay_conditions_and_counts_are_int32() -> None:
    kb = KernelBuilder("k")
    i, j, x = kb.axis("m", 3), kb.axis("n", 5), kb.input("x", (3, 5), float32)
    some, many = kb.max("some", (i,), j, x[i, j] > 0.0), kb.sum("many", (i,), kb.axis("n@2", 5), x[i, kb.axis("n@2", 5)] > 0.0)
    assert some.dtype is bool_ and some[i].dtype is bool_ and many.dtype is int32
    assert kb.reduce("max", "whether", (i,), kb.axis("n@3", 5), x[i, kb.axis("n@3", 5)], "bool").dtype is bool_  # x.ne(0)
    assert kb.scan("max", "so_far", (i, j), j, x[i, j] > 0.0).dtype is bool_
    assert kb.scan("add", "rank", (i, j), j, x[i, j] > 0.0).dtype is int32


@pytest.mark.parametrize(
    ("combine", "numpys"),
    [
        ("max", np.logical_or.accumulate),
        ("or", np.logical_or.accumulate),
        ("min", np.logical_and.accumulate),
        ("and", np.logical_and.accumulate),
        ("xor", np.logical_xor.accumulate),
        ("add", np.cumsum),
        ("mul", np.cumprod),
    ],
)
def test_scans_are_numpys(combine: Any, numpys: Any) -> None:
    kb = KernelBuilder("k")
    i, j, x = kb.axis("m", 6), kb.axis("n", 9), kb.input("x", (6, 9), int8)
    s = kb.scan(combine, "s", (i, j), i, x[i, j] >= 0)
    kb.store("y", int32, (6, 9), (i, j), s[i, j])
    data = RNG.integers(-2, 5, (6, 9), np.int8)
    np.testing.assert_array_equal(evaluate(kb.build(), {"x": data})["y"], numpys(data >= 0, axis=0))


@pytest.mark.parametrize("combine", ["max", "min", "or", "and", "xor"])
def test_conditions_that_meet_in_an_output(combine: Any) -> None:
    kb = KernelBuilder("k")
    i, x, at = kb.axis("n", 40), kb.input("x", (40,), float32), kb.input("at", (40,), int32, range=(0, 6))
    kb.store("y", bool_, (7,), (i,), x[i] > 0.5, (at[i],), combine=combine)
    data, places = RNG.standard_normal(40).astype(np.float32), RNG.integers(0, 6, 40, np.int32)
    want = np.full(7, combine in ("min", "and"))
    ufunc = {"max": np.logical_or, "or": np.logical_or, "min": np.logical_and, "and": np.logical_and, "xor": np.logical_xor}[combine]
    ufunc.at(want, places, data > np.float32(0.5))
    np.testing.assert_array_equal(evaluate(kb.build(), {"x": data, "at": places})["y"], want)


def test_bits_are_as_wide_as_what_is_compared() -> None:
    kb = KernelBuilder("k")
    i, j = kb.axis("m", 3), kb.axis("n", 5)

    def of(condition: Any) -> str:
        return str(kb.max(f"r{len(kb._body)}", (i,), j, condition).bits.dtype)  # type: ignore[attr-defined]

    inputs = {t: kb.input(t, (3, 5), t) for t in ("uint8", "int16", "float32", "float64", "int64", "bool")}
    read = {t: b[i, j] for t, b in inputs.items()}
    big = kb.value("big", (i, j), read["uint8"] > 3)
    assert of(read["uint8"] > 3) == of(big[i, j]) == of(read["bool"]) == "int8"
    assert of(read["int16"].eq(4)) == of((read["int16"] > 4) & big[i, j]) == "int16"
    assert of((read["float32"] > 0.0) & (j > i)) == of(j > i) == "int32"
    assert of(read["float64"] > 0.0) == of((read["int64"] > 0) | ~big[i, j]) == "int64"


WRONG: dict[str, tuple[Reduce, str]] = {
    "a sum that is bool": (lambda kb, i, j, c: kb.sum("r", (i,), j, c, bool_), "'add' of conditions is a number: give it an integer type"),
    "a scan that is bool": (lambda kb, i, j, c: kb.scan("mul", "r", (i, j), j, c, bool_), "'mul' of conditions is a number"),
    "a fold's block": (lambda kb, i, j, c: kb.block_reduce("max", "r", (i,), j, c), r"no conditions; reduce cast\(condition, int32\)"),
    "bits of floats": (lambda kb, i, j, c: kb.reduce("or", "r", (i,), j, cast(c, float32)), "'or' of float32; cast it to an integer type"),
    "another name": (lambda kb, i, j, c: kb.reduce("any", "r", (i,), j, c), "unknown combine 'any'; use 'max'"),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_is_said(name: str) -> None:
    kb = KernelBuilder("k")
    i, j, x = kb.axis("m", 3), kb.axis("n", 5), kb.input("x", (3, 5), float32)
    with pytest.raises(KernelError, match=WRONG[name][1]):
        WRONG[name][0](kb, i, j, x[i, j] > 0.0)


def test_sums_that_meet_are_no_conditions() -> None:
    kb = KernelBuilder("k")
    i, x = kb.axis("n", 40), kb.input("x", (40,), float32)
    with pytest.raises(KernelError, match="the store to y: 'add' of conditions is a number"):
        kb.store("y", bool_, (1,), (i,), x[i] > 0.5, (0,), combine="add")
