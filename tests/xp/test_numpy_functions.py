"""NumPy's functions, numbers and types with tensors: each call beside NumPy's own answer."""

from __future__ import annotations

import copy
import itertools
import math
import operator
import pickle
import statistics
import subprocess
import sys
from array import array
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest
import tilewright as tw
from tilewright import Tensor, UsageError, xp

RNG = np.random.default_rng(0)
A, B = RNG.standard_normal((5, 7)), RNG.standard_normal((5, 7))


def same(found: Any, wanted: Any) -> None:
    """Tensors where NumPy has arrays and numbers, of its types, shapes and values; anything else equal."""
    if isinstance(wanted, (list, tuple)):
        assert len(found) == len(wanted)
        for f, w in zip(found, wanted, strict=True):
            same(f, w)
    elif isinstance(wanted, (np.ndarray, np.generic)):
        assert isinstance(found, Tensor) and np.dtype(found.dtype) == wanted.dtype and found.shape == wanted.shape
        np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-12, atol=1e-13)
    else:
        assert found == wanted


REDUCTIONS = [
    "sum",
    "prod",
    "max",
    "min",
    "mean",
    "var",
    "std",
    "any",
    "all",
    "argmax",
    "argmin",
    "amax",
    "amin",
    "median",
    "count_nonzero",
    "ptp",
]
OPTIONS: tuple[dict[str, Any], ...] = ({}, {"axis": 0}, {"axis": -1, "keepdims": True})


@pytest.mark.parametrize("name, options", [*itertools.product(REDUCTIONS, OPTIONS), ("cumsum", {"axis": 1}), ("cumprod", {})])
def test_reductions(name: str, options: dict[str, Any]) -> None:
    same(getattr(np, name)(Tensor(A), **options), getattr(np, name)(A, **options))


UNARY = ["exp", "sin", "arctan", "abs", "negative", "rint", "floor", "isnan", "sign", "square", "cbrt"]  # cbrt has no twin
BINARY = ["add", "subtract", "multiply", "divide", "maximum", "fmax", "arctan2", "hypot", "less", "equal", "logaddexp", "copysign"]


@pytest.mark.parametrize("name", UNARY)
def test_functions_of_one_array(name: str) -> None:
    same(getattr(np, name)(Tensor(A)), getattr(np, name)(A))


@pytest.mark.parametrize("name", BINARY)
def test_functions_of_two_arrays(name: str) -> None:
    f = getattr(np, name)
    for found in (f(Tensor(A), B), f(A, Tensor(B)), f(Tensor(A), Tensor(B))):
        same(found, f(A, B))
    same(f(Tensor(A), np.float64(2)), f(A, 2))


