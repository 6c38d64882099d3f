"""An index that leaves its dimension is an error of the kernel, before axes merge and hide it; what cannot be told is
found when it is evaluated."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import tilewright as tw
from hypothesis import given, settings
from hypothesis import strategies as st
from tilewright import OutOfRangeError, named_kernels
from tilewright.ir import Kernel, KernelBuilder, KernelError, cast, const, exp, float32, int8, int32, int64, sym, uint8, where
from tilewright.ir.checks.access_bounds import Access, proved, search
from tilewright.ir.checks.operand_ranges import operand_ranges
from tilewright.ir.dtypes import bool_
from tilewright.ir.evaluation import evaluate
from tilewright.ir.normal_form import normalise


def copy(read, shape=(6, 5), x_shape=None, out=None, y_shape=None, mask=None):
    """y[out(i, j)] = x[read(i, j)] over i < shape[0], j < shape[1]."""
    kb = KernelBuilder("copy")
    i, j = kb.axis("m", shape[0]), kb.axis("n", shape[1])
    x = kb.input("x", x_shape or shape, float32)
    kb.store(
        "y", float32, y_shape or shape, (i, j), read(x, i, j), None if out is None else out(i, j), mask=None if mask is None else mask(i, j)
    )
    return kb.build()


def plain(x, i, j):
    return x[i, j]


def test_the_next_row_is_not_the_end_of_this_one():
    # m + 1 rows: the flat buffer holds every element that is read
    message = r"kernel copy: the store to y reads outside of x: in dimension 1, which has 5 elements, the index .n . 1. runs over 1\.\.5 and is 5 at n = 4; give x"
    with pytest.raises(KernelError, match=message):
        copy(lambda x, i, j: x[i, j + 1], x_shape=(7, 5))


@pytest.mark.parametrize(
    ("read", "x_shape"),
    [
        (lambda x, i, j: x[i, j - 1], (7, 5)),
        (lambda x, i, j: x[j, i], (6, 5)),
        (lambda x, i, j: x[i + 1, j], (6, 5)),
        (lambda x, i, j: x[i, 2 * j], (6, 8)),
        (lambda x, i, j: x[i, (i + j) % 6], (6, 5)),
        (lambda x, i, j: x[i, const(5)], (6, 5)),
        (lambda x, i, j: x[i, const(-1)], (6, 5)),
        (lambda x, i, j: x[i, i * j // 4], (6, 5)),
        (lambda x, i, j: where(j < 4, x[i, j + 1], 0.0), (6, 5)),
        (lambda x, i, j: x.masked(j + 1 <= 5, i, j + 1), (6, 5)),
        (lambda x, i, j: x.masked((j > 0) | (i > 0), i, j - 1), (6, 5)),
        (lambda x, i, j: x.masked(~(j < 4), i, j + 1), (6, 5)),
        (lambda x, i, j: x.masked((i + j - 3 >= 0) & (i + j - 3 <= 5), i, i + j - 3), (6, 5)),
    ],
)
def test_reads_that_leave_their_buffer(read, x_shape):
    with pytest.raises(KernelError, match=r"reads outside of x: in dimension [01]"):
        copy(read, x_shape=x_shape)


@pytest.mark.parametrize(
    ("read", "x_shape"),
    [
        (lambda x, i, j: x.masked(j < 4, i, j + 1), (6, 5)),
        (lambda x, i, j: x.masked(j >= 1, i, j - 1), (6, 5)),
        (lambda x, i, j: x.masked((j > 0) & (i > 0) & (j < 5), i - 1, j - 1), (6, 5)),
        (lambda x, i, j: x.masked(~((i + j < 3) | (i + j > 7)), i, i + j - 3), (6, 5)),
        (lambda x, i, j: x.masked((i + j).eq(7), i, i + j - 4), (6, 5)),
        (lambda x, i, j: x[i, (i + j) % 5], (6, 5)),
        (lambda x, i, j: x[(i * 5 + j) // 5, (i * 5 + j) % 5], (6, 5)),
        (lambda x, i, j: x[i, (i * j) % 7 // 2], (6, 4)),
        (lambda x, i, j: x[5 - i, 4 - j], (6, 5)),
    ],
)
def test_reads_that_stay_inside(read, x_shape):
    k = copy(read, x_shape=x_shape)
    assert not k.unproved
    x = np.arange(x_shape[0] * x_shape[1], dtype=np.float32)
    normal = normalise(k)
    got = evaluate(normal, {"x": x.reshape([int(d) for d in normal.inputs[0].shape])})["y"].ravel()
    np.testing.assert_array_equal(got, evaluate(k, {"x": x.reshape(x_shape)})["y"].ravel())


@pytest.mark.parametrize(
    ("out", "y_shape", "mask"),
    [
        (lambda i, j: (i, j + 1), (7, 5), None),
        (lambda i, j: (i, j), (6, 4), None),
        (lambda i, j: (j, i), (6, 5), None),
        (lambda i, j: (i - 1, j), (6, 5), None),
        (lambda i, j: (i, j + 1), (6, 5), lambda i, j: j < 5),
    ],
)
def test_stores_that_leave_their_buffer(out, y_shape, mask):
    with pytest.raises(KernelError, match=r"the store to y leaves y: in dimension [01], .* or store under a mask"):
        copy(plain, out=out, y_shape=y_shape, mask=mask)


def test_a_masked_store_stays_inside():
    assert not copy(plain, out=lambda i, j: (i, j + 1), mask=lambda i, j: j < 4).unproved


def test_values_have_sizes_too():
    kb = KernelBuilder("k")
    i, j = kb.axis("m", 6), kb.axis("n", 5)
    x = kb.input("x", (6, 5), float32)
    v = kb.value("v", (i, j), exp(x[i, j]))
    kb.store("y", float32, (6, 5), (i, j), v[i, j + 1])
    with pytest.raises(KernelError, match="reads outside of v: in dimension 1, which has 5 elements"):
        kb.build()


def test_reductions_and_windows():
    def window(reach, mask=None):
        kb = KernelBuilder("k")
        i, r = kb.axis("m", 6), kb.axis("r", 3)
        x = kb.input("x", (6 + reach,), float32)
        e = x[i + r] if mask is None else x.masked(mask(i + r), i + r)
        kb.store("y", float32, (6,), (i,), kb.sum("s", (i,), r, e)[i])
        return kb.build()

    assert not window(2).unproved
    assert not window(0, lambda at: at < 6).unproved
    with pytest.raises(KernelError, match=r"value s reads outside of x: .* runs over 0\.\.7 and is 7 at"):
        window(1)
    with pytest.raises(KernelError, match=r"runs over 0\.\.7 where its mask holds and is 6 at"):
        window(0, lambda at: at < 7)


def test_symbolic_sizes():
    n = sym("n", 1, 512)

    def shifted(by, size, mask=None):
        kb = KernelBuilder("k")
        i = kb.axis("n", n)
        x = kb.input("x", (size,), float32)
        kb.store("y", float32, (n,), (i,), x[i + by] if mask is None else x.masked(mask(i), i + by))
        return kb.build()

    assert not shifted(0, n).unproved
    assert not shifted(1, n + 1).unproved
    assert not shifted(1, n, lambda i: i + 1 < n).unproved
    assert not shifted(0, 512).unproved
    with pytest.raises(KernelError, match=r"in dimension 0, which has n elements, .* at n = "):
        shifted(1, n)
    with pytest.raises(KernelError, match="in dimension 0, which has 500 elements"):
        shifted(0, 500)


def test_a_flat_index_over_symbols_is_proved():
    m, n = sym("m", 0, 64), sym("n", 1, 64)
    kb = KernelBuilder("k")
    i, j = kb.axis("m", m), kb.axis("n", n)
    x = kb.input("x", (m * n,), float32)
    kb.store("y", float32, (m, n), (i, j), x[i * n + j])
    assert not kb.build().unproved


def gathered(dtype=int64, range=None, by=0, size=8):
    """y[i, j] = table[ids[i] + by, j], and the rows lie where unit and merged axes could hide a wrong one."""
    kb = KernelBuilder("gathered")
    i, j = kb.axis("m", 6), kb.axis("n", 5)
    ids = kb.input("ids", (6,), dtype, range=range)
    table = kb.input("table", (5, size), float32)
    kb.store("y", float32, (6, 5), (i, j), table[j, ids[i] + by])
    return kb.build()


def test_what_is_read_lies_in_its_stated_range():
    assert not gathered(range=(0, 7)).unproved
    assert not gathered(range=(1, 8), by=-1).unproved
    assert not gathered(uint8, size=256).unproved  # no uint8 is larger
    with pytest.raises(
        KernelError, match=r"reads outside of table: in dimension 1, which has 8 elements, .* runs over 1\.\.8 and is 8 at ids.m. = 7"
    ):
        gathered(range=(0, 7), by=1)
    with pytest.raises(KernelError, match="is -1 at"):
        gathered(range=(-1, 7))


@pytest.mark.parametrize(
    ("index", "size"),
    [
        (lambda i, f: cast(i, int32) + f, 13),
        (lambda i, f: cast(i, int32) ^ f, 8),
        (lambda i, f: f << 1, 15),
        (lambda i, f: (f - 7) * -1, 8),
        (lambda i, f: abs(f - 3), 5),
        (lambda i, f: cast(cast(f, uint8) - 250, uint8) - 6, 8),
        (lambda i, f: 12 // (f + 1) + f % 3, 13),
    ],
)
def test_arithmetic_of_what_is_read_is_tried_within_its_range(index, size):
    def gathered(size):
        kb = KernelBuilder("gathered")
        i = kb.axis("n", 6)
        f, x = kb.input("f", (6,), int32, range=(0, 7)), kb.input("x", (size,), float32)
        kb.store("y", float32, (6,), (i,), x[index(i, f[i])])
        return kb.build()

    assert gathered(size)
    with pytest.raises(KernelError, match=f"has {size - 1} elements, the index .* (leaves it|runs over .*) and is {size - 1} at"):
        gathered(size - 1)


@pytest.mark.parametrize("dtype", [int32, int64])
def test_what_is_not_known_is_found_in_the_data(dtype):
    k = gathered(dtype)
    assert k.unproved == {("table", 1)}
    table = np.zeros((5, 8), np.float32)
    for kernel in (k, normalise(k)):
        evaluate(kernel, {"ids": np.full(6, 7, dtype.np), "table": table})
        for wrong in (8, -1):
            with pytest.raises((KernelError, OutOfRangeError), match=r"outside (its 8 elements|of 0..7)"):
                evaluate(kernel, {"ids": np.full(6, wrong, dtype.np), "table": table})


def test_no_form_hides_an_index_that_data_decide():
    # merged, x[i, ids[i] + j] would be one index of a flat buffer, and that of no row
    kb = KernelBuilder("k")
    i, j = kb.axis("m", 6), kb.axis("n", 5)
    x, flag = kb.input("x", (7, 5), float32), kb.input("flag", (6, 5), bool_)
    kb.store("y", float32, (6, 5), (i, j), x.masked(flag[i, j], i, j + 1))
    k = kb.build()
    assert k.unproved == {("x", 1)}
    flags = np.ones((6, 5), bool)
    for kernel in (k, normalise(k)):
        shapes = {b.name: b.shape for b in kernel.inputs}
        with pytest.raises(KernelError, match="of dimension 1 is outside its 5 elements"):
            evaluate(kernel, {"x": np.zeros(shapes["x"], np.float32), "flag": flags.reshape(shapes["flag"])})


def test_a_dimension_of_one_is_kept_where_data_may_leave_it():
    kb = KernelBuilder("k")
    i = kb.axis("m", 6)
    x, ids = kb.input("x", (6, 1), float32), kb.input("ids", (6,), int64)
    kb.store("y", float32, (6,), (i,), x[i, ids[i]])
    k = normalise(kb.build())
    assert k.inputs[0].shape == (6, 1)
    with pytest.raises(OutOfRangeError, match=r"ids has the element 1, outside of 0\.\.0"):
        evaluate(k, {"x": np.zeros((6, 1), np.float32), "ids": np.ones(6, np.int64)})


def test_an_empty_nest_reads_nothing():
    assert not copy(lambda x, i, j: x[i, j + 9], shape=(0, 5), x_shape=(0, 5)).unproved


def test_an_integer_and_a_long_gather_of_two_ids_are_left_to_the_data():
    kb = KernelBuilder("k")
    i = kb.axis("m", 6)
    x, ids = kb.input("x", (8,), float32), kb.input("ids", (7,), int64, range=(0, 7))
    kb.store("y", float32, (6,), (i,), x[ids[i + 1] - ids[i]])
    assert kb.build().unproved == {("x", 0)}  # the two may be one element, so no value of theirs is taken for certain


@pytest.mark.parametrize("name", named_kernels.NAMES)
def test_named_kernels_are_proved(name):
    d = named_kernels.get(name)
    for k in (d.kernel(), d.kernel(d.odd_shape)):
        assert not k.unproved
        assert not normalise(k).unproved


@st.composite
def _index(draw, axes, depth=2):
    if not depth or draw(st.booleans()):
        return draw(st.sampled_from(axes))
    a = draw(_index(axes, depth - 1))
    kind = draw(st.sampled_from(["scale", "add", "div", "mod", "prod"]))
    if kind == "scale":
        return a * draw(st.integers(-3, 3)) + draw(st.integers(-4, 4))
    if kind == "div":
        return a // draw(st.integers(1, 4))
    if kind == "mod":
        return a % draw(st.integers(1, 4))
    b = draw(_index(axes, depth - 1))
    return a + b if kind == "add" else a * b


@pytest.mark.slow
@given(data=st.data())
@settings(max_examples=150, deadline=None)
def test_what_is_proved_and_what_is_refuted_agree_with_every_point(data):
    kb = KernelBuilder("k")
    extents = [data.draw(st.integers(1, 6)) for _ in range(3)]
    axes = tuple(kb.axis(n, e) for n, e in zip("abc", extents, strict=True))
    at, size = data.draw(_index(axes)), data.draw(st.integers(1, 12))
    mask = data.draw(_index(axes)) < data.draw(st.integers(-3, 12))
    for _ in range(data.draw(st.integers(0, 2))):
        other = data.draw(_index(axes))
        part = data.draw(st.sampled_from([other >= data.draw(st.integers(-3, 6)), other.eq(2), ~(other < 1), at < size, at >= 0]))
        mask = mask & part if data.draw(st.booleans()) else mask | part
    if mask.op == "const" and not mask.arg:
        return
    access = Access("v", "x", 0, at, size, axes, None if mask.op == "const" else mask)
    found = search(access)
    assert found.whole or found.at
    outside = []
    for point in itertools.product(*map(range, extents)):
        value = _number(at, dict(zip(axes, point, strict=True)))
        if not 0 <= value < size and _number(mask, dict(zip(axes, point, strict=True))):
            outside.append(point)
    assert bool(outside) == (found.at is not None)
    if proved(access):
        assert not outside
    if found.at:
        value, point = found.at
        assert tuple(point.get(a, 0) for a in axes if a in point) in {tuple(p[axes.index(a)] for a in axes if a in point) for p in outside}
        assert not 0 <= value < size


def _number(n, env):
    from tilewright.ir.index import evaluate as value

    if n.op in ("and", "or", "not", "lt", "le", "eq", "ne"):
        v = [_number(s, env) for s in n.src]
        return {
            "and": lambda: v[0] and v[1], "or": lambda: v[0] or v[1], "not": lambda: not v[0], "lt": lambda: v[0] < v[1],
            "le": lambda: v[0] <= v[1], "eq": lambda: v[0] == v[1], "ne": lambda: v[0] != v[1],
        }[n.op]()  # fmt: skip
    return n.arg if n.op == "const" else value(n, env)


def test_large_extents_are_sampled_at_the_edge():
    big = SimpleNamespace(m=100_000, n=90_000)
    kb = KernelBuilder("k")
    i, j = kb.axis("m", big.m), kb.axis("n", big.n)
    x = kb.input("x", (big.m, big.n), float32)
    at = i + j - 777
    kb.store("y", float32, (big.m, big.n), (i, j), x.masked((at >= 0) & (at <= big.n), i, at))
    with pytest.raises(KernelError, match=f"is {big.n} at"):
        kb.build()


# Integers that are places, or say how far a loop goes, are looked at in every call and by the reference.


N, ROWS = 6, 10


def gathered_of_operand_ranges(stated: bool, dtype: Any = int32) -> Kernel:
    kb = KernelBuilder("gathered")
    i = kb.axis("n", N)
    x = kb.input("x", (ROWS,), float32)
    ids = kb.input("ids", (N,), dtype, range=(0, ROWS - 1) if stated else None)
    kb.store("y", float32, (N,), (i,), x[ids[i]])
    return kb.build()


def padded() -> Kernel:
    """Rows that end where data says."""
    kb = KernelBuilder("padded")
    i, k = kb.axis("n", N), kb.axis("k", ROWS)
    x, many = kb.input("x", (N, ROWS), float32), kb.input("ids", (N,), int32, range=(0, ROWS))
    total = kb.sum("total", (i,), k, where(k < cast(many[i], int64), x[i, k], 0.0))
    kb.store("y", float32, (N,), (i,), total[i])
    return kb.build()


def scattered() -> Kernel:
    kb = KernelBuilder("scattered")
    i = kb.axis("n", N)
    x, ids = kb.input("x", (N,), float32), kb.input("ids", (N,), int64, range=(0, ROWS - 1))
    kb.store("y", float32, (ROWS,), (i,), x[i], indices=(ids[i],), combine="add")
    return kb.build()


CASES: dict[str, tuple[Callable[[], Kernel], int]] = {
    "stated": (lambda: gathered_of_operand_ranges(True), ROWS),
    "implied": (lambda: gathered_of_operand_ranges(False), ROWS),
    "implied int8": (lambda: gathered_of_operand_ranges(False, int8), ROWS),
    "padded": (padded, ROWS + 1),
    "scattered": (scattered, ROWS),
}
"""By name: a kernel that reads places from `ids`, and the first one that is wrong."""


def operands(kernel: Kernel, last: int) -> list[np.ndarray[Any, Any]]:
    out = []
    for b in kernel.inputs:
        a = np.ones(b.shape, b.dtype.np)
        if b.name == "ids":
            a[-1] = last
        out.append(a)
    return out


@pytest.mark.parametrize("name", CASES)
def test_a_wrong_place_is_an_error_in_every_call_and_in_the_reference(name: str) -> None:
    made, wrong = CASES[name]
    kernel = made()
    compiled, good = tw.best(kernel), operands(kernel, wrong - 1)
    out = compiled(*good).copy()
    for _ in range(5):  # arrays that are known have other contents now
        compiled(*good, out=out)
    ids = next(a for a, b in zip(good, kernel.inputs, strict=True) if b.name == "ids")
    for value in (wrong, -1):
        ids[-1] = value
        for call in (lambda: compiled(*good), lambda: compiled(*good, out=out), lambda: compiled.bound(*good, out)):
            with pytest.raises(OutOfRangeError, match=f"ids has the element {value}, outside of 0..{wrong - 1}"):
                call()
        with pytest.raises(OutOfRangeError, match=f"ids has the element {value}"):
            evaluate(kernel, {b.name: a for b, a in zip(kernel.inputs, good, strict=True)})
    ids[-1] = 0
    compiled(*good, out=out)


def test_symbolic_dimensions_are_looked_at_with_their_sizes() -> None:
    n, rows = sym("n", 1, 64), sym("rows", 1, 64)
    kb = KernelBuilder("gathered")
    i = kb.axis("i", n)
    x, ids = kb.input("x", (rows,), float32), kb.input("ids", (n,), int32)
    kb.store("y", float32, (n,), (i,), x[ids[i]])
    compiled = tw.best(kb.build())
    for size in (3, 7, 3):
        x_, at = np.arange(size, dtype=np.float32), np.array([0, size - 1], np.int32)
        for _ in range(3):
            assert compiled(x_, at).tolist() == [0.0, size - 1]
        with pytest.raises(OutOfRangeError, match=f"the element {size}, outside of 0..{size - 1}"):
            compiled(x_, at + 1)


def test_weights_are_no_places() -> None:
    for name in ("matmul_int8", "matmul_w4", "conv2d", "sum_rows"):
        assert operand_ranges(named_kernels.make(name)) == ()
    for name in ("embedding", "embedding_grad", "cross_entropy"):
        assert [r.name for r in operand_ranges(named_kernels.make(name))] == ["label" if name == "cross_entropy" else "ids"]


def test_what_is_read_in_part_or_under_a_mask_says_nothing_unstated() -> None:
    kb = KernelBuilder("part")
    i = kb.axis("n", N)
    x, ids, use = kb.input("x", (ROWS,), float32), kb.input("ids", (N + 1,), int32), kb.input("use", (N,), int32)
    kb.store("y", float32, (N,), (i,), x.masked(use[i] > 0, ids[i + 1]) + cast(use[i], float32))
    kernel = kb.build()
    assert operand_ranges(kernel) == ()
    found = tw.best(kernel)(np.ones(ROWS, np.float32), np.array([99, 0, 1, 2, 3, 4, 99], np.int32), np.array([1] * 5 + [0], np.int32))
    assert found.tolist() == [2.0] * 5 + [0.0]


def test_the_check_can_be_turned_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEWRIGHT_INDEX_CHECKS", "0")
    assert operand_ranges(gathered_of_operand_ranges(True)) == ()
