"""What people write by mistake in a kernel's file, and the words they get."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tilewright.ir import KernelBuilder, KernelError, cast, const, float32, float64, int8, int32, uint8, where
from tilewright.ir.kernel import Kernel

Write = Callable[[KernelBuilder, Any, Any, Any], Any]
SHAPE = (8, 16)


def kernel(write: Write) -> Kernel:
    """`write(kb, i, j, x)` stores y[i, j] of what it returns, unless it returns None."""
    kb = KernelBuilder("k")
    i, j = kb.axis("m", 8), kb.axis("n", 16)
    x = kb.input("x", SHAPE, float32)
    found = write(kb, i, j, x)
    if found is not None:
        kb.store("y", float32, SHAPE, (i, j), found)
    return kb.build()


def rowsum(kb: KernelBuilder, i: Any, j: Any, x: Any) -> Any:
    return kb.sum("r", (i,), j, x[i, j])


def read_back(kb: KernelBuilder, i: Any, j: Any, x: Any) -> Any:
    y = kb.store("z", float32, SHAPE, (i, j), x[i, j])
    return y[i, j] + 1.0


def recurrence(kb: KernelBuilder, axes: Any, along: Any, x: Any, names: Any = ("p", "h"), start: Any = (0, 0), rule: Any = None) -> Any:
    rule = rule or (lambda a, b: (a[0] + b[0], a[1] + b[1]))
    return kb.associative_scan(names, axes, along, (x, x), start, rule)[1][axes]


def in_two(kb: KernelBuilder, i: Any, j: Any, x: Any) -> None:
    w = kb.input("w", SHAPE, float32)
    z = kb.store("z", float32, SHAPE, (i, j), x[i, j] + w[i, j])
    kb.in_place(z, x)
    kb.in_place(z, x)  # once more is the same
    kb.in_place(z, w)


WORDS: dict[str, tuple[Write, str]] = {
    "==": (lambda kb, i, j, x: where(x[i, j] == 0, 1.0, 2.0), r"where\(\): False is a Python bool.*x\[i\]\.eq\(0\)"),
    "!=": (lambda kb, i, j, x: cast(x[i, j] != 0, float32), r"cast\(\): True is a Python bool"),
    "== and &": (lambda kb, i, j, x: where((x[i, j] > 0) & (x[i, j] == 1), 1.0, 2.0), "&: False is a Python bool"),
    "a mask by ==": (lambda kb, i, j, x: kb.store("y", float32, SHAPE, (i, j), x[i, j], mask=j == 3) and None, "the mask of y is the Python bool"),
    "if": (lambda kb, i, j, x: x[i, j] if x[i, j] > 0 else 0.0, "has no truth value: use where"),
    "max()": (lambda kb, i, j, x: max(x[i, j], 0.0), r"maximum\(\) and minimum\(\)"),
    "a number as condition": (lambda kb, i, j, x: where(x[i, j], 1.0, 2.0), "float32, not a condition"),
    "math.exp": (lambda kb, i, j, x: math.exp(x[i, j]), "needs a number, and x.m, n. has none yet"),
    "np.exp": (lambda kb, i, j, x: np.exp(x[i, j]), "np.exp is for arrays.*use exp of tilewright.ir"),
    "round()": (lambda kb, i, j, x: round(x[i, j]), "use round_even"),
    "an array": (lambda kb, i, j, x: x[i, j] * np.ones(3), r"an array of shape \(3,\) is no part"),
    "the whole input": (lambda kb, i, j, x: x * 2.0, r"x is a whole array; index it"),
    "the whole value": (lambda kb, i, j, x: rowsum(kb, i, j, x) + 1.0, r"r is a whole value; index it"),
    "storing a value": (lambda kb, i, j, x: rowsum(kb, i, j, x), r"the store to y: r is a whole value"),
    "an assignment": (lambda kb, i, j, x: x.__setitem__((i, j), 1.0), "not written by assignments"),
    "a slice": (lambda kb, i, j, x: x[i, :], "not with a slice"),
    "a float index": (lambda kb, i, j, x: x[i, 0.5], "x is indexed with 0.5, which is float32"),
    "too few indices": (lambda kb, i, j, x: x[i], "x has 2 dimensions and was indexed with 1"),
    "names of axes": (lambda kb, i, j, x: kb.sum("r", ("m",), "n", x[i, j])[i], r"value r: 'm' is a text; give the axis that kb.axis\('m'"),
    "names as indices": (lambda kb, i, j, x: x["m", "n"], "'m' is a text"),
    "a place as axis": (lambda kb, i, j, x: kb.store("h", float32, (9,), (x[i, j].cast(int32),), 1.0, combine="add"), r"first, and places as indices=\("),
    "a number as axis": (lambda kb, i, j, x: kb.sum("r", (i,), 1, x[i, j])[i], "1 is no axis"),
    "an axis twice": (lambda kb, i, j, x: kb.store("y", float32, (8, 8), (i, i), x[i, 0]), r"axis m is there twice"),
    "reducing over an own axis": (lambda kb, i, j, x: kb.sum("r", (i, j), j, x[i, j])[i, j], "reduces over n, which is one of its own"),
    "reading an output": (read_back, r"reads z, which is an output and holds nothing yet: .* v = kb.value"),
    "a float extent": (lambda kb, i, j, x: kb.axis("k", 16 / 2), r"the extent of axis k is 8.0, a float; give 8"),
    "a negative extent": (lambda kb, i, j, x: kb.axis("k", -3), "-3, which is negative"),
    "a text as extent": (lambda kb, i, j, x: kb.axis("k", "8"), "'8', a str; give an int"),
    "a bool as extent": (lambda kb, i, j, x: kb.axis("k", True), "the extent of axis k is True"),
    "a negative shape": (lambda kb, i, j, x: kb.input("w", (4, -8), float32), "dimension 1 of w is -8"),
    "Python's float": (lambda kb, i, j, x: kb.input("w", (4,), float), "w: Python's float has no size; give float32 or float64"),
    "complex": (lambda kb, i, j, x: kb.input("w", (4,), np.complex64), "w: unknown dtype 'complex64'; use one of"),
    "a list of numbers": (lambda kb, i, j, x: x[i, j] * [0.5, 1.5][j], "make a list or an array of numbers an input"),
    "two whole numbers": (lambda kb, i, j, x: where(x[i, j] > 0.0, 2, -1) + const(1, uint8), r"add of int64 and uint8: cast one of them, as in cast\(where"),
    "a condition times": (lambda kb, i, j, x: (x[i, j] > 0.0) * x[i, j], r"mul of bool and float32: .* where\(condition, x, 0\)"),
    "beyond a value's end": (lambda kb, i, j, x: kb.scan("add", "t", (i, j), j, x[i, j])[i, j - 1], r"as in t\[maximum\(i - 1, 0\)\]"),
    "an axis that nothing binds": (lambda kb, i, j, x: kb.sum("r", (), i, x[i, j])[()], "uses n, which it does not bind: give it among its axes"),
    "bits of floats": (lambda kb, i, j, x: kb.reduce("xor", "r", (i,), j, x[i, j])[i], "value r: 'xor' of float32; cast it to an integer type"),
    "bits into floats": (lambda kb, i, j, x: kb.reduce("and", "r", (i,), j, i * j, float32)[i], "value r: 'and' of float32; cast it"),
    "a scan along two axes": (lambda kb, i, j, x: kb.scan("add", "s", (i, j), (i, j), x[i, j])[i, j], r"goes along m, n, .* one axis: scan along m, and"),
    "a scan along no axis": (lambda kb, i, j, x: kb.scan("add", "s", (i, j), (), x[i, j])[i, j], "scan s goes along no axis"),
    "tuples along two axes": (lambda kb, i, j, x: recurrence(kb, (i, j), (i, j), x[i, j]), "scan p, h goes along m, n, "),
    "one name for a tuple": (lambda kb, i, j, x: recurrence(kb, (i, j), j, x[i, j], "ph"), "the names of a scan of tuples: 'ph' is no tuple"),
    "one identity": (lambda kb, i, j, x: recurrence(kb, (i, j), j, x[i, j], start=0.0), "the identity of scan p, h: 0.0 is no tuple"),
    "a rule of one": (lambda kb, i, j, x: recurrence(kb, (i, j), j, x[i, j], rule=lambda a, b: a[0] + b[0]), "the rule of scan p, h gives: .* is no tuple"),
    "a rule of another type": (
        lambda kb, i, j, x: recurrence(kb, (i, j), j, cast(x[i, j], int32), rule=lambda a, b: (a[0] + b[0], cast(a[1] + b[1], float32))),
        "component 1 of the rule of scan p, h is float32, and the elements are int32: cast it",
    ),
    "a number as mask of a load": (lambda kb, i, j, x: x.masked(x[i, j], i, j), "the mask of x is x.m, n., which is float32 and not a condition"),
    "== as mask of a load": (lambda kb, i, j, x: x.masked(j == 0, i, j), "the mask of x: False is a Python bool"),
    "a number as mask of a store": (lambda kb, i, j, x: kb.store("z", float32, SHAPE, (i, j), x[i, j], mask=1)[0], "the mask of z is 1, which is int64"),
    "a float index of a value": (lambda kb, i, j, x: kb.value("v", (i,), x[i, 0])[x[i, j]], "v is indexed with x.m, n., which is float32"),
    "a condition as index": (lambda kb, i, j, x: kb.value("v", (i,), x[i, 0])[i > 0], r"v is indexed with \(0 < m\), which is bool"),
    "in place of two": (in_two, "z is to lie in x and in w; an output lies in one input"),
    "in place of a name": (lambda kb, i, j, x: kb.in_place("z", "x"), "in_place: the output is 'z'; give what kb.store"),  # type: ignore[arg-type]
    "sum for add": (lambda kb, i, j, x: kb.reduce("sum", "r", (i,), j, x[i, j])[i], "value r: unknown combine 'sum'; use 'add'"),
    "a dot in a name": (lambda kb, i, j, x: kb.axis("n.s", 3), "names with a dot"),
    "no name": (lambda kb, i, j, x: kb.axis("", 3), "the name of an axis is ''"),
    "a range upside down": (lambda kb, i, j, x: kb.input("w", (4,), float32, range=(5, 1)), "range of w is 5.0..1.0, which is empty"),
    "a range that does not fit": (lambda kb, i, j, x: kb.input("w", (4,), uint8, range=(-3, 300)), "uint8 holds 0..255"),
    "an endless range": (lambda kb, i, j, x: kb.input("w", (4,), float32, range=(0, math.inf)), "its ends must be finite"),
    "another shape for an output": (lambda kb, i, j, x: [kb.store("y", float32, (16, 16), (i, j), x[i, j]), x[i, j]][1], "in an earlier store"),
}  # fmt: skip


@pytest.mark.parametrize("what", WORDS)
def test_words(what: str) -> None:
    write, said = WORDS[what]
    with pytest.raises(KernelError, match=said):
        kernel(write)


def test_types_and_numbers_of_numpy() -> None:
    n = np.int64(8)
    kb = KernelBuilder("k")
    i = kb.axis("m", n)
    x, q = kb.input("x", n, np.float32), kb.input("q", (n,), np.dtype("int8"))
    r = kb.sum("r", (), i, np.float32(2) * x[i] + q[i].cast(np.float32), np.float64)
    kb.store("y", "float32", (n,), i, np.float32(1.5) * x[i] - r[()].cast(np.float32) + np.float64(3))
    made = kb.build()
    assert [b.dtype for b in made.buffers] == [float32, int8, float32] and made.values["r"].dtype is float64
    assert made.inputs[0].shape == (8,) and made.stores[0].axes == (i,)


def test_numbers_on_both_sides_of_where_have_one_type() -> None:
    assert where(const(True), 1, 0.5).dtype is float32 and where(const(True), 1, 0).dtype.is_int


def test_powers_are_products_and_roots() -> None:
    kb = KernelBuilder("k")
    i = kb.axis("m", 8)
    x = kb.input("x", (8,), float32)
    assert (x[i] ** 2) is x[i] * x[i] and (x[i] ** -1) is 1.0 / x[i]
    assert repr(x[i] ** 0.5) == "sqrt(x[m])" and repr(x[i] ** -0.5) == "(1 / sqrt(x[m]))"
    assert abs(x[i]).op == "abs" and (i**2) is i * i and repr(x[i] ** 1.7) == "pow(x[m], 1.7)"
    root = "sqrt(x[m])"
    assert repr(x[i] ** 1.5) == f"(x[m] * {root})" and repr(x[i] ** -0.25) == f"(1 / sqrt({root}))"
    assert repr(x[i] ** 2.75) == f"((x[m] * x[m]) * ({root} * sqrt({root})))"
