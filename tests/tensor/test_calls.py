"""Calls of captured functions, the quick way and the long one: whatever arguments look like, results are NumPy's."""

from __future__ import annotations

import gc
import threading
from collections import OrderedDict, namedtuple
from typing import Any

import numpy as np
import pytest
import tilewright as tw
from tilewright import OutOfRangeError, Tensor, UsageError, Var, jit, xp

pytestmark = pytest.mark.filterwarnings("ignore:the matrix subclass")
Pair = namedtuple("Pair", "a b")
Array = np.ndarray[Any, Any]


def ramp(*shape: int, dtype: str = "float32") -> Array:
    return np.arange(np.prod(shape), dtype=dtype).reshape(shape)


def readonly(a: Array) -> Array:
    a = a.copy()
    a.flags.writeable = False
    return a


def misaligned(a: Array) -> Array:
    room = np.zeros(a.nbytes + 1, np.uint8)
    out = room[1:].view(a.dtype).reshape(a.shape)
    out[...] = a
    return out


LOOKS = {
    "plain": lambda a: a,
    "Fortran": np.asfortranarray,
    "reversed": lambda a: a[::-1, ::-1].copy()[::-1, ::-1],
    "every second": lambda a: np.repeat(a, 2, 1)[:, ::2],
    "transposed": lambda a: a.T.copy().T,
    "broadcast": lambda a: np.broadcast_to(a[:1], a.shape),
    "read-only": readonly,
    "misaligned": misaligned,
    "other byte order": lambda a: a.astype(a.dtype.newbyteorder()),
    "a subclass": np.asmatrix,
    "a memoryview": lambda a: memoryview(np.ascontiguousarray(a)),
    "a tensor": Tensor,
    "a lazy tensor": lambda a: Tensor(a) + 0,
    "another type": lambda a: a.astype(np.int32),
    "another shape": lambda a: a[:2],
    "no elements": lambda a: a[:0],
}  # fmt: skip


@pytest.mark.slow
def test_arrays_of_all_looks_in_turn() -> None:
    f = jit(lambda x, y: (x * 2 + y, x))
    base = ramp(4, 6)
    for _ in range(3):
        for name, look in LOOKS.items():
            x = look(base + 1)
            want = np.asarray(x.numpy() if isinstance(x, Tensor) else x)
            y = np.full(want.shape, 3, want.dtype.newbyteorder("="))
            out, same = f(x, y)
            assert np.array_equal(out.numpy(), want * 2 + 3), name
            assert out.dtype.name == want.dtype.newbyteorder("=").name, name
            assert np.array_equal(same.numpy(), want), name


@pytest.mark.many
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int8", "uint8", "int16", "int32", "int64", "bool"])
def test_arrays_of_all_types(dtype: str) -> None:
    f = jit(lambda x: xp.where(x > 0, x, x))
    for shape in ((), (1,), (7,), (3, 5), (0, 4)):
        for _ in range(2):
            a = np.asarray(np.random.default_rng(1).integers(0, 2, shape)).astype(dtype)
            found = f(a)
            assert found.dtype.name == dtype and np.array_equal(found.numpy(), a)


@pytest.mark.slow
def test_trees_of_all_structures_in_turn() -> None:
    f = jit(lambda t, *, scale=None: _total(t, 0) if scale is None else _total(t, 0) * scale)
    a, b, c = (np.full(3, v, np.float32) for v in (1, 20, 300))
    trees: list[Any] = [
        {"x": a, "y": b}, {"y": b, "x": a}, {"x": a}, {"x": a, "z": b}, {1: a, "x": c}, [a, b], (a, b), [a, [b]], [a, b, c], [a, None], [a, None, c],
        Pair(a, b), Pair(b, c), OrderedDict(y=c, x=a), a, [[]], {"x": {}}, ["text", a], ["other", a], [True, a], [False, a], [[a, b], {"k": (c, Tensor(a))}],
        {"x": Tensor(a), "y": b}, [a, np.float32(4) * a],
    ]  # fmt: skip
    for _ in range(3):
        for t in trees:
            for more in ({}, {"scale": Tensor(c)}, {"scale": c}):
                found = f(t, **more)
                want = _total(t, 0) if not more else _total(t, 0) * c
                assert np.array_equal(np.asarray(found), np.asarray(want)), (t, more)


