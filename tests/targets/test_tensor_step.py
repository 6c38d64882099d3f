"""What tensor cores compute, against the rule in exact fractions, and against what is known of each generation."""

from __future__ import annotations

from fractions import Fraction
from math import floor, inf, isfinite, isnan, nan
from typing import Any

import numpy as np
import pytest
from tilewright.ir.dtypes import DType
from tilewright.targets import tensor_rows
from tilewright.targets.tensor_rows import BY_NAME, LEAST, TensorRow

FLOATS = [(r, g) for r in tensor_rows.ROWS for g in r.rules]
EACH = pytest.mark.parametrize(("row", "generation"), FLOATS, ids=[f"{r.name}-{g}" for r, g in FLOATS])


def exponent(x: Fraction, least: int) -> int:
    """That of the exponent field."""
    e = abs(x.numerator).bit_length() - x.denominator.bit_length()
    if abs(x) < Fraction(2) ** e:
        e -= 1
    return max(e, least)


def cut(x: Fraction, unit: Fraction) -> Fraction:
    return (floor(abs(x) / unit) * unit) * (1 if x >= 0 else -1)


def to_float32(x: Fraction, fraction: int) -> float:
    if abs(x) >= Fraction(2) ** 128:
        return inf if x > 0 else -inf
    return 0.0 if x == 0 else float(cut(x, Fraction(2) ** (exponent(x, -126) - fraction)))


