"""What ends in 8 or 16 bits is computed in 16 where nothing can wrap, and every value stays what it was."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from tilewright.ir import Kernel, KernelBuilder, Node, absolute, dtype, int8, int32, leading_zeros, maximum, minimum, popcount, sym, where
from tilewright.ir import index as ix
from tilewright.ir.body import Reduce
from tilewright.ir.dtypes import index
from tilewright.ir.evaluation import evaluate
from tilewright.ir.index import split_remainders
from tilewright.ir.integer_ranges import value_range
from tilewright.ir.node import make, walk
from tilewright.ir.normal_form import normalise
from tilewright.ir.normal_form.narrow_integers import narrow, narrow_sums
from tilewright.ir.operators import cast

INT = dtype("int32")


def pixels(f: Callable[[Node, Node, Node], Node], kind: str = "uint8", out: str = "uint8", ends: tuple[int, int] | None = None) -> Kernel:
    """f of three pixels, in 32 bits."""
    kb = KernelBuilder("pixels")
    i = kb.axis("n", 1 << 12)
    a, b, t = (kb.input(x, (1 << 12,), dtype(kind), range=ends) for x in "abt")
    kb.store("y", dtype(out), (1 << 12,), (i,), cast(f(*(cast(x[i], INT) for x in (a, b, t))), dtype(out)))
    return kb.build()


def widest(kernel: Kernel) -> int:
    return max(n.dtype.size for s in kernel.stores for n in walk(s.expr) if n.dtype.is_int and n.op not in ("axis", "const"))


FITS: dict[str, Callable[[Node, Node, Node], Node]] = {
    "average": lambda a, b, t: (a + b + 1) >> 1,
    "saturating": lambda a, b, t: minimum(a + b, 255),
    "difference": lambda a, b, t: absolute(a - b),
    "absolute": lambda a, b, t: absolute(a) + 1,
    "blend": lambda a, b, t: (a * t + b * (255 - t) + 128) >> 8,
    "blend, turned": lambda a, b, t: ((256 - t) * a + t * b) >> 8,
    "grey": lambda a, b, t: (a * 77 + b * 150 + t * 29 + 128) >> 8,
    "choice": lambda a, b, t: where(a < b, a * 3, (b & 15) | (t >> 4)) // 2,
    "product": lambda a, b, t: (a * b) >> 8,
    "clamped": lambda a, b, t: maximum(minimum((a - b) * 4, 127), -128),
}


@pytest.mark.parametrize("name", FITS)
def test_what_fits_is_narrow_and_equal(name: str) -> None:
    kernel = pixels(FITS[name])
    found = narrow(kernel)
    assert (widest(kernel), widest(found)) == (4, 2)
    rng = np.random.default_rng(0)
    x = {k: rng.integers(0, 256, 1 << 12, dtype=np.uint8) for k in "abt"}
    for k, ends in zip("abt", ((0, 255), (255, 0), (0, 255)), strict=True):
        x[k][:2] = ends
    x["t"][2:4], x["a"][2:4], x["b"][2:4] = (0, 255), 255, 255
    np.testing.assert_array_equal(evaluate(found, x)["y"], evaluate(kernel, x)["y"])


@pytest.mark.parametrize(
    ("f", "kind"),
    [
        (lambda a, b, t: (a * b * t) >> 16, "uint8"),
        (lambda a, b, t: (a * t + b * (254 - t)) >> 8, "uint8"),  # no mean: t may pass 254
        (lambda a, b, t: (a + b) >> 1, "int16"),
        (lambda a, b, t: (a - b * b) >> 1, "uint8"),  # negative, and too low for 16 bits
        (lambda a, b, t: (a << t) >> 8, "uint8"),
    ],
)
def test_what_might_wrap_stays(f: Callable[[Node, Node, Node], Node], kind: str) -> None:
    kernel = pixels(f, kind)
    assert narrow(kernel) is kernel


def levels(x: Node) -> Node:
    """How many bits a number has beyond eight, by comparisons."""
    power = cast(x >= 256, INT)
    for k in range(9, 15):
        power = power + cast(x >= 1 << k, INT)
    return power


def mu_law(x: Node) -> Node:
    """A sign, a power of two and four bits (G.711)."""
    size = minimum(maximum(x, -x), 32635) + 132
    return ~((cast(x < 0, INT) << 7) | (levels(size) << 4) | ((size >> (levels(size) + 3)) & 15)) & 255


LOW: dict[str, tuple[Callable[[Node, Node, Node], Node], str, str]] = {
    "mu-law": (lambda a, b, t: mu_law(a), "int16", "uint8"),
    "magnitude": (lambda a, b, t: absolute(a), "int16", "uint16"),
    "wrapped product": (lambda a, b, t: a * b * t + 7, "int16", "int16"),
    "wrapped shift": (lambda a, b, t: (a << 9) ^ (b << (t & 7)), "int16", "uint8"),
    "hash": (lambda a, b, t: (a * 40503 + b) ^ ~t, "uint16", "uint16"),
    "mixed signs": (lambda a, b, t: minimum(a, b) - (t >> 3), "uint16", "int16"),
    "least number": (lambda a, b, t: maximum(-a, a) >> 1, "int16", "int16"),
    "choice": (lambda a, b, t: where(a < b, a * b, -t), "int16", "int16"),
    "rest": (lambda a, b, t: (a % 10) * 1000 + b // 7, "uint16", "uint16"),
    "levels": (lambda a, b, t: (popcount(a & 1023) << 8) + leading_zeros((b & 32767) + 1), "int16", "int16"),
    "signs": (lambda a, b, t: cast(a < 0, INT) - cast(b - t < 0, INT) * 2, "uint8", "uint8"),
    "signs of samples": (lambda a, b, t: cast(a < 0, INT) * 40000 + cast(b < 0, INT) * 30000, "int16", "uint16"),
    "far": (lambda a, b, t: (a << 20) + b, "uint8", "uint16"),
}


@pytest.mark.parametrize("name", LOW)
def test_the_lowest_bits_are_computed_in_16_where_the_rest_does_not_matter(name: str) -> None:
    f, kind, out = LOW[name]
    kernel = pixels(f, kind, out)
    found = narrow(kernel)
    assert (widest(kernel), widest(found)) == (4, 2)
    mixed = [n for n in walk(found.stores[0].expr) if n.op in ("add", "sub", "mul", "or", "shl") and {s.dtype for s in n.src} != {n.dtype}]
    assert not mixed, "operands have the type of their result"
    ends, rng = np.iinfo(kind), np.random.default_rng(0)
    x = {k: rng.integers(ends.min, ends.max, 1 << 12, kind, endpoint=True) for k in "abt"}
    edges = np.array([ends.min, ends.max, 0, 1, ends.max // 2, ends.max // 2 + 1], kind)
    for place, k in enumerate("abt"):  # every three of them
        x[k][: 6**3] = np.tile(np.repeat(edges, 6**place), 6 ** (2 - place))
    np.testing.assert_array_equal(evaluate(found, x)["y"], evaluate(kernel, x)["y"])


def test_a_sign_is_a_bit() -> None:
    found = narrow(pixels(LOW["signs of samples"][0], "int16", "uint16"))
    assert not any(n.op == "lt" for n in walk(found.stores[0].expr))


@pytest.mark.parametrize(
    "f",
    [
        lambda a, b, t: (a * b) >> 4,  # the bits above come down
        lambda a, b, t: minimum(a * b, t),
        lambda a, b, t: absolute(a - b),
        lambda a, b, t: where(a + b < t, a, b) << 1,
        lambda a, b, t: (a + b) % 10,
    ],
)
def test_what_asks_for_more_than_the_lowest_bits_stays(f: Callable[[Node, Node, Node], Node]) -> None:
    kernel = pixels(f, "int16", "int16")
    narrowed = narrow(kernel)
    wide = [n for n in walk(narrowed.stores[0].expr) if n.dtype is INT and n.op not in ("const", "cast")]
    assert wide, "something is still computed in 32 bits"


def test_a_stated_range_counts() -> None:
    kernel = pixels(lambda a, b, t: (a + b) >> 1, "int16", ends=(-8000, 8000))
    assert widest(narrow(kernel)) == 2


def test_it_is_normal_form() -> None:
    once = normalise(pixels(FITS["grey"]))
    assert widest(once) == 2 and normalise(once) is once


def test_conditions_on_places_beside_data_stay_as_they_are_and_the_rest_is_narrow() -> None:
    def spins(a: Node, b: Node, t: Node) -> Node:
        near = a + b + t
        limit = cast(where(near <= 2, 256, where(near.eq(3), 44, 8)), INT)  # (a choice of literals is int64)
        return where((a * 3 < limit) & near.ne(5), 1 - b, b)

    kernel = pixels(spins, "int8", "int8", ends=(0, 1))
    found = narrow(kernel)
    assert (widest(kernel), widest(found)) == (8, 2)
    x = {k: np.random.default_rng(3).integers(0, 1, 1 << 12, np.int8, endpoint=True) for k in "abt"}
    np.testing.assert_array_equal(evaluate(found, x)["y"], evaluate(kernel, x)["y"])


WHOLE: dict[str, Callable[[Node, Node], Node]] = {
    "parts of a time": lambda t, u: (t // 86400 + 719468) // 146097 * 400 + (t // 60) % 60,
    "rest, written out": lambda t, u: t - t // 1000 * 1000,
    "rest, times": lambda t, u: 3 * t + 5 - (t + 7) // 11 * 33,
    "choice": lambda t, u: where(t % 7 < u, t // 3, -u * 5),
    "product": lambda t, u: (t % 1000) * u + minimum(t, 9) * maximum(u, 2),
    "bits": lambda t, u: ((t >> 3) & 255) | ((u + 6) << 2),
}


@pytest.mark.parametrize("name", WHOLE)
@pytest.mark.parametrize("out", ["int32", "int8", "float32", "int64"])
def test_what_is_computed_in_64_bits_and_fits_32_is_computed_in_32(name: str, out: str) -> None:
    n = 1 << 11
    kb = KernelBuilder("times")
    i = kb.axis("n", n)
    t, u = kb.input("t", (n,), dtype("int64"), range=(0, 4_000_000_000)), kb.input("u", (n,), dtype("int64"), range=(-6, 6))
    kb.store("y", dtype(out), (n,), (i,), cast(WHOLE[name](t[i], u[i]), dtype(out)))
    kernel = kb.build()
    found = narrow(kernel)
    inner = [m for m in walk(found.stores[0].expr) if m.dtype.size == 8 and m.op not in ("axis", "const", "load", "cast")]
    assert not inner, "nothing is computed in 64 bits any more"
    rng = np.random.default_rng(1)
    x = {"t": rng.integers(0, 4_000_000_000, n, endpoint=True), "u": rng.integers(-6, 6, n, endpoint=True)}
    x["t"][:4], x["u"][:4] = (0, 4_000_000_000, 0, 4_000_000_000), (-6, 6, 6, -6)
    np.testing.assert_array_equal(evaluate(found, x)["y"], evaluate(kernel, x)["y"])


@pytest.mark.parametrize("f", [lambda t: t * 3, lambda t: (t * t) >> 40, lambda t: t % (1 << 40)])
def test_what_does_not_fit_32_bits_stays(f: Callable[[Node], Node]) -> None:
    kb = KernelBuilder("large")
    i = kb.axis("n", 64)
    t = kb.input("t", (64,), dtype("int64"), range=(0, 4_000_000_000))
    kb.store("y", dtype("float64"), (64,), (i,), cast(f(t[i]), dtype("float64")))
    kernel = kb.build()
    assert narrow(kernel) is kernel


def test_places_compared_with_data_stay_indices() -> None:
    """What loops are cut by is a comparison of indices."""
    kb = KernelBuilder("ragged")
    i, k = kb.axis("m", 8), kb.axis("n", 40)
    x, many = kb.input("x", (8, 40), dtype("float32")), kb.input("many", (8,), dtype("int64"), range=(0, 40))
    total = kb.sum("total", (i,), k, where(k < many[i] - 1, x[i, k], 0.0))
    kb.store("y", dtype("float32"), (8,), (i,), total[i])
    kernel = kb.build()
    assert narrow(kernel) is kernel


@pytest.mark.parametrize("turned", [False, True])
def test_rests_are_found_in_any_order_of_terms(turned: bool) -> None:
    kb = KernelBuilder("days")
    days = kb.input("t", (8,), dtype("int64"), range=(0, 4_000_000_000))[kb.axis("n", 8)] // 86400
    week = ix.floordiv(days + 4, 7)
    terms, coefficients = (days, week), (1, -7)
    order = slice(None, None, -1) if turned else slice(None)
    n = make("sum", index, terms[order], (coefficients[order], 4))
    assert split_remainders(n) == ([(week, 1)], {}, 0) and value_range(n) == (0, 6)


NARROW_WRAPS: dict[str, Callable[[Node, Node], Node]] = {
    "sum": lambda a, b: cast(a + b, INT) >> 1,
    "doubled": lambda a, b: where(((a << 1) ^ b) >= 128, cast(a, INT) * 3, 5) + 1,
    "product": lambda a, b: (cast(a * b, INT) + 7) // 3,
    "difference": lambda a, b: maximum(cast(a - b, INT), 9),
    "powers of a field": lambda a, b: cast((a << 1) ^ cast(where(a >= 128, 0x1D, 0), dtype("uint8")) ^ b, INT) // 5,
}


@pytest.mark.parametrize("name", NARROW_WRAPS)
def test_what_wraps_in_eight_bits_wraps_there(name: str) -> None:
    """Its interval is that of its type, which says nothing of what it would be in more bits."""
    n = 1 << 12
    kb = KernelBuilder("wraps")
    i = kb.axis("n", n)
    a, b = kb.input("a", (n,), dtype("uint8")), kb.input("b", (n,), dtype("uint8"))
    kb.store("y", dtype("uint8"), (n,), (i,), cast(NARROW_WRAPS[name](a[i], b[i]), dtype("uint8")))
    kernel, rng = kb.build(), np.random.default_rng(0)
    x = {k: rng.integers(0, 256, n, np.uint8) for k in "ab"}
    np.testing.assert_array_equal(evaluate(normalise(kernel), x)["y"], evaluate(kernel, x)["y"])


# Sums and extremes have the smallest type that their values fit, where nothing that they are made of is wider.


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