CALLS: dict[str, Callable[[Any], Any]] = {
    "reduce": np.add.reduce, "reduce all": lambda x: np.add.reduce(x, axis=None), "accumulate": np.add.accumulate,
    "reduce keepdims": lambda x: np.maximum.reduce(x, axis=1, keepdims=True), "ufunc outer": lambda x: np.multiply.outer(x[0], B[0]),
    "ddof": lambda x: np.std(x, ddof=1, axis=0), "where": lambda x: np.sum(x, where=A > 0), "initial": lambda x: np.max(x, initial=9.0),
    "dtype": lambda x: np.mean(x, axis=0, dtype=np.float32), "position": lambda x: np.mean(x, 1), "two axes": lambda x: np.std(x, axis=(0, 1)),
    "reshape": lambda x: np.reshape(x, (7, 5)), "reshape flat": lambda x: np.reshape(x, -1), "transpose": np.transpose,
    "transpose order": lambda x: np.transpose(x, (1, 0)), "squeeze": lambda x: np.squeeze(x[:1]), "expand": lambda x: np.expand_dims(x, 1),
    "broadcast_to": lambda x: np.broadcast_to(x, (2, 5, 7)), "flip": np.flip, "moveaxis": lambda x: np.moveaxis(x, 0, 1),
    "concatenate": lambda x: np.concatenate([x, B], axis=1), "stack": lambda x: np.stack([x, x]), "vstack": lambda x: np.vstack([x, x]),
    "tile": lambda x: np.tile(x, (2, 1)), "repeat": lambda x: np.repeat(x, 2, axis=0), "roll": lambda x: np.roll(x, (1, 2), axis=(0, 1)),
    "diff": lambda x: np.diff(x, 2, 0), "clip": lambda x: np.clip(x, -1, 1), "clip above": lambda x: np.clip(x, None, 0.5),
    "choose": lambda x: np.where(x > 0, x, 0), "places": lambda x: np.where(x > 0), "nonzero": lambda x: np.nonzero(x > 0), "sort": np.sort,
    "argsort": np.argsort, "searchsorted": lambda x: np.searchsorted(np.sort(x[0]), x[1]), "take": lambda x: np.take(x, [0, 2], axis=1),
    "tensordot": lambda x: np.tensordot(x, B.T, axes=1), "dot": lambda x: np.dot(x, B.T), "matmul": lambda x: np.matmul(x, B.T),
    "outer": lambda x: np.outer(x[0], x[1]), "triu": lambda x: np.triu(x, 1), "full_like": lambda x: np.full_like(x, 3),
    "zeros_like": np.zeros_like, "ravel": np.ravel, "round": lambda x: np.round(x, 2), "around": np.around, "shape": np.shape,
    "size": lambda x: np.size(x, 1), "trace": lambda x: np.trace(x[:, :5]), "einsum": lambda x: np.einsum("ij,kj->ik", x, B),
    "inv": lambda x: np.linalg.inv(x @ x.T), "det": lambda x: np.linalg.det(x @ x.T), "norm": lambda x: np.linalg.norm(x, axis=1),
    "solve": lambda x: np.linalg.solve(x @ x.T, x), "eigvalsh": lambda x: np.linalg.eigvalsh(x @ x.T), "cov": np.cov,
    "quantile": lambda x: np.quantile(x, 0.3, axis=0), "unique": lambda x: np.unique(np.round(x)), "histogram": lambda x: np.histogram(x, 3),
    "average": lambda x: np.average(x, axis=0, weights=np.arange(5.0)), "allclose": lambda x: np.allclose(x, A),
    "array_equal": lambda x: np.array_equal(x, A), "isin": lambda x: np.isin(np.round(x), [0.0, 1.0]), "split": lambda x: np.split(x, [1, 3]),
    "pad": lambda x: np.pad(x, 1), "cumsum": lambda x: np.cumsum(x, axis=1, dtype=np.float32), "meshgrid": lambda x: np.meshgrid(x[0], x[1]),
    "isclose": lambda x: np.isclose(x, A + 1e-9), "result_type": lambda x: np.result_type(x, np.float32), "real": np.real, "imag": np.imag,
    "method out": lambda x: x.sum(axis=0, dtype=None), "method ddof": lambda x: x.std(ddof=1), "method round": lambda x: x.round(decimals=1),
    "sort flat": lambda x: np.sort(x, axis=None), "argsort flat": lambda x: np.argsort(x, axis=None), "concatenate flat": lambda x: np.concatenate((x, x[:1]), axis=None),
    "take one": lambda x: np.take(x, 3), "take a column": lambda x: np.take(x, -1, axis=1), "take flat along": lambda x: np.take_along_axis(x, np.array([9, 0]), axis=None),
    "method take": lambda x: (x.take([1, 0], axis=1), x.take(2), x.take([[3]], 0), x.take([])), "repeat each": lambda x: np.repeat(x, [1, 0, 2, 1, 1], axis=0),
    "method repeat": lambda x: (x.repeat(2, 1), x.repeat([1, 0, 2, 1, 1], 0)), "tile once": lambda x: np.tile(x, 2), "roll twice": lambda x: np.roll(x, (1, 3), axis=1),
    "outer of matrices": lambda x: np.outer(x, x[0]), "diff of ends": lambda x: np.diff(x, axis=0, prepend=2.0, append=x[:1]), "ravel by columns": lambda x: x.ravel("F"),
}  # fmt: skip
INTEGERS: dict[str, Callable[[Any], Any]] = {
    "clip by wider ones": lambda x: np.clip(x, np.int64([-300, 2, 0]), np.int64([300, 300, 5])), "clip by floats": lambda x: x.clip(np.float64([0.5, 1.5, -9.0])),
    "reciprocal": lambda x: np.reciprocal(x | 1), "fabs": lambda x: np.fabs(x).astype("float64"), "mean as integers": lambda x: np.mean(x, dtype=np.int64),
}  # fmt: skip


@pytest.mark.parametrize("name", CALLS)
def test_functions_as_numpy_calls_them(name: str) -> None:
    same(CALLS[name](Tensor(A)), CALLS[name](A))


