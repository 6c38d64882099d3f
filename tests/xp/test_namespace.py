"""The namespace against the standard: names, signatures, types, protocols, inspection."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest
import tilewright as tw
from tilewright import Tensor, xp
from tilewright.ir.errors import UsageError

NAMES = [
    "abs",
    "acos",
    "acosh",
    "add",
    "all",
    "any",
    "arange",
    "argmax",
    "argmin",
    "argsort",
    "asarray",
    "asin",
    "asinh",
    "astype",
    "atan",
    "atan2",
    "atanh",
    "bitwise_and",
    "bitwise_invert",
    "bitwise_left_shift",
    "bitwise_or",
    "bitwise_right_shift",
    "bitwise_xor",
    "bool",
    "broadcast_arrays",
    "broadcast_to",
    "can_cast",
    "ceil",
    "clip",
    "concat",
    "copysign",
    "cos",
    "cosh",
    "count_nonzero",
    "cumulative_prod",
    "cumulative_sum",
    "diff",
    "divide",
    "e",
    "empty",
    "empty_like",
    "equal",
    "exp",
    "expand_dims",
    "expm1",
    "eye",
    "finfo",
    "flip",
    "float32",
    "float64",
    "floor",
    "floor_divide",
    "from_dlpack",
    "full",
    "full_like",
    "greater",
    "greater_equal",
    "hypot",
    "iinfo",
    "inf",
    "int16",
    "int32",
    "int64",
    "int8",
    "isdtype",
    "isfinite",
    "isinf",
    "isnan",
    "less",
    "less_equal",
    "linspace",
    "log",
    "log10",
    "log1p",
    "log2",
    "logaddexp",
    "logical_and",
    "logical_not",
    "logical_or",
    "logical_xor",
    "matmul",
    "matrix_transpose",
    "max",
    "maximum",
    "mean",
    "meshgrid",
    "min",
    "minimum",
    "moveaxis",
    "multiply",
    "nan",
    "negative",
    "newaxis",
    "nextafter",
    "nonzero",
    "not_equal",
    "ones",
    "ones_like",
    "permute_dims",
    "pi",
    "positive",
    "pow",
    "prod",
    "reciprocal",
    "remainder",
    "repeat",
    "reshape",
    "result_type",
    "roll",
    "round",
    "searchsorted",
    "sign",
    "signbit",
    "sin",
    "sinh",
    "sort",
    "sqrt",
    "square",
    "squeeze",
    "stack",
    "std",
    "subtract",
    "sum",
    "take",
    "take_along_axis",
    "tan",
    "tanh",
    "tensordot",
    "tile",
    "tril",
    "triu",
    "trunc",
    "uint16",
    "uint32",
    "uint64",
    "uint8",
    "unique_all",
    "unique_counts",
    "unique_inverse",
    "unique_values",
    "unstack",
    "var",
    "vecdot",
    "where",
    "zeros",
    "zeros_like",
]
"""The standard's names of version 2024.12 without those of complex numbers (complex64, complex128, conj, imag, real)."""
LINALG = [
    "cholesky",
    "cross",
    "det",
    "diagonal",
    "eigh",
    "eigvalsh",
    "inv",
    "matmul",
    "matrix_norm",
    "matrix_power",
    "matrix_rank",
    "matrix_transpose",
    "outer",
    "pinv",
    "qr",
    "slogdet",
    "solve",
    "svd",
    "svdvals",
    "tensordot",
    "trace",
    "vecdot",
    "vector_norm",
]
SIGNATURES = {
    "sum": "x axis dtype keepdims", "var": "x axis correction keepdims", "argmax": "x axis keepdims", "clip": "x min max",
    "sort": "x axis descending stable", "searchsorted": "x1 x2 side sorter", "concat": "arrays axis", "expand_dims": "x axis",
    "cumulative_sum": "x axis dtype include_initial", "diff": "x axis n prepend append", "tensordot": "x1 x2 axes", "tril": "x k",
    "arange": "start stop step dtype device", "linspace": "start stop num dtype device endpoint", "eye": "n_rows n_cols k dtype device",
    "full": "shape fill_value dtype device", "reshape": "x shape copy", "roll": "x shift axis", "repeat": "x repeats axis", "take": "x indices axis",
    "asarray": "obj dtype device copy", "from_dlpack": "x device copy", "astype": "x dtype copy device", "meshgrid": "arrays indexing",
}  # fmt: skip


def test_every_name_of_the_standard_is_there() -> None:
    assert [n for n in NAMES if not hasattr(xp, n)] == [] and [n for n in LINALG if not hasattr(xp.linalg, n)] == []
    assert xp.__array_api_version__ == "2024.12" and set(NAMES) <= set(dir(xp))