def _total(t: Any, depth: int) -> Any:
    """What depends on the structure, and on every leaf."""
    if isinstance(t, dict):
        return sum((_total(v, depth + 1) * (3 + len(str(k))) for k, v in sorted(t.items(), key=lambda kv: str(kv[0]))), 1.0)
    if isinstance(t, (list, tuple)):
        return sum((_total(v, depth + 1) * (i + 2) for i, v in enumerate(t)), 2.0 if isinstance(t, list) else 5.0)
    if t is None or isinstance(t, (str, bool)):
        return {None: 7.0, "text": 11.0, "other": 13.0, True: 17.0, False: 19.0}[t]
    return t


OUTS = {
    "arrays": lambda a, x: a,
    "with gaps": lambda a, x: np.zeros((*a.shape, 2), a.dtype)[..., 0],
    "transposed": lambda a, x: np.asfortranarray(a),
    "misaligned": lambda a, x: misaligned(a),
    "the argument": lambda a, x: x,
    "the argument upside down": lambda a, x: x[::-1],
}


@pytest.mark.slow
@pytest.mark.parametrize("where", OUTS)
def test_results_go_to_arrays(where: str) -> None:
    w = Tensor(ramp(6, 6))
    one = jit(lambda x: x @ w + x[::-1])
    two = jit(lambda x, y: {"b": (x * 2, y.sum(1) + x[:, 0]), "a": x[::-1] + y})
    for i in range(4):
        x, y = ramp(6, 6) + i, ramp(6, 6) * i
        want = x @ ramp(6, 6) + x[::-1]
        out = OUTS[where](np.zeros((6, 6), np.float32), x)
        found = one(x, out=out)
        assert np.array_equal(out, want) and np.array_equal(found.numpy(), want)
        x = ramp(6, 6) + i
        wants = {"b": (x * 2, y.sum(1) + x[:, 0]), "a": x[::-1] + y}
        a, b, c = OUTS[where](np.zeros((6, 6), np.float32), x), np.zeros((6, 6), np.float32), np.zeros(6, np.float32)
        got = two(x, Tensor(y), out={"a": a, "b": (b, c)})
        for n, v, r in ((a, wants["a"], got["a"]), (b, wants["b"][0], got["b"][0]), (c, wants["b"][1], got["b"][1])):
            assert np.array_equal(n, v) and np.array_equal(r.numpy(), v)


def test_results_in_memory_that_is_read_or_given_twice() -> None:
    w = Tensor(ramp(4, 4))
    f = jit(lambda x: (x @ w, x.T @ w))
    x = ramp(4, 4)
    for _ in range(3):
        x, inside = ramp(4, 4), w.numpy()
        before = inside.copy()
        f(x, out=(np.zeros((4, 4), np.float32), inside))  # what the function reads, too
        assert np.array_equal(inside, x.T @ before)
        inside[...] = before
        room = np.zeros(20, np.float32)
        with pytest.raises(UsageError, match="share elements"):
            f(x, out=(room[:16].reshape(4, 4), room[4:].reshape(4, 4)))
        assert not room.any()


def test_arrays_for_results_are_checked() -> None:
    f = jit(lambda x: (x + 1, x.sum(1)))
    x = ramp(3, 5)
    good = np.zeros((3, 5), np.float32), np.zeros(3, np.float32)
    for _ in range(2):
        for out, message in (
            (good[:1], "1 arrays for 2 results"),
            ((good[0], np.zeros(3)), r"an array float64\[3\] for a result float32\[3\]"),
            ((good[0], np.zeros(4, np.float32)), "for a result float32"),
            ((good[0], readonly(good[1])), "read-only"),
            ((good[0], [1.0, 2.0, 3.0]), "a float"),
            ((good[0], Tensor(good[1])), "a Tensor"),
        ):
            with pytest.raises(UsageError, match=message):
                f(x, out=out)
        assert f(x, out=good)[1].tolist() == x.sum(1).tolist() == good[1].tolist()
        assert f(x, out=None)[0].shape == (3, 5)
    assert jit(lambda x, out: x + out)(x, out=x).tolist() == (x * 2).tolist()
    assert jit(lambda x, **k: x + k["out"])(x, out=x).tolist() == (x * 2).tolist()
    w = Tensor(np.zeros(3, np.float32))
    g = jit(lambda x: (w.assign(w + x), w * 2)[1])
    for i in range(1, 4):
        assert g(np.ones(3, np.float32), out=good[1]).tolist() == good[1].tolist() == [2.0 * i] * 3
        assert w.tolist() == [i] * 3


def test_wrong_calls_stay_errors() -> None:
    f = jit(lambda x, y: x + y)
    a = np.ones(3, np.float32)
    masked = np.ma.masked_array(a, [0, 1, 0])
    for _ in range(2):
        assert f(a, a).tolist() == f(a, y=a).tolist() == [2, 2, 2]
        with pytest.raises(TypeError):
            f(a)
        with pytest.raises(TypeError):
            f(a, a, a)
        for args in [(masked, a), (a, masked)]:
            with pytest.raises(UsageError, match="a masked array, whose mask would be lost"):
                f(*args)
        with pytest.raises(UsageError, match="add of shapes"):
            f(a, np.ones(2, np.float32))


