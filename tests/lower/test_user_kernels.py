"""Kernels as users write them, under some random schedules: parts of one output, stores where data decides, names of all kinds."""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np
import pytest
from checks import check_compiled, check_floats, check_twin
from random_schedules import grow
from tilewright import devices, targets
from tilewright.ir import KernelBuilder, KernelError, OptError, exp, float32, int32, int64, rsqrt, where
from tilewright.ir.kernel import Kernel
from tilewright.lower import lower
from tilewright.opts import apply, parse
from tilewright.renderers import render

TARGET = targets.named("avx2")


def concatenated() -> Kernel:
    """Rows of x, sums over rows of w, and zeros: three stores to one output."""
    kb = KernelBuilder("concatenated")
    i, j, h, k = kb.axis("m", 7), kb.axis("n", 13), kb.axis("h", 5), kb.axis("k", 3)
    x, w = kb.input("x", (7, 13), float32), kb.input("w", (5, 13, 3), float32)
    s = kb.sum("s", (h, j), k, w[h, j, k])
    kb.store("y", float32, (14, 13), (i, j), exp(x[i, j]))
    kb.store("y", float32, (14, 13), (h, j), s[h, j], (h + 7, j))
    z = kb.axis("z", 2)
    kb.store("y", float32, (14, 13), (z, j), 0.0, (12 + z, j))
    return kb.build()


def interleaved() -> Kernel:
    """Pairs of a rotation: even and odd elements of one output."""
    kb = KernelBuilder("interleaved")
    i, j = kb.axis("m", 6), kb.axis("n", 11)
    x = kb.input("x", (6, 22), float32)
    kb.store("y", float32, (6, 22), (i, j), x[i, 2 * j] - x[i, 2 * j + 1], (i, 2 * j))
    kb.store("y", float32, (6, 22), (i, j), x[i, 2 * j] + x[i, 2 * j + 1], (i, 2 * j + 1))
    return kb.build()


def moved_by_data() -> Kernel:
    """Rows go where `to` says, and of two that go to one place the later stays."""
    kb = KernelBuilder("moved")
    i, j = kb.axis("m", 12), kb.axis("n", 9)
    x, to = kb.input("x", (12, 9), float32), kb.input("to", (12,), int32, range=(0, 7))
    kb.store("y", float32, (8, 9), (i, j), x[i, j] * 2.0, (to[i].cast(int64), j))
    return kb.build()


def dot_and_norm() -> Kernel:
    """Cosines between the rows of two arrays: three sums over one axis."""
    kb = KernelBuilder("dot_and_norm")
    i, j, a, b = kb.axis("m", 5), kb.axis("k@dot", 37), kb.axis("k@a", 37), kb.axis("k@b", 37)
    x, w = kb.input("x", (5, 37), float32), kb.input("w", (5, 37), float32)
    dot = kb.sum("work", (i,), j, x[i, j] * w[i, j])
    first, second = kb.sum("first", (i,), a, x[i, a] ** 2), kb.sum("second", (i,), b, w[i, b] ** 2)
    kb.store("float", float32, (5,), (i,), dot[i] * rsqrt(first[i] * second[i] + 1e-6))
    return kb.build()


KERNELS: tuple[Callable[[], Kernel], ...] = (concatenated, interleaved, moved_by_data, dot_and_norm)


@pytest.mark.many
@pytest.mark.parametrize("make", KERNELS, ids=lambda f: f.__name__)
def test_random_schedules_equal_the_reference(make: Callable[[], Kernel]) -> None:
    kernel = make()
    rng = random.Random(make.__name__)
    for n in range(6):
        opts = grow(kernel, TARGET, [rng.randrange(1 << 20) for _ in range(n + 1)])
        check_twin(kernel, opts, TARGET, None, n)
    check_floats(kernel, opts, TARGET, None, 0)
    check_compiled(kernel, opts, TARGET, None, 2, 0)


def test_parts_cannot_be_kept_as_one_tile() -> None:
    with pytest.raises(OptError, match="several stores write parts of y"):
        apply(concatenated(), parse([["STAGE", "y", {"at": "m"}]]), TARGET)


NAMES = ("work", "float", "main", "restrict", "kernel", "exp", "item", "bufs", "two words", "é", "x[0]", "a%b", "_")
"""Words of C, OpenCL and CUDA, of generated code, and no words at all."""


@pytest.mark.slow
@pytest.mark.parametrize("device", ["cpu", "cpu:c"])
def test_names_never_meet_those_of_generated_code(device: str) -> None:
    there = devices.get(device)
    for n, name in enumerate(NAMES):
        if device == "cpu:c" and n % 4:  # a C compiler takes its time
            continue
        other = NAMES[(n + 1) % len(NAMES)]
        kb = KernelBuilder(name)
        i, j = kb.axis(name, 3), kb.axis(other, 9)
        x = kb.input(name, (3, 9), float32)
        r = kb.sum(other, (i,), j, x[i, j])
        kb.store(f"{other}_", float32, (3,), i, r[i] * 2.0)
        for opts in ([], [["SPLIT", other, 3], ["PARALLEL", name]]):
            source = render(lower(apply(kb.build(), parse(opts), there.target)), there.target)
            exe = there.load(there.build(source), source.signature, 1)
            given, y = np.arange(27, dtype=np.float32).reshape(3, 9), np.zeros(3, np.float32)
            exe.run([given.ctypes.data, y.ctypes.data], [])
            exe.close()
            np.testing.assert_array_equal(y, 2 * given.sum(1))