@pytest.mark.parametrize("name", INTEGERS)
@pytest.mark.parametrize("kind", ["int8", "uint8", "int32"])
def test_functions_of_integers(name: str, kind: str) -> None:
    array = np.arange(-3, 3).reshape(2, 3).astype(kind)
    same(INTEGERS[name](Tensor(array)), INTEGERS[name](array))


PARTS: dict[str, Callable[[Any], Any]] = {
    "swapaxes": lambda x: np.swapaxes(x, 0, 1)[::-2], "split": lambda x: np.split(x, [1, 3])[1], "array_split": lambda x: np.array_split(x, 3, axis=1)[0],
    "vsplit": lambda x: np.vsplit(x[:4], 2)[1], "hsplit": lambda x: np.hsplit(x, [2])[1], "split backwards": lambda x: np.split(x, 7, axis=-1)[6],
    "atleast_2d": lambda x: np.atleast_2d(x[1]), "atleast_1d": lambda x: np.atleast_1d(x, x[0])[1], "view": lambda x: x.view(),
}  # fmt: skip


@pytest.mark.parametrize("name", PARTS)
def test_what_is_written_to_a_part_is_written_to_the_whole(name: str) -> None:
    array, tensor = A.copy(), Tensor(A.copy())
    for x in (array, tensor):
        PARTS[name](x)[...] = 7.0
    same(tensor, array)
    same(tw.jit(lambda x: PARTS[name](x) * 1.0)(Tensor(A)), PARTS[name](A))


def test_functions_that_write_take_their_arguments_by_name() -> None:
    tensor = Tensor(A.copy())
    np.copyto(src=4.0, dst=tensor, where=A > 0)
    same(tensor, np.where(A > 0, 4.0, A))


def test_twins_are_lazy_and_others_are_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEWRIGHT_SMALL", "0")
    assert np.sum(Tensor(A), axis=0).node.data is None and np.exp(Tensor(A)).node.data is None
    assert tw.jit(lambda x: np.where(x > 0, np.exp(x).sum(1, keepdims=True), np.mean(x)))(Tensor(A)).shape == A.shape


def test_results_go_where_out_says() -> None:
    out, array = Tensor(np.zeros(7)), np.zeros(7)
    assert np.sum(Tensor(A), axis=0, out=out) is out and Tensor(A).sum(axis=0, out=array) is array
    same(out, A.sum(0))
    assert np.allclose(array, A.sum(0)) and np.add(Tensor(A), 1, out=(both := np.zeros_like(A))) is both and np.allclose(both, A + 1)
    with pytest.raises(TypeError):
        np.sum(Tensor(A), axis=0, out=xp.zeros(7, dtype=xp.int32))
    assert type(np.copy(Tensor(A))) is np.ndarray  # (as np.array, which libraries use it as)
    x = A.copy()
    x += Tensor(B)
    assert type(x) is np.ndarray and np.allclose(x, A + B)
    square = Tensor(A[:5, :5].copy())
    np.fill_diagonal(square, 3.0)
    assert (np.diag(square.numpy()) == 3).all()


def test_types_are_numpys_where_it_asks() -> None:
    x = xp.ones(3)
    assert np.dtype(x.dtype) == np.float32 and x.dtype == np.float32 and x.dtype == np.dtype("f4") and xp.bool == np.bool_
    assert x.dtype != np.float64 and np.issubdtype(x.dtype, np.floating) and x.dtype.itemsize == 4
    assert x.dtype == "float32" and x.dtype != float and x.astype("f8").dtype == float and Tensor(array("d", [1])).dtype == float
    assert x.astype(float).dtype is xp.float64 and x.astype(int).dtype is xp.int64 and x.astype(bool).dtype is xp.bool
    assert {xp.float32: 1}[Tensor(1.0).dtype] == 1 and x.dtype != 1 and x.dtype != [1, 2]


def test_in_place_operators_keep_the_type_where_numpy_does() -> None:
    for to, by in itertools.product(("float32", "int32", "uint8", "int64", "float64"), repeat=2):
        x, wanted = Tensor(np.arange(3).astype(to)), np.arange(3).astype(to)
        try:
            wanted += np.arange(3).astype(by)
        except TypeError:
            with pytest.raises(TypeError):
                x += Tensor(np.arange(3).astype(by))
            continue
        x += Tensor(np.arange(3).astype(by))
        same(x, wanted)


