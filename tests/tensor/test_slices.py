"""Slices that captured functions write: NumPy's results, and in the array's own memory nothing but the slice is written."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np
import pytest
from tilewright import OutOfRangeError, Tensor, Var, jit
from tilewright.ir import KernelBuilder, float32, sym, where
from tilewright.ir import index as ix
from tilewright.ir.evaluation import evaluate
from tilewright.ir.kept_elements import without_kept
from tilewright.ir.rewriter import in_place

Array = np.ndarray[Any, Any]
SHAPE = (3, 13, 7)
A = np.arange(prod(SHAPE), dtype=np.float32).reshape(SHAPE)
S = slice


class Place:
    """A tensor without dimensions that stands in a key; NumPy gets its number."""

    def __init__(self, value: int, dtype: str = "int64") -> None:
        self.value, self.dtype = value, dtype


KEYS: dict[str, Any] = {
    "a row": (S(None), 5),
    "the last row": (S(None), -1),
    "rows": (S(None), S(3, 8)),
    "blocks": S(1, 3),
    "every third": (S(None), S(1, None, 3)),
    "backwards": (S(None), S(9, 2, -2)),
    "a box": (S(1, 3), S(2, 9), S(0, 5)),
    "an element": (1, 2, 3),
    "all": ...,
    "nothing": (S(None), S(4, 4)),
    "a new axis": (S(None), 5, None),
    "from a place on": (..., S(4, None)),
    "up to a place": (..., S(None, 4)),
    "a loaded row": (S(None), Place(5)),
    "a loaded row from the end": (S(None), Place(-2, "int32")),
    "a loaded row of bytes": (S(None), Place(5, "uint8")),
    "two loaded places": (Place(1), S(None), Place(6)),
    "a loaded place and a slice": (Place(2), S(2, 9, 2)),
    "a loaded element": (Place(0), Place(-13), Place(3)),
    "a loaded place and a number": (Place(2), 3),
}


def keys(key: Any, places: list[Any] | None = None) -> tuple[Any, list[Any]]:
    """(the key for NumPy, the tensors in it); or the key with these tensors."""
    items = list(key) if isinstance(key, tuple) else [key]
    found = [i for i in items if isinstance(i, Place)]
    if places is None:
        return tuple(i.value if isinstance(i, Place) else i for i in items), [np.asarray(i.value, i.dtype) for i in found]
    left = iter(places)
    return tuple(next(left) if isinstance(i, Place) else i for i in items), []


def written(x: Any, key: Any, value: Any) -> Any:
    x[key] = value
    return x


VALUES: dict[str, Callable[[Any, tuple[int, ...]], Any]] = {
    "a number": lambda x, shape: 77.5,
    "an array": lambda x, shape: (np.arange(prod(shape), dtype=np.float32) + 1000).reshape(shape),
    "a broadcast array": lambda x, shape: np.full(shape[-1:], 5, np.float32),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("value", VALUES)
@pytest.mark.parametrize("name", KEYS)
@pytest.mark.covering
def test_slices_are_numpys(name: str, value: str) -> None:
    plain, places = keys(KEYS[name])
    v = VALUES[value](A, A[plain].shape)
    want = written(A.copy(), plain, v)

    def update(x: Any, v: Any, *at: Any) -> None:
        x[keys(KEYS[name], list(at))[0]] = v

    def copied(x: Any, v: Any, *at: Any) -> Any:
        new = x * 1
        new[keys(KEYS[name], list(at))[0]] = v
        return new, x

    at = [Tensor(p) for p in places]
    f, g, h = jit(update), jit(copied), jit(lambda x, v, *at: (update(x, v, *at), x)[1], donate="x")
    for _ in range(2):
        x = (Tensor(A) + 0).realise()
        f(x, v, *at)
        assert np.array_equal(x.numpy(), want)
        new, old = g(Tensor(A), v, *at)
        assert np.array_equal(new.numpy(), want) and np.array_equal(old.numpy(), A)
        mine = A.copy()  # memory of the user's, which is copied before it is written
        f(mine, v, *at)
        assert np.array_equal(mine, A)
        assert np.array_equal(h((Tensor(A) + 0).realise(), v, *at).numpy(), want)
    eager = Tensor(A) + 0
    eager[keys(KEYS[name], at)[0]] = Tensor(v) if isinstance(v, np.ndarray) else v
    assert np.array_equal(eager.numpy(), want)


def points(f: Any) -> int:
    """How many elements the last kernel of a captured function writes, with the most of symbols."""
    (store,) = f.programs[0].calls[-1].kernel.stores
    return prod(ix.upper(a.arg.extent) for a in store.axes)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "count"), [("a row", 21), ("rows", 105), ("a box", 70), ("an element", 1), ("a loaded row", 21), ("a loaded element", 1)]
)
def test_nothing_else_is_written(name: str, count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tilewright.tensor.capture.graph_records.load", lambda *_: None)

    def update(x: Any, v: Any, *at: Any) -> None:
        x[keys(KEYS[name], list(at))[0]] = v * 2 + 1

    f = jit(update)
    plain, places = keys(KEYS[name])
    x = (Tensor(A) + 0).realise()
    f(x, np.ones(A[plain].shape, np.float32), *places)
    assert points(f) == count
    assert np.array_equal(x.numpy(), written(A.copy(), plain, 3))
    assert not any(b.name == "in1" and b.shape == SHAPE for b in f.programs[0].calls[-1].kernel.inputs)


LISTS: dict[str, Any] = {
    "rows": ([0, 2, 1, -1],),
    "of two dimensions": ([0, 2, 2], [3, 12, 3]),
    "a slice before": (S(None), [1, 1, 5]),
    "a slice between": ([1, 0], S(2, 9), [6, -7]),
    "of all slices": ([[1, 0], [2, 2]], S(None, None, -2)),
    "a place twice": ([1, 1, 1], [4, 4, 4], S(1, 5)),
}


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("name", LISTS)
@pytest.mark.covering
def test_places_that_data_says_are_written_and_no_others(name: str, dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the array's own memory: as NumPy does, so that the last of two values stays, and with no map of the whole array."""
    monkeypatch.setattr("tilewright.tensor.capture.graph_records.load", lambda *_: None)
    key = LISTS[name]

    def update(x: Any, v: Any, *at: Any) -> None:
        left = iter(at)
        x[tuple(next(left) if isinstance(k, list) else k for k in key)] = v.astype(dtype)

    f = jit(update)
    x, want = (Tensor(A.astype("float32")).astype(dtype) + 0).realise(), A.copy()
    values = np.arange(A[key].size, dtype=np.float32).reshape(A[key].shape) / 4
    want[key] = values
    f(x, Tensor(values), *(Tensor(np.array(k)) for k in key if isinstance(k, list)))
    assert np.array_equal(x.numpy().astype("float32"), Tensor(want).astype(dtype).numpy().astype("float32"))
    kernels = [k for c in f.programs[0].calls if (k := getattr(c, "kernel", None)) is not None]
    stores = [s for k in kernels for s in k.stores if s.buffer.shape == SHAPE]
    assert [prod(ix.upper(a.arg.extent) for a in s.axes) for s in stores] == [values.size]


