"""Data that is no tensor, or a strange one: converted, or refused with the user's line."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest
from tilewright.ir.errors import KernelError, UsageError
from tilewright.tensor import Tensor
from tilewright.tensor.ops.indexing import scatter_add


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (np.array([object(), None]), "an array of objects"),
        (2**70, "an array of objects.*too large"),
        ([[1, 2], [3]], "a list that is no array"),
        (["a"], "unknown dtype"),
        (np.zeros(3, complex), "unknown dtype 'complex128'"),
        (np.zeros(3, "datetime64[s]"), "unknown dtype"),
        (np.ma.array([1.0, 2.0], mask=[1, 0]), "a masked array, whose mask would be lost"),
    ],
)
def test_what_is_no_array_of_numbers_is_refused_with_the_users_line(data: Any, says: str) -> None:
    with pytest.raises((UsageError, KernelError), match=f"{says}.*test_bad_data.py:[0-9]+"):
        Tensor(data)


def test_a_masked_operand_is_refused_too() -> None:
    with pytest.raises(UsageError, match=r"a masked array.*test_bad_data.py"):
        Tensor([1.0, 2.0]) + np.ma.array([1.0, 2.0], mask=[1, 0])


def test_a_dtype_that_the_data_cannot_have_is_refused() -> None:
    with pytest.raises(UsageError, match=r"cannot become float32.*test_bad_data.py"):
        Tensor(np.array([object()]), dtype="float32")
    assert Tensor([2**70], dtype="float64").item() == 2.0**70


@pytest.mark.parametrize("dtype", [">f4", ">i2", ">u8", "<f8"])
def test_byte_orders_are_converted(dtype: str) -> None:
    a = np.arange(5, dtype=dtype)
    assert (Tensor(a) + 1).tolist() == (a + 1).tolist() and (Tensor([1, 1, 1, 1, 1], dtype=Tensor(a).dtype) + a).tolist() == (
        a + 1
    ).tolist()


def test_strange_strides_misaligned_and_read_only_arrays_are_read_right_and_never_written() -> None:
    a = np.arange(12.0, dtype=np.float32).reshape(3, 4)
    a.flags.writeable = False
    raw = np.zeros(4 * 4 + 1, np.uint8)[1:].view(np.float32)
    raw[:] = [1, 2, 3, 4]
    for x in (a, a[::-1, ::2], np.asfortranarray(a), np.broadcast_to(np.float32(3), (4, 5)), raw):
        t = Tensor(x)
        t += 1
        t[0] = 5
        want = x + 1
        want[0] = 5
        np.testing.assert_array_equal(t.numpy(), want)
    assert a[0, 0] == 0 and raw.tolist() == [1, 2, 3, 4]


def test_more_dimensions_than_numpy_has_are_refused() -> None:
    with pytest.raises(UsageError, match=r"72 dimensions.*at most 64.*test_bad_data.py"):
        Tensor([1.0, 2.0]).reshape(*(1,) * 71, 2)


def test_index_errors_have_the_users_line() -> None:
    with pytest.raises(IndexError, match=r"index 5 .*test_bad_data.py:[0-9]+"):
        Tensor([1.0, 2.0])[5]


def test_pickles_and_deep_copies_are_of_values_with_memory_of_their_own() -> None:
    x = Tensor(np.arange(3), dtype="bfloat16")
    for _ in range(2000):
        x = x + 0.0  # pickling the graph would overflow Python's stack
    for y in (pickle.loads(pickle.dumps(x)), copy.deepcopy(x)):
        assert y.dtype is x.dtype and y.tolist() == [0, 1, 2] and not np.shares_memory(y.numpy(), x.numpy())
    w = Tensor([1.0], requires_grad=True)
    assert pickle.loads(pickle.dumps(w)).requires_grad and copy.copy(w).numpy() is not None


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_16_bit_floats_are_scattered_in_float32_and_rounded_once(dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEWRIGHT_SMALL", "0")
    rows, at = Tensor(np.full(300, 2.0), dtype=dtype), Tensor(np.zeros(300, np.int64))
    found = Tensor.of(scatter_add(Tensor(np.zeros(2), dtype=dtype).node, at.node, rows.node))
    assert found.tolist() == [600.0, 0.0]  # in bfloat16 the sum stops at 512
