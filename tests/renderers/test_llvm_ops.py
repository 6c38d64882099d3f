"""Each operation against NumPy, as vectors and as scalars, with the host's instructions and with fewer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
import run_text
from hand_built import apply, compile_for, elementwise, run
from tilewright import interp, targets
from tilewright.ir import BuildError, dtypes
from tilewright.program.builder import Builder
from tilewright.program.listing import show
from tilewright.program.program import Program, Val
from tilewright.renderers import render
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
@pytest.mark.covering(pairs=True)
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
@pytest.mark.covering(pairs=True)
def test_max_and_min_keep_nan(name: str, lanes: int, target: Target) -> None:
    a, b = pairs(name)
    got = apply(lambda k, x, y: k.op("max", x, y), [a, b], name, lanes, target)
    np.testing.assert_array_equal(got, np.maximum(a, b))
    got = apply(lambda k, x, y: k.op("min", x, y), [a, b], name, lanes, target)
    np.testing.assert_array_equal(got, np.minimum(a, b))


@target
@lanes
@pytest.mark.covering
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
@pytest.mark.covering
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
@pytest.mark.covering
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
@pytest.mark.covering
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


# scale2: NumPy's ldexp, the interpreter, LLVM's code and C agree in every bit; targets without the instruction refuse
# it.


POCL = pytest.param(partial(run_text.opencl, target=targets.host()), id="opencl", marks=pytest.mark.slow)
HERE = "avx512" in targets.host().features
type_ = pytest.mark.parametrize("name", ["float32", "float64"])
LANES = (1, 2, 3, 4, 8, 13, 16, 24, 40)


def program(name: str, lanes: int, items: int) -> Program:
    return elementwise([name, name], name, lanes, lanes * items, lambda b, x, n: b.op("scale2", x, n))


def operands(name: str, n: int) -> tuple[Any, Any]:
    """Numbers of every magnitude with powers that overflow, underflow, and end among the subnormals; specials."""
    rng, info = np.random.default_rng(3), np.finfo(name)
    special = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, info.max, info.tiny, info.smallest_subnormal, 1.5, -1.0], name)
    span = 2 * info.maxexp
    a = np.concatenate([np.repeat(special, 10), np.ldexp(rng.uniform(-2, 2, n), rng.integers(info.minexp, info.maxexp, n)).astype(name)])
    powers = np.array([0, 1, -1, -span, span, info.minexp - 5, -3.0e9, 3.0e9, np.nan, 2], name)
    b = np.concatenate([np.tile(powers, 10), rng.integers(-span, span, n).astype(name)])
    b[:20] = np.where(b[:20] == 2, -np.inf, b[:20])  # minus infinity beside zeros only
    return a[:n], b[:n]


def expected(a: Any, b: Any) -> Any:
    with np.errstate(all="ignore"):
        scaled = np.ldexp(a, np.clip(np.nan_to_num(b, nan=0.0), -9000, 9000).astype(np.int32))
        return np.where(np.isnan(b), np.nan, scaled).astype(a.dtype)


def same_of_scale2(got: Any, want: Any) -> None:
    number = ~np.isnan(want)
    assert got[number].tobytes() == want[number].tobytes() and np.isnan(got[~number]).all()


@pytest.mark.many
@type_
@pytest.mark.parametrize("lanes", LANES)
@pytest.mark.parametrize("way", [*(pytest.param(w, id=n) for w, n in ((interp, "interpreter"), (run, "llvm"), (run_text.c, "c"))), POCL])
@pytest.mark.covering
def test_it_is_ldexp(way: Any, lanes: int, name: str) -> None:
    if way is not interp and not HERE:
        pytest.skip("this machine has no AVX-512")
    items = -(-(400 if way is interp else 2000) // lanes)
    a, b = operands(name, lanes * items)
    y = np.zeros_like(a)
    if way is interp:
        with np.errstate(all="ignore"):
            interp.run(program(name, lanes, items), {"x0": a, "x1": b, "y": y})
    else:
        way(program(name, lanes, items), [a, b, y])
    same_of_scale2(y, expected(a, b))


@type_
def test_a_register_takes_one_instruction(name: str) -> None:
    target = targets.named("cascadelake")
    lanes = 64 // np.dtype(name).itemsize
    for n, instructions in ((lanes, 1), (lanes // 2, 1), (lanes // 4, 1), (3 * lanes, 3)):
        made = program(name, n, 4)
        text, _ = compile_for(target, render(made, target))
        assert text.count(f"vscalefp{'s' if name == 'float32' else 'd'}") == instructions
        assert "scale2 %" in show(made)


@pytest.mark.parametrize("lang", ["llvm", "c"])
def test_a_target_without_it_is_refused(lang: str) -> None:
    with pytest.raises(BuildError, match="haswell has no scale2"):
        render(program("float32", 8, 4), replace(targets.named("haswell"), lang=lang))


@pytest.mark.parametrize("target", ["opencl-cpu", "sm_90a"])
def test_languages_without_it_say_so(target: str) -> None:
    with pytest.raises(BuildError, match="has no scale2: lower the kernel"):
        render(program("float32", 4, 4), targets.named(target))


def test_halves_are_refused() -> None:
    for lang in ("llvm", "c"):
        with pytest.raises(BuildError, match="not an operation of Programs"):
            render(program("float16", 8, 4), replace(targets.named("cascadelake"), lang=lang))


# root_guess: as near as it says by every way of running it, the same bits from LLVM and C, and one instruction a
# register.


X86 = targets.host().arch == "x86_64"


def program_of_root_guess(lanes: int, items: int, name: str = "float32") -> Program:
    return elementwise([name], name, lanes, lanes * items, lambda b, x: b.op("root_guess", x))


@pytest.mark.slow
@pytest.mark.parametrize("lanes", [1, 3, 8, 24])
def test_pocl_is_as_near(lanes: int) -> None:
    x, y = np.ldexp(np.linspace(1.0, 4.0, 8 * lanes), np.arange(8 * lanes) - 99).astype(np.float32), np.zeros(8 * lanes, np.float32)
    run_text.opencl(program_of_root_guess(lanes, 8), [x, y], target=targets.host())
    assert (np.abs(y * np.sqrt(x.astype(np.float64)) - 1.0) <= 1.5 / 4096).all()


@pytest.mark.parametrize("lanes", [1, 3, 8, 24])
def test_a_part_in_2700(lanes: int) -> None:
    """Of normal numbers of every magnitude."""
    n = lanes * 40
    x = np.ldexp(np.linspace(1.0, 4.0, n), np.arange(n) % 250 - 126).astype(np.float32)
    found = []
    for way in (interp, run, run_text.c) if X86 else (interp,):
        y = np.zeros_like(x)
        if way is interp:
            interp.run(program_of_root_guess(lanes, 40), {"x0": x, "y": y})
        else:
            way(program_of_root_guess(lanes, 40), [x, y])
        assert (np.abs(y * np.sqrt(x.astype(np.float64)) - 1.0) <= 1.5 / 4096).all()
        found.append(y)
    assert len(found) < 3 or found[1].tobytes() == found[2].tobytes()


@pytest.mark.parametrize(("target", "lanes"), [("cascadelake", 16), ("haswell", 8), ("x86-64-v2", 4)])
def test_a_register_takes_one_instruction_in_root_guess(target: str, lanes: int) -> None:
    at = targets.named(target)
    for registers in (1, 3):
        text, _ = compile_for(at, render(program_of_root_guess(registers * lanes, 4), at))
        assert text.count("rsqrt") == registers


@pytest.mark.parametrize(("target", "lang"), [("neon", "llvm"), ("neon", "c"), ("opencl-cpu", "opencl"), ("sm_90a", "cuda")])
def test_what_lacks_it_says_so(target: str, lang: str) -> None:
    with pytest.raises(BuildError, match="has no root_guess"):
        render(program_of_root_guess(4, 4), replace(targets.named(target), lang=lang))


def test_only_float32_has_it() -> None:
    for lang in ("llvm", "c"):
        at: Any = replace(targets.named("haswell"), lang=lang)
        with pytest.raises(BuildError, match="no root_guess of"):
            render(program_of_root_guess(4, 4, "float64"), at)


def test_floats_of_four_bits_are_looked_up() -> None:
    """The same numbers as arithmetic makes, with AVX-512 and without."""
    a = values("int32")
    for mask, shift, tables in ((15, 4, 2), (7, 0, 2), (10, 28, 2), (16, 0, 0), (-1, 0, 0)):

        def body(k: Builder, x: Val, mask: int = mask, shift: int = shift) -> Val:
            bits = k.op("and", k.const(mask, dtypes.int32, 16), k.op("shr", x, k.const(shift, dtypes.int32, 16)))
            f = k.op("cast", bits, dtype=dtypes.float32)
            scaled = k.op("mul", f, k.const(-0.1, dtypes.float32, 16))
            return k.op("mul", k.op("sub", k.const(8.0, dtypes.float32, 16), scaled), k.op("add", f, k.const(-1.5, dtypes.float32, 16)))

        f = ((a >> shift) & mask).astype("float32")
        want = (np.float32(8) - f * np.float32(-0.1)) * (f + np.float32(-1.5))
        for target in TARGETS[:2]:
            check(body, [a], want, 16, target)
        at = targets.named("cascadelake")
        text, _ = compile_for(at, render(elementwise(["int32"], "float32", 16, 64, body, at.features), at))
        assert text.count("vperm") == tables and ("cvtdq2ps" in text) == (not tables)


def test_a_lane_in_all_lanes_is_one_instruction() -> None:
    a = values("float32")[:64]
    for lane in range(8):

        def body(k: Builder, x: Val, lane: int = lane) -> Val:
            return k.shuffle(x, x, (lane,) * 8)

        check(body, [a], np.repeat(a.reshape(-1, 8)[:, lane], 8), 8, TARGETS[0])
        at = targets.named("haswell")
        text, _ = compile_for(at, render(elementwise(["float32"], "float32", 8, 64, body, at.features), at))
        assert text.count("vpermps") == (lane > 0) and "vpermpd" not in text
