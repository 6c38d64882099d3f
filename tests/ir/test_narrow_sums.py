"""Sums and extremes have the smallest type that their values fit, where nothing that they are made of is wider."""

from __future__ import annotations

import numpy as np
import pytest
from tilewright.ir import Kernel, KernelBuilder, Node, dtype, int8, int32, sym, where
from tilewright.ir.body import Reduce
from tilewright.ir.evaluation import evaluate
from tilewright.ir.normal_form import normalise
from tilewright.ir.normal_form.narrow_integers import narrow_sums
from tilewright.ir.operators import cast


def summed(kind: str, many: int, element: str = "value", combine: str = "add", into: str = "int32", most: int | None = None) -> Kernel:
    """A sum over rows of `many` elements, as it is or of what is compared or multiplied."""
    kb = KernelBuilder("rows")
    i, k = kb.axis("m", 5), kb.axis("n", many)
    x = kb.input("x", (5, many), dtype(kind), range=None if most is None else (0, most))
    z = kb.input("z", (5, many), dtype(kind), range=None if most is None else (0, most))
    body: Node = {
        "value": lambda: x[i, k],
        "count": lambda: x[i, k] < z[i, k],
        "product": lambda: cast(x[i, k], int32) * cast(z[i, k], int32),
    }[element]()
    body = body if body.dtype is dtype(into) else cast(body, dtype(into))
    total = (kb.sum if combine == "add" else kb.max)("total", (i,), k, body)
    read = total[i] if into == "int64" else (total[i] + 2) // 4
    kb.store("y", dtype("float32"), (5,), (i,), cast(read, dtype("float32")))
    return kb.build()


def type_of(kernel: Kernel) -> str:
    (v,) = (v for v in kernel.values.values() if isinstance(v.expr, Reduce))
    assert isinstance(v.expr, Reduce) and v.expr.dtype is v.dtype and v.expr.expr.dtype is v.dtype
    return v.dtype.name


@pytest.mark.parametrize(
    ("kernel", "found"),
    [
        (summed("int8", 100), "int16"),
        (summed("uint8", 200), "uint16"),
        (summed("int8", 300), "int32"),  # 300 · −128
        (summed("uint8", 300), "int32"),
        (summed("int16", 2), "int32"),
        (summed("int16", 9, most=1000), "int16"),
        (summed("int16", 1200, "count"), "int16"),
        (summed("uint8", 40_000, "count"), "uint16"),
        (summed("uint8", 70_000, "count"), "int32"),
        (summed("float32", 1200, "count"), "int32"),  # truths of 32-bit lanes would have to be packed
        (summed("float32", 1200, "count", into="int64"), "int32"),
        (summed("float64", 1200, "count", into="int64"), "int64"),
        (summed("int8", 3, "product", most=9), "int32"),  # sums of products have instructions of their own
        (summed("int16", 70_000, combine="max"), "int16"),
        (summed("int32", 40, into="int64"), "int64"),
        (summed("int32", 40, into="int64", most=10_000), "int32"),
    ],
)
def test_the_smallest_type_that_has_all_sums(kernel: Kernel, found: str) -> None:
    narrowed = narrow_sums(kernel)
    assert type_of(narrowed) == found
    assert found == type_of(kernel) or narrowed is not kernel
    rng, shape = np.random.default_rng(2), kernel.inputs[0].shape
    x = {}
    for b in kernel.inputs:
        if b.dtype.is_float:
            x[b.name] = rng.standard_normal(shape).astype(b.dtype.np)
            continue
        low, high = b.range or (np.iinfo(b.dtype.np).min, np.iinfo(b.dtype.np).max)
        x[b.name] = rng.integers(low, high, shape, b.dtype.np, endpoint=True)
        x[b.name][0], x[b.name][1] = low, high
    np.testing.assert_array_equal(evaluate(narrowed, x)["y"], evaluate(kernel, x)["y"])
    np.testing.assert_array_equal(evaluate(normalise(kernel), x)["y"], evaluate(kernel, x)["y"])


def test_the_largest_of_none_keeps_its_type() -> None:
    kb = KernelBuilder("none")
    n = sym("n", 0, 9)
    i, k = kb.axis("m", 3), kb.axis("n", n)
    x = kb.input("x", (3, n), int8)
    top = kb.max("top", (i,), k, cast(x[i, k], int32))
    kb.store("y", int32, (3,), (i,), top[i])
    assert type_of(narrow_sums(kb.build())) == "int32"


def test_who_reads_a_sum_is_computed_narrowly_too() -> None:
    """A mean of four bytes, rounded: what is added to a sum of 16 bits that is known to be small fits them as well."""
    kb = KernelBuilder("pool")
    i, p = kb.axis("n", 64), kb.axis("p", 4)
    x = kb.input("x", (256,), int8)
    total = kb.sum("total", (i,), p, cast(x[4 * i + p], int32))
    kb.store("y", int8, (64,), (i,), cast(where(total[i] > 100, total[i], (total[i] + 2) >> 2), int8))
    found = normalise(kb.build())
    (store,) = found.stores
    wide = [n for n in _values(store.expr) if n.dtype.is_int and n.dtype.size > 2]
    assert not wide
    data = {"x": np.random.default_rng(4).integers(-128, 127, 256, np.int8, endpoint=True)}
    np.testing.assert_array_equal(evaluate(found, data)["y"], evaluate(kb.build(), data)["y"])


def _values(n: Node) -> list[Node]:
    """What is computed, without places."""
    return [n] if n.op in ("ref", "load") else [n, *(m for s in n.src for m in _values(s))]
