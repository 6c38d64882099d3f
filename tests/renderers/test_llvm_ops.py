"""Each operation against NumPy, as vectors and as scalars, with the host's instructions and with fewer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hand_built import apply
from tilewright import targets
from tilewright.ir import dtypes
from tilewright.program.builder import Builder
from tilewright.program.program import Val
from tilewright.targets import Target

FLOATS, INTS, UINTS = ("float32", "float64"), ("int64", "int32", "int16", "int8"), ("uint64", "uint32", "uint8")
rng = np.random.default_rng(1)


def _lesser() -> list[Target]:
    """The host, then the same architecture with fewer and fewer instructions (as far as the host runs them)."""
    host = targets.host()
    if host.arch != "x86_64":
        return [host]
    plain = replace(targets.named("x86-64-v2"), name="x86-64", cpu="x86-64", features=frozenset())
    return [host, *(t for t in (targets.named("avx2"), targets.named("x86-64-v2"), plain) if t.features <= host.features)]


TARGETS = _lesser()
target = pytest.mark.parametrize("target", TARGETS, ids=lambda t: t.name)
lanes = pytest.mark.parametrize("lanes", [1, 16])


def values(name: str, n: int = 203) -> np.ndarray:
    """Random values of a type with the awkward ones first."""
    if name in FLOATS:
        info = np.finfo(name)
        special = [
            0.0,
            -0.0,
            1.0,
            -1.0,
            0.5,
            1.5,
            2.5,
            -0.5,
            -1.5,
            -2.5,
            np.inf,
            -np.inf,
            np.nan,
            info.max,
            info.tiny,
            info.smallest_subnormal,
        ]
        return np.concatenate([special, [2.0**23 + 1, -(2.0**52) - 1, 0.49999997], rng.normal(0, 100, n)]).astype(name)
    info = np.iinfo(name)
    return np.concatenate([np.array([0, 1, 2, 7, info.max, info.min], name), rng.integers(info.min, info.max, n, name, endpoint=True)])


def same(got: Any, want: Any) -> None:
    np.testing.assert_array_equal(got, want)  # NaN equals NaN here
    if got.dtype.kind == "f":
        ordered = ~np.isnan(want)
        np.testing.assert_array_equal(np.signbit(got)[ordered], np.signbit(want)[ordered])


def pairs(name: str) -> tuple[np.ndarray, np.ndarray]:
    a = values(name)
    return np.repeat(a[:40], 40), np.tile(a[:40], 40)


def check(body: Callable[..., Val], arrays: list[np.ndarray], want: np.ndarray, lanes: int, target: Target) -> None:
    same(apply(body, arrays, want.dtype.name, lanes, target), want)


@pytest.mark.many
@target
@lanes
@pytest.mark.parametrize("name", FLOATS)
def test_float_arithmetic(name: str, lanes: int, target: Target) -> None:
    a, b = pairs(name)
    with np.errstate(all="ignore"):
        for op, want in (("add", a + b), ("sub", a - b), ("mul", a * b), ("div", a / b)):
            check(lambda k, x, y, op=op: k.op(op, x, y), [a, b], want, lanes, target)
        for op, want in (("neg", -a), ("abs", np.abs(a)), ("sqrt", np.sqrt(a)), ("floor", np.floor(a)), ("round", np.rint(a))):
            check(lambda k, x, op=op: k.op(op, x), [a], want, lanes, target)


@target
@lanes
@pytest.mark.parametrize("name", FLOATS)
def test_max_and_min_keep_nan(name: str, lanes: int, target: Target) -> None:
    a, b = pairs(name)
    got = apply(lambda k, x, y: k.op("max", x, y), [a, b], name, lanes, target)
    np.testing.assert_array_equal(got, np.maximum(a, b))
    got = apply(lambda k, x, y: k.op("min", x, y), [a, b], name, lanes, target)
    np.testing.assert_array_equal(got, np.minimum(a, b))


@target
@lanes
def test_fma_rounds_once_where_the_target_has_it(lanes: int, target: Target) -> None:
    a, b = (rng.normal(0, 1, 500).astype("float32") for _ in range(2))
    c = -(a * b)
    got = apply(lambda k, x, y, z: k.op("fma", x, y, z), [a, b, c], "float32", lanes, target)
    exact = (a.astype("float64") * b + c).astype("float32")
    np.testing.assert_array_equal(got, exact if "fma" in target.features else a * b + c)
    assert exact.any()


@pytest.mark.many
@target
@lanes
@pytest.mark.parametrize("name", INTS + UINTS)
@pytest.mark.covering
def test_integer_arithmetic_wraps(name: str, lanes: int, target: Target) -> None:
    a, b = pairs(name)
    with np.errstate(all="ignore"):
        cases = [
            ("add", a + b),
            ("sub", a - b),
            ("mul", a * b),
            ("max", np.maximum(a, b)),
            ("min", np.minimum(a, b)),
            ("and", a & b),
            ("or", a | b),
            ("xor", a ^ b),
        ]
        for op, want in cases:
            check(lambda k, x, y, op=op: k.op(op, x, y), [a, b], want, lanes, target)
        for op, want in (("neg", -a), ("abs", np.abs(a)), ("not", ~a)):
            check(lambda k, x, op=op: k.op(op, x), [a], want, lanes, target)
        check(lambda k, x, y: k.op("fma", x, y, x), [a, b], a * b + a, lanes, target)
        s = b % a.dtype.type(8 * a.itemsize)
        check(lambda k, x, y: k.op("shl", x, y), [a, s], a << s, lanes, target)
        check(lambda k, x, y: k.op("shr", x, y), [a, s], a >> s, lanes, target)


@pytest.mark.many
@lanes
@pytest.mark.parametrize("name", INTS + UINTS)
@pytest.mark.parametrize("by", [1, 7, 16, 100])
def test_division_floors(name: str, by: int, lanes: int) -> None:
    a = values(name)
    check(lambda k, x: k.op("idiv", x, attr=by), [a], a // a.dtype.type(by), lanes, TARGETS[0])
    check(lambda k, x: k.op("imod", x, attr=by), [a], a % a.dtype.type(by), lanes, TARGETS[0])


@pytest.mark.many
@target
@lanes
@pytest.mark.parametrize("name", FLOATS + INTS + UINTS)
@pytest.mark.covering
def test_compare_select_and_logic(name: str, lanes: int, target: Target) -> None:
    a, b = pairs(name)
    for op, want in (("lt", a < b), ("le", a <= b), ("eq", a == b), ("ne", a != b)):
        check(lambda k, x, y, op=op: k.op(op, x, y), [a, b], want, lanes, target)
        check(lambda k, x, y, op=op: k.op("select", k.op(op, x, y), x, y), [a, b], np.where(want, a, b), lanes, target)

    def logic(k: Builder, x: Val, y: Val) -> Val:
        less, equal = k.op("lt", x, y), k.op("eq", x, y)
        return k.op("xor", k.op("not", k.op("or", less, equal)), k.op("and", less, k.op("ne", x, y)))

    check(logic, [a, b], ~((a < b) | (a == b)) ^ (a < b), lanes, target)


@pytest.mark.many
@target
@pytest.mark.parametrize("name", FLOATS + INTS + UINTS)
@pytest.mark.covering
def test_casts(name: str, target: Target) -> None:
    for to in (*FLOATS, *INTS, *UINTS, "bool"):
        a = values(name)
        if name in FLOATS and to not in (*FLOATS, "bool"):  # beyond the integer's range the result is not defined
            low, high = np.iinfo(to).min, np.iinfo(to).max
            a = rng.uniform(max(low, -1e6) * 0.99, min(high, 1e6) * 0.99, 200).astype(name)
        with np.errstate(all="ignore"):
            want = a.astype(to)
        for lanes in (1, 16) if target is TARGETS[0] else (16,):
            check(lambda k, x, to=to: k.op("cast", x, dtype=dtypes.dtype(to)), [a], want, lanes, target)


@lanes
@pytest.mark.parametrize("to", FLOATS + INTS + UINTS)
def test_bool_to_number(to: str, lanes: int) -> None:
    a = rng.integers(0, 2, 100).astype(bool)
    check(lambda k, x: k.op("cast", x, dtype=dtypes.dtype(to)), [a], a.astype(to), lanes, TARGETS[0])


@lanes
def test_bitcast(lanes: int) -> None:
    a = values("float32")
    check(lambda k, x: k.op("bitcast", x, dtype=dtypes.uint32), [a], a.view("uint32"), lanes, TARGETS[0])
    check(lambda k, x: k.op("bitcast", k.op("bitcast", x, dtype=dtypes.int32), dtype=dtypes.float32), [a], a, lanes, TARGETS[0])
    d = values("float64")
    check(lambda k, x: k.op("bitcast", x, dtype=dtypes.int64), [d], d.view("int64"), lanes, TARGETS[0])


@pytest.mark.parametrize("name", ("float32", "float64", "int32", "uint8", "bool"))
def test_lane_operations(name: str) -> None:
    a = rng.integers(0, 2, 64).astype(name) if name == "bool" else values(name, 200)[:64]
    by8 = a.reshape(-1, 8)
    order = (3, 3, 0, 7, 12, 9, 15, 8)  # 8 and above pick from the second operand, here the reversed lanes
    both = np.concatenate([by8, by8[:, ::-1]], 1)

    def shuffled(k: Builder, x: Val) -> Val:
        return k.shuffle(x, k.shuffle(x, x, tuple(range(7, -1, -1))), order)

    check(shuffled, [a], both[:, order].ravel(), 8, TARGETS[0])
    want = by8.copy()
    want[:, 2] = by8[:, 5]
    check(lambda k, x: k.insert(x, k.extract(x, 5), 2), [a], want.ravel(), 8, TARGETS[0])
    check(lambda k, x: k.splat(k.extract(x, 1), 8), [a], np.repeat(by8[:, 1], 8), 8, TARGETS[0])


def test_whether_all_lanes_hold() -> None:
    a = rng.integers(0, 8, 64) > 0
    a[8:24] = True
    for target in TARGETS:
        check(lambda k, x: k.splat(k.every(x), 8), [a], np.repeat(a.reshape(-1, 8).all(1), 8), 8, target)


@lanes
@pytest.mark.parametrize("value", [0.0, -0.0, 1.5, np.inf, -np.inf, np.nan, 3.4e38, 3.5e38, 1e-45, 1e-310, 2.0**-149, 0.1])
def test_float_constants(value: float, lanes: int) -> None:
    x = np.zeros(32, "float32")
    for name in FLOATS:
        with np.errstate(all="ignore"):
            want = np.full(32, value).astype(name)
        check(lambda k, _, name=name: k.const(value, dtypes.dtype(name), lanes), [x], want, lanes, TARGETS[0])


def test_vector_and_integer_constants() -> None:
    x = np.zeros(32, "float32")
    check(lambda k, _: k.const(tuple(range(8)), dtypes.int64, 8), [x], np.tile(np.arange(8), 4), 8, TARGETS[0])
    check(lambda k, _: k.const((True, False) * 4, dtypes.bool_, 8), [x], np.tile([True, False], 16), 8, TARGETS[0])
    for value, name in ((-1, "int8"), (255, "uint8"), (2**32 - 1, "uint32"), (2**64 - 1, "uint64"), (-(2**63), "int64")):
        check(lambda k, _, v=value, n=name: k.const(v, dtypes.dtype(n), 8), [x], np.full(32, value, name), 8, TARGETS[0])
