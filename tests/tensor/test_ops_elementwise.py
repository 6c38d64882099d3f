"""Elementwise functions against NumPy: types, broadcasting, special values, and as kernels."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from tilewright import Tensor, jit, xp
from tilewright.ir.dtypes import dtype as dtype_of
from tilewright.ir.errors import KernelError, UsageError
from tilewright.ir.evaluation.array_math import floor_quotient

from tests.tensor.agree import Agree

pytestmark = pytest.mark.slow

SPECIAL = np.array([0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.5, -2.5, 1e-30, -3e12, 7.25, np.inf, -np.inf, np.nan, 88.0, 1e9, 3.0])
UNARY = {
    "abs": np.abs, "acos": np.arccos, "acosh": np.arccosh, "asin": np.arcsin, "asinh": np.arcsinh, "atan": np.arctan,
    "atanh": np.arctanh, "ceil": np.ceil, "cos": np.cos, "cosh": np.cosh, "exp": np.exp, "expm1": np.expm1, "floor": np.floor,
    "log": np.log, "log10": np.log10, "log1p": np.log1p, "log2": np.log2, "negative": np.negative, "positive": np.positive,
    "reciprocal": np.reciprocal, "round": np.round, "sign": np.sign, "sin": np.sin, "sinh": np.sinh, "sqrt": np.sqrt,
    "square": np.square, "tan": np.tan, "tanh": np.tanh, "trunc": np.trunc, "isfinite": np.isfinite, "isinf": np.isinf,
    "isnan": np.isnan, "signbit": np.signbit,
}  # fmt: skip
BINARY = {
    "add": np.add, "atan2": np.arctan2, "copysign": np.copysign, "divide": np.divide, "hypot": np.hypot, "logaddexp": np.logaddexp,
    "maximum": np.maximum, "minimum": np.minimum, "multiply": np.multiply, "pow": np.power, "subtract": np.subtract,
    "equal": np.equal, "not_equal": np.not_equal, "less": np.less, "less_equal": np.less_equal, "greater": np.greater,
    "greater_equal": np.greater_equal, "logical_and": np.logical_and, "logical_or": np.logical_or, "logical_xor": np.logical_xor,
}  # fmt: skip
BITS = {"bitwise_and": np.bitwise_and, "bitwise_or": np.bitwise_or, "bitwise_xor": np.bitwise_xor}
INTS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")


def each(function: str, *args: Any) -> Any:
    return getattr(xp, function)(*args)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_functions_of_one_float(agree: Agree, dtype: str) -> None:
    x = SPECIAL.astype(dtype)
    t = Tensor(x)
    for name, f in UNARY.items():
        agree(name, each(name, t), f(x), 64 if name in ("tan", "sin", "cos") else 16)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_functions_of_two_floats_with_special_values(agree: Agree, dtype: str) -> None:
    values = SPECIAL[:14].astype(dtype)
    a, b = np.meshgrid(values, values, indexing="ij")
    x, y = Tensor(values[:, None].copy()), Tensor(values[None, :].copy())
    for name, f in BINARY.items():
        with np.errstate(all="ignore"):
            agree(name, each(name, x, y), f(a, b), 64)


@pytest.mark.parametrize("dtype", INTS)
def test_functions_of_integers(agree: Agree, dtype: str) -> None:
    info = np.iinfo(dtype)
    x = np.array([0, 1, 2, 7, 100, info.max, info.min, info.max // 3], dtype)
    y = np.array([3, 1, 5, 2, 7, 4, 6, 0], dtype)
    s, t = Tensor(x), Tensor(y)
    with np.errstate(all="ignore"):
        for name, f in BITS.items():
            agree(name, each(name, s, t), f(x, y))
        agree("invert", ~s, ~x)
        agree("shl", s << t, x << y)
        agree("shr", s >> t, x >> y)
        agree("floordiv", s // t, x // y)
        agree("remainder", s % t, x % y)
        agree("sums", s + t - s * t, x + y - x * y)
        agree("abs", abs(s), np.abs(x))
        agree("sign", xp.sign(s), np.sign(x))
        agree("compare", (s < t) | (s >= t) & (s == t), (x < y) | (x >= y) & (x == y))
        agree("max", xp.maximum(s, t), np.maximum(x, y))
        agree("pow", s**3, x**3)
        agree("clip", xp.clip(s, 2, 50), np.clip(x, 2, 50))
        agree("sqrt", xp.sqrt(xp.clip(s, 0, None)), np.sqrt(np.clip(x, 0, None).astype(np.float32)))


def test_powers_of_integers_by_a_tensor_are_numpys(agree_small: Agree) -> None:
    x, y = np.arange(-4, 5), np.arange(9)
    agree_small("pow", Tensor(x) ** Tensor(y), x**y)
    with pytest.raises(UsageError, match="negative powers"):
        (Tensor(y) ** Tensor(x)).numpy()


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_narrow_floats_keep_their_type_and_round_once(agree: Agree, dtype: str) -> None:
    kind = xp.float16.np if dtype == "float16" else xp.bfloat16.np
    x = np.linspace(-3, 3, 13).astype(kind)
    wide, t = x.astype(np.float32), Tensor(x)
    for name, found, expected in (
        ("exp", xp.exp(t), np.exp(wide)),
        ("chain", (t * 3 + 1) / (t * t + 2), (wide * 3 + 1) / (wide * wide + 2)),
        ("sum", t.sum(), wide.sum()),
        ("mean", t.mean(), wide.mean()),
    ):
        agree(name, found, expected.astype(kind), 2)


def test_floats_divide_and_leave_remainders_as_numpys(agree: Agree) -> None:
    x = np.array([7.5, -7.5, 7.5, -7.5, 0.0, 6.0, -0.75, 1e10], np.float32)
    y = np.array([2.0, 2.0, -2.0, -2.0, 3.0, 3.0, 0.5, 7.0], np.float32)
    agree("floordiv", Tensor(x) // Tensor(y), x // y)
    agree("remainder", Tensor(x) % Tensor(y), x % y)
    agree("by a number", Tensor(x) % 2.5, x % np.float32(2.5))
    agree("of a number", 9 // Tensor(y), 9 // y)


def test_where_clip_and_bools(agree: Agree) -> None:
    x = np.linspace(-2, 2, 12, dtype=np.float32).reshape(3, 4)
    t = Tensor(x)
    agree("where", xp.where(t > 0, t, -1), np.where(x > 0, x, np.float32(-1)))
    agree("where broadcasts", xp.where(Tensor(x[:, :1] > 0), t, Tensor(x[:1])), np.where(x[:, :1] > 0, x, x[:1]))
    agree("clip", xp.clip(t, -0.5, 1), np.clip(x, -0.5, 1))
    agree("clip by tensors", xp.clip(t, Tensor(x[:1] / 2), Tensor(x[:1] / 2 + 1)), np.clip(x, x[:1] / 2, x[:1] / 2 + 1))
    p, q = x > 0, x > 1
    a, b = Tensor(p), Tensor(q)
    agree("xor", a ^ b, p ^ q)
    agree("and", a & b, p & q)
    agree("invert", ~a, ~p)
    agree("plus", a + b, p + q)
    agree("less", a < b, p < q)
    agree("less equal", a <= b, p <= q)
    agree("to int", a.astype("int32") + 2, p.astype(np.int32) + 2)
    agree("to bool", Tensor(x).astype("bool"), x.astype(bool))
    agree("isclose", xp.isclose(t, t + 1e-9), np.ones_like(p))


PAIRS = [(a, b) for a in (*INTS, "bool", "float32", "float64") for b in (*INTS, "bool", "float32", "float64")]


def test_promotion_is_the_standards() -> None:
    for a, b in PAIRS:
        x, y = np.ones(1, a), np.ones(1, b)
        if {"uint64"} == {a, b} - {"int8", "int16", "int32", "int64"} and len({a, b}) == 2:
            with pytest.raises(KernelError, match="no common type"):
                Tensor(x) * Tensor(y)
            continue
        found = (Tensor(x) * Tensor(y)).dtype.name
        floats = [k for k in (a, b) if k.startswith("float")]
        expected = str(np.result_type(a, b)) if len(floats) != 1 else floats[0]
        assert found == expected, (a, b, found)


def test_numbers_take_the_type_of_the_tensor_beside_them() -> None:
    x = Tensor(np.ones(2, np.float32))
    n = Tensor(np.ones(2, np.int8))
    assert (x * 2).dtype is xp.float32 and (2.5 - x).dtype is xp.float32 and (x**2).dtype is xp.float32
    assert (n + 1).dtype is xp.int8 and (True + n).dtype is xp.int8 and (n / 2).dtype is xp.float32
    with pytest.raises(UsageError, match="300 is no int8"):
        n + 300


def test_errors_name_the_operation_the_shapes_and_the_line() -> None:
    with pytest.raises(UsageError, match=r"add of shapes \[2\] and \[3\].*test_ops_elementwise.py:\d+"):
        Tensor([1.0, 2.0]) + Tensor([1.0, 2.0, 3.0])
    with pytest.raises(TypeError, match=r"bitwise_and of float32.*test_ops_elementwise.py"):
        xp.bitwise_and(Tensor([1.0]), Tensor([2.0]))
    with pytest.raises(TypeError):
        Tensor([1.0]) + "one"


def test_a_thousand_shapes_broadcast_as_numpys(agree_small: Agree) -> None:
    rng = np.random.default_rng(0)
    for i in range(200):
        full = rng.integers(0 if i % 5 == 0 else 1, 4, size=rng.integers(0, 6))
        a, b = (tuple(int(n) if rng.random() < 0.6 else 1 for n in full[int(rng.integers(0, len(full) + 1)) :]) for _ in range(2))
        x, y = rng.standard_normal(a).astype(np.float32), rng.standard_normal(b).astype(np.float32)
        agree_small(f"{a} {b}", Tensor(x) + Tensor(y) * 2, x + y * 2)


def test_infinite_operands_have_the_results_of_the_standard() -> None:
    x = [np.inf, -np.inf, np.inf, np.inf, 5.0, -5.0, 5.0, np.inf, -np.inf]
    y = [2.0, 2.0, -2.0, np.inf, np.inf, np.inf, -np.inf, 0.0, 0.0]
    wanted = np.array([np.inf, -np.inf, -np.inf, np.nan, 0.0, -0.0, -0.0, np.inf, -np.inf])
    a, b = (Tensor(np.tile(np.array(v, np.float32), 1000)) for v in (x, y))
    for found in (Tensor(np.array(x)) // Tensor(np.array(y)), a // b):
        got = found.numpy()[: len(x)]
        np.testing.assert_array_equal(got, wanted)
        np.testing.assert_array_equal(np.signbit(got[4:7]), np.signbit(wanted[4:7]))


ENDS = [0.0, -0.0, 1.0, -1.0, 7.5, -7.5, 0.25, np.inf, -np.inf, np.nan]


@pytest.mark.parametrize("name", ["float16", "bfloat16", "float32", "float64"])
def test_every_pair_of_special_values(name: str) -> None:
    kind = dtype_of(name)
    pairs = np.array([*product(ENDS, ENDS), *np.random.default_rng(0).normal(0, 9, (50, 2))]).astype(kind.np)
    x, y = (np.ascontiguousarray(v) for v in pairs.T)
    wide = [v.astype(kind.compute.np) for v in (x, y)]
    with np.errstate(all="ignore"):
        wanted = [f(*wide).astype(kind.np).astype(np.float64) for f in (floor_quotient, np.remainder)]
    both = jit(lambda x, y: (x // y, x % y))
    long = [np.tile(v, 80) for v in (x, y)]
    for got in (
        (Tensor(x) // Tensor(y), Tensor(x) % Tensor(y)),
        both(Tensor(x), Tensor(y)),
        (Tensor(long[0]) // Tensor(long[1]), Tensor(long[0]) % Tensor(long[1])),
    ):
        for found, want in zip(got, wanted, strict=True):
            values = found.numpy().astype(np.float64)[: len(x)]
            np.testing.assert_array_equal(values, want)
            zeros = want == 0
            np.testing.assert_array_equal(np.signbit(values[zeros]), np.signbit(want[zeros]))


@pytest.mark.parametrize("name", ["float16", "bfloat16", "float32", "float64"])
def test_by_a_number(name: str) -> None:
    kind = dtype_of(name)
    x = np.array([1.75, 3.0, -5.5, np.inf, 0.0], np.float64).astype(kind.np)
    by = np.float64(1.7).astype(kind.np).astype(kind.compute.np)
    with np.errstate(all="ignore"):
        wanted = [f(x.astype(kind.compute.np), by).astype(kind.np) for f in (floor_quotient, np.remainder)]
    for got in ((Tensor(x) // 1.7, Tensor(x) % 1.7), jit(lambda x: (x // 1.7, x % 1.7))(Tensor(x))):
        for found, want in zip(got, wanted, strict=True):
            np.testing.assert_array_equal(found.numpy().astype(np.float64), want.astype(np.float64))


def test_whole_numbers_by_the_number_0(agree: Agree, monkeypatch: pytest.MonkeyPatch) -> None:
    """0, as NumPy has it, also of what a kernel computes of its indices; and no sign of truth values."""
    monkeypatch.setenv("TILEWRIGHT_SMALL", "0")
    for x in (xp.arange(5), Tensor(np.arange(5)), Tensor(np.arange(5, dtype=np.int8))):
        for n in (0, -3):
            with np.errstate(divide="ignore"):
                agree(f"// {n}", x // n, x.numpy() // n)
                agree(f"% {n}", x % n, x.numpy() % n)
    agree("signbit of bools", xp.signbit(Tensor([True, False])), np.array([False, False]))