def test_numpys_numbers_are_sizes_axes_and_places() -> None:
    three, x = np.int64(3), xp.reshape(xp.arange(np.int64(12)), (np.int64(3), -1))
    n = np.arange(12).reshape(3, 4)
    for found, wanted in (
        (x.sum(np.int64(0)), n.sum(0)), (x[np.int64(1)], n[1]), (x[np.int64(1), np.array(2)], n[1, 2]), (x[: np.int8(2), xp.asarray(1)], n[:2, 1]),
        (xp.reshape(x, np.array([4, 3])), n.reshape(4, 3)), (xp.arange(xp.asarray(3)), np.arange(3)), (x[np.True_], n[True]),
        (xp.roll(x, np.int64(1), axis=np.int64(1)), np.roll(n, 1, 1)), (xp.repeat(x, np.int64(2)), np.repeat(n, 2)),
        (xp.expand_dims(x, axis=(np.int64(0),)), n[None]), (xp.full_like(x, np.float64(2)), np.full_like(n, 2)), (x.reshape(three, 4), n),
        (xp.full((three,), np.float64(2)), np.full(3, 2.0)), (np.float64(2) * xp.ones(3), 2 * np.ones(3)), (xp.ones(3) * three, 3 * np.ones(3, "f4")),
    ):  # fmt: skip
        same(found, wanted)


def test_iterating_computes_nothing_before_an_element_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEWRIGHT_SMALL", "0")
    x = Tensor(A) + 1
    assert np.iterable(x) and x.node.data is None
    assert [row.tolist() for row in x] == (A + 1).tolist()
    with pytest.raises(TypeError):
        iter(Tensor(1.0))


@pytest.mark.parametrize("inner", [(), (2,)])
def test_a_mask_that_selects_nothing_is_written_with_nothing(inner: tuple[int, ...]) -> None:
    x = xp.ones((3, *inner))
    y, nothing = x * 2, Tensor(np.zeros(3, bool))
    x[nothing] = y[nothing]
    assert (x.numpy() == 1).all() and y[nothing].shape == (0, *inner)
    wrong = xp.ones(3)
    for values in (0, 2, 4):
        with pytest.raises(IndexError):
            wrong[xp.ones(3) > 0] = xp.zeros(values)
            wrong.numpy()


def test_pythons_protocols() -> None:
    one = Tensor(np.array(1.2345))
    assert f"{one:.2f}" == "1.23" and round(one) == 1 and f"{one}" and float(Tensor([2.0])) == 2 and complex(one) == 1.2345
    quotient, rest = divmod(Tensor([5, -7]), 3)
    assert quotient.tolist() == [1, -3] and rest.tolist() == [2, 2] and 5 in Tensor([5, 6]) and 9 not in Tensor([5, 6])
    x = Tensor(A)
    assert x.strides == A.strides and x.tobytes() == A.tobytes() and x.itemsize == 8 and one.strides == ()
    same(round(x, 1), np.round(A, 1))
    same(x[:, :5].trace(), A[:, :5].trace())
    same(x.real, A)
    same(xp.real(x) + xp.imag(x) + x.imag, A)
    same(xp.conj(x.conj()), A)
    copied = x.copy()
    assert not np.shares_memory(copied.numpy(), A) and (copied.numpy() == A).all() and x.ravel().shape == (35,)


def test_a_copy_has_a_gradient_of_its_own() -> None:
    parameter = Tensor(np.ones(3), requires_grad=True)
    copied = copy.copy(parameter)
    (copied * copied).sum().backward()
    assert copied.requires_grad and copied.grad.tolist() == [2, 2, 2] and parameter.grad is None


def test_errors_are_those_that_python_and_numpy_raise() -> None:
    x = xp.ones(3)
    for error, call in (
        (ValueError, lambda: x.reshape(2, 2)), (ValueError, lambda: x + xp.ones(2)), (ValueError, lambda: x @ 2), (ValueError, lambda: 2.5 @ x), (TypeError, lambda: x.astype("floaty")),  # type: ignore[arg-type]
        (ValueError, lambda: bool(x)), (IndexError, lambda: x[5]), (TypeError, lambda: xp.ones(2, dtype="uint64") + xp.ones(2, dtype="int8")),
        (np.linalg.LinAlgError, lambda: xp.linalg.inv(xp.zeros((2, 2)))), (np.linalg.LinAlgError, lambda: xp.linalg.solve(xp.ones((2, 2)), xp.ones(2))),
        (IndexError, lambda: xp.sum(x, axis=1)), (IndexError, lambda: x.max(-2)), (TypeError, lambda: xp.zeros(2.5)), (TypeError, lambda: x.reshape(1.5, 2)),
    ):  # fmt: skip
        with pytest.raises(error):
            call()