def expected(row: TensorRow, generation: str, c: float, a: list[float], b: list[float]) -> float:
    """One element by the paper's algorithm 7, in fractions."""
    rule = row.rules[generation]
    ks = sorted(range(row.k), key=lambda k: k % 4 // 2) if rule.widened else range(row.k)
    least_a, least_b = (-14 if rule.widened else LEAST[t.name] for t in (row.a, row.b))
    for first in range(0, row.k, rule.terms):
        pairs = [(a[k], b[k]) for k in list(ks)[first : first + rule.terms]]
        plain = sum((x * y for x, y in pairs), c)
        if not isfinite(plain):
            c = plain
            continue
        terms = [(Fraction(x) * Fraction(y), x, y) for x, y in pairs]
        fields = [exponent(Fraction(x), least_a) + exponent(Fraction(y), least_b) if p else rule.zero for p, x, y in terms]
        top = max(*fields, exponent(Fraction(c), LEAST[row.c.name]) if c else rule.zero)
        unit = Fraction(2) ** (top - rule.fraction)
        total = sum((cut(p, unit) for p, _, _ in terms), cut(Fraction(c), unit))
        if rule.result == "f16":
            with np.errstate(over="ignore"):
                c = float(np.float64(total.numerator / total.denominator).astype(np.float16))
        else:
            c = to_float32(total, 13 if rule.result == "e8m13" else 23)
    return c


def numbers(rng: np.random.Generator, dtype: DType, shape: tuple[int, ...], how: str) -> Any:
    """Random elements: near one, over all exponents, or tiny."""
    if how == "bits":
        size = 8 * dtype.size
        x = rng.integers(0, 2**size, shape, np.uint64).astype(f"uint{size}").view(dtype.np)
        with np.errstate(invalid="ignore"):
            return np.where(np.isfinite(x.astype(np.float64)), x, dtype.np.type(1.0))
    scale = {"near": 1.0, "tiny": 2.0 ** (LEAST[dtype.name] + 1), "wide": np.exp2(rng.integers(-12, 8, shape))}[how]
    with np.errstate(over="ignore"):
        return (rng.standard_normal(shape) * scale * (rng.random(shape) < 0.8)).astype(dtype.np)


def as_lists(row: TensorRow, x: Any) -> Any:
    x = np.asarray(x)
    if row.operands == "tf32" and x.dtype == np.float32:
        x = (np.ascontiguousarray(x).view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32)
    return x.astype(np.float64).tolist()


@pytest.mark.many
@EACH
def test_sums_are_those_of_the_rule_in_exact_fractions(row: TensorRow, generation: str) -> None:
    rng = np.random.default_rng(len(row.name) + len(generation))
    for how in ("near", "wide", "tiny", "bits"):
        a, b = numbers(rng, row.a, (2, row.k), how), numbers(rng, row.b, (row.k, 2), how)
        c = numbers(rng, row.c, (2, 2), how)
        got = row.step(c, a, b, generation)
        assert got.dtype == row.c.np
        x, y = as_lists(row, a), as_lists(row, b)
        for i in range(2):
            for j in range(2):
                want = expected(row, generation, float(c[i, j]), x[i], [y[k][j] for k in range(row.k)])
                assert float(got[i, j]) == want or (isnan(want) and isnan(float(got[i, j]))), (how, i, j)


def one(name: str, generation: str, a: list[float], b: list[float], c: float) -> float:
    """The sum of a few products, the others being zero."""
    row = BY_NAME[name]
    x, y = np.zeros((1, row.k), row.a.np), np.zeros((row.k, 1), row.b.np)
    x[0, : len(a)], y[: len(b), 0] = a, b
    return float(row.step(np.array([[c]], row.c.np), x, y, generation)[0, 0])


@pytest.mark.parametrize(
    ("name", "generation", "want"),
    [
        ("mma.m16n8k16.f16", "ampere", -0.5), ("mma.m16n8k16.f16", "ada", -0.5), ("mma.m16n8k16.f16", "hopper", -0.75),
        ("mma.m16n8k16.bf16", "ampere", -0.5), ("mma.m16n8k16.bf16", "hopper", -0.75), ("mma.m16n8k8.tf32", "ampere", -0.5),
        ("mma.m16n8k8.tf32", "hopper", -0.75), ("mma.m16n8k32.e5m2", "ada", 0.0),
    ],
)  # fmt: skip
def test_the_example_of_the_paper(name: str, generation: str, want: float) -> None:
    """2²³ − 2²³ − 1/2 − 1/4 − 1/8 (equation 10 and table 8): how many of the small terms are left tells the generations apart."""
    assert one(name, generation, [-(2.0**13), -0.5, -0.25, -0.125], [2.0**10, 1, 1, 1], 2.0**23) == want


@pytest.mark.many
@EACH
def test_infinities_and_nans(row: TensorRow, generation: str) -> None:
    bits = np.uint16 if row.c.size == 2 else np.uint32
    quiet = 0x7FFF if row.c.size == 2 else 0x7FFFFFFF

    def run(a: float, b: float, c: float) -> Any:
        x, y = np.zeros((1, row.k), row.a.np), np.zeros((row.k, 1), row.b.np)
        x[0, 3], y[3, 0] = a, b
        return row.step(np.array([[c]], row.c.np), x, y, generation)

    for got in (run(nan, 1, 0), run(0, nan, 0), run(1, 1, nan)):
        assert got.view(bits)[0, 0] == quiet
    assert run(1, 1, inf)[0, 0] == inf and run(1, 1, -inf)[0, 0] == -inf
    if row.a.name != "float8_e4m3":
        assert run(inf, 2, 0)[0, 0] == inf
        assert run(inf, 2, -inf).view(bits)[0, 0] == quiet and run(inf, 0, 0).view(bits)[0, 0] == quiet


def test_an_overflow_is_infinite_and_rounding_toward_zero_is_not() -> None:
    largest = float(np.finfo(np.float32).max)
    assert one("mma.m16n8k16.bf16", "hopper", [2.0**127], [1], 2.0**127) == inf
    assert one("mma.m16n8k16.bf16", "hopper", [-(2.0**127)], [1], -(2.0**127)) == -inf
    assert one("mma.m16n8k16.bf16", "hopper", [1], [1], largest) == largest


def test_sums_of_nothing_are_zero() -> None:
    row = BY_NAME["mma.m16n8k16.f16"]
    zeros = np.zeros((1, 16), np.float16)
    got = row.step(np.array([[-0.0]], np.float32), zeros, zeros.T, "hopper")
    assert got.view(np.uint32)[0, 0] == 0


def test_the_kept_bits_of_fp8_differ_by_generation() -> None:
    """Ada keeps 13 bits of the sum; Hopper's mma.sync widens to float16 and keeps what float16 does."""
    for generation, want in (("ada", 4096.0), ("hopper", 4096.25)):
        assert one("mma.m16n8k32.e5m2", generation, [64, 0.25], [64, 1], 0) == want


def test_tf32_cuts_its_operands() -> None:
    assert one("mma.m16n8k8.tf32", "hopper", [1 + 2.0**-11], [1], 0) == 1
    assert one("mma.m16n8k8.tf32", "hopper", [1 + 2.0**-10], [1], 0) == 1 + 2.0**-10


@pytest.mark.parametrize("row", [r for r in tensor_rows.ROWS if not r.rules], ids=lambda r: r.name)
def test_integers_add_exactly_and_wrap(row: TensorRow) -> None:
    rng = np.random.default_rng(1)
    a, b = (
        rng.integers(np.iinfo(t.np).min, np.iinfo(t.np).max + 1, shape).astype(t.np)
        for t, shape in ((row.a, (3, 16, 32)), (row.b, (3, 32, 8)))
    )
    c = rng.integers(-(2**31), 2**31, (3, 16, 8)).astype(np.int32)
    exact = c.astype(object) + np.array([x.astype(object) @ y.astype(object) for x, y in zip(a, b, strict=True)])
    assert (row.step(c, a, b, "") == (exact + 2**31) % 2**32 - 2**31).all()
    most = np.full((1, 32), np.iinfo(row.a.np).max, row.a.np)
    assert row.step(np.array([[2**31 - 1]], np.int32), most, np.ones((32, 1), row.b.np), "")[0, 0] < 0
