"""Small operations, computed at once by NumPy: the same types, shapes and numbers as the graphs that they stand for."""

from __future__ import annotations

import copy
import itertools
from typing import Any

import numpy as np
import pytest
import tilewright
from opencl_driver import POCL, needs_pocl
from tilewright import Tensor, UsageError, xp
from tilewright.ir.dtypes import bfloat16
from tilewright.tensor.frontends import quick_arrays
from tilewright.tensor.frontends import small_operations as direct
from tilewright.tensor.lift import lifted
from tilewright.tensor.ops import creation as C
from tilewright.tensor.ops import einsum as P
from tilewright.tensor.ops import elementwise as E
from tilewright.tensor.ops import fft as F
from tilewright.tensor.ops import indexing as I
from tilewright.tensor.ops import joining as J
from tilewright.tensor.ops import linalg as L
from tilewright.tensor.ops import movement as M
from tilewright.tensor.ops import reduction as R
from tilewright.tensor.ops import sorting as S
from tilewright.tensor.running import numpy_evaluation, pools, realise

KINDS = ("bool", "int8", "uint8", "int32", "int64", "uint64", "float32", "float64")
UNARY = [f for f in direct.RULES if f.__name__ in vars(E) and f.__code__.co_argcount == 1]
BINARY = [f for f in direct.RULES if f.__name__ in vars(E) and f.__code__.co_argcount == 2 and f is not E.astype]
VALUES = (0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 3.0, 7.0, np.inf, -np.inf, np.nan, 2.0)


def values(kind: str) -> Any:
    if kind == "bool":
        return np.array([True, False] * 6)
    return np.array(VALUES, kind) if kind.startswith("f") else np.array([0, 1, 2, 3, 5, 7, 1, 2, 100, 4, 6, 9], kind)


def same(function: Any, *args: Any, **kwargs: Any) -> bool:
    """Compare both ways; whether the operation was computed at once."""
    try:
        wanted = lifted(function, None, True)(*args, **kwargs)
        for w in wanted if isinstance(wanted, (tuple, list)) else [wanted]:
            w.numpy()
    except (UsageError, TypeError, IndexError) as e:
        with pytest.raises(type(e)):
            lifted(function)(*args, **kwargs)
        return False
    found = lifted(function)(*args, **kwargs)
    pairs = list(zip(found, wanted, strict=True)) if isinstance(wanted, (tuple, list)) else [(found, wanted)]
    for f, w in pairs:
        assert f.dtype is w.dtype and f.shape == w.shape, (function.__name__, args, f.dtype, w.dtype, f.shape, w.shape)
        a, b = f.numpy(), w.numpy()
        assert np.allclose(a, b, rtol=1e-5 if f.dtype.size < 8 else 1e-13, atol=1e-30, equal_nan=True), (function.__name__, args, a, b)
    return pairs[0][0].node.op == "buffer"


@pytest.mark.parametrize("kind", KINDS)
def test_functions_of_one_array(kind: str) -> None:
    x = Tensor(values(kind))
    assert sum(same(f, x) for f in UNARY) > 5
    matrix = x.reshape(3, 4)
    for f in (R.sum, R.prod, R.max, R.min, R.any, R.all, R.mean, R.var, R.std, R.argmax, R.argmin, R.count_nonzero):
        for options in ({}, {"axis": 1}, {"axis": -2, "keepdims": True}):
            same(f, matrix, **options)
    for to in KINDS:
        same(E.astype, Tensor(abs(values(kind)[:3])) if kind.startswith("f") and not to.startswith("f") else x, to)
        if not (kind.startswith("f") and not to.startswith("f")):
            same(R.sum, x, dtype=to)
    same(R.var, x, correction=1.5)
    same(R.cumulative_sum, matrix, axis=0)


@pytest.mark.parametrize("kind", KINDS)
def test_functions_of_two_operands(kind: str) -> None:
    x = Tensor(values(kind))
    others = [
        *(Tensor(np.roll(values(k), 5)) for k in KINDS),
        Tensor(values(kind)[:1]),
        True,
        2,
        0,
        -1,
        300,
        2.5,
        np.float64(0.5),
        float("inf"),
    ]
    done = sum(same(f, *pair) for f in BINARY for o in others for pair in ((x, o), (o, x)))
    assert done > 100
    for o in others:
        same(E.where, Tensor(values("bool")), x, o)