def test_refusals_are_errors_that_numpy_raises() -> None:
    mask, oblong = Tensor([True, False]), Tensor(np.ones((2, 3)))
    for refused in (lambda: -mask, lambda: mask - mask):
        with pytest.raises(TypeError, match="of bools"):
            refused()
    for name in ("inv", "det", "slogdet", "eigh", "cholesky"):
        with pytest.raises(np.linalg.LinAlgError, match="square matrices"):
            getattr(xp.linalg, name)(oblong)
    with pytest.raises(np.linalg.LinAlgError, match="square matrices"):
        xp.linalg.matrix_power(oblong, 2)
    with pytest.raises(IndexError):
        oblong.item(6)


def test_elements_by_place_and_flattened_copies() -> None:
    a = np.arange(6.0).reshape(2, 3)
    for t in (Tensor(a), Tensor(a) + 0.0, Tensor(a.T.copy()).T):
        assert [t.item(4), t.item(-1), t.item(1, 2), t.item((0, 1))] == [4.0, 5.0, 5.0, 1.0] and t[0].item(2) == 2.0
        for order in ("C", "F", "A"):
            flat = t.flatten(order)
            np.testing.assert_array_equal(flat.numpy(), a.flatten("C" if order == "A" else order))
            flat[0] = 9.0
        assert t[0, 0].item() == 0.0


def test_views_that_are_read_anew_are_pickled_and_copied() -> None:
    for kind in ("float64", "complex128"):
        base = xp.stack([xp.asarray(np.arange(6.0, dtype=kind).reshape(2, 3))] * 2, axis=-1)
        part, array = base[..., 0], base.numpy()
        array[0, 0, 0] = 5.0
        for copied in (pickle.loads(pickle.dumps(part)), copy.deepcopy(part)):
            np.testing.assert_array_equal(copied.numpy(), array[..., 0])


def test_the_default_float_is_a_setting() -> None:
    tw.set_default_float("float64")
    try:
        assert {t.dtype for t in (Tensor([1.0]), xp.ones(2), xp.arange(0.5), xp.eye(2), Tensor([1, 2]) / 2)} == {xp.float64}
        assert xp.__array_namespace_info__().default_dtypes()["real floating"] is xp.float64
    finally:
        tw.set_default_float("float32")
    assert Tensor([1.0]).dtype is xp.float32
    with pytest.raises(UsageError):
        tw.set_default_float("float16")


PATTERNS = (
    ("rearrange", "b h w c -> b c (h w)", {}), ("rearrange", "b (h p) w c -> b h w (p c)", {"p": 2}), ("reduce", "b (h 2) (w 2) c -> b h w c", {}),
    ("repeat", "b h w c -> b h (w 2) c", {}),
)  # fmt: skip


@pytest.mark.parametrize("name, pattern, sizes", PATTERNS)
def test_einops_takes_tensors(name: str, pattern: str, sizes: dict[str, int]) -> None:
    einops = pytest.importorskip("einops")
    a = RNG.standard_normal((2, 4, 6, 3))
    more = ("mean",) if name == "reduce" else ()
    same(getattr(einops, name)(Tensor(a), pattern, *more, **sizes), getattr(einops, name)(a, pattern, *more, **sizes))
    same(einops.einsum(Tensor(a), Tensor(a), "b h w c, b h w d -> c d"), einops.einsum(a, a, "b h w c, b h w d -> c d"))
    same(einops.rearrange([Tensor(a), Tensor(a)], "n b h w c -> (n b) h w c"), einops.rearrange([a, a], "n b h w c -> (n b) h w c"))


def test_einops_may_be_imported_before_or_after() -> None:
    pytest.importorskip("einops")
    for imports in ("import einops, tilewright", "import tilewright; tilewright.Tensor; import einops"):
        code = f"{imports}; assert einops.rearrange(tilewright.Tensor([[1.0, 2.0]]), 'a b -> (b a)').tolist() == [1, 2]"
        subprocess.run([sys.executable, "-c", code], check=True)