def test_a_map_of_places_stays_where_others_need_it() -> None:
    """Where the array was before is wanted too, and where places are of the array that is written."""

    def both(x: Any, at: Any) -> Any:
        old = x * 1
        x[at] = old[0] + 1
        return old.sum(), x.sum()

    def own(x: Any, v: Any) -> None:
        x[x[:2, 0, 0].astype("int64")] = v

    x, want = (Tensor(A) + 0).realise(), A.copy()
    want[[2, 1]] = A[0] + 1
    assert [float(v.numpy()) for v in jit(both)(x, Tensor(np.array([2, 1])))] == [A.sum(dtype="float64"), want.sum(dtype="float64")]
    y, want = (Tensor(A[:, :2, :2] % 3) + 0).realise(), A[:, :2, :2] % 3
    want[want[:2, 0, 0].astype(int)] = 7
    jit(own)(y, Tensor(np.float32(7)))
    assert np.array_equal(y.numpy(), want)


@pytest.mark.slow
def test_symbols_say_where() -> None:
    at, n = Var("at", 0, 12), Var("n", 0, 9)

    def row(x: Any, v: Any, at: Any) -> None:
        x[:, at] = v

    def head(x: Any, v: Any) -> None:
        x[:, : v.shape[0]] = v

    def tail(x: Any, v: Any, at: Any) -> None:
        x[:, at:] = v

    def some(x: Any, v: Any, at: Any) -> Any:
        x[:, at : at + 1, 2:5] = v
        return x[:, : at + 1].sum(1)

    x, want = (Tensor(A) + 0).realise(), A.copy()
    f, g = jit(row, symbols={"at": at}), jit(head, symbols={"v": {0: n}})
    h, k = jit(tail, symbols={"at": at}), jit(some, symbols={"at": at})
    for i in (0, 12, 5, 5, 7):
        v = np.full((3, 7), 100 + i, np.float32)
        f(x, v, i)
        want[:, i] = v
        assert np.array_equal(x.numpy(), want)
        v = np.random.default_rng(i).normal(size=(min(i, 9), 7)).astype(np.float32)
        g(x, v)
        want[:, : min(i, 9)] = v
        assert np.array_equal(x.numpy(), want)
        h(x, np.float32(i), i)
        want[:, i:] = i
        assert np.array_equal(x.numpy(), want)
        found = k(x, np.float32(-i), i)
        want[:, i : i + 1, 2:5] = -i
        assert np.array_equal(x.numpy(), want)
        np.testing.assert_allclose(found.numpy(), want[:, : i + 1].sum(1), rtol=1e-5)
    assert len(f.programs) == len(g.programs) == len(h.programs) == len(k.programs) == 1