def test_arrays_of_subclasses_are_arguments() -> None:
    class Mine(np.ndarray):
        pass

    captured = []
    f = jit(lambda x, y: captured.append(1) or x * y)
    for i in range(3):
        a = np.full(3, i, np.float32).view(Mine)
        assert f(a, np.ones(3, np.float32)).tolist() == f(np.ones(3, np.float32), a).tolist() == [i] * 3
    assert len(captured) == 1


def test_numbers_beside_arrays() -> None:
    f = jit(lambda x, k: x * k)
    a = np.ones(3, np.float32)
    for k in (2, 2, 3, 3.0, 2.5, True, 2):
        assert f(a, k).tolist() == [k] * 3


def test_results_and_arguments_have_memory_of_their_own() -> None:
    f = jit(lambda x: x + 1)
    a = np.zeros(20000, np.float32)
    kept = []
    for i in range(6):
        a[:] = i
        kept.append(f(a))
        f(np.full(20000, 77, np.float32))  # the array is freed as soon as the call is done
        gc.collect()
    assert [k.numpy()[[0, -1]].tolist() for k in kept] == [[i + 1, i + 1] for i in range(6)]


def test_an_array_that_a_tensor_is_updated_in_is_copied() -> None:
    """An argument that lies in the memory of a tensor which is updated there keeps its values while it is read."""

    @jit
    def step(w: Tensor, x: Tensor) -> Tensor:
        w.assign((w + 1).sin())
        return w @ w + x

    w, now = (Tensor(ramp(96, 96) / 9000) + 0).realise(), ramp(96, 96) / 9000
    apart = np.full((96, 96), 5, np.float32)
    for i in range(12):
        x, want = (w.numpy(), now) if i % 3 == 2 else (apart, apart)
        now = np.sin(now + 1)
        np.testing.assert_allclose(step(w, x).numpy(), now @ now + want, rtol=1e-4)
        np.testing.assert_allclose(w.numpy(), now, rtol=1e-5)
    with pytest.raises(UsageError, match="also given as another argument"):
        step(w, w)


def test_users_arrays_are_never_written() -> None:
    @jit(donate="x")
    def both(w: Tensor, x: Tensor) -> Tensor:
        w.assign(w * 2)
        return x + 1

    for _ in range(3):
        w, x = np.ones(8, np.float32), np.zeros(8, np.float32)
        assert both(w, x).tolist() == [1.0] * 8
        assert (w == 1).all() and (x == 0).all()


@pytest.mark.slow
def test_many_threads_with_arrays_of_their_own() -> None:
    f = jit(lambda x, t: (x @ x.T).sum(1) + t["k"], threads=1)
    wrong: list[Any] = []

    def work(seed: int) -> None:
        rng = np.random.default_rng(seed)
        for i in range(60):
            n = 8 + (seed + i) % 3
            x = rng.integers(-4, 5, (n, n)).astype(np.float32)
            k = np.full(n, i, np.float32)
            found = f(x, {"k": k if i % 2 else Tensor(k)}).numpy()
            if not np.array_equal(found, (x @ x.T).sum(1) + i):
                wrong.append((seed, i))

    workers = [threading.Thread(target=work, args=(s,)) for s in range(6)]
    for w in workers:
        w.start()
    for w in workers:
        w.join()
    assert not wrong


@pytest.mark.slow
def test_sizes_are_checked_the_quick_way_too() -> None:
    n, m = Var("n", 1, 40), Var("m", 1, 9)
    f = jit(lambda x, t, k: (x.sum(0) * t["y"].sum(1) + k, t["y"] * 2), symbols={"x": {0: n, -1: m}, "t": {0: m}, "k": m})
    for a, b in ((1, 1), (3, 2), (40, 9), (3, 2), (5, 9)):
        for _ in range(2):
            x, y = ramp(a, b), ramp(b, 4)
            out, twice = f(x, {"y": y}, b)
            assert np.array_equal(out.numpy(), x.sum(0) * y.sum(1) + b) and np.array_equal(twice.numpy(), y * 2)
    assert len(f.programs) == 1
    with pytest.raises(UsageError, match="n is 41 by dimension 0 of x, outside of its range 1 to 40"):
        f(ramp(41, 2), {"y": ramp(2, 4)}, 2)
    with pytest.raises(UsageError, match="m is 2 by dimension -1 of x, and 3 by"):
        f(ramp(4, 2), {"y": ramp(3, 4)}, 2)
    with pytest.raises(UsageError, match="m is 2 by dimension -1 of x, and 3 by k"):
        f(ramp(4, 2), {"y": ramp(2, 4)}, 3)
    with pytest.raises(UsageError, match="give a whole number"):
        f(ramp(4, 2), {"y": ramp(2, 4)}, 2.0)