def test_pytorch_and_tensors_meet_by_dlpack() -> None:
    torch = pytest.importorskip("torch")
    for kind in (torch.float32, torch.bfloat16, torch.int64):
        there = torch.arange(6).reshape(2, 3).to(kind)
        here = xp.from_dlpack(there)
        back = torch.from_dlpack(here)
        assert here.tolist() == there.tolist() and back.dtype is kind and torch.equal(back, there)
        assert back.data_ptr() == there.data_ptr()
    lasting = torch.from_dlpack(xp.from_dlpack(torch.ones(1000)) + 1)  # what it was made of is gone
    assert lasting.sum() == 2000
    for add in (lambda: torch.ones(2) + xp.ones(2), lambda: xp.ones(2) + torch.ones(2)):
        with pytest.raises(TypeError, match="from_dlpack"):
            add()


def test_functions_of_short_tensors_are_computed_when_they_are_called() -> None:
    a, places = RNG.standard_normal((60, 5)), np.arange(60) % 5
    t, i = Tensor(a) + 0.0, Tensor(places) + 0
    pairs = [
        (np.einsum("ij,kj->ik", t, t), np.einsum("ij,kj->ik", a, a)), (xp.einsum("ij,kj,kj->i", t, t, t), np.einsum("ij,kj,kj->i", a, a, a)),
        (np.broadcast_to(t, (2, 60, 5)), np.broadcast_to(a, (2, 60, 5))), (np.bincount(i), np.bincount(places)),
        (np.zeros_like(t), np.zeros_like(a)), (np.ones_like(t, dtype=np.int64), np.ones_like(a, dtype=np.int64)),
        (np.mean(t, 1, keepdims=True), np.mean(a, 1, keepdims=True)), (np.clip(t, -1, a_max=1), np.clip(a, -1, 1)), (t[i, :3], a[places, :3]),
        (t[:, i[:4]], a[:, places[:4]]), (t[1:, None, t[0] > 0], a[1:, None, a[0] > 0]), (np.concatenate([t, t], 1), np.concatenate([a, a], 1)),
        (np.take(t, i, 1), np.take(a, places, 1)), (np.std(t, axis=0, ddof=1), np.std(a, axis=0, ddof=1)),
    ]  # fmt: skip
    for found, wanted in pairs:
        assert found.known is not None and found.dtype == wanted.dtype
        same(found, wanted)
    with pytest.raises(UsageError):
        xp.einsum("ij,kj->ik", t, t[:, :4])
    with pytest.raises(IndexError):
        t[i + 60, :]


def test_parts_of_an_iteration_are_views_and_make_no_node() -> None:
    t = Tensor(RNG.standard_normal((4, 3))) + 0.0
    parts = iter(t)
    t[1, 0] = 7.0
    first, second = next(parts), next(parts)
    second[1] = 8.0
    assert t.known is not None and second[0] == 7.0 and t[1, 1] == 8.0 and first.shape == (3,) and len(list(parts)) == 2
    assert [float(x) for x in t[0]] == first.tolist()


@pytest.mark.parametrize("kind", ["bool", "int8", "uint64", "float32", "float64", "bfloat16", "complex64"])
def test_types_are_instances_of_numpys_class_of_types(kind: str) -> None:
    """Libraries ask so before they look further: xarray knew no missing value, and skipped no NaN of chunks."""
    ours = xp.zeros(1, dtype=kind).dtype
    theirs = np.dtype(ours)
    assert isinstance(ours, np.dtype) and copy.copy(ours) is ours and pickle.loads(pickle.dumps(ours)) is ours
    for name in ("char", "num", "str", "names", "byteorder", "itemsize", "kind" if kind != "bfloat16" else "num"):
        assert getattr(ours, name) == getattr(theirs, name)
    assert not hasattr(ours, "shape") and not hasattr(ours, "other")


def test_types_of_numpys_numbers_count_as_types() -> None:
    assert xp.result_type(np.float64(1)) is xp.float64 and xp.result_type(np.int8(1), xp.float32) is xp.float32
    assert xp.result_type(xp.float32, 1.0) is xp.float32 and xp.result_type(np.float64(1), xp.float32, 2.0) is xp.float64