def test_movement_indices_and_products() -> None:
    a, b = Tensor(np.arange(24.0).reshape(2, 3, 4)), Tensor(np.arange(12.0).reshape(4, 3))
    square = Tensor(np.eye(3) * 3 + 0.5)
    calls: list[tuple[Any, tuple[Any, ...], dict[str, Any]]] = [
        (M.reshape_to, (a, (6, -1)), {}), (M.permute_dims, (a, (2, 0, 1)), {}), (M.squeeze, (a[:1],), {"axis": 0}), (M.expand_dims, (a,), {"axis": 1}),
        (M.broadcast_to, (a[:1], (5, 3, 4)), {}), (M.flip, (a,), {"axis": 1}), (M.moveaxis, (a, 0, -1), {}), (M.swapaxes, (a, 0, 1), {}),
        (M.matrix_transpose, (a,), {}), (M.diagonal, (a,), {"offset": 1}), (J.concat, ([a, a],), {"axis": 1}), (J.stack, ([b, b],), {"axis": -1}),
        (I.take, (a, Tensor(np.array([1, -1]))), {"axis": 1}), (S.sort, (a,), {"descending": True}), (S.argsort, (b,), {"axis": 0}),
        (L.matmul, (a, b), {}), (L.matmul, (b[0], b[0]), {}), (L.vecdot, (b, b), {"axis": -2}), (L.vector_norm, (a,), {"axis": (0, 2)}),
        (L.cholesky, (square,), {"upper": True}), (L.inv, (square,), {}), (L.det, (square,), {}), (L.solve, (square, b.T), {}), (L.eigh, (square,), {}),
        (L.svd, (b,), {"full_matrices": False}), (L.qr, (b,), {}), (L.svdvals, (b,), {}), (L.eigvalsh, (square,), {}), (L.slogdet, (square,), {}),
        (L.outer, (b[0], b[1]), {}), (L.trace, (b,), {"offset": 1}), (J.diff, (b,), {"n": 2, "axis": 0, "append": b[:1]}),
        (J.repeat, (b, 2), {"axis": 1}), (J.repeat, (b, Tensor(np.array([2, 0, 1, 3]))), {"axis": 0}), (J.tile, (b, (2, 1, 1)), {}),
        (J.roll, (a, (1, 2)), {"axis": (0, -1)}), (C.tril, (a,), {"k": 1}), (C.triu, (a,), {}), (C.meshgrid, (b[0], b[1]), {"indexing": "ij"}),
        (I.take_along_axis, (b, Tensor(np.array([[2, -1]] * 4))), {"axis": 1}), (S.searchsorted, (b[0], b), {"side": "right"}),
        (S.isin, (b, b[0]), {}), (S.nonzero, (b,), {}), (S.unique_all, (b,), {}), (S.unique_counts, (b,), {}), (S.unique_inverse, (b,), {}),
        (R.cumulative_sum, (b,), {"axis": 1, "include_initial": True}), (M.flatten, (a,), {}), (C.broadcast_arrays, (a[0], a), {}),
        (M.unstack, (a,), {"axis": 1}), (M.unstack, (b[0],), {}), (L.tensordot, (a, b), {"axes": ((2,), (0,))}), (L.tensordot, (a, a), {"axes": 3}),
        (L.cross, (b, b[::-1]), {}), (J.pad, (b, ((1, 2), (0, 3))), {"value": 2.5}), (J.pad, (b, 1), {}), (E.isclose, (b, b + 1e-9), {"equal_nan": True}),
        (L.pinv, (b,), {}), (L.pinv, (b,), {"rtol": 0.1}), (L.matrix_rank, (b,), {}), (L.matrix_norm, (a,), {"ord": 1, "keepdims": True}),
        (F.fftshift, (b,), {"axes": 0}), (F.ifftshift, (b,), {}), (P.einsum, ("abc,cd->bd", a, b), {}), (C.full, ((3,), Tensor(np.int32(4))), {"dtype": "int64"}),
    ]  # fmt: skip
    assert all(same(f, *args, **kwargs) for f, args, kwargs in calls)
    for key in (
        0,
        slice(None, None, -2),
        (..., 1),
        (None, 1),
        Tensor(np.array([1, 0])),
        (slice(None), Tensor(np.array([True, False, True]))),
        (),
    ):
        assert same(I.getitem, a, key)