@pytest.mark.parametrize("name", sorted(SIGNATURES))
def test_arguments_have_the_standards_names(name: str) -> None:
    assert set(SIGNATURES[name].split()) <= set(inspect.signature(getattr(xp, name)).parameters)


def test_the_namespace_of_a_tensor() -> None:
    x = Tensor([1.0])
    assert x.__array_namespace__() is xp and x.__array_namespace__(api_version="2024.12") is xp
    with pytest.raises(ValueError, match="array API version"):
        x.__array_namespace__(api_version="2000.01")


def test_inspection() -> None:
    info = xp.__array_namespace_info__()
    assert info.default_device() in info.devices() and info.capabilities()["boolean indexing"]
    assert info.default_dtypes() == {
        "real floating": xp.float32,
        "complex floating": xp.complex64,
        "integral": xp.int64,
        "indexing": xp.int64,
    }
    assert set(info.dtypes(kind="unsigned integer")) == {"uint8", "uint16", "uint32", "uint64"}
    assert set(info.dtypes(kind=("bool", "real floating"))) == {"bool", "float32", "float64"} and len(info.dtypes()) == 13


def test_types_say_what_they_are() -> None:
    assert xp.finfo(xp.float32).eps == 2.0**-23 and xp.finfo(Tensor([1.0])).bits == 32 and xp.iinfo(xp.uint16).max == 65535
    assert xp.isdtype(xp.int8, "integral") and xp.isdtype(xp.bool, ("numeric", "bool")) and not xp.isdtype(xp.float32, xp.float64)
    assert xp.can_cast(xp.int8, xp.int16) and not xp.can_cast(xp.uint8, xp.int8) and not xp.can_cast(xp.float64, xp.float32)
    assert xp.result_type(xp.int8, xp.uint8, 3) is xp.int16 and xp.result_type(Tensor([1.0]), xp.float64) is xp.float64
    with pytest.raises(TypeError):
        xp.finfo(xp.int8)
    with pytest.raises(ValueError, match="kinds are"):
        xp.isdtype(xp.int8, "whole")


def test_arrays_are_used_where_they_lie() -> None:
    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    assert np.shares_memory(xp.asarray(array).numpy(), array) and np.shares_memory(Tensor(array).numpy(), array)
    assert not np.shares_memory(xp.asarray(array, copy=True).numpy(), array)
    assert xp.asarray(array.T).numpy().tolist() == array.T.tolist()
    with pytest.raises(ValueError, match="needs a copy"):
        xp.asarray(array.T, copy=False)
    with pytest.raises(ValueError, match="no memory to share"):
        xp.asarray([1.0], copy=False)


class _Exporter:
    """Another library's array: all that is known of it are its capsules."""

    def __init__(self, of: Tensor) -> None:
        self.__dlpack__, self.__dlpack_device__ = of.__dlpack__, of.__dlpack_device__


def test_dlpack_goes_both_ways() -> None:
    array = np.arange(5, dtype=np.int16)
    t = xp.from_dlpack(array)
    assert t.dtype is xp.int16 and np.shares_memory(t.numpy(), array)
    back = np.from_dlpack(t)
    assert np.shares_memory(back, array) and t.__dlpack_device__() == (1, 0)
    assert np.from_dlpack(t + 1).tolist() == [1, 2, 3, 4, 5]
    for kind in ("bfloat16", "float8_e4m3", "float8_e5m2"):
        narrow = xp.asarray([1.0, -2.5, 3.0], dtype=kind)
        again = xp.from_dlpack(_Exporter(narrow))
        assert again.dtype is narrow.dtype and again.tolist() == narrow.tolist() and np.shares_memory(again.numpy(), narrow.numpy())


def test_numpy_takes_tensors() -> None:
    t = Tensor([[1.0, 2.0], [3.0, 4.0]])
    assert np.asarray(t * 2, np.float64).tolist() == [[2, 4], [6, 8]] and np.float32(2) * t is not None
    assert (np.ones(2, np.float32) + t).tolist() == [[2, 3], [4, 5]] and [r.tolist() for r in t] == t.tolist()


def test_python_numbers_of_tensors() -> None:
    assert int(Tensor(3)) == 3 and float(Tensor(2.5)) == 2.5 and bool(Tensor(True)) and [5, 6][Tensor(1)] == 6
    wrong: list[Any] = [lambda: bool(xp.ones(2)), lambda: xp.ones(3).item()]
    for f in wrong:
        with pytest.raises(UsageError):
            f()
    for f in (lambda: float(xp.ones(2)), lambda: [1][Tensor(0.0)], lambda: len(Tensor(1.0))):
        with pytest.raises(TypeError):
            f()


