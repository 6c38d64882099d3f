"""Generated kernels that hardly anybody writes: ten dimensions, forty operands, extents of 1 and of primes, empty sums, masks that
leave nothing, recurrences that no order of loops serves. `make(number)` is always the same kernel for a number: the number modulo
the count of `FORMS` chooses the form, and all else is drawn."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from tilewright.ir.builder import KernelBuilder
from tilewright.ir.dtypes import bfloat16, float16, float32, float64, int8, int16, int32, int64, uint8, uint32
from tilewright.ir.functions import absolute, exp, log1p, maximum, minimum, round_even, sigmoid, sin, sinh, sqrt, tan, where
from tilewright.ir.kernel import Kernel
from tilewright.ir.node import Node, const
from tilewright.ir.operators import cast

EXTENTS = (1, 1, 2, 3, 5, 7, 11, 13, 17)
TYPES = (float32, float32, float64, int32)


class Dice:
    """What a kernel is drawn with, and the builder that it is made with. `t`: the type of its main input."""

    def __init__(self, number: int) -> None:
        self.random = Random(f"odd/{number}")
        self.t = self.random.choice(TYPES)
        self.kb = KernelBuilder(f"strange{number}")

    def size(self, *more: int) -> int:
        """An extent, often 1 or a prime."""
        return self.random.choice((*EXTENTS, *more))

    def change(self, v: Node) -> Node:
        """A function of one number that keeps clear of overflow for the test data."""
        if self.t.is_int:
            return v * 3
        return self.random.choice([exp, sin, tan, sinh, lambda a: a * a, lambda a: log1p(absolute(a)), sigmoid])(v * 0.1)


Form = Callable[[Dice], None]


def ten_dimensions(d: Dice) -> None:
    """A sum over three of ten axes in some order, kept in another."""
    kb, extents = d.kb, [d.random.choice((1, 1, 2, 3)) for _ in range(10)]
    axes = [kb.axis(f"a{k}", n) for k, n in enumerate(extents)]
    x = kb.input("x", extents, d.t)
    shuffled = d.random.sample(axes, 10)
    over, kept = tuple(shuffled[:3]), tuple(shuffled[3:])
    s = kb.sum("s", kept, over, x[tuple(axes)])
    kb.store("y", d.t, tuple(a.arg.extent for a in kept), kept, s[kept] * 2)


def forty_operands(d: Dice) -> None:
    """Forty vectors, added or the larger taken."""
    kb, n = d.kb, d.size() * d.size()
    i = kb.axis("n", n)
    total = kb.input("x0", (n,), d.t)[i]
    for k in range(1, 40):
        v = kb.input(f"x{k}", (n,), d.t)[i]
        total = total + v if d.random.random() < 0.6 else maximum(total, v)
    kb.store("y", d.t, (n,), (i,), total)


def masks_of_nothing(d: Dice) -> None:
    """A condition that never holds inside a sum, and a store of no column, one, or all."""
    kb, m, n = d.kb, d.size(), d.size()
    i, j, k = kb.axis("m", m), kb.axis("n", n), kb.axis("k", n)
    x = kb.input("x", (m, n), d.t)
    s = kb.sum("s", (i,), k, where(k < -1, x[i, k], const(0, d.t)))
    kb.store("y", d.t, (m, n), (i, j), d.change(x[i, j]) + s[i], mask=j < d.random.choice((0, -3, n + 5, 1)))


def empty_sums(d: Dice) -> None:
    """Sums of no, one or two elements."""
    kb, m, n = d.kb, d.size(), d.random.choice((0, 0, 1, 2))
    i, k = kb.axis("m", m), kb.axis("k", n)
    x, z = kb.input("x", (m, n), d.t), kb.input("z", (m,), d.t)
    s = kb.sum("s", (i,), k, x[i, k])
    kb.store("y", d.t, (m,), (i,), s[i] + d.change(z[i]))


def down_then_across(d: Dice) -> None:
    """A scan along each of two axes: no order of loops is without a recurrence inside."""
    kb, m, n = d.kb, d.size(), d.size()
    i, j, k = kb.axis("m", m), kb.axis("n", n), kb.axis("n@r", n)
    x = kb.input("x", (m, n), d.t)
    u = kb.scan("add" if d.random.random() < 0.5 else "max", "u", (i, j), i, x[i, j])
    v = kb.scan("add", "v", (i, j), j, u[i, j])
    w = kb.sum("w", (i,), k, v[i, k])
    kb.store("y", d.t, (m, n), (i, j), v[i, j] - u[i, j] + w[i])


def each_needs_all(d: Dice) -> None:
    """Rows, columns and rows again: each reduction needs all of the one before."""
    kb, m, n = d.kb, d.size(), d.size()
    i, j = kb.axis("m", m), kb.axis("n", n)
    i1, j1, i2 = kb.axis("m@1", m), kb.axis("n@1", n), kb.axis("m@2", m)
    x = kb.input("x", (m, n), d.t)
    p = kb.sum("p", (i,), j1, x[i, j1])
    q = kb.max("q", (j,), i1, x[i1, j] - p[i1])
    z = kb.sum("z", (j,), i2, x[i2, j] * q[j])
    kb.store("y", d.t, (m, n), (i, j), p[i] + q[j] * z[j])


def to_one_and_back(d: Dice) -> None:
    """A whole array to one number, which every element reads."""
    kb, n = d.kb, d.size() * d.size()
    i, k = kb.axis("n", n), kb.axis("n@s", n)
    x = kb.input("x", (n,), d.t)
    s = kb.sum("s", (), k, x[k])
    kb.store("y", d.t, (n,), (i,), d.change(x[i]) - s[()])


def backwards(d: Dice) -> None:
    """Reads in reverse, by steps, and shifted."""
    kb, m, n = d.kb, d.size(), d.size()
    i, j = kb.axis("m", m), kb.axis("n", n)
    x = kb.input("x", (2 * m, 3 * n), d.t)
    kb.store("y", d.t, (n, m), (j, i), d.change(x[2 * m - 1 - 2 * i, 3 * j + 1]) + x[i + m // 2, n - 1 - j])


def meeting_rows(d: Dice) -> None:
    """A scatter into one row, or a few, where most meet."""
    kb, n, v, columns = d.kb, d.size(), d.random.choice((1, 2, 3)), d.size()
    i, j = kb.axis("n", n), kb.axis("d", columns)
    ids, x = kb.input("ids", (n,), int64, range=(0, v - 1)), kb.input("x", (n, columns), d.t)
    how = "add" if d.random.random() < 0.5 else "max"
    kb.store("y", d.t, (v, columns), (i, j), d.change(x[i, j]), indices=(ids[i], j), combine=how)


def several_stores(d: Dice) -> None:
    """Outputs of different extents, one of them of what the other adds up."""
    kb, m, n = d.kb, d.size(), d.size()
    i, j, k = kb.axis("m", m), kb.axis("n", n), kb.axis("n@s", n)
    x = kb.input("x", (m, n), d.t)
    v = kb.value("v", (i, j), d.change(x[i, j]))
    s = kb.sum("s", (i,), k, v[i, k])
    kb.store("y", d.t, (m, n), (i, j), v[i, j] + s[i])
    kb.store("z", d.t, (m,), (i,), s[i] * 2)


def mixed_types(d: Dice) -> None:
    """Short floats, bytes and words in one expression, stored as two other types."""
    kb, m, n = d.kb, d.size(), d.size(33)
    i, j, k, l = kb.axis("m", m), kb.axis("n", n), kb.axis("n@s", n), kb.axis("n@t", n)
    a, b = kb.input("a", (m, n), d.random.choice((float16, bfloat16))), kb.input("b", (m, n), int8, range=(-9, 9))
    c, e = kb.input("c", (n,), uint8), kb.input("e", (m,), int16, range=(-99, 99))
    s = kb.sum("s", (i,), k, cast(a[i, k], float32) * cast(b[i, k], float32))
    t = kb.sum("t", (i,), l, cast(b[i, l], int32) * cast(e[i], int32))
    kb.store("y", bfloat16, (m, n), (i, j), cast(s[i] + cast(c[j], float32), bfloat16))
    kb.store("z", int32, (m,), (i,), t[i] + cast(round_even(minimum(maximum(s[i], -100.0), 100.0)), int32))


def bits_and_tables(d: Dice) -> None:
    """Hashed words choose a row of a small table; a place that the data decides, read twice."""
    kb, n, v = d.kb, d.size() * d.size(), d.size()
    i = kb.axis("n", n)
    words, table = kb.input("words", (n,), uint32), kb.input("table", (v,), float32)
    mixed = (words[i] ^ (words[i] >> 7)) * 2654435 + 12345
    at = cast((mixed >> 3) & 0xFFFF, int64) % v
    kb.store("y", float32, (n,), (i,), table[at] + table[i % v] * sqrt(cast(mixed & 255, float32)))


def recurrence(d: Dice) -> None:
    """h[t] = a[t] · h[t − 1] + b[t] down the rows or along them, and the sum of what comes out."""
    kb, m, n = d.kb, d.size(), d.size()
    i, j, k = kb.axis("m", m), kb.axis("n", n), kb.axis("m@s", m)
    a, b = kb.input("a", (m, n), float32, range=(-0.9, 0.9)), kb.input("b", (m, n), float32)
    along = d.random.choice((i, j))
    _, h = kb.associative_scan(("p", "h"), (i, j), along, (a[i, j], b[i, j]), (1.0, 0.0), lambda x, y: (x[0] * y[0], x[1] * y[0] + y[1]))
    s = kb.sum("s", (j,), k, h[k, j])
    kb.store("y", float32, (m, n), (i, j), h[i, j])
    kb.store("z", float32, (n,), (j,), s[j])


FORMS: tuple[Form, ...] = (
    ten_dimensions, forty_operands, masks_of_nothing, empty_sums, down_then_across, each_needs_all, to_one_and_back, backwards,
    meeting_rows, several_stores, mixed_types, bits_and_tables, recurrence,
)  # fmt: skip


def make(number: int) -> Kernel:
    """The kernel of a number, at least 0."""
    dice = Dice(number)
    FORMS[number % len(FORMS)](dice)
    return dice.kb.build()