@pytest.mark.parametrize("kind", ("complex64", "complex128"))
def test_complex_functions_at_once(kind: str) -> None:
    array = (np.arange(12).reshape(3, 4) - 5 + 1j * np.arange(12)[::-1].reshape(3, 4)).astype(kind)
    x, real = xp.asarray(array), array.real.copy()
    found = {
        "add": x + 1j, "twice": (x + 0) * 2.0, "mul": x * x, "div": real / x, "abs": abs(x), "conj": x.conj(), "part": x[1:, ::2], "sum": x.sum(0), "real": xp.real(x),
        "product": x @ x.mT, "joined": xp.concat([x, x], axis=1), "fft": xp.fft.fft(x), "back": xp.fft.irfft(x, n=5, axis=0),
        "from real": xp.fft.rfft(xp.asarray(real)), "both": xp.fft.ifftn(x), "as": xp.asarray(real).astype(kind), "same": x == x.conj(),
    }  # fmt: skip
    wanted = {
        "add": array + 1j, "twice": array * 2, "mul": array * array, "div": real / array, "abs": abs(array), "conj": array.conj(), "part": array[1:, ::2],
        "sum": array.sum(0), "real": real, "product": array @ array.T, "joined": np.concatenate([array, array], axis=1), "fft": np.fft.fft(array),
        "back": np.fft.irfft(array, n=5, axis=0), "from real": np.fft.rfft(real), "both": np.fft.ifftn(array), "as": real.astype(kind),
        "same": array == array.conj(),
    }  # fmt: skip
    for name, y in found.items():
        assert y.known is not None, name  # (a node of its own costs more than the operation)
        assert y.numpy().dtype == wanted[name].dtype and np.allclose(y.numpy(), wanted[name], rtol=1e-5, atol=1e-5), name
    part, old = x[1:], x + 0
    part[0, :2] = xp.asarray(real[0, :2])
    x[:, 3] *= 2j
    array[1, :2], array[:, 3] = real[0, :2], array[:, 3] * 2j
    assert np.array_equal(x.numpy(), array) and np.array_equal(part.numpy(), array[1:]) and not np.array_equal(old.numpy(), array)
    with pytest.raises(UsageError):  # (its memory has the shape and the type of a real tensor's with two columns)
        reals = xp.asarray(real[:, :2]) * 1
        reals += x[:, 0]


def test_copies_have_memory_of_their_own() -> None:
    for size in (3, 20_000):
        array = np.arange(float(size))
        for x in (
            xp.asarray(array.copy()),
            Tensor(array) * 1.0,
            xp.asarray(np.stack([array, array]))[0],
            xp.ones(size),
            xp.asarray(array + 1j),
        ):
            before = x.numpy().copy()
            for y in (xp.asarray(x, copy=True), xp.astype(x, x.dtype), x.astype(x.dtype), x.copy(), np.copy(x)):
                np.asarray(y)[...] = 7
                assert np.array_equal(x.numpy(), before)


@pytest.mark.parametrize("size", [4, 80_000, 2_200_000])
@pytest.mark.parametrize("way", ["copy", "astype", "asarray", "copy.copy", "where", "clip"])
def test_a_copy_shows_nothing_that_is_written_to_an_array_of_its_source(way: str, size: int) -> None:
    ways: dict[str, Any] = {
        "copy": Tensor.copy,
        "astype": lambda x: x.astype(x.dtype),
        "asarray": lambda x: xp.asarray(x, copy=True),
        "copy.copy": copy.copy,
        "where": lambda x: xp.where(True, x, x),
        "clip": xp.clip,
    }
    x = Tensor(np.zeros(size, np.float32)) + 1
    if way in ("where", "clip"):
        x.realise()  # (what is lazy is one memory with all that is equal to it as an expression)
    y = ways[way](x)
    x.numpy()[1] = 5
    assert y[1].item() == 1
    y.numpy()[2] = 7
    assert x[2].item() == 1


def test_results_of_captured_functions_share_memory_with_nothing_but_what_was_returned_itself() -> None:
    outside = Tensor(np.arange(4.0))

    @tilewright.jit
    def several(x: Tensor) -> Any:
        y = x * 2
        return x.copy(), +x, outside.copy(), y, x * 2

    x = Tensor(np.arange(4.0))
    for _ in range(2):
        results = several(x)
        arrays = [r.numpy() for r in results]
        wanted = [a.copy() for a in arrays]
        for a in (x.numpy(), outside.numpy()):
            a[1] = 9
        assert all(np.array_equal(r.numpy(), w) for r, w in zip(results, wanted, strict=True))
        for i, a in enumerate(arrays):
            a[2] = -1 - i
        assert [r[2].item() for r in results] == [-1.0 - i for i in range(len(arrays))]
        assert x.tolist() == outside.tolist() == [0, 9, 2, 3]
        for a in (x.numpy(), outside.numpy()):
            a[1] = 1


