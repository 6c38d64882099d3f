"""Which outputs may be written over an input, and what it changes: the code, and not the key."""

from __future__ import annotations

import pytest
from tilewright import named_kernels
from tilewright.ir import Kernel, KernelBuilder, KernelError, float32, float64, int32, int64, sym
from tilewright.ir.functions import exp
from tilewright.ir.kernel import kernel_text
from tilewright.ir.normal_form import canonical, normalise
from tilewright.ir.rewriter import in_place, resized, with_constants, without_aliases


def made(write, dtype=float32, shape=(8, 6), more=0) -> Kernel:
    """A kernel over two inputs x and w; `write(kb, i, j, x, w)` stores."""
    kb = KernelBuilder("made")
    i, j = kb.axis("m", 8), kb.axis("n", 6)
    x, w = kb.input("x", (8 + more, 6), float32), kb.input("w", shape, dtype)
    write(kb, i, j, x, w)
    return kb.build()


def plain(kb, i, j, x, w, **more):
    kb.store("y", float32, (8, 6), (i, j), x[i, j] * 2.0 + w[i, j], **more)


def test_the_key_is_the_same_and_the_identity_another():
    kernel = made(plain)
    over = in_place(kernel, {"y": "x"})
    assert canonical(over).hash == canonical(kernel).hash and canonical(over).identity != canonical(kernel).identity
    assert canonical(in_place(kernel, {"y": "w"})).identity != canonical(over).identity
    assert canonical(without_aliases(over)).identity == canonical(kernel).identity
    assert [b.alias for b in normalise(over).outputs] == ["x"] and "out y: float32[8, 6], may lie in x" in kernel_text(over)
    assert without_aliases(kernel) is kernel and in_place(kernel, {}) is kernel


def test_values_are_looked_through():
    def write(kb, i, j, x, w):
        k = kb.axis("n@r", 6)
        s = kb.sum("s", (i,), k, w[i, k])
        v = kb.value("v", (i, j), exp(x[i, j]) * s[i])
        a, b = kb.axis("m@v", 8), kb.axis("n@v", 6)
        u = kb.value("u", (b, a), v[a, b] + x[a, b])
        kb.store("y", float32, (8, 6), (i, j), u[j, i] - x[i, j], mask=w[i, j] > 0.0)

    in_place(made(write), {"y": "x"})


def test_symbols_and_indices_of_several_axes():
    kb = KernelBuilder("made")
    n = sym("n", 1, 9)
    i, h, e = kb.axis("m", n), kb.axis("h", 3), kb.axis("e", 4)
    x = kb.input("x", (n, 12), float32)
    kb.store("y", float32, (n, 12), (i, h, e), x[i, h * 4 + e] + 1.0, (i, h * 4 + e))
    in_place(kb.build(), {"y": "x"})


def reduced(kb, i, j, x, w):
    k = kb.axis("n@r", 6)
    s = kb.sum("s", (i,), k, x[i, k])
    kb.store("y", float32, (8, 6), (i, j), x[i, j] / s[i])


def scanned(kb, i, j, x, w):
    c = kb.scan("add", "c", (i, j), j, x[i, j])
    kb.store("y", float32, (8, 6), (i, j), c[i, j])


def through_a_value(kb, i, j, x, w):
    a, b = kb.axis("m@v", 8), kb.axis("n@v", 6)
    v = kb.value("v", (a, b), x[a, b] * 2.0)
    kb.store("y", float32, (8, 6), (i, j), v[i, 5 - j])


def twice(kb, i, j, x, w):
    plain(kb, i, j, x, w)
    a, b = kb.axis("m@z", 8), kb.axis("n@z", 6)
    kb.store("z", float32, (8, 6), (a, b), x[a, b])


def by_data(kb, i, j, x, w):
    ids = kb.input("ids", (8,), int32, range=(0, 7))
    kb.store("y", float32, (8, 6), (i, j), x[i, j] * w[i, j], (ids[i].cast(int64), j))


def scattered(kb, i, j, x, w):
    kb.store("y", float32, (8, 6), (i, j), x[i, j], combine="add")