@pytest.mark.slow
@pytest.mark.parametrize("case", ["shifted", "itself", "sum of all", "twice", "two arrays", "read afterwards", "old value too"])
def test_values_that_depend_on_the_array(case: str) -> None:
    def step(x: Any, y: Any) -> Any:
        if case == "shifted":
            x[:, 2:9] = x[:, 1:8]
        elif case == "itself":
            x[:, 2:9] = x[:, 2:9] * 2 + 1
        elif case == "sum of all":
            x[:, 4] = x.sum(1)
        elif case == "twice":
            x[:, 2:5] = y[:, 2:5]
            x[:, 4:9] = x[:, 4:9] + 1
        elif case == "two arrays":
            x[:, 3], y[:, 5] = y[:, 3] * 1, x[:, 5] * 1
        elif case == "read afterwards":
            x[:, 3] = 5.0
            y[:] = x * 2
        else:
            x[:, 3] = y[:, 0] + x[:, 3]
        return x[:, 3] * 1

    f = jit(step)
    x, y = (Tensor(A) + 0).realise(), (Tensor(A * 3) + 0).realise()
    a, b = A.copy(), A * 3
    for _ in range(3):
        found, want = f(x, y), step(a, b)
        for got, wanted in ((x, a), (y, b), (found, want)):
            np.testing.assert_allclose(got.numpy(), wanted, rtol=1e-5)


def test_an_index_outside_writes_nothing() -> None:
    def row(x: Any, v: Any, at: Any) -> None:
        x[:, at] = v

    f, x = jit(row), (Tensor(A) + 0).realise()
    for at in (13, -14, 400):
        with pytest.raises(OutOfRangeError, match=f"setitem: index {at} is out of range for dimension 1 of 13"):
            f(x, np.ones(7, np.float32), Tensor(np.array(at)))
        assert np.array_equal(x.numpy(), A)


def test_an_index_outside_is_the_nearest_inside_without_checks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEWRIGHT_INDEX_CHECKS", "0")

    def row(x: Any, v: Any, at: Any) -> None:
        x[:, at] = v

    for f in (jit(row), row):
        for at, nearest in ((99, 12), (-99, 0)):
            x = (Tensor(A) + 0).realise()
            f(x, Tensor(np.full(7, 9, np.float32)), Tensor(np.array(at)))
            assert np.array_equal(x.numpy(), written(A.copy(), (S(None), nearest), 9))