def test_powers_clips_products_and_sums_of_other_kinds_are_known_at_once() -> None:
    x, n, m = Tensor(np.arange(6.0)), Tensor(np.arange(6)), Tensor(np.arange(6) > 2)
    found = [xp.sum(x) ** 0.5, xp.clip(n, 1, 4), xp.cumulative_sum(x, dtype=xp.float64), x @ m, xp.reshape(m, (2, 3)) @ xp.ones((3, 2))]
    wanted = [15**0.5, [1, 1, 2, 3, 4, 4], np.arange(6.0).cumsum(), 12.0, [[0, 0], [3, 3]]]
    assert all(f.known is not None and np.array_equal(f.numpy(), w) for f, w in zip(found, wanted, strict=True))
    assert [f.dtype.name for f in found] == ["float64", "int64", "float64", "float64", "float32"]


def test_long_zeros_are_written_to_where_they_are() -> None:
    x = xp.zeros((300, 100), dtype=xp.float64)
    at = x.known.__array_interface__["data"][0]
    x[:, 0] = 1
    assert x.numpy().__array_interface__["data"][0] == at and x.numpy().sum() == 300


def test_sorted_places_of_equal_elements_are_in_order() -> None:
    rng = np.random.default_rng(0)
    ties = np.round(rng.standard_normal((2, 1500)), 1)
    for array in (
        ties,
        rng.permutation(1500)[None].repeat(2, 0) * 1000,
        np.where(rng.random(ties.shape) < 0.1, np.nan, ties),
        (ties * 10).astype(np.int64), (ties * 1e5).astype(np.int32), (ties * 1e15).astype(np.int64), (ties * 1e4).astype(np.int16),
        (ties * 1e5).astype(np.uint32), np.where(ties > 2, 2**63, np.abs(ties)).astype(np.uint64), ties * 0.0,
        ties.astype(np.float32), np.where(rng.random(ties.shape) < 0.1, np.nan, ties * -0.0).astype(np.float32), np.float32(1e30) * ties,
        np.float32([[1, np.inf, -np.inf, np.nan]] * 2).repeat(375, 1),
        np.sort(ties),
    ):  # fmt: skip
        for axis in (0, 1):
            places = np.argsort(array, axis=axis, kind="stable")
            back = array.shape[axis] - 1 - np.flip(np.argsort(np.flip(array, axis), axis=axis, kind="stable"), axis)
            assert np.array_equal(xp.argsort(Tensor(array), axis=axis).numpy(), places)
            assert np.array_equal(xp.argsort(Tensor(array), axis=axis, descending=True).numpy(), back)
            assert np.array_equal(xp.sort(Tensor(array), axis=axis).numpy(), np.sort(array, axis=axis), equal_nan=array.dtype.kind == "f")
        row = np.sort(array[0])
        for side in ("left", "right"):
            assert np.array_equal(
                xp.searchsorted(Tensor(row), Tensor(array[1]), side=side).numpy(), np.searchsorted(row, array[1], side=side)
            )
        assert np.array_equal(Tensor(ties[0].repeat(4))[Tensor(ties[0].repeat(4) > 0)].numpy(), ties[0].repeat(4)[ties[0].repeat(4) > 0])


def test_powers_products_and_constants_beside_numbers_are_computed_at_once() -> None:
    array, ones = np.arange(1.0, 5.0), np.ones(4)
    x, one = Tensor(array) + 0.0, xp.ones(4, dtype=xp.float64)
    for call in (
        lambda x, one: x**2, lambda x, one: 2.0**x, lambda x, one: x**x, lambda x, one: x @ x, lambda x, one: one @ x, lambda x, one: x @ one,
        lambda x, one: one * x, lambda x, one: x - one, lambda x, one: x**one, lambda x, one: np.where(x > 2, x, one),
    ):  # fmt: skip
        found = call(x, one)
        assert found.known is not None and found.constant is None and np.array_equal(found.numpy(), call(array, ones))
    assert (one @ one).constant is not None and (one * 2).constant is not None and (one**2).constant is not None
    part = xp.broadcast_arrays(one, x)[0]
    part[0] = 9.0
    assert one.tolist() == [1.0] * 4 and (one + x)[0] == 2.0
    with pytest.raises(ValueError, match="matmul"):
        x @ xp.ones((3, 2))
    lazy = Tensor(array)
    for made in (one @ lazy, one * lazy, 2.0**lazy, one**lazy, lazy**one, lazy @ one, xp.where(lazy > 2, one, lazy)):
        assert made.shape in ((), (4,))
    assert (one @ lazy) == 10.0 and (one**lazy).tolist() == [1.0] * 4


