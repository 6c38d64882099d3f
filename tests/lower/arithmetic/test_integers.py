"""Operators of integers by a value, on every type and in every language, against NumPy on awkward numbers."""

from __future__ import annotations

import random
from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest
import value_kernels
from checks import check_compiled, check_floats, check_twin, twin_of
from random_schedules import grow
from tilewright import targets
from tilewright.ir import (
    KernelBuilder,
    KernelError,
    Node,
    absolute,
    bool_,
    cast,
    const,
    float32,
    int16,
    int32,
    int64,
    uint8,
    uint32,
    uint64,
)
from tilewright.ir import functions as f
from tilewright.ir.evaluation import evaluate
from tilewright.ir.evaluation.array_math import floor_quotient
from tilewright.ir.kernel import Kernel
from tilewright.opts import parse
from tilewright.plan import best
from tilewright.program.program import Instr, statements


def counted(x: Any) -> tuple[Any, Any]:
    """(bits that are set, bits above the highest of them) of numbers, one by one."""
    width = 8 * x.dtype.itemsize
    texts = [f"{int(n) & ((1 << width) - 1):0{width}b}" for n in x]
    return tuple(np.array(n, x.dtype) for n in ([t.count("1") for t in texts], [width - len(t.lstrip("0")) for t in texts]))