@pytest.mark.slow
def test_every_thread_writes_rows_of_its_own() -> None:
    import threading

    x = (Tensor(np.zeros((40, 60), np.float32)) + 0).realise()

    def row(x: Any, v: Any, at: Any) -> None:
        x[at] = v

    f = jit(row, symbols={"at": Var("at", 0, 39)})

    def work(k: int) -> None:
        for i in range(k, 40, 4):
            f(x, np.full(60, i + 1, np.float32), i)

    workers = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for w in workers:
        w.start()
    for w in workers:
        w.join()
    assert np.array_equal(x.numpy(), np.repeat(np.arange(1, 41, dtype=np.float32)[:, None], 60, 1))


# kernels -------------------------------------------------------------------------------------------------------------
def masked(conditions: Callable[[Any, Any], list[Any]], other: bool = False) -> Any:
    kb = KernelBuilder("masked")
    i, j = kb.axis("i", 9), kb.axis("j", 6)
    x, y = kb.input("x", (9, 6), float32), kb.input("y", (9, 6), float32)
    inside = None
    for c in conditions(i, j):
        inside = c if inside is None else inside & c
    kept = y[i, j] if other else x[i, j]
    kb.store("out", float32, (9, 6), (i, j), where(inside, y[i, j] + 1.0, kept))
    return in_place(kb.build(), {"out": "x"})


N = sym("n", 0, 5)
CONDITIONS: dict[str, tuple[Callable[[Any, Any], list[Any]], int]] = {
    "a lower bound": (lambda i, j: [i >= 2], 42),
    "an upper bound": (lambda i, j: [i < 4], 24),
    "both, of both": (lambda i, j: [i > 1, j <= 3, i <= 6, j >= 1], 15),
    "a place": (lambda i, j: [i.eq(4)], 6),
    "a symbol": (lambda i, j: [i >= N, i < N + 3], 18),
    "more than one": (lambda i, j: [i >= 2, i >= 3, i < 7], 30),
    "what spans two axes": (lambda i, j: [i + j < 7], 54),
    "a bound and what spans two": (lambda i, j: [i >= 5, i + j < 9], 24),
    "multiples": (lambda i, j: [ix.mod(i, 2).eq(0), j < 2], 18),
    "outside": (lambda i, j: [i + 2 < 20, j < 30], 54),
    "below 0": (lambda i, j: [i >= N + -3, j < 2], 18),
    "twice an axis": (lambda i, j: [i * 2 < 9], 54),
}


@pytest.mark.parametrize("name", CONDITIONS)
def test_a_kernel_in_place_writes_what_changes(name: str) -> None:
    conditions, count = CONDITIONS[name]
    kernel = masked(conditions)
    found = without_kept(kernel)
    assert prod(ix.upper(a.arg.extent) for a in found.stores[0].axes) == count
    rng = np.random.default_rng(1)
    x, y = rng.normal(size=(2, 9, 6)).astype(np.float32)
    for n in (0, 3, 5):
        symbols = {"n": n} if kernel.symbols else {}
        want = evaluate(kernel, {"x": x, "y": y}, symbols)["out"]
        reads = {b.name for b in found.inputs}
        got = evaluate(found, {k: v for k, v in (("x", x), ("y", y)) if k in reads}, {k: v for k, v in symbols.items() if found.symbols})[
            "out"
        ]
        assert np.array_equal(np.where(np.isnan(got), x, got), want)
    assert found.outputs[0].alias == ("x" if "x" in {b.name for b in found.inputs} else "")


def test_other_stores_stay_as_they_are() -> None:
    assert without_kept(k := masked(lambda i, j: [i >= 2], other=True)) is k
    kb = KernelBuilder("apart")
    i = kb.axis("i", 9)
    x = kb.input("x", (9,), float32)
    kb.store("out", float32, (9,), (i,), where(i >= 2, 1.0, x[i]))
    kernel = kb.build()
    assert without_kept(kernel) is kernel