def test_what_would_be_large_is_lazy() -> None:
    row, column = xp.ones((1, 4096)), xp.ones((4096, 1))
    assert all(
        x.node.data is None for x in (row + column, column @ row, xp.broadcast_to(row, (4096, 4096)), xp.where(column > 0, row, 0.0))
    )


@pytest.mark.parametrize(("shared", "written"), [*itertools.product((False, True), repeat=2)])
def test_results_share_memory_in_no_way_that_shows(shared: bool, written: bool) -> None:
    a = np.arange(12.0)
    x = Tensor(a) if shared else Tensor(a.copy())
    if written:
        x[0] = 0.0
    same_values, moved = +x, xp.broadcast_to(x, (12,))
    x[1] = 9.0
    moved[2] = 7.0
    assert same_values.tolist() == a.tolist() == list(range(12)) and x.tolist()[:3] == [0, 9, 2] and moved.tolist()[:3] == [0, 1, 7]


def test_arrays_that_numpy_knows_and_others_do_not() -> None:
    class Own(np.ndarray[Any, Any]):
        pass

    x, masked = Tensor(np.arange(3.0)), np.ma.array([1.0, 2.0, 3.0], mask=[0, 1, 0])
    for own in (np.arange(3.0).view(Own), np.arange(3.0).astype(">f8")):
        assert (x + own).tolist() == (own + x).tolist() == [0, 2, 4]
    for wrong in (lambda: xp.asarray(masked), lambda: x + masked, lambda: x.__setitem__(slice(None), masked)):
        with pytest.raises(UsageError, match="masked"):
            wrong()
    assert xp.asarray([xp.asarray(1, dtype=xp.int32), xp.asarray(2, dtype=xp.int32)]).dtype is xp.int32


def test_a_row_that_is_added_to_is_changed_in_place() -> None:
    x, row = xp.zeros((50, 3)), xp.ones(3)
    x[0] = 0.0
    address = x.numpy().ctypes.data
    for i in range(50):
        x[i] += row * i
    assert x.numpy().ctypes.data == address and x.numpy()[:, 1].tolist() == list(range(50))


def test_a_root_as_a_power_is_ieees() -> None:
    x = np.array([-np.inf, -0.0, 4.0, 2.0])
    for half in (0.5, Tensor(np.float64(0.5)), Tensor([0.5]).astype(xp.float64), Tensor(np.full(4, 0.5))):
        root = (Tensor(x) ** half).numpy()
        assert np.array_equal(root, [np.inf, 0.0, 2.0, np.sqrt(2.0)]) and not np.signbit(root).any(), half


def test_a_divisor_that_is_infinite_in_the_other_type_gives_zero() -> None:
    x = Tensor(np.array([-1.0, 2.0], np.float32))
    assert (x // 1e300).tolist() == [0, 0] and (1e300 // x).tolist() == [-np.inf, np.inf]


@pytest.mark.parametrize("kind", ("bool", "int8", "float32"))
@pytest.mark.parametrize("shape", ((7, 1501), (3, 700, 5), (9001, 2)))
def test_reductions_of_short_rows_are_those_of_long_ones(kind: str, shape: tuple[int, ...]) -> None:
    array = np.random.default_rng(1).integers(0, 3, shape).astype(kind)
    if kind.startswith("f"):
        array[0, 0], array[-1, -1] = np.nan, np.inf
    for x in (array, array.T):
        for function in ("sum", "prod", "max", "min", "any", "all", "mean", "std"):
            for axis in range(x.ndim):
                with np.errstate(all="ignore"):
                    wanted = getattr(np, function)(x, axis=axis, keepdims=True)
                if function in ("mean", "std") and not kind.startswith("f"):
                    wanted = wanted.astype(np.float32)
                found = getattr(xp, function)(Tensor(x), axis=axis, keepdims=True).numpy()
                assert found.dtype == wanted.dtype and found.shape == wanted.shape
                assert np.allclose(found, wanted, rtol=1e-4, equal_nan=True), (function, axis)


def test_powers_and_what_is_large_are_numpys_in_memory_of_their_own() -> None:
    x = Tensor(np.linspace(-2.0, 2.0, 20_000))
    before = x.numpy().copy()
    for n in (1, 2, 3, 5, 6, -2):
        assert np.allclose((x**n).numpy(), before ** float(n), equal_nan=True)
    short = Tensor(before[::2000].copy())
    for n in range(-64, 65):
        assert np.allclose((short**n).numpy(), before[::2000] ** float(n), rtol=1e-12), n
    y, z = x + 1.0, xp.flip(x * 2.0)
    y[0] = 9.0
    assert z.numpy()[-1] == -4.0 and np.array_equal(x.numpy(), before) and y.numpy()[1] == before[1] + 1


def test_constants_stay_what_kernels_know_and_end_as_data() -> None:
    mask = xp.arange(5)[:, None] >= xp.arange(5)
    assert mask.node.src and mask.tolist() == np.tri(5, dtype=bool).tolist()
    base = xp.zeros(3)
    part = base[1:]
    base += 1.0
    assert (part * 2).node is not None and part.tolist() == [1.0, 1.0]
    for _ in range(100):
        base = base + base
    assert base.tolist() == [2.0**100] * 3


def test_numpy_answers_while_kernels_of_a_large_graph_are_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Any] = []
    monkeypatch.setattr(realise, "prepare", lambda outs, device: made.append(realise.key_of(outs)))
    monkeypatch.setattr(numpy_evaluation, "MOST_WORK", 1 << 13)
    monkeypatch.setattr(numpy_evaluation, "ENOUGH_WORK", 1 << 22)
    node = (xp.arange(600_000) * 0.5 + 1.25).node
    asked = [numpy_evaluation.is_numpys([node], "cpu", lambda: node.shape, lambda: realise.prepare([node], "cpu")) for _ in range(3)]
    assert asked == [True, False, False] and len(made) == 1