@pytest.mark.parametrize("k", [0, 1, -2])
def test_diag(k: int) -> None:
    """Vectors become matrices, and matrices their diagonals; in captured functions too."""
    for given in (A[0], A, np.arange(3), np.array([True, False, True])):
        same(np.diag(Tensor(given), k), np.diag(given, k))
        same(xp.diag(Tensor(given), k=k), np.diag(given, k))
    same(tw.jit(lambda x: xp.diag(x, k=k) + 1)(Tensor(A[0])), np.diag(A[0], k) + 1)
    with pytest.raises(UsageError, match="one dimension or two"):
        xp.diag(Tensor(A[None]))


def test_logspace() -> None:
    same(xp.logspace(-3, 1, 7, dtype=xp.float64), np.logspace(-3, 1, 7))
    same(xp.logspace(0.0, 3.0, 4, base=2.0, endpoint=False, dtype="float64"), np.logspace(0, 3, 4, base=2.0, endpoint=False))


def test_libraries_pass_on_what_says_nothing() -> None:
    same(xp.any(Tensor(A) > 0, axis=0, out=None), (A > 0).any(0))
    same(np.searchsorted(Tensor(np.sort(A[0])), 0.5), np.searchsorted(np.sort(A[0]), 0.5))
    same(Tensor(np.sort(A[0])).searchsorted(B[0], side="right"), np.sort(A[0]).searchsorted(B[0], side="right"))


COMPARISONS = (operator.lt, operator.le, operator.gt, operator.ge, operator.eq, operator.ne)


@pytest.mark.parametrize("kind, number", [("int8", 300), ("uint8", 256), ("uint8", -1), ("int64", 10**30), ("uint64", -(2**63))])
def test_numbers_beyond_a_type_compare_as_numbers(kind: str, number: int) -> None:
    array = np.arange(4, dtype=kind)
    for compare in COMPARISONS:
        same(compare(Tensor(array), number), compare(array, number))
        same(compare(number, Tensor(array)), compare(number, array))
        same(tw.jit(lambda x, compare=compare: compare(x, number) & (x > 1))(Tensor(array)), compare(array, number) & (array > 1))


def test_numbers_beyond_a_type_are_overflows_elsewhere() -> None:
    for call in (lambda x: x + 300, lambda x: x.__iadd__(300), lambda x: x.__setitem__(0, 10**30), lambda x: x & -129):
        with pytest.raises(OverflowError) as found:
            call(Tensor(np.arange(3, dtype=np.int8)))
        assert isinstance(found.value, UsageError)
    with pytest.raises(UsageError, match="clip of bools"):
        Tensor(np.array([True])).clip(2, 5)


def test_ranges_are_indices() -> None:
    x = A.copy()
    same(Tensor(A)[range(1, 3)], A[range(1, 3)])
    same(Tensor(A)[:, range(0)], A[:, range(0)])
    x[range(2), range(2)] = 7
    t = Tensor(A.copy())
    t[range(2), range(2)] = 7
    same(t, x)


def test_out_keeps_what_a_function_does_not_write() -> None:
    x, mask, out, array = Tensor(A), A > 0, Tensor(B.copy()), B.copy()
    assert np.sqrt(x, where=mask, out=out) is out
    np.testing.assert_array_equal(out.numpy(), np.sqrt(A, where=mask, out=B.copy()))
    np.sqrt(x, where=Tensor(mask), out=array)
    np.testing.assert_array_equal(array, out.numpy())
    parts = Tensor(np.zeros_like(A)), np.zeros_like(A)
    assert np.modf(x, out=parts)[0] is parts[0]
    np.testing.assert_array_equal(parts[0].numpy(), np.modf(A)[0])
    np.testing.assert_array_equal(parts[1], np.modf(A)[1])


def test_elements_count_and_hash_as_numbers() -> None:
    x = Tensor(np.array([3, 1, 3, 2]))
    assert statistics.mode(x) == 3 and {*x} == {1, 2, 3} and hash(x[0]) == hash(3)
    whole = Tensor(np.ones(3))
    assert whole in {whole: 1} and hash(whole) != hash(Tensor(np.ones(3)))
    weight = Tensor(1.0, requires_grad=True)
    places = {weight: 1}
    weight.assign(weight * 2)
    assert places[weight] == 1
    assert tw.jit(lambda t: t + len({t[0]: 1}))(x).tolist() == [4, 2, 4, 3]