TYPES = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
OPERATORS: dict[str, tuple[Callable[[Any, Any], Any], Callable[[Any, Any], Any]]] = {
    "and": (lambda x, y: x & y, np.bitwise_and),
    "or": (lambda x, y: x | y, np.bitwise_or),
    "xor": (lambda x, y: x ^ y, np.bitwise_xor),
    "not": (lambda x, y: ~x, lambda x, y: np.invert(x)),
    "shl": (lambda x, y: x << y, np.left_shift),
    "shr": (lambda x, y: x >> y, np.right_shift),
    "shl 3": (lambda x, y: x << 3, lambda x, y: np.left_shift(x, x.dtype.type(3))),
    "shr 5": (lambda x, y: x >> 5, lambda x, y: np.right_shift(x, x.dtype.type(5))),
    "shr all": (lambda x, y: x >> 64, lambda x, y: np.right_shift(x, x.dtype.type(64))),
    "popcount": (lambda x, y: f.popcount(x), lambda x, y: counted(x)[0]),
    "leading zeros": (lambda x, y: f.leading_zeros(x), lambda x, y: counted(x)[1]),
    "leading zeros of few": (lambda x, y: f.leading_zeros(x & 3) + y, lambda x, y: counted(x & x.dtype.type(3))[1] + y),
    "shl known": (lambda x, y: x << (y & 7), lambda x, y: np.left_shift(x, y & y.dtype.type(7))),
    "shr known": (lambda x, y: x >> (y & 7), lambda x, y: np.right_shift(x, y & y.dtype.type(7))),
    "shr of": (lambda x, y: 100 >> y, lambda x, y: np.right_shift(x.dtype.type(100), y)),
    "//": (lambda x, y: x // y, np.floor_divide),
    "%": (lambda x, y: x % y, np.remainder),
    "// 7": (lambda x, y: x // 7, lambda x, y: np.floor_divide(x, x.dtype.type(7))),
    "% 16": (lambda x, y: x % 16, lambda x, y: np.remainder(x, x.dtype.type(16))),
    "100 %": (lambda x, y: 100 % y, lambda x, y: np.remainder(x.dtype.type(100), y)),
    "together": (lambda x, y: ((x ^ y) + (x << 1)) // ((y & 15) | 1), lambda x, y: np.floor_divide((x ^ y) + (x << 1), (y & 15) | 1)),
}
"""The expression, and NumPy's."""


def operands(name: str) -> tuple[Any, Any]:
    """Every pair of awkward numbers, and random ones, in a number that is no multiple of any vector's width."""
    info, rng = np.iinfo(name), np.random.default_rng(5)
    awkward = np.array([0, 1, 2, 7, 8, 31, 63, info.max, info.max - 1, info.min, info.min + 1], name)
    if info.min:
        awkward = np.concatenate([awkward, np.array([-1, -2, -7], name)])
    pairs = np.array(list(product(awkward, awkward)), name)
    more = rng.integers(info.min, info.max, (52, 2), name, endpoint=True)
    x, y = np.concatenate([pairs, more]).T
    return np.ascontiguousarray(x), np.ascontiguousarray(y)


def every(name: str, n: int) -> Kernel:
    return value_kernels.pointwise([name, name], n, lambda x, y: [f(x, y) for f, _ in OPERATORS.values()])


def wanted(name: str) -> dict[str, Any]:
    x, y = operands(name)
    with np.errstate(all="ignore"):
        return {f"y{at}": np.asarray(f(x, y)).astype(name) for at, (_, f) in enumerate(OPERATORS.values())}


@pytest.mark.many
@pytest.mark.parametrize("name", TYPES)
@pytest.mark.parametrize(
    ("way", "schedule"), [*((way, "lanes") for way in value_kernels.RUNS), ("llvm", "plain"), ("interpreter", "plain")]
)
@pytest.mark.covering
def test_operators_are_numpys(way: str, schedule: str, name: str) -> None:
    x, y = operands(name)
    got = value_kernels.run(every(name, len(x)), [x, y], way, schedule)
    for (what, _), (at, want) in zip(OPERATORS.items(), wanted(name).items(), strict=True):
        np.testing.assert_array_equal(got[at], want, err_msg=f"{what} of {name}")


@pytest.mark.many
@pytest.mark.parametrize("name", TYPES)
def test_the_reference_and_the_twin_are_numpys(name: str) -> None:
    x, y = operands(name)
    kernel = every(name, len(x))
    got = evaluate(kernel, {"x0": x, "x1": y})
    for at, want in wanted(name).items():
        np.testing.assert_array_equal(got[at], want, err_msg=at)
    twin_of(value_kernels.program(kernel, "lanes", expand=False), kernel, {})


def test_bits_are_counted_of_integers_only() -> None:
    kb = KernelBuilder("k")
    x = kb.input("x", (4,), float32)[kb.axis("i", 4)]
    for count in (f.popcount, f.leading_zeros):
        with pytest.raises(KernelError, match=r"of float32: cast it to an integer type"):
            count(x)
        with pytest.raises(KernelError, match=r"of bool: cast it"):
            count(x < 0.0)


@pytest.mark.parametrize(("most", "guards"), [(31, 0), (63, 2)])
def test_shifts_by_amounts_that_are_known_to_be_in_range_need_no_choice(most: int, guards: int) -> None:
    kernel = value_kernels.pointwise(["int32", "int32"], 64, lambda x, y: [x << (y & most)])
    found = statements(value_kernels.program(kernel, "plain").phases[0].body)
    assert sum(isinstance(s, Instr) and s.op == "select" for s in found) == guards


@pytest.mark.parametrize("way", ["llvm", "c", "interpreter"])
def test_bools(way: str) -> None:
    x, y = np.array([0, 0, 1, 1] * 15, bool), np.array([0, 1, 0, 1] * 15, bool)
    kernel = value_kernels.pointwise(["bool", "bool"], 60, lambda x, y: [x & y, x | y, x ^ y, ~x])
    got = value_kernels.run(kernel, [x, y], way)
    for at, want in enumerate([x & y, x | y, x ^ y, ~x]):
        np.testing.assert_array_equal(got[f"y{at}"], want)


@pytest.mark.parametrize("way", ["llvm", "interpreter"])
def test_an_index_may_be_an_operand_and_a_result_may_be_an_index(way: str) -> None:
    """Row i reads element (i ^ 5) & 15, and what data says modulo 16."""
    k = KernelBuilder("permute")
    i = k.axis("i", 16)
    x, at = k.input("x", (16,), float32), k.input("at", (16,), int64)
    k.store("y", float32, (16,), (i,), x[(i ^ 5) & 15] + x[at[i] % 16] * 100.0)
    data, places = np.arange(16, dtype=np.float32), np.arange(16) * 7 - 30
    got = value_kernels.run(k.build(), [data, places], way)["y"]
    np.testing.assert_array_equal(got, data[np.arange(16) ^ 5] + data[places % 16] * 100)


_ENDS = [0.0, -0.0, 1.0, -7.5, 1e-30, -1e30, np.inf, -np.inf, np.nan]
FLOAT_PAIRS = np.array(
    [
        *product(_ENDS, [0.0, -0.0, 2.0, -2.0, 1e30, -1e30, np.inf, -np.inf, np.nan]),
        *product([0.0, -0.0, 1.0, -1.0, 7.5, -7.5, 0.1, -0.1, 1e5, 3.0], [1.0, -1.0, 0.1, -0.1, 3.0, -3.0, 2.5, np.inf, -np.inf]),
        *np.random.default_rng(3).normal(0, 10, (70, 2)),
    ]
)


@pytest.mark.many
@pytest.mark.parametrize("name", ["float32", "float64"])
@pytest.mark.parametrize("way", ["llvm", "c", "interpreter"])
def test_floats_divide_as_the_standard_says(way: str, name: str) -> None:
    x, y = (np.ascontiguousarray(v.astype(name)) for v in FLOAT_PAIRS.T)
    kernel = value_kernels.pointwise([name, name], len(x), lambda x, y: [x // y, x % y])
    got = value_kernels.run(kernel, [x, y], way)
    with np.errstate(all="ignore"):
        wanted = floor_quotient(x, y), np.remainder(x, y)
    for at, want in enumerate(wanted):
        np.testing.assert_array_equal(got[f"y{at}"], want)
        zeros = want == 0
        np.testing.assert_array_equal(np.signbit(got[f"y{at}"][zeros]), np.signbit(want[zeros]))


def test_errors_say_what_to_do() -> None:
    a, b = (KernelBuilder("k").input("x", (4,), t)[0] for t in (int32, uint32))
    flag, half = const(1.0, float32).eq(0.0), const(1.5, float32)
    with pytest.raises(KernelError, match=r"/ of int32: cast it to a float type, or divide with //"):
        _ = a / a
    with pytest.raises(KernelError, match="xor of int32 and uint32: cast one of them"):
        _ = a ^ b
    for wrong in (lambda: half & half, lambda: half << 1, lambda: flag // flag, lambda: flag << flag):
        with pytest.raises(KernelError, match="cast it to an integer type"):
            wrong()
    with pytest.raises(KernelError, match="~ of float32"):
        _ = ~half
    with pytest.raises(KernelError, match="Python bool"):  # what `x == y` would be
        _ = flag & True


def test_text_reads_as_it_is_written() -> None:
    x: Node = KernelBuilder("k").input("x", (4,), uint32)[0]
    assert repr((x ^ 3) << (x // x) | ~(x % x)) == "(((x[0] ^ 3) << (x[0] // x[0])) | not((x[0] % x[0])))"
    assert (x & 1).dtype is uint32 and (x.eq(0) & x.eq(1)).dtype is bool_


@pytest.mark.parametrize("way", ["llvm", "c", "opencl", "cuda", "interpreter"])
def test_high_products_and_rotations(way: str) -> None:
    """What counter-based random numbers are made of: the high half of a product by 64 bits, and rotation by two shifts."""
    x, y = operands("uint32")

    def results(x: Node, y: Node) -> list[Node]:
        return [((cast(x, uint64) * cast(y, uint64)) >> 32).cast(uint32), (x << 13) | (x >> 19)]

    got = value_kernels.run(value_kernels.pointwise(["uint32", "uint32"], len(x), results), [x, y], way)
    np.testing.assert_array_equal(got["y0"], ((x.astype(np.uint64) * y) >> np.uint64(32)).astype(np.uint32))
    np.testing.assert_array_equal(got["y1"], (x << np.uint32(13)) | (x >> np.uint32(19)))


def test_the_verifier_takes_them() -> None:
    """Inputs as a search draws them, compiled code between guard pages, and the whole output compared."""

    def results(x: Node, y: Node) -> list[Node]:
        small = cast(cast(x, float32) * 0.001, int32)
        return [
            x // (y & 31),
            x % y,
            small ^ 3,
            f.sin(cast(y, float32)),
            f.power(absolute(cast(x, float32)) + 0.5, 0.25 * cast(y % 8, float32)),
        ]

    kernel = value_kernels.pointwise(["uint16", "uint16"], 256, results)
    for opts in value_kernels.LANES.values():
        check_compiled(kernel, parse(opts))
        check_floats(kernel, parse(opts), targets.named("avx2"))


@pytest.mark.parametrize("way", ["next", "twice", "place", "both"])
def test_places_are_computed_in_the_type_of_what_was_read(way: str) -> None:
    """An index may be arithmetic of int32: of a number from memory, and of an axis that was cast."""
    kb = KernelBuilder("places")
    i = kb.axis("n", 24)
    x, at = kb.input("x", (200,), float32), kb.input("at", (24,), int32, range=(0, 90))
    place = {"next": at[i] + 1, "twice": at[i] * 2, "place": cast(i, int32) + 1, "both": (at[i] * 2 + cast(i, int32)) >> 1}[way]
    kb.store("y", float32, (24,), (i,), x[place])
    kernel = kb.build()
    for opts in ("[]", '[["UPCAST","n",8]]'):
        check_compiled(kernel, parse(opts))
        check_floats(kernel, parse(opts), targets.named("avx2"))


@pytest.mark.parametrize("name", ["int8", "uint8", "int16", "uint16", "int32", "uint32"])
def test_quotients_next_to_whole_numbers(name: str) -> None:
    """Vectors are divided as floats: x = q y + r with the smallest rests, up to the largest numbers, where a float has the fewest bits left."""
    info, rng = np.iinfo(name), np.random.default_rng(7)
    y = np.concatenate([rng.integers(1, int(info.max), 3000), rng.integers(1, 100, 3000), [1, 2, 3, info.max, info.max - 1, info.max // 2]])
    q = int(info.max) // y - rng.integers(0, 2, len(y)) * rng.integers(0, int(info.max) // y + 1)
    x = np.concatenate([np.clip(q * y + r, info.min, info.max) for r in (-1, 0, 1)]).astype(name)
    y = np.tile(y, 3).astype(name)
    if info.min:
        x, y = np.concatenate([x, -x, x, -x]), np.concatenate([y, y, -y, -y])
    kernel = value_kernels.pointwise([name, name], len(x), lambda a, b: [a // b, a % b])
    got = best(kernel, opts=parse(f"U{kernel.axes[0].arg.name}32"), threads=1)(x, y)
    np.testing.assert_array_equal(got[0], x // y)
    np.testing.assert_array_equal(got[1], x % y)


# Reductions, scans and scatters that combine integers bit by bit.


TARGET = targets.named("avx2")


def checksums() -> Kernel:
    """The xor of what a table has for each byte of a row, and which bits all of them share."""
    kb = KernelBuilder("checksums")
    i, j, k = kb.axis("m", 9), kb.axis("n", 37), kb.axis("n@all", 37)
    x, table = kb.input("x", (9, 37), uint8), kb.input("table", (256,), uint32)
    odd, shared = kb.reduce("xor", "odd", (i,), j, table[x[i, j]]), kb.reduce("and", "shared", (i,), k, x[i, k])
    kb.store("y", uint32, (9,), (i,), odd[i])
    kb.store("z", int32, (9,), (i,), shared[i])
    return kb.build()


def marked() -> Kernel:
    """Which bits any number of a row has had so far, and which bits the numbers of each class have."""
    kb = KernelBuilder("marked")
    i, j = kb.axis("m", 7), kb.axis("n", 21)
    x, of = kb.input("x", (7, 21), int16), kb.input("of", (7, 21), uint8, range=(0, 4))
    seen = kb.scan("or", "seen", (i, j), j, cast(x[i, j], int32))
    kb.store("y", int32, (7, 21), (i, j), seen[i, j])
    kb.store("z", int16, (5,), (i, j), x[i, j], (of[i, j],), combine="and")
    return kb.build()


@pytest.mark.many
@pytest.mark.parametrize("make", [checksums, marked], ids=lambda f: f.__name__)
def test_random_schedules_equal_the_reference(make: Callable[[], Kernel]) -> None:
    kernel = make()
    rng = random.Random(make.__name__)
    for n in range(5):
        opts = grow(kernel, TARGET, [rng.randrange(1 << 20) for _ in range(n)])
        check_twin(kernel, opts, TARGET, None, n)
    check_compiled(kernel, opts, TARGET, None, 2, 0)


def test_the_reference_is_numpys() -> None:
    rng = np.random.default_rng(0)
    x, table = rng.integers(0, 256, (9, 37), np.uint8), rng.integers(0, 1 << 32, 256, np.uint32)
    x |= 5
    got = evaluate(checksums(), {"x": x, "table": table})
    np.testing.assert_array_equal(got["y"], np.bitwise_xor.reduce(table[x], axis=1))
    np.testing.assert_array_equal(got["z"], np.bitwise_and.reduce(x, axis=1))