def many_dimensions() -> Kernel:
    """Ten dimensions, three of one element, transposed, and sums over half of them."""
    kb = KernelBuilder("many_dimensions")
    sizes = (2, 1, 3, 2, 1, 2, 3, 1, 2, 2)
    axes = [kb.axis(f"d{n}", size) for n, size in enumerate(sizes)]
    over = [kb.axis(f"d{n}@r", sizes[n]) for n in range(1, 10, 2)]
    x, w = kb.input("x", sizes, float32), kb.input("w", (3, 3), float32)
    mixed = [over[n // 2] if n % 2 else axes[n] for n in range(10)]
    r = kb.sum("r", axes[::2], over, x[tuple(mixed)])
    kb.store("y", float32, sizes[::-1], axes, x[tuple(axes)] * w[axes[2], axes[6]] + r[tuple(axes[::2])], axes[::-1])
    return kb.build()


def many_operands() -> Kernel:
    """Forty arrays."""
    kb = KernelBuilder("many_operands")
    i, j = kb.axis("m", 3), kb.axis("n", 7)
    terms = [kb.input(f"x{n}", (3, 7), "float16" if n % 3 == 0 else "float32")[i, j] * float(n + 1) for n in range(39)]
    kb.store("y", float32, (3, 7), (i, j), sum(terms[1:], terms[0]))
    return kb.build()


def nothing_to_add() -> Kernel:
    """Sums and maxima over nothing, and masks that hold nowhere."""
    kb = KernelBuilder("nothing_to_add")
    i, k, t, j = kb.axis("m", 7), kb.axis("k", 0), kb.axis("k@t", 0), kb.axis("n", 11)
    a, b = kb.input("a", (7, 0), float32), kb.input("b", (7, 11), float32)
    s, top = kb.sum("s", (i,), k, a[i, k]), kb.max("top", (i,), t, a[i, t])
    r = kb.sum("r", (i,), j, b.masked((j < i) & (i < j), i, j))
    kb.store("y", float32, (7,), i, s[i] + where(top[i] < 0.0, 1.0, 2.0) + r[i])
    kb.store("never", float32, (7,), i, s[i], mask=i > 7)
    return kb.build()


def nothing_to_gather() -> Kernel:
    """A sum over nothing of what is read at places that are the same for all of nothing."""
    kb = KernelBuilder("nothing_to_gather")
    j, k = kb.axis("n", 5), kb.axis("k", 0)
    w, scale = kb.input("w", (5, 0), float32), kb.input("scale", (5, 0), float32)
    s = kb.sum("s", (j,), k, w[j, k] * scale[j, 2 * k // 4])
    kb.store("y", float32, (5,), j, s[j] + 1.0)
    return kb.build()


def packed_triangle() -> Kernel:
    """The lower triangle in rows one behind the other."""
    kb = KernelBuilder("packed_triangle")
    i, j = kb.axis("m", 9), kb.axis("n", 9)
    x = kb.input("x", (9, 9), float32)
    kb.store("y", float32, (45,), (i, j), x[i, j], (i * (i + 1) // 2 + j,), mask=j <= i)
    return kb.build()


@pytest.mark.many
@pytest.mark.parametrize(
    "make", [many_dimensions, many_operands, nothing_to_add, nothing_to_gather, packed_triangle], ids=lambda f: f.__name__
)
def test_kernels_at_the_edges(make: Callable[[], Kernel]) -> None:
    kernel = make()
    rng = random.Random(make.__name__)
    for n in range(2):
        opts = grow(kernel, TARGET, [rng.randrange(1 << 20) for _ in range(2 * n + 1)])
        check_twin(kernel, opts, TARGET, None, n)
    check_floats(kernel, opts, TARGET, None, 0)


def test_outputs_in_place_of_inputs() -> None:
    def step(shift: int) -> Kernel:
        kb = KernelBuilder("step")
        i = kb.axis("n", 20)
        p, g = kb.input("p", 20 + shift, float32), kb.input("g", 20, float32)
        new = kb.store("new", float32, 20 + shift, i, p[i + shift] - 0.1 * g[i])
        kb.in_place(new, p)
        return kb.build()

    assert [b.alias for b in step(0).outputs] == ["p"]
    check_twin(step(0), parse([["UPCAST", "n", 4]]), TARGET)
    with pytest.raises(KernelError, match="new cannot be written in place of p: p is read at"):
        step(1)