def test_integers_repeat_lists_and_numbers_are_cut() -> None:
    n = Tensor(np.array([3, 1]))
    assert [0] * n[0] == [0, 0, 0] == n[0] * [0] and ((1,) * n[1]) == (1,)
    same(Tensor(A)[0, 0] * [1.0, 2.0], A[0, 0] * np.array([1.0, 2.0]))
    assert math.trunc(Tensor(-2.5)) == -2
    assert type(np.asarray(xp.mean(xp.arange(10)))) is np.ndarray
    x = Tensor(A) + 1
    assert x.to_numpy() is x.numpy()


@pytest.mark.parametrize("small", ["", "0"])
@pytest.mark.parametrize("options", [{}, {"axis": 0}, {"descending": True}, {"axis": 1, "kind": "stable"}])
def test_sort_as_a_method_sorts_in_place(options: dict[str, Any], small: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEWRIGHT_SMALL", small)
    whole, x = Tensor(A.copy()), A.copy()
    part = whole[:, 1:]
    assert part.sort(**options) is None
    x[:, 1:] = np.flip(np.sort(A[:, 1:]), 1) if "descending" in options else np.sort(A[:, 1:], options.get("axis", -1))
    same(whole, x)

    def double(t: Tensor) -> Tensor:
        y = t * 2
        y.sort()
        return y

    same(tw.jit(double)(Tensor(A)), np.sort(A * 2))


def test_whole_numbers_that_no_element_can_be_divide_and_are_divided() -> None:
    for whole, number in ((np.array([1, 2**63], np.uint64), -1), (np.array([1, 100], np.int8), 300)):
        for call in (lambda x, number=number: number / x, lambda x, number=number: x / number):
            for found in (call(Tensor(whole)), tw.jit(call)(Tensor(whole))):
                np.testing.assert_allclose(found.numpy(), call(whole.astype(float)), rtol=1e-6)


def test_methods_take_what_numpys_do() -> None:
    x = Tensor(A)
    same(x.max(initial=0.5, axis=0), A.max(initial=0.5, axis=0))
    same(x.sum(where=A > 0), A.sum(where=A > 0))
    same(x.conjugate(), A)
    same(xp.flip(x, axis=Tensor(np.array(1))), A[:, ::-1])
    same(xp.transpose(x), A.T)
    same(tw.jit(lambda t: xp.transpose(t[None], (2, 0, 1)))(x), A[None].transpose(2, 0, 1))
    same(x[0] + (*range(7),), A[0] + np.arange(7))
    assert x.dtype == x.dtype.str and x.dtype != "f2" and x.dtype != "nothing"
    assert f"{x[0, 0]}" == f"{A[0, 0]}" and f"{(x > 9).sum()}" == "0"


def test_named_tuples_of_tensors_are_sequences() -> None:
    class Interval(NamedTuple):
        low: Any
        high: Any

    x = Interval(Tensor(A), Tensor(B))
    same(xp.stack(x), np.stack([A, B]))
    same(np.concatenate(x), np.concatenate([A, B]))
    same(np.hstack(x), np.hstack([A, B]))


@pytest.mark.parametrize(
    "call",
    [
        lambda x: np.hstack([x, x]),
        lambda x: np.linalg.norm(x),
        lambda x: np.maximum.accumulate(x),
        lambda x: np.modf(x)[0],
        lambda x: np.insert(x, 0, x[0]),
        lambda x: np.copyto(x, x * x),
        lambda x: np.add(x, x, out=np.empty_like(A)),
        lambda x: np.sqrt(x, where=A > 0, out=x * 0),
    ],
)
def test_numpys_own_floats_have_no_gradient_and_say_so(call: Callable[[Any], Any]) -> None:
    def loss(x: Tensor) -> Tensor:
        y = x * 2
        found = call(y)
        return Tensor(y if found is None else found).sum() + x.sum()

    with pytest.raises(UsageError, match="detach"):
        tw.grad(loss)(Tensor(A))
    call(Tensor(A) * 2)


def test_numpys_own_integers_and_what_no_gradient_is_asked_of_are_as_ever() -> None:
    assert tw.grad(lambda x: (x * np.digitize(x, [0.0])).sum())(Tensor(A)).numpy().tolist() == (A >= 0).tolist()
    weight = Tensor(A, requires_grad=True)
    with pytest.raises(UsageError, match=r"np.vstack is NumPy's own .* here it is xp.concat"):
        np.vstack([weight * 2, weight])
    same(np.vstack([weight.detach(), A]), np.vstack([A, A]))
