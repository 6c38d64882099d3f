"""Places of extremes by one call: `argmax` and `argmin`."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from checks import check_compiled, check_floats, check_twin
from random_schedules import grow, shared_axis
from tilewright import targets
from tilewright.ir import DType, KernelBuilder, KernelError, float32, int32, sym
from tilewright.ir.evaluation import evaluate
from tilewright.ir.kernel import Kernel
from tilewright.opts import apply, opt
from tilewright.plan import best

AVX2, OPENCL, SM80 = (targets.named(n) for n in ("avx2", "opencl-gpu", "sm_80"))


def places(kind: str, m: Any = 7, n: Any = 33, of: str = "float32", rows: bool = True) -> Kernel:
    """The place of an extreme of each row, or each column."""
    kb = KernelBuilder("places")
    i, j, x = kb.axis("m", m), kb.axis("n", n), kb.input("x", (m, n), of)  # type: ignore[arg-type]
    kept, over, size = (i, j, m) if rows else (j, i, n)
    at = getattr(kb, kind)("at", (kept,), over, x[i, j])
    kb.store("y", int32, (size,), (kept,), at[kept])
    return kb.build()


def draw(of: DType, m: int, n: int) -> Any:
    """Data of which many are equal."""
    return np.random.default_rng(m * n).integers(0, 5, (m, n)).astype(of.np)


@pytest.mark.parametrize("rows", [True, False])
@pytest.mark.parametrize("of", ["float32", "bfloat16", "int8", "uint64", "bool"])
@pytest.mark.parametrize("kind", ["argmax", "argmin"])
def test_the_first_of_equals_as_by_numpy(kind: str, of: str, rows: bool) -> None:
    for m, n in ((1, 1), (1, 5), (6, 1), (7, 33)):
        k = places(kind, m, n, of, rows)
        x = draw(k.inputs[0].dtype, m, n)
        np.testing.assert_array_equal(evaluate(k, {"x": x})["y"], getattr(np, kind)(x.astype(float), axis=int(rows)))


@pytest.mark.many
@pytest.mark.parametrize("rows", [True, False])
@pytest.mark.parametrize("of", ["float32", "uint8"])
@pytest.mark.parametrize("kind", ["argmax", "argmin"])
def test_random_schedules_equal_the_reference(kind: str, of: str, rows: bool) -> None:
    rng = random.Random(f"{kind} {of} {rows}")
    for n in range(3):
        k = places(kind, rng.choice((1, 2, 7, 16)), rng.choice((1, 3, 19, 32)), of, rows)
        opts = grow(k, AVX2, [rng.randrange(1 << 20) for _ in range(n + 1)])
        check_twin(k, opts, AVX2, None, n)
        check_floats(k, opts, AVX2, None, n)
    for target in (OPENCL, SM80):
        check_twin(k, shared_axis(k, target, rng.randrange), target)


def test_one_pass_finds_both() -> None:
    """FUSE knows the form: the place is kept beside the extreme."""
    k = places("argmax", 4, 64)
    opts = (opt("UPCAST", "n", 8), opt("FUSE", "n"))
    assert apply(k, opts, AVX2).places
    check_floats(k, opts, AVX2)
    check_compiled(k, (opt("FUSE", "n"),))


def test_callers_get_places_inside() -> None:
    x = draw(float32, 7, 33)
    x[2, 4], x[3] = np.nan, -np.inf
    got = best(places("argmax"), device="cpu")(x)
    want = x.argmax(axis=1)
    want[2] = 32  # of what has NaN, the last
    np.testing.assert_array_equal(got, want)
    np.testing.assert_array_equal(evaluate(places("argmax"), {"x": x})["y"], want)


def test_a_size_that_is_a_symbol() -> None:
    k = places("argmin", 3, sym("n", 1, 40))
    for n in (1, 2, 17):
        check_twin(k, (), AVX2, {"n": n})


def test_the_extreme_is_a_value_too_and_the_place_an_index() -> None:
    kb = KernelBuilder("k")
    i, j, x = kb.axis("m", 5), kb.axis("n", 9), kb.input("x", (5, 9), float32)
    at = kb.argmax("at", (i,), j, x[i, j] * x[i, j])
    kb.store("y", float32, (5,), (i,), x[i, at[i]])
    k = kb.build()
    assert at.dtype is int32 and list(k.values) == ["at_largest", "at"]
    data = np.random.default_rng(0).standard_normal((5, 9)).astype(np.float32)
    np.testing.assert_array_equal(evaluate(k, {"x": data})["y"], data[range(5), (data * data).argmax(axis=1)])


@pytest.mark.parametrize(
    ("over", "said"),
    [
        (("m", "n"), r"value at is a place along one axis, not 2; merge them"),
        ((), "a place along one axis, not 0"),
        (("empty",), "empty has no elements, so there is no place"),
        (("long",), "long has more elements than int32 has places"),
        (("kept",), "one of its own axes too"),
    ],
)
def test_what_has_no_place(over: tuple[str, ...], said: str) -> None:
    kb = KernelBuilder("k")
    axes = {n: kb.axis(n, size) for n, size in {"m": 5, "n": 9, "empty": 0, "long": 2**31 + 1, "kept": 3}.items()}
    x = kb.input("x", (9,), float32)
    with pytest.raises(KernelError, match=said):
        kb.argmin("at", (axes["kept"],), tuple(axes[n] for n in over), x[0])  # type: ignore[arg-type]
