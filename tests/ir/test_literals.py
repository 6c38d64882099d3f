"""Choices between numbers take the type of what they meet, and mean there what they meant."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from checks import check_compiled, check_floats, check_twin
from tilewright.ir import KernelBuilder, KernelError, bool_, cast, dtype, float32, float64, int32, int64, maximum, power, uint8, where
from tilewright.ir.evaluation import evaluate
from tilewright.ir.kernel import Kernel
from tilewright.ir.node import Node
from tilewright.ir.normal_form import canonical
from tilewright.opts import parse
from tilewright.targets import named

N = 37


def element(of: Any, name: str = "x") -> Node:
    kb = KernelBuilder("k")
    return kb.input(name, (N,), of)[kb.axis("n", N)]


WHOLE: dict[str, tuple[Callable[[Node, Node, Node], Node], Callable[[Any, Any, Any], Any]]] = {
    "nested": (lambda x, c, d: x + where(c, 89, where(d, 17, 1)), lambda x, c, d: x + np.where(c, 89, np.where(d, 17, 1))),
    "bits": (lambda x, c, d: (x << 1) ^ where(c, 0x1D, 0), lambda x, c, d: (x << 1) ^ np.where(c, 0x1D, 0)),
    "on the left": (lambda x, c, d: where(c, 100, 3) - x, lambda x, c, d: np.where(c, 100, 3) - x),
    "less than": (lambda x, c, d: x * (12 - where(c, 5, where(d, 12, 0))), lambda x, c, d: x * (12 - np.where(c, 5, np.where(d, 12, 0)))),
    "products": (lambda x, c, d: x + where(c, 3, 2) * where(d, 7, 9), lambda x, c, d: x + np.where(c, 3, 2) * np.where(d, 7, 9)),
    "shifted": (lambda x, c, d: x ^ (where(c, 1, 2) << where(d, 3, 0)), lambda x, c, d: x ^ (np.where(c, 1, 2) << np.where(d, 3, 0))),
    "divided": (lambda x, c, d: x + where(c, 47, 99) // 10 % 4, lambda x, c, d: x + np.where(c, 47, 99) // 10 % 4),
    "extremes": (
        lambda x, c, d: maximum(x, maximum(where(c, 5, 60), where(d, 7, 9))),
        lambda x, c, d: np.maximum(x, np.maximum(np.where(c, 5, 60), np.where(d, 7, 9))),
    ),
    "divisors": (lambda x, c, d: x // where(c, 7, 3), lambda x, c, d: x // np.where(c, 7, 3)),
    "chosen from": (lambda x, c, d: where(c, x, where(d, 4, 6)), lambda x, c, d: np.where(c, x, np.where(d, 4, 6))),
    "compared": (lambda x, c, d: where(x.eq(where(c, 4, 6)), x, 0), lambda x, c, d: np.where(x == np.where(c, 4, 6), x, 0)),
}
"""What is written, and the same in NumPy, of an integer and two conditions."""


@pytest.mark.parametrize("of", ["int8", "uint8", "int32", "uint32", "uint64"])
@pytest.mark.parametrize("what", WHOLE)
def test_whole_numbers(what: str, of: str) -> None:
    written, numpy = WHOLE[what]
    kb = KernelBuilder("whole")
    i = kb.axis("n", N)
    x, p, q = kb.input("x", (N,), of), kb.input("p", (N,), float32), kb.input("q", (N,), float32)
    said = written(x[i], p[i] > 0.0, q[i] > 0.5)
    assert said.dtype is dtype(of)
    kb.store("y", of, (N,), (i,), said)
    rng = np.random.default_rng(5)
    info = np.iinfo(of)
    inputs = {"x": rng.integers(info.min, info.max, N, of, endpoint=True), "p": rng.normal(size=N), "q": rng.normal(size=N)}
    want = numpy(inputs["x"].astype(object), inputs["p"] > 0, inputs["q"] > 0.5)
    bits = 8 * info.dtype.itemsize
    wrapped = [(int(v) - info.min) % (1 << bits) + info.min for v in want]
    np.testing.assert_array_equal(evaluate(kb.build(), inputs)["y"].astype(object), np.array(wrapped, object))


@pytest.mark.parametrize("of", ["float16", "bfloat16", "float32", "float64"])
def test_fractions(of: str) -> None:
    x, c = element(of), element(int32, "c") > 0
    compute = dtype(of).compute
    for said in (x * where(c, 0.1, 2.0), x + where(c, 1, 2), where(c, x, where(x > 0.0, 0.1, 3)), x / (where(c, 0.1, 2.0) * 2.0 + 1)):
        assert said.dtype is compute
    assert (x * where(c, 0.1, 2.0)).src[1] is where(c, *(cast(v, compute) for v in (0.1, 2.0)))  # 0.1 as that type has it
    if compute is float64:
        assert power(x, where(c, 2.0, 0.3)).dtype is float64


def test_a_fraction_makes_floats_of_whole_numbers() -> None:
    c, d = element(int32) > 0, element(int32, "d") > 0
    for said in (where(c, 1, 2) * 0.5, where(c, 0.5, where(d, 1, 2)), where(c, 1, 2) + where(d, 0.5, 0.25)):
        assert said.dtype is float32


def test_what_meets_no_type_keeps_its_own() -> None:
    c = element(int32) > 0
    assert where(c, 1, 2).dtype is int64 and where(c, 0.5, 2).dtype is float32 and where(c, True, False).dtype is bool_
    assert cast(where(c, 1, 2), int32).op == "cast"  # as before: keys of kernels hold it


def test_conditions_on_axes() -> None:
    """They are written as remainders and extremes of the axis, and are choices of numbers all the same."""
    kb = KernelBuilder("weights")
    i = kb.axis("n", N)
    x = kb.input("x", (N,), int32, range=(-9, 9))
    kb.store("y", int32, (N,), (i,), x[i] * where(i.eq(0), 1, 2) + (3 - where(i < N - 1, 2, where(i > 40, 7, 1))))
    at = np.arange(N)
    inputs = {"x": np.arange(N, dtype=np.int32) % 7}
    np.testing.assert_array_equal(
        evaluate(kb.build(), inputs)["y"], inputs["x"] * np.where(at == 0, 1, 2) + (3 - np.where(at < N - 1, 2, np.where(at > 40, 7, 1)))
    )


def test_choices_that_are_none() -> None:
    """A choice that is written as one of its ends must not be remembered as what that end was."""
    kb = KernelBuilder("k")
    i = kb.axis("n", N)
    x, c = element(int32), element(int32, "c") > 0
    one = where(i.eq(0), 1, 1)
    assert one.op == "const" and (x + where(c, 1, 7)).dtype is int32
    choice = where(c, 0, 3)
    same = where(choice.eq(0), 0, choice)
    assert (x + same).dtype is int32 and (x + choice).dtype is int32 and (x + (where(same < 2, 5, same) + 3)).dtype is int32


def test_what_a_type_lacks_is_an_error() -> None:
    x, c = element(uint8), element(int32, "c") > 0
    kb = KernelBuilder("k")
    i = kb.axis("n", N)
    for said in (
        lambda: x ^ where(c, 300, 0),
        lambda: x + where(c, -1, 0),
        lambda: x + where(c, 200, 0) * 2,
        lambda: x + where(c, i, 0),
        lambda: x + i,
        lambda: x + cast(3, int64),
        lambda: x * where(c, 0.5, 1.0),
        lambda: x * where(c, 1.0, 2.0),
        lambda: (x > 3) & where(c, 1, 0),
    ):
        with pytest.raises(KernelError, match=r"cast|types|bool"):
            said()
    with pytest.raises(KernelError, match="meets an index"):
        where(c, i, 0) * 0.5


def test_long_choices() -> None:
    """A table written as a choice; arithmetic is worked out for short ones only, and no expression is too deep."""
    x = element(uint8)
    table: Any = 1
    for k in range(4000):
        table = where(x.eq(k % 256), k % 256, table)
    assert (x ^ table).dtype is uint8
    with pytest.raises(KernelError, match="xor of uint8 and int64"):
        x ^ (table + 1)


def multiplied(typed: bool) -> Kernel:
    """A product in GF(2⁸) with 2, as AES has it, and a weight by place."""
    kb = KernelBuilder("multiplied")
    i = kb.axis("n", 64)
    x = kb.input("x", (64,), uint8)
    low = where(x[i] >= 128, cast(0x1D, uint8), cast(0, uint8)) if typed else where(x[i] >= 128, 0x1D, 0)
    kb.store("y", uint8, (64,), (i,), (x[i] << 1) ^ low)
    return kb.build()


def test_as_if_each_number_were_cast() -> None:
    assert canonical(multiplied(True)).text == canonical(multiplied(False)).text
    for opts in ("(none)", "Un32"):
        check_twin(multiplied(False), parse(opts), named("avx2"))
        check_floats(multiplied(False), parse(opts), named("avx2"))
    check_compiled(multiplied(False), parse("Un32"))


@pytest.mark.parametrize("kept", [lambda i: 0.75, lambda i: where(i.eq(3), 0.0, 0.75), lambda i: where(i < 5, 1, where(i < 9, 0.5, 0.25))])
@pytest.mark.parametrize("of", [float32, float64])
def test_elements_of_a_scan_of_tuples(kept: Callable[[Node], Any], of: Any) -> None:
    """Numbers beside another element have its type: a decay that the state begins anew with."""
    kb = KernelBuilder("k")
    i = kb.axis("n", N)
    x = kb.input("x", (N,), of)

    def rule(a: Any, b: Any) -> tuple[Node, Node]:
        return a[0] * b[0], a[1] * b[0] + b[1]

    _, h = kb.associative_scan(("p", "h"), (i,), i, (kept(i), x[i]), (1.0, 0.0), rule)
    assert h.dtype is of
    kb.store("y", of, (N,), (i,), h[i])
    kernel = kb.build()
    for text in ("(none)", "Un8"):
        check_twin(kernel, parse(text), named("avx2"))
        check_floats(kernel, parse(text), named("avx2"))