def test_numbers_that_no_type_holds_are_errors() -> None:
    with pytest.raises(OverflowError):
        xp.asarray(1 << 70)
    with pytest.raises(UsageError, match="at least 0"):
        xp.zeros((2, -1))


def test_lists_with_tensors_are_arrays() -> None:
    assert xp.asarray([Tensor(1.0), Tensor(2.0)]).tolist() == [1, 2] and xp.asarray(Tensor([1, 2]), dtype="int8").dtype is xp.int8


def test_creation_on_a_device() -> None:
    x = xp.ones((2, 2), device="cpu")
    assert x.device == "cpu" and xp.zeros_like(x).tolist() == [[0, 0], [0, 0]] and x.to_device("cpu") is x
    with pytest.raises(UsageError, match="different devices"):
        x + Tensor.of(x.node, "cpu:c")


def test_signatures_of_the_standard() -> None:
    axis = inspect.signature(xp.expand_dims).parameters["axis"]
    assert axis.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD and axis.default is inspect.Parameter.empty
    assert xp.expand_dims(xp.ones(2), 0).shape == (1, 2) and xp.expand_dims(xp.ones(2), axis=-1).shape == (2, 1)
    own = inspect.signature(Tensor.__dlpack__).parameters
    assert [*own] == ["self", "stream", "max_version", "dl_device", "copy"]
    assert all(p.kind is inspect.Parameter.KEYWORD_ONLY and p.default is None for n, p in own.items() if n != "self")


def test_what_a_consumer_of_dlpack_asks_for() -> None:
    t = Tensor(np.arange(4, dtype=np.float32))
    assert "dltensor_versioned" in repr(t.__dlpack__(max_version=(1, 0))) and "dltensor" in repr(t.__dlpack__(dl_device=(1, 0), copy=False))
    assert not np.shares_memory(np.from_dlpack(t, copy=True), t.numpy())
    with pytest.raises(BufferError):
        t.__dlpack__(dl_device=(2, 0))


def test_numbers_and_lists_of_one_kind_are_arrays_at_once() -> None:
    for given, kind, name in (
        (1, "float64", "float64"), (2.5, "float32", "float32"), (float("nan"), None, "float32"), (True, "int8", "int8"), (np.float64(3), None, "float64"),
        ([1, 2], None, "int64"), ([1.5, 2], None, ""), ((True, False), "float32", "float32"), ([], None, ""), (1 << 63, None, ""),
    ):  # fmt: skip
        x = xp.asarray(given, dtype=kind)
        assert (x.known is not None) == bool(name), (given, kind)
        assert np.array_equal(x.numpy(), np.asarray(given), equal_nan=True) and (not name or x.dtype.name == name)
    with pytest.raises(UsageError, match="300"):
        xp.asarray([1, 300], dtype="uint8")


@pytest.mark.parametrize("edge_order", [1, 2])
@pytest.mark.parametrize("axis", [0, -1, (0, 2), None])
def test_gradient_is_numpys(axis, edge_order):
    x = np.random.default_rng(3).standard_normal((4, 3, 5))
    sizes = [x.shape[d] for d in ((0, 1, 2) if axis is None else (axis,) if isinstance(axis, int) else axis)]
    for spacing in ((), (0.5,), tuple(np.cumsum(np.arange(1.0, n + 1)) for n in sizes)):
        wanted = np.gradient(x, *spacing, axis=axis, edge_order=edge_order)
        for function in (xp.gradient, tw.jit(lambda t, h, **o: xp.gradient(t, *h, **o))):
            given = spacing if function is xp.gradient else (spacing,)
            found = function(xp.asarray(x), *given, axis=axis, edge_order=edge_order)
            for f, w in zip(found, wanted, strict=True) if isinstance(wanted, tuple) else [(found, wanted)]:
                np.testing.assert_allclose(f.numpy(), w, rtol=1e-9, atol=1e-12)
    with pytest.raises(UsageError, match="needs 3 elements"):
        xp.gradient(xp.asarray(x[:2]), axis=0, edge_order=2)


def test_windows_are_numpys_and_keep_their_values():
    x = np.arange(60.0).reshape(3, 4, 5)
    for shape, axis in ((2, 1), ((2, 3), (0, 2)), ((1, 2, 3), None)):
        wanted = np.lib.stride_tricks.sliding_window_view(x, shape, axis)
        for call in (xp.lib.stride_tricks.sliding_window_view, tw.jit(xp.lib.stride_tricks.sliding_window_view)):
            t = xp.asarray(x.copy()) + 0
            found = call(t, shape, axis)
            t[...] = 0
            np.testing.assert_array_equal(found.numpy(), wanted)