def test_kernels_that_another_thread_compiles_are_waited_for() -> None:
    node = realise.copied((xp.arange(6000) * 0.25 + 1.5).node)
    key = realise.key_of([node])
    realise.prepare([node], "cpu")
    realise._finished()
    assert key in realise._lists and not realise._preparing


def test_constants_remember_what_they_were_made_of() -> None:
    shape = [2, 3]
    x, third = xp.zeros(shape), xp.ones(3) / 3
    shape[0] = 5
    tilewright.set_default_float("float64")
    try:
        assert x.node.shape == (2, 3) and third.node.dtype is third.dtype is xp.float32
    finally:
        tilewright.set_default_float("float32")
    base = xp.eye(3) + xp.ones(3)
    twice = base * 2
    assert base.node.src
    base.numpy()[0, 0] = 100.0
    assert twice.node.src and twice.tolist()[0] == [4, 2, 2]


@pytest.mark.parametrize("late", (False, True))
def test_captured_updates_write_to_no_memory_that_others_see(late: bool) -> None:
    given = np.arange(6.0)
    x = xp.asarray(given)
    y = x + 0.0
    seen = [y.astype("float64"), xp.roll(y, 1), y.numpy(), xp.asarray(y, copy=True)]

    @tilewright.jit
    def step(a: Any, b: Any) -> None:
        a += 1.0
        b += 1.0

    if late:
        assert x.node.data is not y.node.data
    for _ in range(2):
        step(x, y)
    assert x.tolist() == y.tolist() == [2, 3, 4, 5, 6, 7] and given.tolist() == list(range(6))
    assert [np.asarray(s).tolist() for s in seen] == [list(range(6)), [5, *range(5)], list(range(6)), list(range(6))]


def test_only_blocks_of_the_pool_are_pooled() -> None:
    x = xp.asarray(np.arange(8200.0))
    part = x[4:8196]
    whole = xp.reshape(part, (2, -1))
    del x, part, whole
    assert all(block.dtype == np.uint8 for blocks in pools.HOST._rooms.values() for block in blocks)