WRONG = {
    "a neighbour": (lambda kb, i, j, x, w: kb.store("y", float32, (8, 6), (i, j), x[i, 5 - j]), "x is read at .* for the element"),
    "a neighbour of a value": (through_a_value, "x is read at .* for the element"),
    "a reduction": (reduced, "s combines elements of x, which might be read after they are written"),
    "a scan": (scanned, "c combines elements of x"),
    "another output": (twice, "z needs x too, and might be computed later"),
    "where data says": (by_data, "do not show that every element is written once"),
    "a scatter": (scattered, "written by more than one plain store"),
}  # fmt: skip


@pytest.mark.parametrize("what", WRONG)
def test_what_some_schedule_could_break_is_refused(what):
    write, said = WRONG[what]
    kernel = made(write)
    with pytest.raises(KernelError, match=rf"kernel made: y cannot be written in place of x.*{said}"):
        in_place(kernel, {"y": "x"})


def test_unfit_inputs_are_refused():
    kernel = made(plain)
    for aliases, said in (
        ({"y": "v"}, r"in place of v, which is not an input \(inputs: x, w\)"),
        ({"y": "y"}, "in place of y, which is not an input"),
        ({"z": "x"}, r"made has no output 'z' that could be in place \(outputs: y\)"),
    ):
        with pytest.raises(KernelError, match=said):
            in_place(kernel, aliases)
    with pytest.raises(KernelError, match="x, which is constant"):
        in_place(with_constants(kernel, ["x"]), {"y": "x"})
    with pytest.raises(KernelError, match=r"one is float32\[9, 6\], the other float32\[8, 6\]"):
        in_place(made(plain, more=1), {"y": "x"})
    wide = made(lambda kb, i, j, x, w: kb.store("y", float32, (8, 6), (i, j), x[i, j]), dtype=float64)
    with pytest.raises(KernelError, match="one is float64"):
        in_place(wide, {"y": "w"})

    def both(kb, i, j, x, w):
        plain(kb, i, j, x, w)
        a, b = kb.axis("m@z", 8), kb.axis("n@z", 6)
        kb.store("z", float32, (8, 6), (a, b), w[a, b] * 1.0)

    with pytest.raises(KernelError, match="z cannot be written in place of x: y is already"):
        in_place(made(both), {"y": "x", "z": "x"})


def test_an_input_that_decides_places_is_refused():
    kb = KernelBuilder("places")
    i = kb.axis("m", 8)
    x = kb.input("x", (8,), int32, range=(0, 7))
    kb.store("y", int32, (8,), (i,), x[i], (x[i],))
    with pytest.raises(KernelError, match="y cannot be written in place of x"):
        in_place(kb.build(), {"y": "x"})


# Kernels whose symbolic size gets a narrower range, or a value.


@pytest.mark.parametrize("name, symbol, rest", [("matmul", "m", {"n": 8, "k": 5}), ("softmax", "n", {"m": 6}), ("cumsum", "n", {"m": 3})])
def test_a_resized_kernel_is_the_kernel_of_that_size(name: str, symbol: str, rest: dict[str, int]) -> None:
    """So what is tuned for a part of a range is found by whoever asks for it."""
    whole = named_kernels.make(name, {symbol: sym(symbol, 1, 100), **rest}, "float32")
    part = named_kernels.make(name, {symbol: sym(symbol, 10, 20), **rest}, "float32")
    one = named_kernels.make(name, {symbol: 7, **rest}, "float32")
    assert canonical(normalise(resized(whole, {symbol: (10, 20)}))).hash == canonical(normalise(part)).hash
    assert canonical(normalise(resized(whole, {symbol: (7, 7)}))).hash == canonical(normalise(one)).hash
    assert canonical(normalise(whole)).hash != canonical(normalise(part)).hash


def test_what_is_no_part_is_refused() -> None:
    whole = named_kernels.make("matmul", {"m": sym("m", 4, 100), "n": 8, "k": 5}, "float32")
    with pytest.raises(KernelError, match="no part of"):
        resized(whole, {"m": (1, 50)})
    with pytest.raises(KernelError, match="no symbol"):
        resized(whole, {"n": (1, 5)})