@pytest.mark.slow
def test_sizes_that_are_expressions_of_symbols() -> None:
    n = Var("n", 1, 40)
    f = jit(lambda x, y: x.sum() + y, symbols={"x": {0: n}, "y": {0: 2 * n + 1}})
    for a in (1, 7, 40, 7):
        for _ in range(2):
            assert np.array_equal(f(ramp(a), ramp(2 * a + 1)).numpy(), ramp(a).sum() + ramp(2 * a + 1))
        with pytest.raises(UsageError, match=f"dimension 0 of y is {2 * a}, where"):
            f(ramp(a), ramp(2 * a))


def test_checks_of_indices_come_with_quick_calls() -> None:
    f = jit(lambda t, i: t[i])
    table = ramp(10, 3)
    for _ in range(3):
        assert np.array_equal(f(table, np.array([1, -1])).numpy(), table[[1, -1]])
        with pytest.raises(OutOfRangeError, match="index 10 is out of range"):
            f(table, np.array([1, 10]))


def test_a_method_and_its_objects() -> None:
    class Scaled:
        def __init__(self, k: float) -> None:
            self.k = k

        @jit
        def __call__(self, x: Any) -> Any:
            return x * self.k

    two, three = Scaled(2.0), Scaled(3.0)
    for _ in range(3):
        for model in (two, three):
            assert model(np.ones(2, np.float32)).tolist() == [model.k] * 2


def test_a_tensor_without_memory_is_an_error_each_time() -> None:
    step = jit(lambda x: x + 1, donate="x")
    x = Tensor(np.ones(4, np.float32)) + 0
    step(x)
    f = jit(lambda x: x * 2)
    f(Tensor(np.ones(4, np.float32)))
    for _ in range(2):
        with pytest.raises(UsageError, match="donated to"):
            f(x)


def test_tensors_of_another_device_are_captured_apart() -> None:
    f = jit(lambda x: x * 2)
    a = ramp(6)
    for _ in range(2):
        assert f(Tensor(a)).device == "cpu" and f(Tensor(a, device="cpu:c")).device == "cpu:c"
        assert np.array_equal(f(Tensor(a, device="cpu:c")).numpy(), a * 2)
    g = jit(lambda x, y: x + y)
    g(Tensor(a), a)
    with pytest.raises(UsageError, match="different devices"):
        g(Tensor(a, device="cpu:c"), a)


def test_tensors_of_arrays() -> None:
    """An array that looks like an earlier one is looked at shortly; each stays what it is."""
    for _ in range(2):
        for name, look in LOOKS.items():
            if name in ("a tensor", "a lazy tensor"):
                continue
            x = look(ramp(4, 6) + 1)
            t = Tensor(x)
            assert np.array_equal(t.numpy(), np.asarray(x)), name
            assert t.dtype.name == np.asarray(x).dtype.newbyteorder("=").name
    a = ramp(3)
    t = Tensor(a)
    a[0] = 9
    assert t.numpy()[0] == 9 and np.shares_memory(t.numpy(), a)  # it is used where it lies
    assert Tensor(a, dtype="float64").dtype.name == "float64"
    with pytest.raises(UsageError, match="declared range"):
        Tensor(np.array([5]), range=(0, 3))
    assert Tensor(np.array([5])).node.data.range is None
    assert Tensor(np.array([5]), range=(0, 9)).node.data.range == (0, 9)
    assert tw.Tensor(np.array([1.5])).node.data.line[0] == __file__


def test_arrays_go_where_the_tensors_beside_them_are() -> None:
    x, n = Tensor(np.ones((2, 2), np.float32), device="cpu:c"), np.full((2, 2), 2, np.float32)
    for found in (x + n, n + x, np.stack([n, x]), x[np.array([0, 1])], tw.jit(lambda a: a * n, device="cpu:c")(x)):
        assert found.device == "cpu:c" and found.shape[-1] == 2
    assert (n + x).tolist() == [[3, 3], [3, 3]]
    matrix = tw.sparse.CSR(np.array([0, 1, 2]), np.array([1, 0]), np.ones(2, np.float32), shape=(2, 2)).to("cpu:c")
    assert (matrix @ x).device == "cpu:c" and matrix.shape == (2, 2)