@needs_pocl
def test_small_graphs_on_opencl_are_numpys_until_they_came_often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its driver compiles for a second."""
    array = np.arange(12, dtype=np.float32).reshape(3, 4)
    x = Tensor(array, device=POCL)
    asked: list[str] = []
    monkeypatch.setattr(realise, "bound", lambda kernel, device: asked.append(device))
    monkeypatch.setattr(realise, "prepare", lambda outs, device: asked.append("prepare"))
    half, wide = x.astype("bfloat16") * 2, x @ x.mT
    assert wide.device == POCL and (wide.numpy() == array @ array.T).all()
    assert half.dtype is bfloat16 and (half.astype("float32").numpy() == 2 * array).all()
    both = x + 1
    assert ((both * both).numpy() == (array + 1) ** 2).all() and (both.numpy() == array + 1).all()
    x[1] = 5.0
    array[1] = 5.0
    assert (x[:, ::2].sum(0).numpy() == array[:, ::2].sum(0)).all() and not asked
    monkeypatch.setattr(numpy_evaluation, "FEW_RUNS", 16)
    for _ in range(16):
        assert ((x * 3).numpy() == 3 * array).all()
    assert asked == ["prepare"]
    with pytest.raises(TypeError):  # (what stands for a kernel here is none)
        (x * 3).numpy()
    assert asked == ["prepare", POCL]
    with pytest.raises(TypeError):
        Tensor(np.zeros(numpy_evaluation.SMALL_GRAPH + 1, np.float32), device=POCL).exp().numpy()


@pytest.mark.parametrize("kind", [np.int8, np.uint8, np.int64, np.uint64])
def test_unique_integers_are_numpys(kind: Any) -> None:
    least, most = int(np.iinfo(kind).min), int(np.iinfo(kind).max)
    for low, high in ((least, least + 3), (most - 3, most), (0, 100), (least, most)):
        x = np.random.default_rng(1).integers(low, high, (50, 100), kind, endpoint=True)
        found = xp.unique_values(Tensor(x)).numpy()
        assert found.dtype == kind and np.array_equal(found, np.unique(x))


@pytest.mark.parametrize("kind", [np.complex64, np.complex128])
def test_parts_of_complex_tensors_are_written_in_place(kind: Any) -> None:
    wanted = (np.arange(20) + 1j).astype(kind)
    x = Tensor(wanted.copy())
    for a in (x, wanted):
        part, table = a[::3], a.reshape(4, 5)
        part *= 2
        part[1] = 5
        table += 1j
        a[1:10] *= 2
        a[0] *= 0.5
    assert np.array_equal(x.numpy(), wanted) and np.array_equal(x.reshape(4, 5).numpy(), wanted.reshape(4, 5))


def test_rows_are_reduced_together_where_that_takes_less_time_than_rows_one_by_one() -> None:
    wanted = {  # by shape, function and dimension
        ((2000, 20), np.maximum, 1): True, ((300, 20), np.maximum, 1): False, ((1000, 12), np.int64(1), 1): False, ((1000, 8), np.int64(1), 1): True,
        ((64, 200), np.add, 1): True, ((20, 250), np.add, 1): False, ((100, 41), np.add, 0): False, ((300, 41), np.add, 0): True,
    }  # fmt: skip
    for (shape, function, axis), together in wanted.items():
        x = np.random.default_rng(0).integers(-9, 9, shape).astype(type(function) if isinstance(function, np.int64) else np.float64)
        way = function if isinstance(function, np.ufunc) else np.add
        found = quick_arrays._of_rows(way, x, axis)
        assert (found is not None) == together, (shape, function, axis)
        assert np.array_equal(quick_arrays.reduced(way, x, axis, True), way.reduce(x, axis=axis, keepdims=True))


def place(x: Any) -> int:
    """Where a tensor's memory begins. (The array is gone afterwards, so that nobody sees the memory.)"""
    found: int = x.numpy().__array_interface__["data"][0]
    return found


@pytest.mark.parametrize("size", [6, 20_000])
def test_operators_in_place_write_to_memory_that_nobody_else_reads(size: int) -> None:
    a = np.arange(float(size))
    x, other = Tensor(a) + 1.0, Tensor(a) * 0.5
    at = place(x)
    x += 2
    x *= other
    assert place(x) == at and np.array_equal(x.numpy(), (a + 3) * (a * 0.5))
    for reader in (Tensor.numpy, lambda t: t * 1.0, lambda t: t[1:3], lambda t: t.reshape(2, -1), lambda t: t + t):
        seen = reader(x)
        before, wanted = np.array(seen), x.numpy() + 1.0
        x += 1
        part = seen.shape == (2,) or seen.shape == (2, size // 2)  # (views see what is written)
        assert np.array_equal(np.array(seen), before + 1.0 if part else before) and np.array_equal(x.numpy(), wanted)


def test_what_an_operator_in_place_cannot_keep_is_refused_or_converted() -> None:
    x = Tensor(np.arange(4)) + 1
    with pytest.raises(TypeError, match="float64"):
        x += np.arange(4.0)
    with pytest.raises(UsageError):
        x += xp.ones((3, 4), dtype=xp.int64)
    x += xp.asarray(np.arange(4, dtype=np.int32))
    assert x.dtype is xp.int64 and x.tolist() == [1, 3, 5, 7]
    y = x[1:3]
    y += x[2:4]
    assert x.tolist() == [1, 8, 12, 7] and y.tolist() == [8, 12]


@pytest.mark.parametrize("seed", range(6))
def test_random_writes_are_numpys(seed: int) -> None:
    """Parts, writes, operators in place and readers of old values, of a short tensor or one with a node."""
    rng = np.random.default_rng(seed)
    rows = (4, 6) if seed % 2 else (300, 64)
    arrays: list[Any] = [rng.integers(0, 9, rows).astype(float)]
    tensors: list[Any] = [Tensor(arrays[0].copy()) + 0.0]
    keep: list[tuple[Any, Any]] = []
    for _ in range(60):
        i = int(rng.integers(len(arrays)))
        a, t, what = arrays[i], tensors[i], int(rng.integers(8))
        if what == 0 and a.ndim == 2 and len(a) > 2:
            arrays, tensors = [*arrays, a[1:3]], [*tensors, t[1:3]]
        elif what == 1:
            arrays, tensors = [*arrays, a.T], [*tensors, t.T if a.ndim == 2 else t]
        elif what == 2:
            at = tuple(int(rng.integers(n)) for n in a.shape)
            a[at] = t[at] = float(rng.integers(9))
        elif what == 3:
            a[a > 5] = 1.5
            t[t > 5] = 1.5
        elif what == 4:
            a += 1
            t += 1
        elif what == 5:
            a *= a
            t *= t
            a %= 7
            t %= 7
        elif what == 6:
            keep.append((t * 2.0, a * 2.0))
        else:
            keep.append((t.numpy(), a.copy()))
        if len(arrays) > 4:
            arrays, tensors = arrays[:1], tensors[:1]
    assert all(np.array_equal(t.numpy(), a) for t, a in zip(tensors, arrays, strict=True))
    assert all(np.array_equal(np.asarray(t), a) for t, a in keep)


def test_a_vector_that_is_moved_is_a_view_as_a_reshaped_one_is() -> None:
    x = Tensor(np.arange(100_000.0))
    y = xp.moveaxis(x, 0, -1)
    z = xp.permute_dims(x.reshape(100, 1000), (0, 1))
    y[3], z[0, 4] = 7.0, 8.0
    assert type(y.links.place).__name__ == "Reshaped" and x[3:5].tolist() == [7.0, 8.0]
    w = xp.permute_dims(x.reshape(100, 1000), (1, 0)).reshape(-1)
    w[0] = 5.0
    assert x[0] == 0.0


def test_numbers_on_a_named_device_are_known_at_once() -> None:
    for given in (True, 2, 0.5, [1, 2], np.bool_(True), np.float64(3.0)):
        assert xp.asarray(given, device="cpu").known is not None
    assert xp.result_type(xp.float32, 1.0) is xp.float32 and xp.result_type(xp.ones(2, dtype=xp.int64), 1j) is xp.complex128


@pytest.mark.parametrize("floats", ["float32", "float64"])
def test_integers_beside_floats_are_computed_at_once(floats: str) -> None:
    tilewright.set_default_float(floats)
    try:
        for kind in ("bool", "int16", "int64", "uint64", "float32"):
            x = Tensor(values(kind))
            for function in (E.sqrt, E.exp, E.log1p, R.mean, R.std, L.vector_norm):
                assert same(function, x) or kind == "float32", (function.__name__, kind)
            for number in (2.5, -1.0, 3, True):
                for function in (E.add, E.multiply, E.divide, E.floor_divide, E.less, E.maximum):
                    once = same(function, x, number), same(function, number, x)
                    wide = kind in ("int64", "uint64") or floats == "float64"
                    assert all(once) or not wide or kind == "bool" or (kind == "uint64" and number == -1), (function.__name__, kind, number)
    finally:
        tilewright.set_default_float("float32")


@pytest.mark.parametrize("kind", ["float64", "complex128"])
def test_long_parts_are_computed_at_once_after_a_write_to_one(kind: str) -> None:
    """As SciPy writes to a part of a spectrum: what follows is no graph."""
    a = np.arange(24000.0).reshape(2, -1).astype(kind)
    x = xp.fft.ifft(xp.fft.fft(Tensor(a))) if kind == "complex128" else Tensor(a) * xp.ones(a.shape, dtype=kind)
    part = x[..., :9000]
    assert part.node is not None
    part[..., 7] *= 2
    a[..., 7] *= 2
    half = part / 2.0
    assert half.known is not None or half.deferred is not None or half.node.data is not None
    np.testing.assert_allclose(half.numpy(), a[..., :9000] / 2, atol=1e-8)
    part[0] = 1.0
    np.testing.assert_allclose(half.numpy(), a[..., :9000] / 2, atol=1e-8)
